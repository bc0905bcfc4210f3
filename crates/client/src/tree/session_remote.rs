//! The [`Remote`] of a tree copy over a real session.

use super::endpoints::{Local, NotBegun, Receive, Remote, WriteFiles};
use super::events::{Event, Events};
use super::in_flight::BATCHES_MAX;
use crate::callback::Callback;
use crate::endpoints::{Payload, Target};
use crate::options::PutOptions;
use crate::session::Session;
use crate::transfer::{PumpSender, Transfer};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use xdfs_engine::blocking::Blocking;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::payload::PayloadPool;
use xdfs_engine::schedule::QuotaClass;
use xdfs_io::store::StageRequest;
use xdfs_proto::base::{Error, RelPath};
use xdfs_proto::session::CallService;

/// Where its clock begins: a copy compares times of one session with those of the next.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One run of a copy over one session.
pub(super) struct SessionRemote<'s> {
    session: &'s Session,
    store: Arc<dyn Local>,
    /// The threads that write small files; an upload has none.
    writers: Option<Blocking>,
    events: Events,
    /// Transfers in progress by their numbers.
    transfers: BTreeMap<u64, Transfer>,
    /// Batches in progress by theirs: the ticket and the way to their pipeline.
    batches: BTreeMap<u64, (u64, PumpSender)>,
    /// Memory of batches.
    payloads: PayloadPool,
}

impl<'s> SessionRemote<'s> {
    pub(super) fn new(session: &'s Session, store: Arc<dyn Local>, writers: Option<Blocking>) -> Self {
        let (transfers, batches) = (BTreeMap::new(), BTreeMap::new());
        Self {
            session,
            store,
            writers,
            events: Events::new(),
            transfers,
            batches,
            payloads: PayloadPool::new(BATCHES_MAX),
        }
    }

    fn callback<T: Send + 'static>(
        &self,
        event: impl FnOnce(Result<T, Error>) -> Event + Send + 'static,
    ) -> Callback<T> {
        let events = self.events.sender();
        Callback::new(move |outcome| drop(events.try_send(event(outcome))))
    }

    fn seen(&mut self, event: Option<Event>) -> Option<Event> {
        match &event {
            Some(Event::Report(number, _)) => drop(self.transfers.remove(number)),
            Some(Event::Reply(number, _)) => drop(self.batches.remove(number)),
            // Writes to the local disk are no business of the session.
            Some(Event::Placed(..)) | None => {}
        }
        event
    }
}

impl Remote for SessionRemote<'_> {
    fn batch_bytes_max(&self) -> usize {
        self.session.batch_bytes_max()
    }

    fn now(&self) -> Duration {
        START.elapsed()
    }

    fn memory(&self) -> Vec<u8> {
        let bytes = self.batch_bytes_max();
        let mut memory = self.payloads.any_memory(bytes);
        memory.reserve(bytes);
        memory
    }

    fn call(&mut self, number: u64, payload: Vec<u8>, room: usize) -> Result<(), Error> {
        let answer = self.callback(move |reply| Event::Reply(number, reply));
        let payload = self.payloads.payload(payload);
        let way = self.session.send_calls(CallService::Path, payload, room, answer)?;
        self.batches.insert(number, way);
        Ok(())
    }

    fn send(&mut self, number: u64, path: &RelPath, to: &[u8], options: &PutOptions) -> Result<(), NotBegun> {
        let opened = self.store.open(path).and_then(|source| Payload::source(source, 0, None));
        let payload = opened.map_err(NotBegun::Unreadable)?;
        let answer = self.callback(move |report| Event::Report(number, report));
        let transfer = self.session.upload(payload, to, options, answer).map_err(NotBegun::Lost)?;
        self.transfers.insert(number, transfer);
        Ok(())
    }

    fn receive(&mut self, number: u64, from: &[u8], receive: Receive) -> Result<(), Error> {
        let Receive { target, existing, holes, clear, options } = receive;
        let (looked, store, at) = (Arc::clone(&self.store), Arc::clone(&self.store), target.clone());
        let target = Target::resumable(
            move |transfer| looked.kept(&at, transfer),
            move |staging| {
                // The server has opened the file.
                clear()?;
                let (size, transfer, resume) = (staging.size, staging.transfer, staging.resume);
                store.stage(&StageRequest { target, size, existing, transfer, resume, base: None, holes })
            },
        );
        let answer = self.callback(move |report| Event::Report(number, report));
        let transfer = self.session.download(from, target, &options, answer)?;
        self.transfers.insert(number, transfer);
        Ok(())
    }

    fn write(&mut self, number: u64, write: WriteFiles) {
        let answer = self.callback(move |outcomes| Event::Placed(number, outcomes));
        // A task that is not accepted drops its answer, which reports that.
        if let Some(writers) = &self.writers {
            let _ = writers.submit(&QuotaClass::default(), move || answer.complete(Ok(write())));
        }
    }

    fn cancel(&mut self, batches: &[u64]) {
        self.transfers.values().for_each(Transfer::cancel);
        for (ticket, post) in batches.iter().filter_map(|number| self.batches.get(number)) {
            // A session that is lost executes nothing more.
            let _ = post.send(Message::Command(Command::Cancel { ticket: *ticket }));
        }
    }

    fn moving(&self) -> u64 {
        self.transfers.values().map(Transfer::moved).sum()
    }

    fn ready(&mut self) -> Option<Event> {
        let event = self.events.ready();
        self.seen(event)
    }

    fn next_within(&mut self, most: Duration) -> Option<Event> {
        let event = self.events.next_within(most);
        self.seen(event)
    }
}
