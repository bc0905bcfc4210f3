//! The journal beside a part file: what of it is on stable storage, from which source, for whom. Bytes only; the calls are in
//! `progress`.
//!
//! ```text
//! "xdfsjnl1", then records:   u32 length of the payload || u32 check || u8 kind || payload        (big-endian)
//! check  = CRC-32C over the check of the record before (0 at first), kind and payload
//! kind 1   what this is about: transfer (16), length u64, boot id (16), device u64, inode u64, u16 + source, u16 + owner
//! kind 2   what is there now, all of it: entries, each u8 kind || 0: offset u64, length u64
//! kind 3   taken over: generation u64
//! ```
//!
//! Entry kind 1 is reserved for a subtree of the hash (first chunk u64, level u8, chaining value 32). A record says everything
//! that is there, so the last one that is whole counts, and a torn tail costs what was told since the one before.
//!
//! It must not say more than was synced before it was written.

use xdfs_proto::base::Extent;

/// Entries in a file before it is written anew with the last record alone; also the most of one record.
pub(super) const ENTRIES_MAX: usize = 1024;
/// Longest file that is read: what the bounds of records add up to, generously.
pub(super) const BYTES_MAX: usize = 128 * 1024;

const MAGIC: &[u8; 8] = b"xdfsjnl1";
const RECORD_HEAD: usize = 9;
const ENTRY_BYTES: usize = 17;
const ABOUT: u8 = 1;
const PRESENT: u8 = 2;
const TAKEN_OVER: u8 = 3;

/// What a journal is about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct About {
    /// The transfer.
    pub(super) transfer: [u8; 16],
    /// Its length.
    pub(super) length: u64,
    /// The boot in which it was written: another one means a power cut may lie between.
    pub(super) boot: [u8; 16],
    /// Device and inode of the part file.
    pub(super) part: (u64, u64),
    /// Version of the source.
    pub(super) source: Vec<u8>,
    /// Who sent it.
    pub(super) owner: Vec<u8>,
}

/// A journal as it was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Journal {
    pub(super) about: About,
    /// What is there.
    pub(super) ranges: Vec<Extent>,
    /// How often it was taken over.
    pub(super) generation: u64,
    /// Where the next record goes.
    pub(super) end: u64,
    /// Check of the last record.
    pub(super) check: u32,
    /// Entries in the file.
    pub(super) entries: usize,
}

/// A file's first bytes, and the check of its last record.
pub(super) fn begin(about: &About) -> (Vec<u8>, u32) {
    let mut payload = Vec::new();
    payload.extend_from_slice(&about.transfer);
    payload.extend_from_slice(&about.length.to_be_bytes());
    payload.extend_from_slice(&about.boot);
    payload.extend_from_slice(&about.part.0.to_be_bytes());
    payload.extend_from_slice(&about.part.1.to_be_bytes());
    for bytes in [&about.source, &about.owner] {
        // Versions have 64 bytes at most, owners what the server's limits say: far below.
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        payload.extend_from_slice(&length.to_be_bytes());
        payload.extend(bytes.iter().take(usize::from(length)));
    }
    let (record, check) = record(ABOUT, &payload, 0);
    ([MAGIC.as_slice(), &record].concat(), check)
}

/// A record that tells what is there now, and its check.
pub(super) fn present(ranges: &[Extent], before: u32) -> (Vec<u8>, u32) {
    let mut payload = Vec::with_capacity(ranges.len() * ENTRY_BYTES);
    for range in ranges.iter().take(ENTRIES_MAX) {
        payload.push(0);
        payload.extend_from_slice(&range.offset().to_be_bytes());
        payload.extend_from_slice(&range.length().to_be_bytes());
    }
    record(PRESENT, &payload, before)
}

/// A record that tells of a takeover, and its check.
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

/// Reads a file; none where it says not even what it is about. What follows a record that is torn or unknown is not looked at.
pub(super) fn read(bytes: &[u8]) -> Option<Journal> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut journal = Journal { end: MAGIC.len() as u64, ..Journal::default() };
    let mut known = false;
    while let Some((kind, payload, check)) = next_record(rest, journal.check) {
        match (kind, known) {
            (ABOUT, false) => journal.about = read_about(payload)?,
            (PRESENT, true) => {
                let Some(ranges) = read_entries(payload) else { break };
                journal.entries += ranges.len();
                journal.ranges = ranges;
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

fn read_about(payload: &[u8]) -> Option<About> {
    let (transfer, rest) = payload.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (boot, rest) = rest.split_first_chunk::<16>()?;
    let (device, rest) = rest.split_first_chunk::<8>()?;
    let (inode, rest) = rest.split_first_chunk::<8>()?;
    let (source, rest) = read_bytes(rest)?;
    let (owner, rest) = read_bytes(rest)?;
    rest.is_empty().then(|| About {
        transfer: *transfer,
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

/// Ascending and apart, or they are none of ours.
fn read_entries(payload: &[u8]) -> Option<Vec<Extent>> {
    let (entries, rest) = payload.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() || entries.len() > ENTRIES_MAX {
        return None;
    }
    let mut above = 0;
    let mut ranges = Vec::with_capacity(entries.len());
    for entry in entries {
        let (kind, rest) = entry.split_first()?;
        let (offset, length) = rest.split_first_chunk::<8>()?;
        let length: [u8; 8] = length.try_into().ok()?;
        let range = Extent::new(u64::from_be_bytes(*offset), u64::from_be_bytes(length)).ok()?;
        if *kind != 0 || range.offset() < above || range.is_empty() {
            return None;
        }
        above = range.end();
        ranges.push(range);
    }
    Some(ranges)
}

fn check(before: u32, kind: u8, payload: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in before.to_be_bytes().iter().chain([&kind]).chain(payload) {
        crc = (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    !crc
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

    fn about() -> About {
        About {
            transfer: [1; 16],
            length: 1 << 40,
            boot: [2; 16],
            part: (3, 4),
            source: vec![5; 48],
            owner: b"anna".to_vec(),
        }
    }

    /// Where a record ends, what is there by then, and the generation.
    type Said = (usize, Vec<Extent>, u64);

    /// A file of four records, and what it says after each.
    fn file() -> (Vec<u8>, Vec<Said>) {
        let first = vec![extent(0, 10)];
        let second = vec![extent(0, 20), extent(30, 40)];
        let (mut bytes, mut check) = begin(&about());
        let mut said = vec![(bytes.len(), Vec::new(), 0)];
        for (step, (ranges, generation)) in [(&first, 0), (&first, 1), (&second, 1)].into_iter().enumerate() {
            let (record, next) = if step == 1 { taken_over(1, check) } else { present(ranges, check) };
            check = next;
            bytes.extend(record);
            said.push((bytes.len(), ranges.clone(), generation));
        }
        (bytes, said)
    }

    #[test]
    fn the_check_is_the_published_one() {
        // "123456789" with the four bytes of the check before and the kind cut off: the plain CRC of RFC 3720's table.
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
                (Some(journal), Some((end, ranges, generation))) => {
                    assert_eq!((journal.end, &journal.ranges), (*end as u64, ranges), "cut at {length}");
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
            let intact = said.iter().rev().find(|(end, ..)| *end <= at).map(|(_, ranges, _)| ranges.clone());
            assert_eq!(read(&altered).map(|journal| journal.ranges), intact, "byte {at}");
        }
    }

    #[test]
    fn ranges_that_are_not_ascending_end_the_journal() {
        for ranges in [&[extent(10, 20), extent(0, 5)][..], &[extent(0, 10), extent(5, 20)]] {
            let (mut bytes, check) = begin(&about());
            bytes.extend(present(ranges, check).0);
            assert_eq!(read(&bytes).unwrap().ranges, []);
        }
        assert_eq!(read(b""), None);
        assert_eq!(read(b"xdfsjnl1"), None);
    }
}
