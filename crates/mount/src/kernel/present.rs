//! What is mounted on a directory already: a second mount would hide it without a word.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A line takes about 150 bytes; the kernel allows 100,000 mounts.
const MOUNTS_BYTES_MAX: u64 = 64 << 20;

/// The type under which this program mounts.
pub(super) const TYPE: &str = "fuse.xdfs";

/// What a mount of this program shows, if `directory`, which is on the file system of this number, is one.
pub(super) fn source(directory: &Path, device: u64) -> Option<String> {
    let above = rustix::fs::stat(directory.join("..")).ok()?;
    if above.st_dev == device {
        return None;
    }
    let mut mounts = Vec::new();
    open().ok()?.take(MOUNTS_BYTES_MAX).read_to_end(&mut mounts).ok()?;
    find(&mounts, (rustix::fs::major(device), rustix::fs::minor(device)))
}

#[expect(clippy::disallowed_methods, reason = "the kernel's list of mounts: one fixed name")]
fn open() -> std::io::Result<File> {
    File::open("/proc/self/mountinfo")
}

/// The source of the file system of these numbers, if it is one of this program.
fn find(mounts: &[u8], (major, minor): (u32, u32)) -> Option<String> {
    let (text, device) = (String::from_utf8_lossy(mounts), format!("{major}:{minor}"));
    text.lines().find_map(|line| {
        let (of_name, of_type) = line.split_once(" - ")?;
        let mut words = of_type.split(' ');
        let is_it = of_name.split(' ').nth(2) == Some(device.as_str()) && words.next() == Some(TYPE);
        is_it.then(|| words.next().map(unescaped)).flatten()
    })
}

/// Blanks and backslashes are told as three octal digits.
fn unescaped(word: &str) -> String {
    let mut parts = word.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match digits.filter(u8::is_ascii) {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&part[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_file_system_is_found_if_it_is_one_of_this_program() {
        let mounts = b"21 1 0:5 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            36 21 0:42 / /mnt/a\\040b rw,nosuid master:1 - fuse.xdfs xdfs://h/a\\040b\\134c rw,user_id=0\n\
            37 21 0:43 / /mnt/b rw - fuse.sshfs xdfs://h/b rw\n";
        assert_eq!(find(mounts, (0, 42)).as_deref(), Some("xdfs://h/a b\\c"));
        assert_eq!([(0, 5), (0, 43), (0, 4)].map(|device| find(mounts, device)), [None, None, None]);
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(unescaped("a\\b\\377\\"), "a\\b\\377\\");
    }

    #[test]
    fn a_directory_that_is_no_mount_of_this_program_is_none() {
        for path in ["/", "/proc", "/proc/self"] {
            let device = rustix::fs::stat(path).unwrap().st_dev;
            assert_eq!(source(Path::new(path), device), None, "{path}");
        }
    }
}
