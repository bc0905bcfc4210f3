//! `small-files`: makes files in a fresh directory in one of three ways, and prints one line with the seconds that it took. The first
//! way is the store that the server uses; the others are the loops that people write.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use serde_json::json;
use xdfs_bench::error::{Context, Error, Result, exit_code};
use xdfs_io::store::{Existing, LocalStore, SmallFile, Store};
use xdfs_proto::base::commit::MEMBERS_MAX;
use xdfs_proto::base::{RelPath, Safety, Timestamp};

/// Makes small files that survive a power cut.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// How.
    way: Way,
    /// An empty directory.
    #[arg(long)]
    directory: PathBuf,
    /// Files to make.
    #[arg(long, default_value_t = 1000)]
    files: u32,
    /// Bytes of each.
    #[arg(long, default_value_t = 4096)]
    size: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// Groups of 64 through the store.
    Store,
    /// open, write, fsync, close: a power cut may take the names.
    Plain,
    /// A temporary name, fsync, rename, fsync of the directory, for each file.
    Careful,
}

fn main() -> ExitCode {
    exit_code("small-files", run(&Cli::parse()))
}

fn run(cli: &Cli) -> Result<()> {
    let names: Vec<String> = (0..cli.files).map(|number| format!("file-{number:06}")).collect();
    let content = vec![0x5a; cli.size];
    let started = Instant::now();
    match cli.way {
        Way::Store => store(&cli.directory, &names, &content)?,
        Way::Plain => names.iter().try_for_each(|name| synced(&cli.directory.join(name), &content))?,
        Way::Careful => names.iter().try_for_each(|name| careful(&cli.directory, name, &content))?,
    }
    println!("{}", json!({"event": "files", "files": cli.files, "seconds": started.elapsed().as_secs_f64()}));
    Ok(())
}

fn store(directory: &Path, names: &[String], content: &[u8]) -> Result<()> {
    let wrong = |detail: String| Error::Wrong { system: "store".to_owned(), detail };
    let store = LocalStore::open_root(directory, true).map_err(|error| wrong(error.to_string()))?;
    for names in names.chunks(MEMBERS_MAX) {
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let target = RelPath::parse(name.as_bytes()).map_err(|error| wrong(error.to_string()))?;
            let (mode, modified, existing, base) =
                (0o644, Some(Timestamp::new(1_700_000_000, 0)), Existing::Keep, None);
            files.push(SmallFile { target, content, mode, modified, existing, base, parents: false, holes: false });
        }
        for placed in store.put_small(&files, true) {
            let placed = placed.map_err(|error| wrong(error.to_string()))?;
            if placed.safety != Safety::Durable {
                return Err(wrong("the file system promises nothing".to_owned()));
            }
        }
    }
    Ok(())
}

fn synced(path: &Path, content: &[u8]) -> Result<()> {
    let making = || path.display().to_string();
    let mut file = File::create_new(path).context(making)?;
    file.write_all(content).context(making)?;
    file.sync_all().context(making)
}

fn careful(directory: &Path, name: &str, content: &[u8]) -> Result<()> {
    let (temporary, target) = (directory.join(format!(".{name}.part")), directory.join(name));
    let making = || target.display().to_string();
    synced(&temporary, content)?;
    fs::rename(&temporary, &target).context(making)?;
    File::open(directory).and_then(|directory| directory.sync_all()).context(making)
}
