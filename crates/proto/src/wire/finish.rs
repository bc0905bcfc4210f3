//! FINISH, and the encoding of hashes in messages.

use super::codec::{Reader, WireError, Writer};
use crate::base::{Digest, Extent, Subtree};
use crate::limits;
use alloc::vec::Vec;

/// FINISH: every block was sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Finish {
    /// Bytes of the transfer.
    pub length: u64,
    /// Number of AGAIN that the sender had received: FINISH covers what was sent since.
    pub round: u16,
    /// The hash of the whole transfer, if the sender knows it.
    pub root: Option<Digest>,
    /// The subtrees of what the sender hashed, ascending and disjoint.
    pub subtrees: Vec<Subtree>,
}

impl Finish {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.integer(self.length).integer(self.round.into());
        write_digest(writer, self.root.as_ref());
        writer.integer(self.subtrees.len() as u64);
        for subtree in &self.subtrees {
            writer.integer(subtree.extent.offset()).integer(subtree.extent.length()).raw(&subtree.value);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        const FIELD: &str = "subtrees";
        let (length, round, root) = (reader.integer()?, round(reader)?, read_digest(reader)?);
        let count = reader.integer_up_to(limits::SUBTREES_MAX as u64, FIELD)? as usize;
        let mut subtrees: Vec<Subtree> = Vec::new();
        let mut above = 0;
        for _ in 0..count {
            let (offset, bytes) = (reader.integer()?, reader.integer()?);
            let extent = Extent::new(offset, bytes).map_err(|_| WireError::Invalid(FIELD))?;
            if offset < above || extent.is_empty() || extent.end() > length {
                return Err(WireError::Invalid(FIELD));
            }
            above = extent.end();
            subtrees.push(Subtree { extent, value: reader.array()? });
        }
        Ok(Self { length, round, root, subtrees })
    }
}

/// The number of a repetition.
pub(super) fn round(reader: &mut Reader<'_>) -> Result<u16, WireError> {
    // At most 65535: fits.
    reader.integer_up_to(u16::MAX.into(), "round").map(|round| round as u16)
}

/// A hash, or nothing.
pub(super) fn write_digest(writer: &mut Writer, digest: Option<&Digest>) {
    writer.bytes(digest.map_or(&[], |digest| digest.as_slice()));
}

pub(super) fn read_digest(reader: &mut Reader<'_>) -> Result<Option<Digest>, WireError> {
    match reader.bytes(32, "hash")? {
        [] => Ok(None),
        digest => digest.try_into().map(Some).map_err(|_| WireError::Invalid("hash")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Control, Event};

    fn subtree(offset: u64, length: u64) -> Subtree {
        Subtree { extent: Extent::new(offset, length).unwrap(), value: [offset as u8; 32] }
    }

    #[test]
    fn the_longest_finish_fits_a_message_and_comes_back() {
        let subtrees: Vec<_> = (0..limits::SUBTREES_MAX as u64).map(|n| subtree((n << 50) + 1, 1 << 49)).collect();
        let finish = Finish { length: 1 << 61, round: 3, root: Some([9; 32]), subtrees };
        let bytes = Control::Finish(finish.clone()).encode();
        assert!(bytes.len() <= limits::CONTROL_BYTES_MAX);
        assert_eq!(Control::decode(Event::Finish, &bytes), Ok(Some(Control::Finish(finish))));
    }

    #[test]
    fn subtrees_that_overlap_are_empty_or_lie_behind_the_end_are_refused() {
        for subtrees in [&[subtree(0, 9), subtree(8, 1)][..], &[subtree(5, 0)], &[subtree(0, 101)], &[subtree(100, 1)]]
        {
            let finish = Finish { length: 100, subtrees: subtrees.to_vec(), ..Finish::default() };
            let refused = Control::decode(Event::Finish, &Control::Finish(finish).encode());
            assert_eq!(refused, Err(WireError::Invalid("subtrees")));
        }
        let (mut short, mut many) = (Writer::new(), Writer::new());
        short.integer(1).integer(0).bytes(&[7; 31]).integer(0);
        assert_eq!(Control::decode(Event::Finish, &short.finish()), Err(WireError::Invalid("hash")));
        many.integer(1).integer(0).integer(0).integer(limits::SUBTREES_MAX as u64 + 1);
        assert!(Control::decode(Event::Finish, &many.finish()).is_err());
    }
}
