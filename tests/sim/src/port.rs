//! One channel of one end: records as bytes, on their way out and on their way in. The records are the real ones: heads
//! encoded, sealed and opened with the keys that a real session would have.
//!
//! It must not know the session; [`crate::world`] does.

use std::collections::VecDeque;
use std::rc::Rc;
use xdfs_proto::base::{ChannelId, Extent, Instant, Level, OperationId, SessionId};
use xdfs_proto::session::{Fault, Role};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::handshake::{JOIN_BYTES, Join};
use xdfs_proto::wire::head::{HEAD_BYTES, Head, TAG_BYTES};
use xdfs_secure::keys::{self, ChannelKeys, GrantSecret, JoinKey, JoinSecret};
use xdfs_secure::record::{Limits, Opener, Sealer};

/// The prefaces of every simulated connection; the handshake before JOIN has tests of its own.
const CLIENT_PREFACE: [u8; 8] = *b"\0xdfs\x01\x01\x02";
const SERVER_PREFACE: [u8; 8] = *b"\0xdfs\x01\0\x02";
/// Bytes of the server's answer to JOIN: its proof.
const ANSWER_BYTES: usize = 32;

/// Something that is being sent.
pub struct Outgoing {
    /// Bytes that are ready.
    pub bytes: Rc<Vec<u8>>,
    /// How many of them the transport took.
    pub at: usize,
    /// Rest of a block that is read as the transport takes it (the direct route).
    pub rest: Option<(OperationId, Extent)>,
    /// Whether it is a record, whose end the session hears of.
    pub record: bool,
}

/// Where the payload of an announced record goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Collected, opened, then judged.
    Control,
    /// Collected and opened, then written.
    Buffered(OperationId, Extent),
    /// Written as it comes.
    Direct(OperationId, Extent),
    /// Read and forgotten.
    Skip,
    /// Collected only to find out whether the peer or the wire is to blame.
    Doubtful(Fault),
}

/// A record whose head arrived.
pub struct Arriving {
    /// The head, not to be believed before the tag was checked.
    pub head: Head,
    /// Head and payload side by side, as the opener wants them.
    pub headed: Vec<u8>,
    /// The tag.
    pub tag: [u8; TAG_BYTES],
    /// Where the payload goes.
    pub route: Route,
    /// Payload bytes that have not arrived.
    pub left: usize,
    /// The tag was checked.
    pub opened: bool,
    /// Writing failed before the block was complete, and the machine knows.
    pub failed: bool,
}

/// What arrives next.
pub enum Incoming {
    /// The client's JOIN.
    Join(Vec<u8>),
    /// The server's answer to JOIN.
    Answer(Vec<u8>),
    /// A head and its tag.
    Head(Vec<u8>),
    /// A payload.
    Payload(Box<Arriving>),
    /// Nothing until the machine resumes.
    Parked(Box<Arriving>),
    /// A step is under way that took the rest.
    Taken,
}

/// One channel of one end: real records as bytes in both directions.
pub struct Port {
    /// For records on their way out.
    pub sealer: Sealer,
    /// For records on their way in.
    pub opener: Opener,
    join: JoinKey,
    /// The first is with the transport.
    pub out: VecDeque<Outgoing>,
    /// What arrives next.
    pub incoming: Incoming,
    /// The session knows the channel.
    pub up: bool,
    /// EOFT arrived.
    pub ended: bool,
    /// When bytes last arrived.
    pub heard_at: Instant,
    /// When the transport last took some.
    pub sent_at: Instant,
}

impl Port {
    /// One end of `channel` with the keys of `secret`.
    pub fn new(
        channel: ChannelId,
        role: Role,
        secret: &[u8; 32],
        limits: Limits,
        incoming: Incoming,
        now: Instant,
    ) -> Self {
        let role = match role {
            Role::Client => keys::Role::Client,
            Role::Server => keys::Role::Server,
        };
        let session = SessionId([7; 16]);
        let keys = ChannelKeys::derive(&JoinSecret::new(&[5; 32]), &GrantSecret::new(secret), session, channel)
            .expect("key derivation fails only when memory is short")
            .for_role(role);
        Self {
            sealer: Sealer::new(keys.seal, limits).expect("as above"),
            opener: Opener::new(keys.open, limits).expect("as above"),
            join: keys.join,
            out: VecDeque::new(),
            incoming,
            up: false,
            ended: false,
            heard_at: now,
            sent_at: now,
        }
    }

    /// How many bytes the next step needs.
    pub fn wanted(&self) -> usize {
        match &self.incoming {
            Incoming::Join(have) => JOIN_BYTES - have.len(),
            Incoming::Answer(have) => ANSWER_BYTES - have.len(),
            Incoming::Head(have) => HEAD_BYTES + TAG_BYTES - have.len(),
            Incoming::Payload(arriving) => arriving.left,
            Incoming::Parked(_) | Incoming::Taken => 0,
        }
    }

    /// Whether a record is with the transport.
    pub fn is_busy(&self) -> bool {
        self.out.iter().any(|outgoing| outgoing.record)
    }

    /// The client's JOIN.
    pub fn queue_join(&mut self, channel: ChannelId) {
        let mut join = Join { session: SessionId([7; 16]), channel, nonce: [3; 16], mac: [0; 32] };
        join.mac = self.join.prove(keys::Role::Client, &join.transcript(CLIENT_PREFACE, None));
        self.queue_raw(join.encode().to_vec());
    }

    /// Checks a JOIN and queues the answer.
    pub fn answer_join(&mut self, bytes: &[u8]) -> bool {
        let Ok(bytes) = bytes.try_into() else { return false };
        let join = Join::decode(bytes);
        let proved = self.join.verify(keys::Role::Client, &join.transcript(CLIENT_PREFACE, None), &join.mac);
        if proved.is_err() {
            return false;
        }
        let transcript = join.transcript(CLIENT_PREFACE, Some(SERVER_PREFACE));
        let answer = self.join.prove(keys::Role::Server, &transcript);
        self.queue_raw(answer.to_vec());
        true
    }

    /// Seals a record. `payload` follows the head; on the direct route it is empty and `rest` names it.
    pub fn queue_record(
        &mut self,
        head: &Head,
        payload: &[u8],
        rest: Option<(OperationId, Extent)>,
        flip: Option<u64>,
    ) {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + TAG_BYTES + payload.len());
        // The sealer wants head and payload side by side; on the wire the tag stands between them.
        bytes.extend_from_slice(&[0; TAG_BYTES]);
        bytes.extend_from_slice(&head.encode());
        bytes.extend_from_slice(payload);
        let tag = self.sealer.seal(head.level, &mut bytes[TAG_BYTES..]).expect("REKEY goes before a limit");
        if head.event == Event::Rekey as u8 {
            self.sealer.rekey().expect("no run has so many epochs");
        }
        bytes.copy_within(TAG_BYTES..TAG_BYTES + HEAD_BYTES, 0);
        bytes[HEAD_BYTES..HEAD_BYTES + TAG_BYTES].copy_from_slice(&tag);
        if let Some(flip) = flip {
            let protected = if head.level == Level::Clear { HEAD_BYTES + TAG_BYTES } else { bytes.len() };
            let bit = (flip % (protected as u64 * 8)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.out.push_back(Outgoing { bytes: Rc::new(bytes), at: 0, rest, record: true });
    }

    fn queue_raw(&mut self, bytes: Vec<u8>) {
        self.out.push_back(Outgoing { bytes: Rc::new(bytes), at: 0, rest: None, record: false });
    }
}

impl Arriving {
    /// The payload as far as it is here.
    pub fn payload(&self) -> &[u8] {
        &self.headed[HEAD_BYTES..]
    }
}
