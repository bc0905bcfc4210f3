//! The state that is searched: the server's roster and sessions, Ann's session, what is on the way, and what Eve has left.

use super::oracle::Oracle;
use super::setting::Setting;
use super::symbol::{ChannelKey, End, Join, Sealed, Who};
use crate::marked::Marked;
use crate::oracle::length_of;
use crate::world::{BLOCK, NOW};
use std::collections::{BTreeMap, VecDeque};
use xdfs_proto::base::{ChannelId, Duration, Instant, KeyLimits, OperationId, PipelineId};
use xdfs_proto::limits::GRANT_LIFE;
use xdfs_proto::negotiate::{self, Policy};
use xdfs_proto::registry::Registry;
use xdfs_proto::session::{Role, Session, SessionLimits};
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::Open;
use xdfs_proto::wire::request::Request;

/// How far a login is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// The server has not judged it.
    Asked,
    /// It was right; the answer is on its way.
    Expected,
    /// The session has begun.
    Begun,
    /// There is none, or no more.
    Over,
}

/// How far a connection is that says JOIN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// It was said.
    Said,
    /// It was proved; the answer is on its way.
    Proved,
    /// The server has attached it; its client has not heard.
    Attached,
    /// It is a channel at both ends, or was refused, or is gone.
    Done,
}

/// A connection that says JOIN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection {
    /// Whose it is.
    pub by: Who,
    /// What it says.
    pub join: Join,
    /// The keys under which the server found it right.
    pub key: Option<ChannelKey>,
    /// How far it is.
    pub step: Step,
}

/// A letter to the pipeline of a session at the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Letter {
    /// A channel that has proved itself.
    Attach(ChannelKey),
    /// End now.
    Abandon,
}

/// One end of a channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Line {
    /// Under which keys; none while it is not up here.
    pub key: Option<ChannelKey>,
    /// The nonce that is due.
    pub due: (u16, u64),
    /// Records on their way to this end.
    pub queue: VecDeque<Marked<Sealed>>,
    /// The last one that opened here.
    pub last: Option<Marked<Sealed>>,
    /// This end has closed it.
    pub closed: bool,
    /// It did so because the channel broke: the other end will notice.
    pub broken: bool,
    /// The head in front waits for `Resume`.
    pub parked: bool,
}

/// What storage is asked in a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ask {
    /// Open the source of a download.
    Open,
    /// Prepare the target.
    Stage,
    /// Look at the source again.
    Check,
    /// Give the target its name.
    Commit,
}

/// A call to storage that has not returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Job {
    /// In whose session.
    pub who: Who,
    /// At which end.
    pub end: End,
    /// What.
    pub ask: Ask,
    /// Which operation.
    pub operation: OperationId,
}

/// The searched state: server, client, messages in flight and the attacker's budget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// Who is in, at the server.
    pub roster: Marked<Registry<Who>>,
    /// Ann's session at her end.
    pub ann: Marked<Session>,
    /// The sessions at the server.
    pub served: BTreeMap<Who, Marked<Session>>,
    /// How far the login of each is.
    pub phases: BTreeMap<Who, Phase>,
    /// Letters to each pipeline at the server.
    pub letters: BTreeMap<Who, VecDeque<Letter>>,
    /// Ann's channels, channel 1 first, the client's end before the server's.
    pub lines: Vec<[Line; 2]>,
    /// Eve's channel 1 at the server.
    pub eves: Line,
    /// What Eve sends next there: key epoch and number.
    pub eves_nonce: (u16, u64),
    /// Connections that say JOIN.
    pub connections: Vec<Connection>,
    /// Calls to storage, sorted.
    pub jobs: Vec<Job>,
    /// The time: before or after the end of the grants' life.
    pub now: Instant,
    /// Secrets of grants that were drawn so far.
    pub drawn: u8,
    /// Ann's operation is settled at her end; with success or without.
    pub told: Option<bool>,
    /// Ann has closed her session.
    pub closing: bool,
    /// JOINs that Eve may still say.
    pub forgeries: u8,
    /// Records that she may still meddle with.
    pub meddlings: u8,
    /// Records that she may still say in her own session.
    pub words: u8,
    /// Logins that may still be taken away.
    pub revocations: u8,
    /// Ends that may still break.
    pub breaks: u8,
    /// The truth.
    pub oracle: Oracle,
}

impl World {
    /// Nobody has logged in yet.
    pub fn new(setting: &Setting) -> Self {
        let mut ann = Session::new(Role::Client, PipelineId(0), limits(setting, Who::Ann, Role::Client));
        let opened = ann.open(setting.plan.upload, request(setting));
        assert_eq!(opened.ok(), Some(OperationId(1)), "Ann's plan fits her session");
        let lines = vec![[Line::default(), Line::default()]; usize::from(setting.numbers)];
        Self {
            roster: Marked::new(Registry::new()),
            ann: Marked::new(ann),
            served: BTreeMap::new(),
            phases: Who::ALL.map(|who| (who, Phase::Asked)).into(),
            letters: Who::ALL.map(|who| (who, VecDeque::new())).into(),
            lines,
            eves: Line::default(),
            eves_nonce: (0, 0),
            connections: Vec::new(),
            jobs: Vec::new(),
            now: NOW,
            drawn: Who::ALL.len() as u8,
            told: None,
            closing: false,
            forgeries: setting.forgeries,
            meddlings: setting.meddlings,
            words: setting.words,
            revocations: setting.revocations,
            breaks: setting.breaks,
            oracle: Oracle::default(),
        }
    }

    /// The end of one of Ann's channels.
    pub fn line(&mut self, channel: ChannelId, end: End) -> &mut Line {
        &mut self.lines[usize::from(channel.0) - 1][end as usize]
    }

    /// Where the login of `who` is.
    pub fn phase(&self, who: Who) -> Phase {
        self.phases[&who]
    }

    /// Whether everything that was begun came to its end.
    pub fn has_ended(&self, setting: &Setting) -> bool {
        let told = self.told.is_some() || self.phase(Who::Ann) == Phase::Over;
        let empty = self.lines.iter().flatten().all(|line| line.queue.is_empty());
        let letters = self.letters.values().all(VecDeque::is_empty);
        let heard = |one: &Connection| one.step == Step::Done || one.by == Who::Eve && one.step == Step::Attached;
        let joins = self.connections.iter().all(heard);
        let closed = !setting.close || self.phase(Who::Ann) == Phase::Over;
        let quiet = |session: &Session| session.live_operations() == 0;
        let ann = self.phase(Who::Ann) != Phase::Begun || quiet(&self.ann) && quiet(&self.served[&Who::Ann]);
        told && empty && letters && joins && closed && ann
    }
}

/// What a session of `who` was granted: the real negotiation says so.
fn limits(setting: &Setting, who: Who, role: Role) -> SessionLimits {
    let [client, server, _] = setting.floors;
    let policy = Policy { floor: server, ..Policy::default() };
    let open = Open {
        prefaces: [0; 16],
        features: 0,
        channels: channels(setting, who),
        pipelines: 1,
        window: 0,
        block: BLOCK as u32,
        level: client,
        stall_ms: 0,
        label: [0; 16],
        suites: vec![1],
        login: 0,
        credentials: Vec::new(),
        options: Vec::new(),
        first: None,
    };
    let granted = negotiate::grant(&open, &policy).expect("the wishes of the model can be granted");
    SessionLimits {
        // A client has its own floor in each request, beside the server's that ACCEPT told.
        floor: if role == Role::Client { client.max(granted.floor) } else { granted.floor },
        block: granted.block,
        flow_window: 4 * BLOCK,
        operations_max: 2,
        pipelines: granted.pipelines,
        channels: granted.channels,
        keys: KeyLimits { records: setting.epoch, bytes: u64::MAX, age: Duration::MAX },
        ..SessionLimits::default()
    }
}

/// Channels that each asks for.
pub fn channels(setting: &Setting, who: Who) -> u16 {
    if who == Who::Ann { setting.channels } else { 2 }
}

/// The server's side of a session.
pub fn served(setting: &Setting, who: Who) -> Session {
    Session::new(Role::Server, PipelineId(0), limits(setting, who, Role::Server))
}

/// The first grant of a session.
pub fn first_grant(setting: &Setting, who: Who) -> ChannelGrant {
    let life_ms = GRANT_LIFE.as_millis() as u32;
    ChannelGrant { first: 1, count: channels(setting, who), secret: [who as u8 + 1; 32], life_ms }
}

fn request(setting: &Setting) -> Request {
    Request {
        name: b"e/f".to_vec(),
        length: setting.plan.upload.then(|| length_of(setting.plan.blocks)),
        credit: BLOCK,
        level: setting.floors[0],
        ..Request::default()
    }
}
