//! Channels 2..n: JOIN and its answer, both sides.

use super::{OpeningStep, protocol, read_server_preface};
use xdfs_proto::base::Error;
use xdfs_proto::wire::Reader;
use xdfs_proto::wire::handshake::{JOIN_ANSWER_BYTES, Join};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, PREFACE_BYTES, ServerPreface, Status};
use xdfs_secure::keys::{JoinKey, Role};

/// The client's side of channels 2..n.
#[derive(Debug)]
pub struct ClientJoining {
    join: Join,
    key: JoinKey,
    awaited: Awaited,
}

/// What the server sends next.
#[derive(Debug)]
enum Awaited {
    Preface,
    /// The answer, which covers the preface.
    Answer {
        server: [u8; PREFACE_BYTES],
    },
}

impl ClientJoining {
    /// Joins with `join` (its MAC is filled in here).
    pub fn start(mut join: Join, key: JoinKey) -> (Self, OpeningStep<()>) {
        let client = ClientPreface::of(Continuation::Join).encode();
        join.mac = key.prove(Role::Client, &join.transcript(client, None));
        let mut send = client.to_vec();
        send.extend(join.encode());
        (Self { join, key, awaited: Awaited::Preface }, OpeningStep::Go { send, want: PREFACE_BYTES })
    }

    /// The wanted bytes have arrived.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<OpeningStep<()>, Error> {
        match self.awaited {
            Awaited::Preface => {
                self.awaited = Awaited::Answer { server: read_server_preface(bytes)? };
                Ok(OpeningStep::Go { send: Vec::new(), want: JOIN_ANSWER_BYTES })
            }
            Awaited::Answer { server } => {
                let mac = Reader::new(bytes).array().map_err(protocol)?;
                let client = ClientPreface::of(Continuation::Join).encode();
                self.key.verify(Role::Server, &self.join.transcript(client, Some(server)), &mac)?;
                Ok(OpeningStep::Done(()))
            }
        }
    }
}

/// A JOIN that waits for the session's decision.
#[derive(Debug)]
pub struct JoinRequest {
    /// The received JOIN.
    pub join: Join,
    pub(super) client: [u8; PREFACE_BYTES],
    pub(super) server: [u8; PREFACE_BYTES],
}

impl JoinRequest {
    /// Verifies that the channel holds `key`.
    pub fn verify(&self, key: &JoinKey) -> Result<(), Error> {
        Ok(key.verify(Role::Client, &self.join.transcript(self.client, None), &self.join.mac)?)
    }

    /// The answer to an accepted channel.
    pub fn accept(&self, key: &JoinKey) -> Vec<u8> {
        let mut send = self.server.to_vec();
        send.extend(key.prove(Role::Server, &self.join.transcript(self.client, Some(self.server))));
        send
    }

    /// The answer to a refused channel. It gives no reason: a stranger learns nothing.
    pub fn refuse() -> Vec<u8> {
        ServerPreface { status: Status::JoinRefused, version: 0, start: Continuation::Join as u8 }.encode().to_vec()
    }
}
