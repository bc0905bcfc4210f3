//! The opening of a connection on both sides, without input or output: prefaces, TLS, login, OPEN
//! and its answer, JOIN.
//!
//! A driver sends the bytes it is given, reads exactly as many bytes as are wanted, and hands them
//! in: no byte of the records that follow is ever read. The driver also signs and checks the
//! server's key, since both may take time.

mod client;
mod join;
mod server;

pub use client::{ClientOpened, ClientOpening, ClientStep, SessionRequest};
pub use join::{ClientJoining, JoinRequest};
pub use server::{OpeningContext, PendingAccept, ServerOpened, ServerOpening};

use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::handshake::{FRAME_BYTES, MessageType, Prefaces, read_frame};
use xdfs_proto::wire::preface::{PREFACE_BYTES, ServerPreface, Status};
use xdfs_proto::wire::{Reader, WireError};
use xdfs_secure::handshake::tls::Stream;

/// The driver's next step.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum OpeningStep<T> {
    /// Send these bytes (if any), then read `want` bytes.
    Go { send: Vec<u8>, want: usize },
    /// The opening is complete.
    Done(T),
}

fn protocol(error: WireError) -> Error {
    Error::new(ErrorKind::Protocol, format!("protocol error while opening the session: {error}"))
}

fn unexpected(message: MessageType) -> Error {
    Error::new(ErrorKind::Protocol, format!("protocol error while opening the session: unexpected {message:?}"))
}

fn out_of_turn() -> Error {
    Error::new(ErrorKind::Protocol, "bytes behind the opening")
}

fn joined(client: [u8; PREFACE_BYTES], server: [u8; PREFACE_BYTES]) -> Prefaces {
    let mut both = [0; 2 * PREFACE_BYTES];
    both[..PREFACE_BYTES].copy_from_slice(&client);
    both[PREFACE_BYTES..].copy_from_slice(&server);
    both
}

fn read_server_preface(bytes: &[u8]) -> Result<[u8; PREFACE_BYTES], Error> {
    let raw = Reader::new(bytes).array().map_err(protocol)?;
    let not_xdfs = |_| Error::new(ErrorKind::Protocol, "what answers there is not an xdfs server");
    let preface = ServerPreface::decode(&raw).map_err(not_xdfs)?;
    match preface.status {
        Status::Available => Ok(raw),
        Status::Penalised => {
            let when = preface.wait().map_or("some minutes".to_owned(), |wait| format!("{} s", wait.as_secs()));
            Err(Error::new(ErrorKind::Busy, format!("{}; try again in {when}", preface.status.text())))
        }
        Status::Busy | Status::TooManyOfYou => Err(Error::new(ErrorKind::Busy, preface.status.text())),
        Status::JoinRefused => Err(Error::new(ErrorKind::SessionUnknown, preface.status.text())),
        other => Err(Error::new(ErrorKind::Unsupported, other.text())),
    }
}

/// The next whole message among the bytes received inside TLS.
fn next_message(stream: &mut Stream) -> Result<Option<(MessageType, Vec<u8>)>, Error> {
    let received = stream.received();
    let Some(head) = received.first_chunk::<FRAME_BYTES>() else { return Ok(None) };
    let (message, length) = read_frame(*head).map_err(protocol)?;
    if received.len() < FRAME_BYTES + length {
        return Ok(None);
    }
    // Its memory is released too: an unauthenticated client keeps no empty buffer.
    let rest = received.split_off(FRAME_BYTES + length);
    let mut payload = std::mem::replace(received, rest);
    payload.drain(..FRAME_BYTES);
    Ok(Some((message, payload)))
}
