//! A connection that has not authenticated yet. It costs only a small value and a deadline.

use crate::admit::SourceNetwork;
use xdfs_engine::opening::{OpeningContext, OpeningStep, ServerOpened, ServerOpening};
use xdfs_io::dispatch::{Body, Dispatch, Op, SocketId};
use xdfs_proto::base::{ChannelId, SessionId};
use xdfs_secure::keys::RoleKeys;
use xdfs_secure::login::{FailedLogin, NONCE_BYTES};

/// What to do with a pending login after its bytes were processed.
pub(crate) enum LoginProgress {
    /// It continues.
    Waiting,
    /// It has identified itself.
    Opened(ServerOpened),
}

/// A connection that has not authenticated yet.
pub(crate) struct PendingLogin {
    pub socket: SocketId,
    pub peer: String,
    opening: ServerOpening,
    /// Bytes to read once the pending output was sent.
    want: Option<usize>,
    /// What follows when the last bytes were sent.
    pub then: AfterSend,
}

/// What follows when the last bytes of a pending login were sent.
pub(crate) enum AfterSend {
    /// The opening continues.
    Opening,
    /// The connection becomes channel 1 of a session.
    Session(Box<crate::listen::Opening>),
    /// It becomes another channel of a session.
    Join(SessionId, ChannelId, Box<RoleKeys>),
    /// It is closed.
    Close,
}

impl PendingLogin {
    /// Starts reading.
    pub fn start<D: Dispatch>(
        dispatch: &mut D,
        socket: SocketId,
        peer: String,
        source: SourceNetwork,
        gate: OpeningContext,
        nonce: [u8; NONCE_BYTES],
    ) -> Self {
        let (opening, length) = ServerOpening::start(gate, source.to_string(), nonce);
        dispatch.submit(Op::Small { socket, length });
        Self { socket, peer, opening, want: None, then: AfterSend::Opening }
    }

    /// Its failed logins that are not counted yet.
    pub fn take_failed(&mut self) -> Vec<FailedLogin> {
        self.opening.take_failed()
    }

    /// What it was waiting for when its deadline expired.
    pub fn phase(&self) -> &'static str {
        self.opening.phase()
    }

    /// Bytes have arrived.
    pub fn on_bytes<D: Dispatch>(&mut self, dispatch: &mut D, bytes: &[u8]) -> LoginProgress {
        match self.opening.on_bytes(bytes) {
            OpeningStep::Done(opened) => LoginProgress::Opened(opened),
            OpeningStep::Go { send, want } if send.is_empty() => {
                dispatch.submit(Op::Small { socket: self.socket, length: want });
                LoginProgress::Waiting
            }
            OpeningStep::Go { send, want } => {
                self.want = Some(want);
                self.send(dispatch, send);
                LoginProgress::Waiting
            }
        }
    }

    /// Sends bytes; `Completion::Sent` reports when they were sent.
    pub fn send<D: Dispatch>(&mut self, dispatch: &mut D, bytes: Vec<u8>) {
        dispatch.submit(Op::Send { socket: self.socket, head: None, body: Body::Bytes(bytes) });
    }

    /// The bytes were sent: reads on if the opening continues.
    pub fn on_sent<D: Dispatch>(&mut self, dispatch: &mut D) -> bool {
        match self.want.take() {
            Some(length) => {
                dispatch.submit(Op::Small { socket: self.socket, length });
                true
            }
            None => false,
        }
    }
}
