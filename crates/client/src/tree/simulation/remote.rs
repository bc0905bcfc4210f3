//! A session in virtual time: what it is asked for is done late, in any order, and answered later
//! still, until it is lost.

use super::files::{Inode, SimulatedFiles};
use super::random::Random;
use super::server::SimulatedServer;
use crate::options::{PutOptions, Verify};
use crate::transfer::Report;
use crate::tree::endpoints::{NotBegun, Receive, Remote, WriteFiles};
use crate::tree::events::Event;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use xdfs_io::store::Existing;
use xdfs_io::store::tree::NodeKind;
use xdfs_proto::base::{Error, ErrorKind, Level, RelPath, Safety};

/// A request that was not executed yet.
enum Request {
    Call { payload: Vec<u8>, room: usize },
    Send { from: RelPath, to: Vec<u8>, existing: Existing, mode: u32, seen: Result<super::files::Found, Error> },
    Receive { from: Vec<u8>, receive: Box<Receive> },
    Write(WriteFiles),
}

/// A change that others make while the copy runs.
pub(super) type Interference<'a> = &'a mut dyn FnMut(&mut Random);

/// One session of a copy.
pub(super) struct SimulatedRemote<'a> {
    pub(super) server: &'a SimulatedServer,
    pub(super) local: SimulatedFiles,
    /// Length of the server's `EXPORT/path` with the slash behind it.
    pub(super) base: usize,
    pub(super) batch_bytes_max: usize,
    /// Answers come only when the copy waits for them.
    pub(super) slow: bool,
    /// Steps until it is lost.
    pub(super) life: u64,
    pub(super) interfere: Interference<'a>,
    pub(super) random: &'a mut Random,
    pub(super) now: Duration,
    requests: Vec<(u64, Request)>,
    answers: Vec<Event>,
    /// Batches that were cancelled: the server executes no further call of them.
    cancelled: BTreeSet<u64>,
}

fn lost() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the connection was cut")
}

fn report(length: u64) -> Report {
    Report {
        length,
        resumed: 0,
        moved: length,
        channel_bytes: BTreeMap::new(),
        safety: Safety::Written,
        level: Level::Clear,
        verified: Verify::None,
        hash: None,
        seconds: 0.0,
        remote: None,
    }
}

impl<'a> SimulatedRemote<'a> {
    pub(super) fn new(
        server: &'a SimulatedServer,
        local: SimulatedFiles,
        (base, batch_bytes_max, life): (usize, usize, u64),
        interfere: Interference<'a>,
        random: &'a mut Random,
    ) -> Self {
        let (requests, answers, cancelled) = (Vec::new(), Vec::new(), BTreeSet::new());
        let now = Duration::ZERO;
        Self {
            server,
            local,
            base,
            batch_bytes_max,
            slow: false,
            life,
            interfere,
            random,
            now,
            requests,
            answers,
            cancelled,
        }
    }

    /// Its program ends: what was sent is executed, or never arrives.
    pub(super) fn leave(mut self) {
        while !self.requests.is_empty() {
            self.step();
        }
    }

    fn is_lost(&self) -> bool {
        self.life == 0
    }

    /// One thing happens: a request is executed, or somebody changes something.
    fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(10_000) as u64);
        (self.interfere)(self.random);
        if self.requests.is_empty() {
            return;
        }
        let index = self.random.below(self.requests.len());
        let (number, request) = self.requests.swap_remove(index);
        let was_lost = self.is_lost();
        self.life = self.life.saturating_sub(1);
        if let Request::Write(write) = request {
            return self.answers.push(Event::Placed(number, Ok(write())));
        }
        let is_call = matches!(request, Request::Call { .. });
        // What was sent before the loss may arrive, or not.
        let answer = if was_lost && self.random.coin() { None } else { Some(self.execute(number, request)) };
        self.answers.push(match answer {
            Some(answer) if !self.is_lost() => answer,
            _ if is_call => Event::Reply(number, Err(lost())),
            _ => Event::Report(number, Err(lost())),
        });
    }

    fn execute(&mut self, number: u64, request: Request) -> Event {
        match request {
            Request::Call { payload, room } => {
                let calls_max = self.cancelled.contains(&number).then(|| self.random.below(8));
                Event::Reply(number, Ok(Bytes::from(self.server.execute(&payload, room, calls_max, self.random))))
            }
            Request::Send { from, to, existing, mode, seen } => {
                Event::Report(number, self.sent(&from, &to, existing, mode, seen))
            }
            Request::Receive { from, receive } => Event::Report(number, self.received(&from, *receive)),
            Request::Write(write) => Event::Placed(number, Ok(write())),
        }
    }

    fn sent(
        &mut self,
        from: &RelPath,
        to: &[u8],
        existing: Existing,
        mode: u32,
        seen: Result<super::files::Found, Error>,
    ) -> Result<Report, Error> {
        if let Some(error) = self.server.refusal(self.random) {
            return Err(error);
        }
        let seen = seen?;
        // A file that was replaced is still open; one that was written to has changed.
        if let Ok(now) = self.local.find(from.as_bytes())
            && now.inode == seen.inode
            && now.content != seen.content
        {
            return Err(Error::new(ErrorKind::SourceChanged, "it was written to"));
        }
        let length = seen.content.len() as u64;
        let file = Inode::new(NodeKind::Regular, mode, seen.content, seen.modified);
        self.server.files.put(&to[self.base..], file, existing)?;
        Ok(report(length))
    }

    fn received(&mut self, from: &[u8], receive: Receive) -> Result<Report, Error> {
        if let Some(error) = self.server.refusal(self.random) {
            return Err(error);
        }
        let found = self.server.files.find(&from[self.base..])?;
        if found.kind != NodeKind::Regular {
            return Err(Error::new(ErrorKind::NotRegular, "no file"));
        }
        (receive.clear)()?;
        let length = found.content.len() as u64;
        let file = Inode::new(NodeKind::Regular, found.mode & 0o777, found.content, found.modified);
        self.local.put(receive.target.as_bytes(), file, receive.existing)?;
        Ok(report(length))
    }

    fn answer(&mut self) -> Option<Event> {
        if self.answers.is_empty() {
            return None;
        }
        let index = self.random.below(self.answers.len());
        Some(self.answers.swap_remove(index))
    }
}

impl Remote for SimulatedRemote<'_> {
    fn batch_bytes_max(&self) -> usize {
        self.batch_bytes_max
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn call(&mut self, number: u64, payload: Vec<u8>, room: usize) -> Result<(), Error> {
        if self.is_lost() {
            return Err(lost());
        }
        self.requests.push((number, Request::Call { payload, room }));
        Ok(())
    }

    fn send(&mut self, number: u64, path: &RelPath, to: &[u8], options: &PutOptions) -> Result<(), NotBegun> {
        let seen = self.local.find(path.as_bytes());
        match &seen {
            Err(error) => return Err(NotBegun::Unreadable(error.clone())),
            Ok(found) if found.kind != NodeKind::Regular => {
                return Err(NotBegun::Unreadable(Error::new(ErrorKind::NotRegular, "no file")));
            }
            Ok(_) if self.is_lost() => return Err(NotBegun::Lost(lost())),
            Ok(_) => {}
        }
        let existing = if options.keep_existing { Existing::Keep } else { Existing::Replace };
        let mode = options.mode.unwrap_or(0o644);
        self.requests.push((number, Request::Send { from: path.clone(), to: to.to_vec(), existing, mode, seen }));
        Ok(())
    }

    fn receive(&mut self, number: u64, from: &[u8], receive: Receive) -> Result<(), Error> {
        if self.is_lost() {
            return Err(lost());
        }
        let receive = Box::new(receive);
        self.requests.push((number, Request::Receive { from: from.to_vec(), receive }));
        Ok(())
    }

    fn write(&mut self, number: u64, write: WriteFiles) {
        self.requests.push((number, Request::Write(write)));
    }

    fn cancel(&mut self, batches: &[u64]) {
        self.cancelled.extend(batches);
        self.life = 0;
    }

    fn moving(&self) -> u64 {
        0
    }

    fn ready(&mut self) -> Option<Event> {
        if self.slow {
            return None;
        }
        if self.random.coin() {
            self.step();
        }
        if self.random.coin() { self.answer() } else { None }
    }

    fn next_within(&mut self, most: Duration) -> Option<Event> {
        let until = self.now.saturating_add(most);
        loop {
            assert!(
                !self.requests.is_empty() || !self.answers.is_empty() || most < Duration::MAX,
                "it waits for nothing"
            );
            if self.random.coin()
                && let Some(answer) = self.answer()
            {
                return Some(answer);
            }
            self.step();
            if self.requests.is_empty() && self.answers.is_empty() {
                self.now = until;
            }
            if self.now >= until {
                return None;
            }
        }
    }
}
