//! Files for the runs: random sources, warm memory, byte-exact comparison.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::args::FileSystem;
use crate::error::{Context, Error, Result};
use crate::world::Interrupt;

/// Bytes that are made or compared at a time.
pub(crate) const CHUNK: usize = 1 << 20;

/// Warmed beyond the size of the new file: the programs, their buffers and the sockets need fresh pages too.
const WARM_MARGIN: u64 = 256 << 20;

const TMPFS_MAGIC: i128 = 0x0102_1994;
const EXT4_MAGIC: i128 = 0xEF53;

/// Creates `path` with `bytes` bytes that no file system or program can shorten, and makes them durable: writeback of
/// a source during a later run would be charged to that run.
pub fn create_random(path: &Path, bytes: u64, interrupt: &Interrupt) -> Result<()> {
    let creating = || format!("create {}", path.display());
    let mut file = File::create_new(path).context(creating)?;
    let mut generator = Generator::seeded()?;
    let mut chunk = vec![0_u8; CHUNK];
    let mut left = bytes;
    while left > 0 {
        interrupt.check()?;
        generator.fill(&mut chunk);
        let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        file.write_all(&chunk[..want]).context(creating)?;
        left -= want as u64;
    }
    file.sync_all().context(creating)
}

/// Touches and frees as much memory as `bytes` of new pages will need, in a file of `directory`.
///
/// A hypervisor takes free pages back after about two seconds, and the first touch of a page that it must give again
/// costs three to four times as much. Without this the run that comes first in a round loses. The file is on the file
/// system of the target, because what is freed must fit what is wanted: tmpfs takes single pages, ext4 large ones, and
/// single pages that are warm do not become large ones once memory is fragmented (measured on ext4: cp 0.72 s of CPU
/// per GB when warmed on tmpfs, 0.43 when warmed on ext4).
pub fn warm_memory(directory: &Path, bytes: u64) -> Result<()> {
    let path = directory.join("warm");
    let warming = || format!("warm memory with {}", path.display());
    let mut file = File::create(&path).context(warming)?;
    let chunk = vec![1_u8; CHUNK];
    for _ in 0..(bytes + WARM_MARGIN).div_ceil(CHUNK as u64) {
        file.write_all(&chunk).context(warming)?;
    }
    drop(file);
    fs::remove_file(&path).context(warming)
}

/// Compares byte by byte.
pub fn check_equal(system: &str, source: &Path, target: &Path) -> Result<()> {
    let open = |path: &Path| File::open(path).context(|| path.display().to_string());
    let (mut left, mut right) = (open(source)?, open(target)?);
    let (mut one, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut offset = 0_u64;
    loop {
        let got = read_full(&mut left, &mut one).context(|| source.display().to_string())?;
        let found = read_full(&mut right, &mut other).context(|| target.display().to_string())?;
        if one[..got] != other[..found] {
            let detail =
                format!("the target differs from the source between byte {offset} and {}", offset + got as u64);
            return Err(Error::Wrong { system: system.to_owned(), detail });
        }
        if got == 0 {
            return Ok(());
        }
        offset += got as u64;
    }
}

/// Checks the length only.
pub fn check_length(system: &str, target: &Path, bytes: u64) -> Result<()> {
    let length = fs::metadata(target).context(|| target.display().to_string())?.len();
    if length == bytes {
        return Ok(());
    }
    Err(Error::Wrong { system: system.to_owned(), detail: format!("the target has {length} bytes instead of {bytes}") })
}

/// Removes a file that may not be there.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(|| path.display().to_string()),
        _ => Ok(()),
    }
}

/// Removes a directory with all it holds, that may not be there.
pub fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(|| path.display().to_string()),
        _ => Ok(()),
    }
}

/// Compares every file of two trees byte by byte; neither may have a name that the other has not.
pub fn check_tree(system: &str, source: &Path, target: &Path) -> Result<()> {
    let names = |path: &Path| -> Result<Vec<_>> {
        let entries = fs::read_dir(path).context(|| path.display().to_string())?;
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        Ok(names)
    };
    let expected = names(source)?;
    if expected != names(target)? {
        let detail = format!("other names in {} than in {}", target.display(), source.display());
        return Err(Error::Wrong { system: system.to_owned(), detail });
    }
    for name in expected {
        let (one, other) = (source.join(&name), target.join(&name));
        if one.is_dir() { check_tree(system, &one, &other)? } else { check_equal(system, &one, &other)? }
    }
    Ok(())
}

/// Makes directories of files whose sizes `size` says, by their number, from a seed: so many of each. Their bytes.
pub fn create_tree(top: &Path, directories: u32, files: u32, size: impl Fn(f64) -> u64) -> Result<u64> {
    let mut generator = Generator::default();
    let mut content = vec![0_u8; CHUNK];
    generator.fill(&mut content);
    let mut bytes = 0;
    for directory in 0..directories {
        let path = top.join(format!("d{directory}"));
        fs::create_dir_all(&path).context(|| path.display().to_string())?;
        for file in 0..files {
            let word = generator.next();
            // Fits: 53 bits.
            let share = (word >> 11) as f64 / (1_u64 << 53) as f64;
            let length = size(share).min(CHUNK as u64);
            let name = path.join(format!("f{file}"));
            content[..8].copy_from_slice(&word.to_ne_bytes());
            let part = content.get(..length as usize).unwrap_or_default();
            fs::write(&name, part).context(|| name.display().to_string())?;
            bytes += length;
        }
    }
    rustix::fs::sync();
    Ok(bytes)
}

/// Copies a tree with the modification times of its files, to an absent place, and makes all of it durable.
pub fn copy_tree(source: &Path, target: &Path) -> Result<()> {
    copy_below(source, target)?;
    rustix::fs::sync();
    Ok(())
}

fn copy_below(source: &Path, target: &Path) -> Result<()> {
    let copying = || format!("copy {}", source.display());
    fs::create_dir(target).context(copying)?;
    for entry in fs::read_dir(source).context(copying)? {
        let entry = entry.context(copying)?;
        let (one, other) = (entry.path(), target.join(entry.file_name()));
        if one.is_dir() {
            copy_below(&one, &other)?;
        } else {
            fs::copy(&one, &other).context(copying)?;
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).context(copying)?;
            let file = File::options().write(true).open(&other).context(copying)?;
            file.set_modified(modified).context(copying)?;
        }
    }
    let modified = fs::metadata(source).and_then(|metadata| metadata.modified()).context(copying)?;
    File::open(target).and_then(|directory| directory.set_modified(modified)).context(copying)
}

/// Checks that `directory` is on the file system it is taken for.
pub fn check_file_system(directory: &Path, expected: FileSystem) -> Result<()> {
    let found = rustix::fs::statfs(directory).context(|| directory.display().to_string())?;
    let (magic, name) = match expected {
        FileSystem::Tmpfs => (TMPFS_MAGIC, "tmpfs"),
        FileSystem::Ext4 => (EXT4_MAGIC, "ext4"),
    };
    if i128::from(found.f_type) == magic {
        return Ok(());
    }
    let detail = format!("{} is not on {name}: give --{name}-dir", directory.display());
    Err(Error::Wrong { system: "file system".to_owned(), detail })
}

/// Free bytes for this user.
pub fn free_bytes(directory: &PathBuf) -> Result<u64> {
    let found = rustix::fs::statvfs(directory).context(|| directory.display().to_string())?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

/// xorshift64*: fast and incompressible, which is all that is asked of it.
pub(crate) struct Generator(u64);

/// The same numbers each time.
impl Default for Generator {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Generator {
    fn seeded() -> Result<Self> {
        let mut seed = [0; 8];
        let reading = || "/dev/urandom".to_owned();
        File::open("/dev/urandom").context(reading)?.read_exact(&mut seed).context(reading)?;
        Ok(Self(u64::from_ne_bytes(seed) | 1))
    }

    /// The next number.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// The next number, brought below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        for word in buffer.chunks_mut(8) {
            let value = self.next().to_ne_bytes();
            word.copy_from_slice(&value[..word.len()]);
        }
    }
}
