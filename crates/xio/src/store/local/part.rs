//! A part file: it holds the bytes beside the target until commit gives them the target's name.
//!
//! The place for the durability work is [`LocalStage::commit`]: the sync of the file goes before the rename, that of
//! the directory behind it. Until then the result of a commit survives a crash of the program, not of the machine, and
//! errors that a network file system tells at close only are not seen.

use super::must_admit;
use super::room::reserve;
use super::source::attributes_of;
use crate::store::exact::{Stuck, write_full};
use crate::store::resolve::Parent;
use crate::store::words::{self, Verb};
use crate::store::{Attributes, CommitRequest, Existing, Result};
use rustix::fs::{Mode, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_proto::base::path::COMPONENT_BYTES_MAX;
use xdfs_proto::base::{Error, ErrorKind};

/// Latest modification time in seconds: 2554, the last year that unsigned 64-bit nanoseconds reach (rule D16).
const MODIFIED_SECONDS_MAX: i64 = 18_446_744_072;

/// Where a new file goes, held and checked.
#[derive(Debug)]
pub(super) struct Place {
    /// The target's directory.
    pub(super) parent: Parent,
    /// The target's name in it.
    pub(super) name: Vec<u8>,
    /// The target in messages.
    pub(super) shown: String,
    /// What to do when the name is taken.
    pub(super) existing: Existing,
    /// Bits that the mode loses.
    pub(super) umask: u32,
}

/// A file on its way. Dropped without commit it takes the part file with it.
#[derive(Debug)]
pub struct LocalStage {
    place: Place,
    file: OwnedFd,
    /// The part file's name in the same directory.
    part: Vec<u8>,
    /// A write failed: what is in the file is not what was asked for, so no commit (rule D5).
    failed: AtomicBool,
    /// The part file has the target's name, or is gone.
    settled: bool,
}

impl LocalStage {
    /// See [`super::room::in_memory`].
    pub(in crate::store) fn in_memory(&self) -> bool {
        super::room::in_memory(&self.file)
    }

    /// Creates the part file and reserves room for `size` bytes.
    pub(super) fn create(place: Place, size: Option<u64>, transfer: &[u8; 16]) -> Result<Self> {
        let part = part_name(&place.name, transfer);
        let file = place.parent.create_new(&part).map_err(|errno| match errno {
            Errno::EXIST => words::refused(
                ErrorKind::AlreadyExists,
                Verb::Create,
                &place.shown,
                &format!("its part file '{}' exists, so another transfer has this id", words::shown_bytes(&part)),
            ),
            errno => words::failed(Verb::Create, &place.shown, errno),
        })?;
        let stage = Self { place, file, part, failed: AtomicBool::new(false), settled: false };
        if let Some(size) = size {
            // On failure `stage` is dropped and the part file goes.
            reserve(&stage.file, size, &stage.place.shown)?;
        }
        Ok(stage)
    }

    /// Writes all of `buf`; the range was checked by the caller.
    pub(in crate::store) fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        write_full(buf, offset, |part, at| rustix::io::pwrite(&self.file, part, at)).map_err(|stuck| {
            self.failed.store(true, Ordering::Relaxed);
            stuck_words(&self.place.shown, stuck)
        })
    }

    pub(in crate::store) fn descriptor(&self) -> Option<OwnedFd> {
        self.file.try_clone().ok()
    }

    /// Gives the file its length, mode, time and, last, its name.
    pub(in crate::store) fn commit(mut self, request: &CommitRequest) -> Result<Attributes> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(words::refused(ErrorKind::Storage, Verb::Create, &self.place.shown, "an earlier write failed"));
        }
        self.dress(request)?;
        // What the rename itself does not refuse: a link, FIFO or device that came to stand there.
        must_admit(&self.place.parent, &self.place.name, self.place.existing, &self.place.shown)?;
        let named = match self.place.existing {
            Existing::Replace => self.place.parent.replace(&self.part, &self.place.name),
            Existing::Keep => self.place.parent.keep(&self.part, &self.place.name),
        };
        named.map_err(|errno| self.words(errno))?;
        self.settled = true;
        // Of the descriptor, not of the name: these are the attributes of what was written, whoever comes next.
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| self.words(errno))?;
        Ok(attributes_of(&stat))
    }

    fn dress(&self, request: &CommitRequest) -> Result<()> {
        if request.length > i64::MAX as u64 {
            return Err(self.words(Errno::FBIG));
        }
        rustix::fs::ftruncate(&self.file, request.length).map_err(|errno| self.words(errno))?;
        let mode = Mode::from_raw_mode(request.mode & 0o777 & !self.place.umask);
        unless_unknown(rustix::fs::fchmod(&self.file, mode)).map_err(|errno| self.words(errno))?;
        if let Some(modified) = request.modified {
            let times = Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                last_modification: clamped(modified),
            };
            unless_unknown(rustix::fs::futimens(&self.file, &times)).map_err(|errno| self.words(errno))?;
        }
        Ok(())
    }

    fn words(&self, errno: Errno) -> Error {
        words::failed(Verb::Create, &self.place.shown, errno)
    }

    pub(in crate::store) fn shown(&self) -> &str {
        &self.place.shown
    }
}

impl Drop for LocalStage {
    fn drop(&mut self) {
        if !self.settled {
            // Nobody is there to be told; a part file that cannot be removed is found by its name later.
            let _ = self.place.parent.remove(&self.part);
        }
    }
}

/// What a write that got stuck is called.
pub(in crate::store) fn stuck_words(shown: &str, stuck: Stuck) -> Error {
    match stuck {
        Stuck::Errno(errno) => words::failed(Verb::Write, shown, errno),
        Stuck::NoProgress => words::refused(ErrorKind::Storage, Verb::Write, shown, "the storage took no bytes"),
    }
}

/// Some file systems (FAT, SMB) have no modes or times to set and say EPERM to the owner. The file then stays as it
/// was created, 0600 as far as modes exist: narrower than asked for, never wider.
fn unless_unknown(result: std::result::Result<(), Errno>) -> std::result::Result<(), Errno> {
    match result {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// D16. The clamp also keeps the special values of the nanosecond field (now, omit) out of a peer's hands.
fn clamped((seconds, nanoseconds): (i64, u32)) -> Timespec {
    match seconds {
        ..0 => Timespec { tv_sec: 0, tv_nsec: 0 },
        _ => Timespec { tv_sec: seconds.min(MODIFIED_SECONDS_MAX), tv_nsec: nanoseconds.min(999_999_999).into() },
    }
}

/// `.<name>.<transfer>.part`. The name is cut where it would not fit, at a character where it is UTF-8: some file
/// systems refuse half a character.
fn part_name(name: &[u8], transfer: &[u8; 16]) -> Vec<u8> {
    const AROUND: usize = 1 + 1 + 32 + 5;
    let mut keep = name.len().min(COMPONENT_BYTES_MAX - AROUND);
    if keep < name.len() {
        // A character has at most three continuation bytes; more are not UTF-8 and cut anywhere.
        for _ in 0..3 {
            if keep > 0 && name.get(keep).is_some_and(|byte| byte & 0xc0 == 0x80) {
                keep -= 1;
            }
        }
    }
    let mut part = vec![b'.'];
    part.extend_from_slice(name.get(..keep).unwrap_or_default());
    part.push(b'.');
    part.extend(transfer.iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 15)]));
    part.extend_from_slice(b".part");
    part
}

fn hex(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_name_tells_target_and_transfer() {
        let name = part_name(b"data.bin", &[0xab; 16]);
        assert_eq!(name, b".data.bin.abababababababababababababababab.part");
    }

    #[test]
    fn a_long_part_name_is_cut_at_a_character_and_fits() {
        for length in 200..=255 {
            let ascii = vec![b'x'; length];
            assert!(part_name(&ascii, &[1; 16]).len() <= COMPONENT_BYTES_MAX);
            // Three-byte characters, so two of three cuts would fall inside one.
            let wide: Vec<u8> = "\u{20ac}".repeat(85).into_bytes().into_iter().take(length / 3 * 3).collect();
            let part = part_name(&wide, &[1; 16]);
            assert!(part.len() <= COMPONENT_BYTES_MAX);
            assert!(std::str::from_utf8(&part).is_ok(), "cut inside a character at {length}");
        }
        assert_eq!(part_name(&[0x80; 255], &[1; 16]).len(), COMPONENT_BYTES_MAX - 3);
    }

    #[test]
    fn times_of_a_peer_are_clamped() {
        assert_eq!(clamped((i64::MIN, u32::MAX)).tv_sec, 0);
        let late = clamped((i64::MAX, u32::MAX));
        assert_eq!((late.tv_sec, late.tv_nsec), (MODIFIED_SECONDS_MAX, 999_999_999));
        // UTIME_NOW and UTIME_OMIT are nanosecond values above 10^9.
        assert_eq!(clamped((5, 1_073_741_823)).tv_nsec, 999_999_999);
    }
}
