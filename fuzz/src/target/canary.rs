//! Targets with one mistake each, of the kinds that the others look for. A harness that does not find them is broken.

use xdfs_proto::wire::Reader;

/// Takes a field for granted that an input need not have.
pub(super) fn panics(input: &[u8]) {
    let mut reader = Reader::new(input);
    if reader.integer().is_ok_and(|count| count > 3) && reader.byte().is_ok_and(|byte| byte == 0x40) {
        reader.array::<4>().expect("four bytes behind it");
    }
}

/// Sets memory aside for a number from the wire.
pub(super) fn believes_a_length(input: &[u8]) {
    if let Ok(length) = Reader::new(input).integer() {
        drop(Vec::<u8>::with_capacity((length as usize).min(1 << 24)));
    }
}

/// Keeps something for every step of a conversation.
pub(super) fn forgets_a_limit(input: &[u8]) {
    super::session::repeated(input, true);
}
