//! The journal of a part file: which ranges are on stable storage, from which source, for which
//! owner. Only the format; the system calls are in `progress`.
//!
//! ```text
//! "xdfsjnl2", then records (big-endian):
//!          u32 length of the payload || u32 check || u8 kind || payload
//! check  = CRC-32C over the check of the record before (0 at first), kind and payload
//! kind 1   subject: transfer (16), length u64, boot id (16), device u64, inode u64,
//!          u16 + source, u16 + owner
//! kind 2   all written ranges: tag (32), then entries, each u8 flags, offset u64, length u64,
//!          and where flag 1 is set a chaining value (32)
//! kind 3   taken over: generation u64
//! ```
//!
//! Entries are ascending and disjoint. Flag 1: the value of the range as a subtree of the
//! transfer's hash. Flag 2: unverified, to be compared with the source.
//!
//! The tag authenticates the target's path, the payload of record 1 and the entries; zeros where
//! there is no key. A record with a wrong tag is still read: its ranges are unverified.
//!
//! A record lists all written ranges, so the last complete one counts, and a torn tail loses only
//! what was recorded since the one before.
//!
//! It must not record more than was synced before it was written.

use crate::store::stored_range::{JournalTags, StoredRange};
use std::sync::Arc;
use xdfs_proto::base::{Digest, Extent, TransferId};

/// Maximum entries of a record: ranges that do not fit are sent again.
pub(super) const ENTRIES_MAX: usize = 1024;
/// Maximum length of the file: before it gets longer it is rewritten with only the last record,
/// which has at most 51 KiB.
pub(super) const BYTES_MAX: usize = 128 * 1024;

const MAGIC: &[u8; 8] = b"xdfsjnl2";
/// Bytes of a tag.
const TAG_BYTES: usize = size_of::<Digest>();
const RECORD_HEAD: usize = 9;
const ENTRY_BYTES: usize = 17;
/// Flag of an entry: its value follows.
const VALUE: u8 = 1;
/// Flag of an entry: unverified, to be compared with the source.
const DOUBT: u8 = 2;
const ABOUT: u8 = 1;
const PRESENT: u8 = 2;
const TAKEN_OVER: u8 = 3;

/// The subject of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct JournalSubject {
    /// The transfer.
    pub(super) transfer: TransferId,
    /// Its length.
    pub(super) length: u64,
    /// The boot in which it was written: another one means that there may have been a power cut in
    /// between.
    pub(super) boot: [u8; 16],
    /// Device and inode of the part file.
    pub(super) part: (u64, u64),
    /// Version of the source.
    pub(super) source: Vec<u8>,
    /// The sender.
    pub(super) owner: Vec<u8>,
}

/// A parsed journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Journal {
    pub(super) about: JournalSubject,
    /// The written ranges.
    pub(super) noted: Vec<StoredRange>,
    /// Number of takeovers.
    pub(super) generation: u64,
    /// Offset of the next record.
    pub(super) end: u64,
    /// Check of the last record.
    pub(super) check: u32,
    /// Tag of the last record of written ranges.
    tag: Digest,
}

impl Journal {
    /// Whether `sealer` wrote the recorded ranges. A journal without any is authentic.
    pub(super) fn is_authentic(&self, sealer: &Sealer) -> bool {
        self.noted.is_empty() || sealer.tag(&self.about, &entries(&self.noted)).is_some_and(|tag| tag == self.tag)
    }
}

/// Authenticates the journal of one target.
#[derive(Clone, Debug, Default)]
pub(super) struct Sealer {
    pub(super) tags: Option<Arc<dyn JournalTags>>,
    /// Path of the target.
    pub(super) target: Vec<u8>,
}

impl Sealer {
    /// None without a key.
    fn tag(&self, about: &JournalSubject, entries: &[u8]) -> Option<Digest> {
        self.tags.as_ref().map(|tags| tags.tag(&[&self.target, &payload_of(about), entries]))
    }
}

/// The first bytes of a file, and the check of its last record.
pub(super) fn begin(about: &JournalSubject) -> (Vec<u8>, u32) {
    let (record, check) = record(ABOUT, &payload_of(about), 0);
    ([MAGIC.as_slice(), &record].concat(), check)
}

fn payload_of(about: &JournalSubject) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&about.transfer.0);
    payload.extend_from_slice(&about.length.to_be_bytes());
    payload.extend_from_slice(&about.boot);
    payload.extend_from_slice(&about.part.0.to_be_bytes());
    payload.extend_from_slice(&about.part.1.to_be_bytes());
    for bytes in [&about.source, &about.owner] {
        // Versions have at most 64 bytes, owners what the server's limits allow: far below.
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        payload.extend_from_slice(&length.to_be_bytes());
        payload.extend(bytes.iter().take(usize::from(length)));
    }
    payload
}

/// A record of all written ranges, and its check.
pub(super) fn present(about: &JournalSubject, noted: &[StoredRange], sealer: &Sealer, before: u32) -> (Vec<u8>, u32) {
    let entries = entries(noted);
    let tag = sealer.tag(about, &entries).unwrap_or_default();
    record(PRESENT, &[tag.as_slice(), &entries].concat(), before)
}

fn entries(noted: &[StoredRange]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(noted.len() * (ENTRY_BYTES + size_of::<Digest>()));
    for one in noted.iter().take(ENTRIES_MAX) {
        let doubt = if one.proved { 0 } else { DOUBT };
        payload.push(doubt | if one.value.is_some() { VALUE } else { 0 });
        payload.extend_from_slice(&one.extent.offset().to_be_bytes());
        payload.extend_from_slice(&one.extent.length().to_be_bytes());
        payload.extend_from_slice(one.value.as_ref().map_or(&[], |value| value.as_slice()));
    }
    payload
}

/// A record of a takeover, and its check.
pub(super) fn taken_over(generation: u64, before: u32) -> (Vec<u8>, u32) {
    record(TAKEN_OVER, &generation.to_be_bytes(), before)
}

fn record(kind: u8, payload: &[u8], before: u32) -> (Vec<u8>, u32) {
    let check = check(before, kind, payload);
    let mut bytes = Vec::with_capacity(RECORD_HEAD + payload.len());
    // Bounded by ENTRIES_MAX and the limits on versions and owners.
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&check.to_be_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    (bytes, check)
}

/// Parses a file; none if even its subject is missing. Everything after a torn or unknown record is
/// ignored.
pub(super) fn read(bytes: &[u8]) -> Option<Journal> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut journal = Journal { end: MAGIC.len() as u64, ..Journal::default() };
    let mut known = false;
    while let Some((kind, payload, check)) = next_record(rest, journal.check) {
        match (kind, known) {
            (ABOUT, false) => journal.about = read_about(payload)?,
            (PRESENT, true) => {
                let Some((tag, entries)) = payload.split_first_chunk::<TAG_BYTES>() else { break };
                let Some(noted) = read_entries(entries) else { break };
                (journal.noted, journal.tag) = (noted, *tag);
            }
            (TAKEN_OVER, true) => match payload.try_into() {
                Ok(generation) => journal.generation = u64::from_be_bytes(generation),
                Err(_) => break,
            },
            _ => break,
        }
        known = true;
        journal.check = check;
        let length = RECORD_HEAD + payload.len();
        journal.end += length as u64;
        rest = &rest[length..];
    }
    known.then_some(journal)
}

fn next_record(bytes: &[u8], before: u32) -> Option<(u8, &[u8], u32)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (told, rest) = rest.split_first_chunk::<4>()?;
    let (&kind, rest) = rest.split_first()?;
    let payload = rest.get(..u32::from_be_bytes(*length) as usize)?;
    let check = check(before, kind, payload);
    (check == u32::from_be_bytes(*told)).then_some((kind, payload, check))
}

fn read_about(payload: &[u8]) -> Option<JournalSubject> {
    let (transfer, rest) = payload.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (boot, rest) = rest.split_first_chunk::<16>()?;
    let (device, rest) = rest.split_first_chunk::<8>()?;
    let (inode, rest) = rest.split_first_chunk::<8>()?;
    let (source, rest) = read_bytes(rest)?;
    let (owner, rest) = read_bytes(rest)?;
    rest.is_empty().then(|| JournalSubject {
        transfer: TransferId(*transfer),
        length: u64::from_be_bytes(*length),
        boot: *boot,
        part: (u64::from_be_bytes(*device), u64::from_be_bytes(*inode)),
        source: source.to_vec(),
        owner: owner.to_vec(),
    })
}

fn read_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

/// Ascending and disjoint, or they were not written by this program.
fn read_entries(payload: &[u8]) -> Option<Vec<StoredRange>> {
    let (mut noted, mut rest, mut above) = (Vec::new(), payload, 0);
    while !rest.is_empty() {
        let (entry, behind) = rest.split_first_chunk::<ENTRY_BYTES>()?;
        let (flags, numbers) = entry.split_first()?;
        let (offset, length) = numbers.split_first_chunk::<8>()?;
        let length: [u8; 8] = length.try_into().ok()?;
        let extent = Extent::new(u64::from_be_bytes(*offset), u64::from_be_bytes(length)).ok()?;
        if flags & !(VALUE | DOUBT) != 0 || extent.offset() < above || extent.is_empty() || noted.len() == ENTRIES_MAX {
            return None;
        }
        let (value, behind) = match flags & VALUE {
            0 => (None, behind),
            _ => behind.split_first_chunk().map(|(value, behind)| (Some(*value), behind))?,
        };
        (above, rest) = (extent.end(), behind);
        noted.push(StoredRange { extent, value, proved: flags & DOUBT == 0 });
    }
    Some(noted)
}

fn check(before: u32, kind: u8, payload: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in before.to_be_bytes().iter().chain([&kind]).chain(payload) {
        crc = (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    !crc
}

/// Fuzzes the recovery of a journal: everything it reads it could have written. With an odd first
/// byte the rest is records with correct checks, each with its kind, the length of its payload in
/// two bytes, and the payload.
#[cfg(any(test, debug_assertions))]
pub fn feed(input: &[u8]) {
    let Some((first, mut rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if first & 1 == 1 {
        bytes = MAGIC.to_vec();
        let mut before = 0;
        while let Some((&[kind, high, low], payload)) = rest.split_first_chunk::<3>() {
            let (payload, others) = payload.split_at(payload.len().min(usize::from(u16::from_be_bytes([high, low]))));
            let (sealed, check) = record(kind, payload, before);
            bytes.extend(sealed);
            (before, rest) = (check, others);
        }
    }
    let Some(journal) = read(&bytes) else { return };
    assert!(journal.end <= bytes.len() as u64 && journal.noted.len() <= ENTRIES_MAX);
    let (mut again, check) = begin(&journal.about);
    let (noted, check) = present(&journal.about, &journal.noted, &Sealer::default(), check);
    let (taken, _) = taken_over(journal.generation, check);
    again.extend([noted, taken].concat());
    let read_again = read(&again).expect("what we write we read");
    assert_eq!(read_again.end, again.len() as u64);
    assert_eq!(
        (read_again.about, read_again.noted, read_again.generation),
        (journal.about, journal.noted, journal.generation)
    );
}

/// CRC-32C (Castagnoli), reflected.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(from: u64, to: u64) -> Extent {
        Extent::new(from, to - from).unwrap()
    }

    fn about() -> JournalSubject {
        JournalSubject {
            transfer: TransferId([1; 16]),
            length: 1 << 40,
            boot: [2; 16],
            part: (3, 4),
            source: vec![5; 48],
            owner: b"anna".to_vec(),
        }
    }

    /// Not a cipher, but distinct for distinct inputs.
    #[derive(Debug)]
    struct Checksum(u8);

    impl JournalTags for Checksum {
        fn tag(&self, parts: &[&[u8]]) -> Digest {
            let mut tag = [self.0; 32];
            for (at, byte) in parts.iter().flat_map(|part| part.iter().chain(&[0xff])).enumerate() {
                tag[at % 32] = tag[at % 32].wrapping_mul(31).wrapping_add(*byte);
            }
            tag
        }
    }

    fn sealer() -> Sealer {
        Sealer { tags: Some(Arc::new(Checksum(1))), target: b"target".to_vec() }
    }

    fn noted(from: u64, to: u64, value: Option<u8>, proved: bool) -> StoredRange {
        StoredRange { extent: extent(from, to), value: value.map(|byte| [byte; 32]), proved }
    }

    /// The end of a record, the ranges written by then, and the generation.
    type LastRecord = (usize, Vec<StoredRange>, u64);

    /// A file of four records, and its content after each.
    fn file() -> (Vec<u8>, Vec<LastRecord>) {
        let first = vec![noted(0, 10, None, true)];
        let second = vec![noted(0, 20, Some(7), true), noted(30, 40, Some(8), false), noted(40, 41, None, false)];
        let (mut bytes, mut check) = begin(&about());
        let mut said = vec![(bytes.len(), Vec::new(), 0)];
        for (step, (noted, generation)) in [(&first, 0), (&first, 1), (&second, 1)].into_iter().enumerate() {
            let (record, next) =
                if step == 1 { taken_over(1, check) } else { present(&about(), noted, &sealer(), check) };
            check = next;
            bytes.extend(record);
            said.push((bytes.len(), noted.clone(), generation));
        }
        (bytes, said)
    }

    #[test]
    fn what_is_read_could_have_been_written() {
        let (file, _) = file();
        feed(&[&[0], &file[..]].concat());
        let about = [vec![0; 72], vec![0, 1, 7, 0, 0]].concat();
        let present = [&[2, 0, 17, 2][..], &[0; 15], &[9]].concat();
        feed(&[&[1, ABOUT, 0, about.len() as u8], &about[..], &present].concat());
    }

    #[test]
    fn the_check_is_the_published_one() {
        // "123456789" with the four bytes of the check before and the kind cut off: the plain CRC
        // of RFC 3720's table.
        let crc = b"123456789".iter().fold(!0u32, |crc, b| (crc >> 8) ^ TABLE[((crc ^ u32::from(*b)) & 0xff) as usize]);
        assert_eq!(!crc, 0xe306_9283);
    }

    #[test]
    fn a_torn_tail_costs_what_was_told_in_it_and_nothing_else() {
        let (bytes, said) = file();
        for length in 0..=bytes.len() {
            let whole = said.iter().rev().find(|(end, ..)| *end <= length);
            match (read(&bytes[..length]), whole) {
                (None, None) => {}
                (Some(journal), Some((end, noted, generation))) => {
                    assert_eq!((journal.end, &journal.noted), (*end as u64, noted), "cut at {length}");
                    assert_eq!((&journal.about, journal.generation), (&about(), *generation));
                }
                (journal, whole) => panic!("cut at {length}: {journal:?}, expected {whole:?}"),
            }
        }
    }

    #[test]
    fn no_altered_byte_is_believed() {
        let (bytes, said) = file();
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 0x10;
            let intact = said.iter().rev().find(|(end, ..)| *end <= at).map(|(_, noted, _)| noted.clone());
            assert_eq!(read(&altered).map(|journal| journal.noted), intact, "byte {at}");
        }
    }

    #[test]
    fn ranges_that_are_not_ascending_end_the_journal() {
        for ranges in [[(10, 20), (0, 5)], [(0, 10), (5, 20)], [(0, 10), (10, 10)]] {
            let (mut bytes, check) = begin(&about());
            bytes.extend(
                present(&about(), &ranges.map(|(from, to)| noted(from, to, Some(1), true)), &sealer(), check).0,
            );
            assert_eq!(read(&bytes).unwrap().noted, []);
        }
        assert!(read(b"").is_none());
        assert!(read(b"xdfsjnl2").is_none() && read(b"xdfsjnl1").is_none());
    }

    #[test]
    fn unknown_flags_end_the_journal() {
        let entry = |flags: u8| [&[0; TAG_BYTES][..], &[flags], &0u64.to_be_bytes(), &10u64.to_be_bytes()].concat();
        for (flags, there) in [(0, vec![noted(0, 10, None, true)]), (4, vec![]), (1, vec![])] {
            let (mut bytes, check) = begin(&about());
            bytes.extend(record(PRESENT, &entry(flags), check).0);
            assert_eq!(read(&bytes).unwrap().noted, there, "flags {flags}");
        }
    }

    #[test]
    fn only_what_this_key_said_of_this_target_and_transfer_is_authentic() {
        let (bytes, _) = file();
        let journal = read(&bytes).unwrap();
        assert!(journal.is_authentic(&sealer()));
        let other = Sealer { tags: Some(Arc::new(Checksum(2))), ..sealer() };
        let elsewhere = Sealer { target: b"other".to_vec(), ..sealer() };
        for sealer in [other, elsewhere, Sealer { tags: None, ..sealer() }] {
            assert!(!journal.is_authentic(&sealer), "{sealer:?}");
        }
        let changes: [fn(&mut Journal); 4] = [
            |journal| journal.about.owner = b"bert".to_vec(),
            |journal| journal.about.part.1 += 1,
            |journal| journal.about.source[0] ^= 1,
            |journal| journal.noted[0].proved = false,
        ];
        for change in changes {
            let mut journal = journal.clone();
            change(&mut journal);
            assert!(!journal.is_authentic(&sealer()), "{journal:?}");
        }
        // Without the key, nothing that is written counts as authentic.
        let (mut bytes, check) = begin(&about());
        bytes.extend(present(&about(), &[noted(0, 10, None, true)], &Sealer::default(), check).0);
        assert!(!read(&bytes).unwrap().is_authentic(&Sealer::default()));
    }

    #[test]
    fn the_longest_record_leaves_room_for_another() {
        let most: Vec<_> = (0..2000).map(|at| noted(2 * at, 2 * at + 1, Some(1), true)).collect();
        let (bytes, check) = begin(&about());
        let (record, _) = present(&about(), &most, &sealer(), check);
        assert!(bytes.len() + 2 * record.len() < BYTES_MAX);
        assert_eq!(read(&[bytes, record].concat()).unwrap().noted, most[..ENTRIES_MAX]);
    }
}
