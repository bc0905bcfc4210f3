//! A connection that has not authenticated yet. It costs only a small value and a deadline.

use crate::admit::SourceNetwork;
use std::sync::Arc;
use xdfs_engine::opening::{OpeningContext, OpeningStep, ServerOpened, ServerOpening};
use xdfs_io::dispatch::{Body, Dispatch, Op, SocketId};
use xdfs_proto::base::{ChannelId, SessionId};
use xdfs_proto::negotiate;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::Open;
use xdfs_secure::handshake::tls::Farewell;
use xdfs_secure::keys::{JoinSecret, RoleKeys};
use xdfs_secure::login::{FailedLogin, NONCE_BYTES};
use xdfs_secure::policy::Principal;

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
    pub phase: LoginPhase,
}

/// Whose turn it is, and what follows.
pub(crate) enum LoginPhase {
    /// The client's.
    Reading,
    /// An answer is being sent, behind which so many bytes of the client follow.
    Answering { want: usize },
    /// The last answer is being sent: with it the connection becomes channel 1 of a session.
    Opening(Box<GrantedSession>),
    /// The same: it becomes another channel of a session.
    Joining(SessionId, ChannelId, Box<RoleKeys>),
    /// The reason is being sent before it is closed.
    Refusing,
}

/// A session that was granted, whose answer is being sent.
pub(crate) struct GrantedSession {
    pub id: SessionId,
    pub principal: Arc<Principal>,
    pub secret: JoinSecret,
    pub grant: ChannelGrant,
    pub granted: negotiate::Granted,
    pub open: Box<Open>,
    pub farewell: Farewell,
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
        Self { socket, peer, opening, phase: LoginPhase::Reading }
    }

    /// Its failed logins that are not counted yet.
    pub fn take_failed(&mut self) -> Vec<FailedLogin> {
        self.opening.take_failed()
    }

    /// What it was waiting for when its deadline expired.
    pub fn waits_for(&self) -> &'static str {
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
                self.send(dispatch, send, LoginPhase::Answering { want });
                LoginProgress::Waiting
            }
        }
    }

    /// Sends bytes; `Completion::Sent` reports when they were sent, and `phase` says what follows.
    pub fn send<D: Dispatch>(&mut self, dispatch: &mut D, bytes: Vec<u8>, phase: LoginPhase) {
        self.phase = phase;
        dispatch.submit(Op::Send { socket: self.socket, head: None, body: Body::Bytes(bytes) });
    }
}
