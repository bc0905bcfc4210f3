//! The world of one file: its server, two clients, the messages between them, and what the file should be.

use super::client::{Call, Client};
use super::setting::Leases;
use std::collections::BTreeSet;
use xdfs_proto::base::Instant;
use xdfs_proto::lease::{Access, Holder, LeaseKind, LeaseTable};

/// The only file.
pub(super) const FILE: u8 = 0;

/// One step. Clients are 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Time passes.
    Moment,
    /// A client asks for a lease, and reads the file in the same batch.
    Ask(u8, LeaseKind),
    /// A client renews.
    Renew(u8),
    /// A client changes what it keeps.
    Keep(u8),
    /// A client sends the change that it kept.
    Send(u8),
    /// A client gives its lease back.
    GiveBack(u8),
    /// A client looks at the file, or changes it, at the server.
    Use(u8, Access),
    /// The server takes the next message of a client.
    Take(u8),
    /// What the server began for a client is done.
    Done(u8),
    /// A client takes the next answer.
    Hear(u8),
    /// A recall arrives.
    Recall(u8),
    /// The connection of a client breaks.
    Break(u8),
    /// The server notices it.
    ServerNotices(u8),
    /// The client notices it.
    ClientNotices(u8),
    /// The client opens the file again, in a new session, with its lease if it has one.
    Again(u8),
    /// The server restarts.
    Restart,
    /// The local program wants to change the file.
    Local,
    /// It has.
    LocalDone,
}

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wrong {
    /// A client may use something else than the file (L1).
    Stale,
    /// The server has, or told, something else (L2).
    Behind,
    /// Somebody waited for longer than a lease holds (L3).
    Waits,
    /// A machine panicked.
    Panic,
}

/// What was seen on the way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Seen {
    /// A lease was given back before its time was over, and somebody went on at once.
    GivenBack,
    /// Somebody went on when the time was over.
    TimeOver,
    /// A kept change arrived.
    Sent,
    /// A kept change came too late, and its program was told.
    TooLate,
    /// A lease was had again after its session was lost.
    HadAgain,
    /// The same after a restart.
    HadAfterRestart,
    /// A recall overtook the grant.
    Overtaken,
    /// The local program waited, and changed the file.
    LocalWaited,
    /// A renewal made a lease last.
    Renewed,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub(super) now: u8,
    pub(super) table: LeaseTable<u8, u8>,
    /// What the server has.
    pub(super) file: u8,
    /// What the file is to all who look: the last change that somebody was told of.
    pub(super) truth: u8,
    /// Changes so far.
    pub(super) drawn: u8,
    pub(super) clients: [Client; 2],
    pub(super) local_waits: Option<u8>,
    pub(super) local_runs: Option<u8>,
    pub(super) restarted: bool,
    pub(super) left: Leftover,
    /// See [`Seen`].
    pub seen: BTreeSet<Seen>,
    /// The first thing that went wrong; nothing is searched behind it.
    pub wrong: Option<Wrong>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Leftover {
    pub(super) asks: [[u8; 2]; 2],
    pub(super) renewals: [u8; 2],
    pub(super) kept: [u8; 2],
    pub(super) changes: [u8; 2],
    pub(super) looks: [u8; 2],
    pub(super) local: u8,
    pub(super) losses: [u8; 2],
    pub(super) restarts: u8,
}

pub(super) const fn holder(client: usize, handle: u64) -> Holder<u8> {
    Holder { owner: client as u8, handle }
}

impl World {
    /// Nobody has a lease.
    pub fn new(setting: &Leases) -> Self {
        Self {
            now: 0,
            table: LeaseTable::new(setting.terms()),
            file: 0,
            truth: 0,
            drawn: 0,
            clients: [Client::new(1), Client::new(2)],
            local_waits: None,
            local_runs: None,
            restarted: false,
            left: Leftover {
                asks: setting.asks,
                renewals: setting.renewals,
                kept: setting.kept,
                changes: setting.changes,
                looks: setting.looks,
                local: setting.local,
                losses: setting.losses,
                restarts: setting.restarts,
            },
            seen: BTreeSet::new(),
            wrong: None,
        }
    }

    pub(super) fn instant(&self) -> Instant {
        Instant(self.now.into())
    }

    /// Whether the time is over and nothing is on its way.
    pub fn has_ended(&self, setting: &Leases) -> bool {
        self.now == setting.moments
    }

    /// Everything that can happen next.
    pub fn actions(&self, setting: &Leases, actions: &mut Vec<Action>) {
        if self.wrong.is_some() {
            return;
        }
        if self.now < setting.moments {
            actions.push(Action::Moment);
        }
        for (index, client) in self.clients.iter().enumerate() {
            self.actions_of(index, client, actions);
        }
        if self.left.restarts > 0 {
            actions.push(Action::Restart);
        }
        if self.local_runs.is_some() {
            actions.push(Action::LocalDone);
        } else if self.left.local > 0 {
            actions.push(Action::Local);
        }
    }

    /// Lets one thing happen.
    pub fn apply(&mut self, setting: &Leases, action: Action) {
        match action {
            Action::Moment => self.moment(setting),
            Action::Break(client) => {
                self.left.losses[usize::from(client)] -= 1;
                self.clients[usize::from(client)].breaks();
            }
            Action::Restart => self.restart(setting),
            Action::Local => self.local(setting),
            Action::LocalDone => {
                if let Some(change) = self.local_runs.take() {
                    (self.file, self.truth) = (change, change);
                    if setting.local_waits {
                        self.table.end(&FILE, Access::Change, self.instant());
                    }
                }
            }
            Action::Take(client) => self.take(client.into()),
            Action::Done(client) => self.done(client.into()),
            Action::ServerNotices(client) => {
                let one = &mut self.clients[usize::from(client)];
                one.server_knows = true;
                self.table.lost(&holder(client.into(), one.handle));
            }
            Action::Again(client) => self.again(client.into()),
            other => self.of_client(other),
        }
        self.tell();
        self.judge();
    }

    fn local(&mut self, setting: &Leases) {
        let now = self.instant();
        if setting.local_waits && self.table.begin(&FILE, None, Access::Change, now).is_err() {
            self.local_waits.get_or_insert(self.now);
            return;
        }
        if self.local_waits.take().is_some() {
            self.seen.insert(Seen::LocalWaited);
        }
        self.left.local -= 1;
        self.drawn += 1;
        self.local_runs = Some(self.drawn);
    }

    fn restart(&mut self, setting: &Leases) {
        self.left.restarts -= 1;
        self.restarted = true;
        self.table = LeaseTable::restarted(setting.terms(), self.instant());
        for client in &mut self.clients {
            client.breaks();
            // What was being done is done or not; here it is not.
            (client.server_knows, client.running) = (true, None);
        }
        // Whoever waits begins to wait for the grace.
        self.local_waits = self.local_waits.map(|_| self.now);
        if self.local_runs.is_some() && setting.local_waits {
            // It has the file open: the new server's kernel knows.
            self.local_runs = None;
        }
    }

    fn moment(&mut self, setting: &Leases) {
        self.now += 1;
        let now = self.instant();
        self.clients.iter_mut().for_each(|client| client.holding.expire(now));
        self.too_late();
        // Whoever waits tries again before anybody can get a new lease: the pause is longer than that takes.
        for index in 0..self.clients.len() {
            if self.clients[index].waits.is_some() {
                self.take(index);
            }
        }
        if self.local_waits.is_some() {
            self.local(setting);
        }
    }

    /// The server tells those whose leases are recalled.
    fn tell(&mut self) {
        while let Some(told) = self.table.poll_recall() {
            let client = &mut self.clients[usize::from(told.owner)];
            client.recalled |= client.up && client.handle == told.handle;
        }
    }

    fn judge(&mut self) {
        let now = self.instant();
        let views = self.clients.iter().filter_map(|client| client.view(now));
        let stale = views.into_iter().any(|view| view != self.truth);
        let kept = self.clients.iter().any(|client| client.kept == Some(self.truth));
        let wrong = [stale.then_some(Wrong::Stale), (!kept && self.file != self.truth).then_some(Wrong::Behind)];
        self.wrong = self.wrong.or(wrong.into_iter().flatten().next());
    }

    /// Whoever waits may go on when a lease that held when he began is over.
    pub fn waits_too_long(&self, setting: &Leases) -> bool {
        let pinned = self.clients.iter().any(|client| matches!(client.running, Some(Call::Send(_))));
        if pinned {
            return false;
        }
        let now = self.instant();
        let late = |since: Option<u8>| since.is_some_and(|since| self.now >= since + setting.time);
        let waits = |by: Option<&Holder<u8>>, access| self.table.clone().begin(&FILE, by, access, now).is_err();
        let clients = self.clients.iter().enumerate().any(|(index, client)| {
            let access = if client.calls.front() == Some(&Call::Look) { Access::Look } else { Access::Change };
            late(client.waits) && waits(Some(&holder(index, client.handle)), access)
        });
        clients || (late(self.local_waits) && waits(None, Access::Change))
    }

    /// Nobody has a lease and nothing is on its way.
    pub fn is_calm(&self) -> bool {
        self.table.is_empty() && self.clients.iter().all(|client| client.calls.is_empty() && client.answers.is_empty())
    }
}
