//! Records without a block, for every driver of a session: sealed and sent, opened and passed to the
//! machine, with the key changed after REKEY.

use crate::record::{Record, Rejected, with_tag, wrong_tag};
use xdfs_io::dispatch::{Body, Dispatch, HEAD_BYTES, Op, SocketId};
use xdfs_proto::base::{ChannelId, Error, Instant};
use xdfs_proto::session::Session;
use xdfs_proto::wire::{Event, Head};
use xdfs_secure::record::{HEAD_BYTES as BARE_BYTES, Opener, Sealer};

/// Seals a record and passes it to the transport. If it cannot be sealed, its channel is lost: the
/// record was counted.
pub(crate) fn send<D: Dispatch>(
    dispatch: &mut D,
    socket: SocketId,
    sealer: &mut Sealer,
    head: &Head,
    payload: &[u8],
) -> Result<(), Error> {
    let (head, body) = seal(sealer, head, payload)?;
    dispatch.submit(Op::Send { socket, head: Some(head), body });
    Ok(())
}

/// The payload of a record is complete: it is opened, and the machine learns what it says.
pub(crate) fn receive(
    session: &mut Session,
    opener: &mut Opener,
    channel: ChannelId,
    record: &Record,
    payload: &[u8],
    now: Instant,
) -> Result<(), Rejected> {
    let payload = open(opener, record, payload).map_err(Rejected::Channel)?;
    session.on_control(channel, &payload, now).map_err(Rejected::Session)?;
    if Event::from_code(record.head.event) == Some(Event::Rekey) {
        // What follows is sealed with the next key.
        opener.rekey().map_err(|error| Rejected::Channel(error.into()))?;
    }
    Ok(())
}

fn seal(sealer: &mut Sealer, head: &Head, payload: &[u8]) -> Result<([u8; HEAD_BYTES], Body), Error> {
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

fn open(opener: &mut Opener, record: &Record, payload: &[u8]) -> Result<Vec<u8>, Error> {
    let mut headed = Vec::with_capacity(BARE_BYTES + payload.len());
    headed.extend_from_slice(&record.raw[..BARE_BYTES]);
    headed.extend_from_slice(payload);
    opener.open(record.head.level, &mut headed, &record.tag()).map_err(wrong_tag)?;
    Ok(headed.split_off(BARE_BYTES))
}
