//! Simulation of leases: programs on several machines read and write one file, some with leases and some without, while
//! messages are late, sessions are lost, clients are silent and the server restarts. The rules are the real machines of
//! `xdfs_proto::lease`; what a client does with them is written here once more, as `xdfs_client::file` does it.
//!
//! The oracle is the history that the programs have seen ([`history`]): it must be that of one register that everybody shares
//! (linearizable), whether a client answers from what it keeps or asks. Without a lease that is said of what is asked when a
//! file is opened, which is close-to-open. A write that is sent again in another session counts as another write: without a
//! lease it may overwrite what somebody else has written since.

mod client;
pub mod history;
mod server;

use crate::random::Random;
use client::Client;
use history::History;
use server::Server;
use std::collections::BTreeMap;
use xdfs_proto::base::{Duration, Instant};
use xdfs_proto::lease::{LeaseAnswer, LeaseKind, LeaseTerms};

/// How long a lease holds.
pub const LEASE: Duration = Duration::from_millis(2000);
/// How long a file gets no lease once one was recalled: short, so that there are many.
const PAUSE: Duration = Duration::from_millis(100);
/// Milliseconds in which something happens; after that everything is sent.
const LASTS: u64 = 6000;
/// Longest way of a message, and longest time that a call takes, in milliseconds.
const DELAY_MAX: u64 = 40;
const WORK_MAX: u64 = 300;
/// Longest time until an end notices the loss of a session.
const NOTICE_MAX: u64 = 1500;

/// A call of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Read,
    Write(u64),
    WriteUnder(u64),
    Ask(LeaseKind),
    Renew,
    GiveBack,
    /// The file is opened again in place of this handle.
    Again(u64),
    Reclaim(LeaseKind, u64),
}

/// An answer to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Value(u64),
    Written,
    TooLate,
    Busy,
    Lease(LeaseAnswer),
    Opened(u64),
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// The program of a client does something.
    Program(usize),
    /// A client does what is due.
    Turn(usize),
    /// In the session of this number.
    Arrives(usize, u64, Call),
    Answered(usize, u64, Call, Answer),
    Recalled(usize, u64, u64),
    /// The server has done this for a client.
    Done(usize, u64, Call),
    Break(usize),
    ServerNotices(usize, u64),
    ClientNotices(usize, u64),
    Restart,
}

/// What can go wrong in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    /// Sessions are lost.
    pub losses: bool,
    /// The server restarts.
    pub restarts: bool,
    /// A client does not answer recalls.
    pub silent: bool,
}

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Reads that were answered from what a client kept.
    pub kept_reads: u64,
    /// Writes that were kept.
    pub kept_writes: u64,
    /// Kept writes that came too late, and their programs were told.
    pub told: u64,
    /// Leases that were had again.
    pub again: u64,
    /// Recalls.
    pub recalls: u64,
    /// Recalled leases that began anew with another session: whoever waits for their end waits for more than a lease.
    pub recalled_anew: u64,
    /// Operations in all.
    pub operations: u64,
    /// Longest time that an operation took.
    pub longest: Duration,
    /// Sessions that were lost and servers that restarted.
    pub faults: u64,
}

pub(crate) struct World {
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    random: Random,
    faults: Faults,
    history: History,
    seen: Seen,
    /// The number of each client's session.
    sessions: Vec<u64>,
    values: u64,
}

impl World {
    fn at(&mut self, after: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.now + after, self.count), event);
    }

    fn instant(&self) -> Instant {
        Instant(0).after(Duration::from_millis(self.now + 1))
    }

    fn delay(&mut self) -> u64 {
        self.random.between(1, DELAY_MAX)
    }

    fn value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    fn quiet(&self) -> bool {
        self.now > LASTS
    }
}

/// Runs one seed: what it saw, or what its programs saw that no shared register shows.
pub fn run(seed: u64, faults: Faults) -> Result<Seen, String> {
    let random = Random::new(seed);
    let terms = LeaseTerms { time: LEASE, pause: PAUSE, most: 16, most_each: 4 };
    let count = 3;
    let mut world = World {
        now: 0,
        events: BTreeMap::new(),
        count: 0,
        random,
        faults,
        history: History::default(),
        seen: Seen::default(),
        sessions: vec![1; count],
        values: 0,
    };
    let mut server = Server::new(terms, count);
    let mut clients: Vec<Client> =
        (0..count).map(|number| Client::new(number, world.random.chance(750), &mut world)).collect();
    if faults.losses || faults.restarts {
        for _ in 0..world.random.between(1, 4) {
            let (when, who) = (world.random.below(LASTS), world.random.below(count as u64) as usize);
            let restarts = faults.restarts && (!faults.losses || world.random.chance(400));
            world.at(when, if restarts { Event::Restart } else { Event::Break(who) });
        }
    }
    while let Some(((now, _), event)) = world.events.pop_first() {
        world.now = now;
        if now > LASTS + 20_000 {
            return Err("something is never done".into());
        }
        step(&mut world, &mut server, &mut clients, event);
        let idle = |client: &Client| client.is_idle();
        if world.quiet() && clients.iter().all(idle) && server.is_idle() {
            break;
        }
    }
    world.history.read(usize::MAX, server.value(), (world.now + 1, world.now + 2));
    world.history.judge()?;
    Ok(world.seen)
}

fn step(world: &mut World, server: &mut Server, clients: &mut [Client], event: Event) {
    match event {
        Event::Program(who) => clients[who].on_program(world),
        Event::Turn(who) => clients[who].on_turn(world),
        Event::Arrives(who, session, call) if world.sessions[who] == session => {
            server.on_call(world, who, session, call);
        }
        Event::Done(who, session, call) => server.on_done(world, who, session, call),
        Event::Answered(who, session, call, answer) if world.sessions[who] == session => {
            clients[who].on_answer(world, call, answer);
        }
        Event::Recalled(who, session, handle) if world.sessions[who] == session => {
            clients[who].on_recalled(world, handle);
        }
        Event::Arrives(..) | Event::Answered(..) | Event::Recalled(..) => {}
        Event::Break(who) => lose(world, who),
        Event::ServerNotices(who, session) => server.on_lost(world, who, session),
        Event::ClientNotices(who, session) => clients[who].on_lost(world, session),
        Event::Restart => {
            server.restart(world.instant());
            (0..clients.len()).for_each(|who| lose(world, who));
        }
    }
}

/// The session of a client is gone; both ends notice some time.
fn lose(world: &mut World, who: usize) {
    world.seen.faults += 1;
    let session = world.sessions[who];
    world.sessions[who] += 1;
    let (server, client) = (world.random.below(NOTICE_MAX), world.random.below(NOTICE_MAX));
    world.at(server, Event::ServerNotices(who, session));
    world.at(client, Event::ClientNotices(who, session));
}
