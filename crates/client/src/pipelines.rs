//! The pipelines of a session and their threads. A session of one channel has no thread before its
//! first operation: messages of its server can wait until then, and a session that is closed before
//! needs none at all.
//!
//! It must not choose what a session gets: that was granted when the channel was opened.

use crate::host::{ClientHost, Registry};
use crate::joining::{Access, Joiner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use xdfs_engine::blocking::Blocking;
use xdfs_engine::bounds;
use xdfs_engine::host::Ending;
use xdfs_engine::mailbox::{Command, Mailbox, MailboxSender, Message};
use xdfs_engine::pipeline::{Pipeline, PipelineChannel};
use xdfs_engine::pump::{DiskMode, Parts, Pump, Settings};
use xdfs_engine::schedule::QuotaClass;
use xdfs_io::dispatch::{Dispatch, Dispatcher};
use xdfs_io::transport::Link;
use xdfs_proto::base::{Error, ErrorKind, PipelineId};
use xdfs_proto::session::{Role, Session as Machine, SessionLimits};
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::request::Request;

/// A session that is open but not served by any thread yet.
pub(crate) struct Opened {
    /// The dispatcher of the opening, which the first pipeline continues to use.
    pub dispatch: Dispatcher,
    /// Channel 1.
    pub channel: PipelineChannel<Link>,
    pub limits: SessionLimits,
    pub disk: DiskMode,
    pub grant: ChannelGrant,
    pub access: Access,
}

/// The download that was requested while the session was opened: its ticket, its request and its
/// counter.
pub(crate) type FirstDownload = (u64, Request, Arc<AtomicU64>);

/// The pipelines of a session and their threads.
pub(crate) struct Pipelines {
    registry: Arc<Registry>,
    state: Mutex<PipelinesState>,
}

enum PipelinesState {
    Waiting(Box<Opened>),
    Served { joiner: Arc<Joiner>, threads: Vec<JoinHandle<()>> },
    Closed,
}

impl Pipelines {
    pub(crate) fn new(registry: Arc<Registry>, opened: Opened) -> Self {
        Self { registry, state: Mutex::new(PipelinesState::Waiting(Box::new(opened))) }
    }

    fn state(&self) -> MutexGuard<'_, PipelinesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The joiner of a session that is served; `None` before.
    pub(crate) fn joiner(&self) -> Option<Arc<Joiner>> {
        match &*self.state() {
            PipelinesState::Served { joiner, .. } => Some(Arc::clone(joiner)),
            PipelinesState::Waiting(_) | PipelinesState::Closed => None,
        }
    }

    /// The same; starts the threads if necessary.
    pub(crate) fn served(&self) -> Result<Arc<Joiner>, Error> {
        let mut state = self.state();
        if let PipelinesState::Waiting(_) = &*state {
            self.start_in(&mut state, None)?;
        }
        match &*state {
            PipelinesState::Served { joiner, .. } => Ok(Arc::clone(joiner)),
            PipelinesState::Waiting(_) | PipelinesState::Closed => Err(self.registry.why_ended()),
        }
    }

    /// Starts the threads of a session with other channels to join, or with a `first` operation.
    pub(crate) fn start(&self, first: Option<FirstDownload>) -> Result<(), Error> {
        self.start_in(&mut self.state(), first)
    }

    fn start_in(&self, state: &mut PipelinesState, first: Option<FirstDownload>) -> Result<(), Error> {
        let PipelinesState::Waiting(opened) = std::mem::replace(state, PipelinesState::Closed) else { return Ok(()) };
        let served = serve(&self.registry, *opened, first);
        let (joiner, threads) = served.inspect_err(|error| self.registry.has_failed(error.clone()))?;
        *state = PipelinesState::Served { joiner, threads };
        Ok(())
    }

    /// Closes the session in order; returns when it has ended.
    pub(crate) fn close(&self) {
        let state = std::mem::replace(&mut *self.state(), PipelinesState::Closed);
        match state {
            PipelinesState::Waiting(opened) => part(&self.registry, *opened),
            PipelinesState::Served { joiner, threads } => {
                joiner.stopped.store(true, Ordering::Relaxed);
                // The first pipeline coordinates every transfer, and the others are needed until it
                // has ended.
                for (post, thread) in joiner.posts.iter().zip(threads) {
                    let _ = post.send(Message::Command(Command::Close));
                    let _ = thread.join();
                }
            }
            PipelinesState::Closed => {}
        }
    }
}

impl Drop for Pipelines {
    /// A session that was not closed is abandoned: operations in flight fail at both ends.
    fn drop(&mut self) {
        if let PipelinesState::Served { joiner, .. } = &*self.state() {
            joiner.stopped.store(true, Ordering::Relaxed);
            for post in &joiner.posts {
                let error = Error::new(ErrorKind::Cancelled, "the session was dropped");
                let _ = post.try_send(Message::Command(Command::Abandon(error)));
            }
        }
    }
}

/// Starts one thread per pipeline, and one for the channels that are to join.
fn serve(
    registry: &Arc<Registry>,
    opened: Opened,
    mut first: Option<FirstDownload>,
) -> Result<(Arc<Joiner>, Vec<JoinHandle<()>>), Error> {
    let (mut dispatchers, mut posts, mut mailboxes) = (vec![opened.dispatch], Vec::new(), Vec::new());
    for _ in 1..opened.limits.pipelines {
        let cannot = |error| Error::new(ErrorKind::Resources, format!("cannot watch sockets: {error}"));
        dispatchers.push(Dispatcher::new().map_err(cannot)?);
    }
    for dispatch in &dispatchers {
        let (post, mailbox) = MailboxSender::new(bounds::MAILBOX, dispatch.waker());
        posts.push(post);
        mailboxes.push(mailbox);
    }
    let joiner = Arc::new(Joiner::new(opened.access, posts, &opened.limits));
    let blocking = Blocking::default();
    let mut channel = Some(opened.channel);
    let mut threads = Vec::new();
    for (index, (dispatch, mailbox)) in dispatchers.into_iter().zip(mailboxes).enumerate() {
        let id = PipelineId(index as u8);
        let mut session = Machine::new(Role::Client, id, opened.limits.clone());
        let mut host = ClientHost::new(registry, &joiner, &opened.limits);
        if let Some((ticket, request, moved)) = first.take() {
            let operation = session.open(false, request)?;
            session.opened_in_handshake(operation);
            host.operations.insert(operation, (ticket, moved));
            let _ = joiner.posts[index].send(Message::Command(Command::Opened { ticket, operation }));
        }
        let pipeline = Pipeline { session, channels: channel.take().into_iter().collect() };
        let parts = parts(dispatch, host, mailbox, id, blocking.clone(), opened.disk);
        let thread = thread::Builder::new().name(format!("xdfs-pipeline-{index}"));
        match thread.spawn(move || run(parts, pipeline)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let error = Error::new(ErrorKind::Resources, format!("cannot start a pipeline's thread: {error}"));
                joiner.tell_others(id, &error);
                return Err(error);
            }
        }
    }
    if opened.limits.channels > 1 {
        Joiner::start(&joiner, opened.grant);
    }
    Ok((joiner, threads))
}

/// Closes an unused session on the caller's thread: sends EOFT and waits for the server's.
fn part(registry: &Arc<Registry>, opened: Opened) {
    let (post, mailbox) = MailboxSender::new(1, opened.dispatch.waker());
    let joiner = Arc::new(Joiner::new(opened.access, vec![post], &opened.limits));
    joiner.stopped.store(true, Ordering::Relaxed);
    let id = PipelineId(0);
    let mut session = Machine::new(Role::Client, id, opened.limits.clone());
    session.close();
    let host = ClientHost::new(registry, &joiner, &opened.limits);
    let parts = parts(opened.dispatch, host, mailbox, id, Blocking::default(), opened.disk);
    run(parts, Pipeline { session, channels: vec![opened.channel] });
}

fn parts(
    dispatch: Dispatcher,
    host: ClientHost,
    mailbox: Mailbox<Link>,
    id: PipelineId,
    blocking: Blocking,
    disk: DiskMode,
) -> Parts<Dispatcher, ClientHost> {
    let own = usize::from(id.0);
    let post = host.joiner.posts[own].clone();
    let mut siblings: Vec<_> = host.joiner.posts.iter().cloned().map(Some).collect();
    siblings[own] = None;
    Parts {
        dispatch,
        host,
        mailbox,
        post,
        siblings,
        blocking,
        settings: Settings { pipeline: id, share: QuotaClass::default(), disk, retire: false },
    }
}

/// Serves a pipeline until it ends. A bug of ours ends the session without blocking a waiter.
fn run(parts: Parts<Dispatcher, ClientHost>, pipeline: Pipeline<Link>) {
    let (id, registry, others) =
        (parts.settings.pipeline, Arc::clone(&parts.host.registry), Arc::clone(&parts.host.joiner));
    let run = AssertUnwindSafe(|| Pump::new(parts, pipeline).map(Pump::run).map(|(ending, ..)| ending));
    let error = match catch_unwind(run) {
        Ok(Ok(Ending::Over(error))) => error,
        Ok(Ok(Ending::Idle(_))) => None,
        Ok(Err(error)) => Some(Error::new(ErrorKind::Resources, format!("cannot watch sockets: {error}"))),
        Err(_) => Some(Error::new(ErrorKind::Resources, "a pipeline of the session has failed")),
    };
    registry.pipeline_ended(&others.calls, id, error.as_ref());
    if let Some(error) = error {
        others.tell_others(id, &error);
    }
}
