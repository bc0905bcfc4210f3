//! The committed inputs: a folder per target, a file per input. It must not invent any; `seeds` does.

use crate::seeds;
use std::path::{Path, PathBuf};

/// Where the package lies.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The inputs of a target, in the order of their names, so that a seed means the same run everywhere.
pub(crate) fn load(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = home().join("corpus").join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))).collect()
}

/// Writes the seeds into the corpus; files that are there already and are no seeds stay.
pub(crate) fn write() -> Result<usize, String> {
    let seeds = seeds::all();
    for (target, name, bytes) in &seeds {
        let folder = home().join("corpus").join(target);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(name), bytes))
            .map_err(|error| format!("{target}/{name}: {error}"))?;
    }
    Ok(seeds.len())
}

/// Keeps an input that broke a target.
pub(crate) fn keep(target: &str, input: &[u8]) -> Result<PathBuf, String> {
    let folder = home().join("artifacts");
    // FNV-1a: a name that is the same for the same input.
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let file = folder.join(format!("{target}-{hash:016x}"));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, input))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}
