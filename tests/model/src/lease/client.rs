//! A client: what it keeps, sends and hears.

use super::world::{Action, Seen, World};
use std::collections::VecDeque;
use xdfs_proto::base::Instant;
use xdfs_proto::lease::{Access, Holding, HoldingState, LeaseAnswer, LeaseKind};

/// From a client to the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Call {
    Ask(LeaseKind),
    Renew,
    GiveBack,
    Reclaim { before: u64, kind: LeaseKind },
    Send(u8),
    Change(u8),
    Look,
}

/// Back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Answer {
    Lease(LeaseAnswer, u8),
    Sent(bool),
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Client {
    pub(super) holding: Holding,
    pub(super) handle: u64,
    /// What it read, or sent, under its lease.
    pub(super) cache: Option<u8>,
    /// A change that it keeps.
    pub(super) kept: Option<u8>,
    /// Its connection carries messages; and both ends know if not.
    pub(super) up: bool,
    pub(super) server_knows: bool,
    pub(super) client_knows: bool,
    /// A call besides those about the lease is on its way.
    pub(super) busy: bool,
    pub(super) calls: VecDeque<Call>,
    pub(super) answers: VecDeque<Answer>,
    pub(super) recalled: bool,
    /// Since when its first call waits.
    pub(super) waits: Option<u8>,
    /// What the server does for it.
    pub(super) running: Option<Call>,
    /// What the file was when that began.
    pub(super) began: u8,
}

impl Client {
    pub(super) fn new(handle: u64) -> Self {
        Self {
            holding: Holding::new(),
            handle,
            cache: None,
            kept: None,
            up: true,
            server_knows: false,
            client_knows: false,
            busy: false,
            calls: VecDeque::new(),
            answers: VecDeque::new(),
            recalled: false,
            waits: None,
            running: None,
            began: 0,
        }
    }

    pub(super) fn send(&mut self, call: Call) {
        if self.up {
            self.calls.push_back(call);
        }
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        if self.up {
            self.answers.push_back(answer);
        }
    }

    /// It may send calls, and none is on its way.
    pub(super) fn is_free(&self) -> bool {
        !self.client_knows && !self.busy && !self.holding.waits()
    }

    /// What it takes for the file, if it may use anything.
    pub(super) fn view(&self, now: Instant) -> Option<u8> {
        if self.holding.may_use(now) { self.kept.or(self.cache) } else { None }
    }

    pub(super) fn breaks(&mut self) {
        self.up = false;
        self.calls.clear();
        self.answers.clear();
        self.recalled = false;
        self.waits = None;
    }
}

impl World {
    pub(super) fn actions_of(&self, index: usize, client: &Client, actions: &mut Vec<Action>) {
        let (now, left, number) = (self.instant(), &self.left, index as u8);
        if client.is_free() {
            let state = client.holding.state();
            if let HoldingState::Idle(_) = state {
                let kinds = [(LeaseKind::Read, left.asks[index][0]), (LeaseKind::Write, left.asks[index][1])];
                actions
                    .extend(kinds.into_iter().filter(|(_, left)| *left > 0).map(|(kind, _)| Action::Ask(number, kind)));
            }
            if matches!(state, HoldingState::Held(_)) && left.renewals[index] > 0 {
                actions.push(Action::Renew(number));
            }
            if client.kept.is_some() {
                if client.holding.may_send_changes(now) {
                    actions.push(Action::Send(number));
                }
            } else {
                if client.holding.is_recalled() {
                    actions.push(Action::GiveBack(number));
                }
                if left.changes[index] > 0 {
                    actions.push(Action::Use(number, Access::Change));
                }
                if left.looks[index] > 0 {
                    actions.push(Action::Use(number, Access::Look));
                }
            }
        }
        // Not while a change is on its way that the file would have to be compared with.
        let keeps =
            !client.busy && client.cache.is_some() && client.kept.is_none() && client.holding.may_keep_changes(now);
        let rules = [
            (keeps && left.kept[index] > 0, Action::Keep(number)),
            (!client.calls.is_empty() && client.running.is_none(), Action::Take(number)),
            (client.running.is_some(), Action::Done(number)),
            (!client.answers.is_empty(), Action::Hear(number)),
            (client.recalled, Action::Recall(number)),
            (client.up && left.losses[index] > 0, Action::Break(number)),
            (!client.up && !client.server_knows && client.running.is_none(), Action::ServerNotices(number)),
            (!client.up && !client.client_knows, Action::ClientNotices(number)),
            (client.client_knows && client.running.is_none(), Action::Again(number)),
        ];
        actions.extend(rules.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
    }

    /// What a client does, or hears.
    pub(super) fn of_client(&mut self, action: Action) {
        let now = self.instant();
        let drawn = self.drawn + 1;
        match action {
            Action::Ask(index, kind) => {
                let index = usize::from(index);
                self.left.asks[index][usize::from(kind == LeaseKind::Write)] -= 1;
                let client = &mut self.clients[index];
                client.holding.ask(now).expect("it has none");
                client.cache = None;
                client.send(Call::Ask(kind));
            }
            Action::Renew(index) => {
                self.left.renewals[usize::from(index)] -= 1;
                let client = &mut self.clients[usize::from(index)];
                client.holding.renew(now).expect("it has one");
                client.send(Call::Renew);
            }
            Action::Keep(index) => {
                self.left.kept[usize::from(index)] -= 1;
                self.clients[usize::from(index)].kept = Some(drawn);
                (self.drawn, self.truth) = (drawn, drawn);
            }
            Action::Send(index) => {
                let client = &mut self.clients[usize::from(index)];
                client.busy = true;
                client.send(Call::Send(client.kept.expect("it keeps one")));
            }
            Action::GiveBack(index) => {
                let client = &mut self.clients[usize::from(index)];
                client.holding.give_back().expect("it is recalled");
                client.cache = None;
                client.send(Call::GiveBack);
            }
            Action::Use(index, access) => {
                let left = if access == Access::Look { &mut self.left.looks } else { &mut self.left.changes };
                left[usize::from(index)] -= 1;
                let client = &mut self.clients[usize::from(index)];
                client.busy = true;
                if access == Access::Change {
                    client.cache = None;
                    self.drawn = drawn;
                }
                client.send(if access == Access::Look { Call::Look } else { Call::Change(drawn) });
            }
            Action::Hear(index) => self.hear(index.into()),
            Action::Recall(index) => {
                let client = &mut self.clients[usize::from(index)];
                client.recalled = false;
                if matches!(client.holding.state(), HoldingState::Asked(_)) {
                    self.seen.insert(Seen::Overtaken);
                }
                client.holding.on_recall();
            }
            Action::ClientNotices(index) => {
                let client = &mut self.clients[usize::from(index)];
                (client.client_knows, client.busy) = (true, false);
                client.holding.on_lost();
            }
            _ => {}
        }
        self.too_late();
    }

    fn hear(&mut self, index: usize) {
        let now = self.instant();
        let client = &mut self.clients[index];
        match client.answers.pop_front() {
            Some(Answer::Lease(answer, file)) => {
                let before = client.holding.state();
                let until = client.holding.until();
                client.holding.on_answer(answer, now).expect("it asked");
                let has = client.holding.until().is_some();
                if matches!(before, HoldingState::Asked(_)) && has {
                    if until.is_some() {
                        self.seen.insert(if self.restarted { Seen::HadAfterRestart } else { Seen::HadAgain });
                    } else {
                        client.cache = Some(file);
                    }
                }
                if client.holding.until() > until && until.is_some() {
                    self.seen.insert(Seen::Renewed);
                }
            }
            Some(Answer::Sent(well)) => {
                client.busy = false;
                if let Some(kept) = client.kept.take() {
                    client.cache = well.then_some(kept);
                    self.seen.insert(if well { Seen::Sent } else { Seen::TooLate });
                }
                if !well {
                    self.forget_kept();
                }
            }
            Some(Answer::Done) => client.busy = false,
            None => {}
        }
    }

    /// A change that was kept for too long is lost, and its program is told.
    pub(super) fn too_late(&mut self) {
        let now = self.instant();
        let mut lost = false;
        for client in &mut self.clients {
            if client.holding.until().is_none() {
                client.cache = None;
            }
            if client.kept.is_some() && !client.holding.may_use(now) {
                client.kept = None;
                lost = true;
            }
        }
        if lost {
            self.seen.insert(Seen::TooLate);
            self.forget_kept();
        }
    }

    fn forget_kept(&mut self) {
        let truth = self.truth;
        if !self.clients.iter().any(|client| client.kept == Some(truth)) {
            self.truth = self.file;
        }
    }
}
