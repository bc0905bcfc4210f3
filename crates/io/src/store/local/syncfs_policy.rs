//! Whether one sync of a whole file system is cheap. It waits for the pages of all programs, not
//! only for ours: in parallel with another program that writes it took ten times as long as a sync
//! of each file (measured; docs/decisions/0004-small-files.md).

use crate::store::medium::is_on_disk;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// With fewer files it saves nothing (measured: with two both cost the same).
const FILES_MIN: usize = 4;

/// Bytes that already wait for the device, of all programs and file systems. As much is written
/// while 64 files are synced one by one.
const WAITING_BYTES_MAX: u64 = 8 << 20;

/// Since Linux 5.8 a sync of the file system reports failed writes; before, it proves nothing.
const KERNEL_MIN: (u32, u32) = (5, 8);

/// Opened once, before a server restricts its access to the file system.
fn memory() -> Option<&'static OwnedFd> {
    static MEMORY: OnceLock<Option<OwnedFd>> = OnceLock::new();
    MEMORY.get_or_init(|| open("/proc/meminfo").filter(|_| kernel_tells())).as_ref()
}

/// Must be called while names can still be looked up.
pub(super) fn prepare() {
    memory();
}

/// Whether one sync of the file system covers all of these files, and is quicker than one for each.
pub(super) fn serves<'f>(files: impl Iterator<Item = &'f OwnedFd> + Clone) -> bool {
    let device = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| stat.st_dev).ok();
    let Some(first) = files.clone().next() else { return false };
    files.clone().count() >= FILES_MIN
        && covers(first)
        && is_quiet()
        && files.clone().all(|file| device(file).is_some() && device(file) == device(first))
}

/// Whether a sync of the file system reports every failed write of a file in it, as a sync of each
/// file does.
fn covers(file: &OwnedFd) -> bool {
    is_on_disk(file) && memory().is_some()
}

/// Whether little data waits for any device.
fn is_quiet() -> bool {
    memory().and_then(|file| waiting(&read(file)?)).is_some_and(|bytes| bytes <= WAITING_BYTES_MAX)
}

fn open(path: &str) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn read(file: &OwnedFd) -> Option<Vec<u8>> {
    // About 1.5 KiB, and the relevant lines are in the first half.
    let mut text = vec![0; 4096];
    let count = rustix::io::pread(file, text.as_mut_slice(), 0).ok()?;
    text.truncate(count);
    Some(text)
}

fn kernel_tells() -> bool {
    let release = open("/proc/sys/kernel/osrelease").and_then(|file| read(&file));
    release.and_then(|text| version(&text)).is_some_and(|version| version >= KERNEL_MIN)
}

fn version(release: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = release.split(|byte| !byte.is_ascii_digit()).map(number);
    Some((numbers.next()??, numbers.next()??))
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The bytes that are dirty or under writeback.
fn waiting(meminfo: &[u8]) -> Option<u64> {
    let of = |name: &[u8]| {
        let mut lines = meminfo.split(|&byte| byte == b'\n');
        let text = std::str::from_utf8(lines.find_map(|line| line.strip_prefix(name))?).ok()?;
        text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    of(b"Dirty:")?.checked_add(of(b"Writeback:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_what_is_dirty_and_what_is_being_written() {
        let text = b"MemTotal:       49393440 kB\nDirty:               128 kB\nWriteback:             4 kB\nWritebackTmp:  9 kB\n";
        assert_eq!(waiting(text), Some(132 << 10));
        assert_eq!(waiting(b"Dirty: 1 kB\n"), None);
        assert!(waiting(&read(memory().unwrap()).unwrap()).is_some(), "this machine's own says nothing");
    }

    #[test]
    fn kernels_that_do_not_tell_of_failed_writes_are_known_by_their_number() {
        let tells = |release: &[u8]| version(release).is_some_and(|version| version >= KERNEL_MIN);
        assert_eq!(
            [&b"5.7.19-x\n"[..], b"5.8\n", b"5.10.0-1\n", b"6.1.0\n", b"x"].map(tells),
            [false, true, true, true, false]
        );
    }
}
