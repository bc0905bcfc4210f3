//! Sealing and opening of records without a block, for every driver of a session: head and payload
//! in memory, with the key changed after REKEY.

use xdfs_io::dispatch::{Body, HEAD_BYTES};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::{Event, Head};
use xdfs_secure::record::{Opener, Sealer};

/// Bytes of a head without its tag.
const BARE_BYTES: usize = 32;

/// Seals a record: returns the head with its tag, and the payload, as they are sent.
pub fn seal(sealer: &mut Sealer, head: &Head, payload: &[u8]) -> Result<([u8; HEAD_BYTES], Body), Error> {
    let mut headed = Vec::with_capacity(BARE_BYTES + payload.len());
    headed.extend_from_slice(&head.encode());
    headed.extend_from_slice(payload);
    let tag = sealer.seal(head.level, &mut headed)?;
    if Event::from_code(head.event) == Some(Event::Rekey) {
        sealer.rekey()?;
    }
    let sealed = with_tag(&headed, &tag);
    let body = if payload.is_empty() { Body::None } else { Body::Bytes(headed.split_off(BARE_BYTES)) };
    Ok((sealed, body))
}

/// Opens the payload of the record whose head and tag arrived as `raw`. After REKEY the reader
/// changes the key.
pub fn open(opener: &mut Opener, head: &Head, raw: &[u8; HEAD_BYTES], payload: &[u8]) -> Result<Vec<u8>, Error> {
    let mut headed = Vec::with_capacity(BARE_BYTES + payload.len());
    headed.extend_from_slice(&raw[..BARE_BYTES]);
    headed.extend_from_slice(payload);
    let mut tag = [0; HEAD_BYTES - BARE_BYTES];
    tag.copy_from_slice(&raw[BARE_BYTES..]);
    opener.open(head.level, &mut headed, &tag).map_err(wrong_tag)?;
    Ok(headed.split_off(BARE_BYTES))
}

/// The head, which is the first bytes of `headed`, and its tag.
pub(crate) fn with_tag(headed: &[u8], tag: &[u8; HEAD_BYTES - BARE_BYTES]) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..BARE_BYTES].copy_from_slice(&headed[..BARE_BYTES]);
    bytes[BARE_BYTES..].copy_from_slice(tag);
    bytes
}

/// The error for a record that did not open.
pub(crate) fn wrong_tag(error: xdfs_secure::Error) -> Error {
    let text = format!("a record's tag is wrong ({error}): bytes were altered or lost on the way");
    Error::new(ErrorKind::ConnectionLost, text)
}
