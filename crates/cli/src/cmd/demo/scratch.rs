//! A temporary directory of the demo.

use std::ffi::OsStr;
use std::fmt;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use crate::exit::{Exit, Failure};
use crate::size::human;
use crate::text::printable_path;

/// Where Linux keeps files in memory.
const MEMORY_DIRECTORY: &str = "/dev/shm";
/// Files of the demo's size that exist at one time: source, the server's copy, and the copy fetched
/// back or the bound's.
const FILES: u64 = 4;
/// Spare space for names and for other users of the machine.
const SPARE_BYTES: u64 = 256 << 20;

/// A new directory; removed with all its contents when this value is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    room: u64,
}

impl Scratch {
    /// A new directory in `wanted`, or where files of `size` bytes fit: memory first, then disk.
    pub(super) fn create(wanted: Option<&Path>, size: u64) -> Result<Self, Failure> {
        let needed = size.saturating_mul(FILES).saturating_add(SPARE_BYTES);
        let base = match wanted {
            Some(wanted) => wanted.to_path_buf(),
            None => {
                let memory = Path::new(MEMORY_DIRECTORY);
                let fits = room_in(memory).is_ok_and(|room| room >= needed)
                    && available_memory().is_none_or(|memory| memory >= needed.saturating_add(size));
                if fits { memory.to_path_buf() } else { std::env::temp_dir() }
            }
        };
        let room = room_in(&base).map_err(|error| failure(&base, "cannot be used", &error))?;
        if room < needed {
            let message = format!(
                "{}: {} are free and the demo needs {}\nhelp: choose another place with --directory or a smaller --size",
                printable_path(&base),
                human(room),
                human(needed)
            );
            return Err(Failure::new(Exit::NoSpace, message));
        }
        Ok(Self { directory: make_unique(&base)?, room })
    }

    /// Free bytes when it was made.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// The path of `name` in it.
    pub(super) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory.join(name.as_ref())
    }

    /// Makes a directory in it.
    pub(super) fn make_directory(&self, path: &Path) -> Result<(), Failure> {
        std::fs::create_dir(path).map_err(|error| failure(path, "cannot be made", &error))
    }

    /// Removes a file of it, if it exists.
    pub(super) fn remove(&self, path: &Path) -> Result<(), Failure> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failure(path, "cannot be removed", &error)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_path(&self.directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            crate::output::complain(
                &failure(&self.directory, "could not be removed; remove it yourself", &error).message,
            );
        }
    }
}

/// A directory that no other user has or can enter: names are tried until one is new.
fn make_unique(base: &Path) -> Result<PathBuf, Failure> {
    let process = std::process::id();
    for attempt in 0..1000 {
        let directory = base.join(format!("xdfs-demo-{process}-{attempt}"));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failure(&directory, "cannot be made", &error)),
        }
    }
    Err(failure(base, "has no free name for the demo", &ErrorKind::AlreadyExists.into()))
}

fn room_in(directory: &Path) -> std::io::Result<u64> {
    let room = statvfs(directory)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Memory that can be used without evicting anything; `None` if the kernel does not report it.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn failure(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Local, format!("{}: it {what}: {error}", printable_path(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_gone_with_the_value() {
        let scratch = Scratch::create(Some(&std::env::temp_dir()), 1000).unwrap();
        let file = scratch.path("file");
        std::fs::write(&file, b"x").unwrap();
        scratch.make_directory(&scratch.path("directory")).unwrap();
        let directory = scratch.directory.clone();
        assert!(file.exists());
        drop(scratch);
        assert!(!directory.exists());
    }

    #[test]
    fn two_demos_at_once_have_two_directories() {
        let first = Scratch::create(Some(&std::env::temp_dir()), 1000).unwrap();
        let second = Scratch::create(Some(&std::env::temp_dir()), 1000).unwrap();
        assert_ne!(first.directory, second.directory);
    }

    #[test]
    fn a_place_without_room_is_refused_before_anything_is_made() {
        let refused = Scratch::create(Some(&std::env::temp_dir()), 1 << 60).unwrap_err();
        assert_eq!(refused.exit, Exit::NoSpace);
        assert!(refused.message.contains("--size"), "{}", refused.message);
    }

    #[test]
    fn the_kernel_tells_how_much_memory_there_is() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
