//! Channels 2..n: a temporary thread connects and authenticates them and hands them to their
//! pipelines. Data moves on the channels that are up; nothing waits for the last one.
//!
//! A server may grant channels at any time: a few grants are worked on at a time, some wait, and what
//! nobody asked for is ignored, as is a number that was granted before.

use crate::call_queue::Queue;
use crate::connect::layered;
use crate::transfer::PumpSender;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::opening::{ClientJoining, OpeningStep};
use xdfs_engine::pipeline::PipelineChannel;
use xdfs_engine::record::RecordLayer;
use xdfs_io::dispatch::{Body, Completion, Dispatch, Dispatcher, Op, SocketId};
use xdfs_io::stack::Over;
use xdfs_io::transport::{self, Address, Link, TransportOptions};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, PipelineId, SessionId};
use xdfs_proto::session::SessionLimits;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::Join;
use xdfs_secure::keys::{ChannelKeys, GrantSecret, JoinSecret, Role};
use xdfs_secure::random;
use xdfs_secure::record::Limits;

/// Connections that are opened concurrently: enough to fill a long path, few enough for any
/// backlog.
const AT_A_TIME: usize = 128;

/// Grants that are worked on at a time: one whose channels never connect does not hold up the next.
const THREADS_MAX: usize = 4;

/// Grants that wait for that: more than a client asks for, one for each pipeline that lost a channel.
const WAITING_MAX: usize = 16;

/// The grants of a session.
#[derive(Default)]
struct Grants {
    /// Threads that work on one.
    threads: usize,
    waiting: VecDeque<ChannelGrant>,
    /// Channels that were asked for and not granted yet.
    asked: u16,
    /// Numbers that were granted: each is used once in a session's life.
    used: BTreeSet<u16>,
}

impl Grants {
    /// For a session that has been granted so many channels. The first one is up: one of a single channel waits for none.
    fn new(channels: u16) -> Self {
        Self { asked: if channels > 1 { channels } else { 0 }, ..Self::default() }
    }

    /// Takes what was asked for of a grant: returns it if it needs a thread, nothing if it waits, and
    /// an error if there is too much of it.
    fn add(&mut self, mut grant: ChannelGrant) -> Result<Option<ChannelGrant>, Error> {
        let is_busy = self.threads >= THREADS_MAX;
        if is_busy && self.waiting.len() >= WAITING_MAX {
            let text = "the server grants channels faster than they can join; some were left out";
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        grant.count = grant.count.min(self.asked);
        let numbers = grant.first..grant.first.saturating_add(grant.count);
        if numbers.is_empty() || numbers.clone().any(|number| self.used.contains(&number)) {
            let text = "the server grants channels that nobody asked for; they were left out";
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        self.asked -= grant.count;
        self.used.extend(numbers);
        if !is_busy {
            self.threads += 1;
            return Ok(Some(grant));
        }
        self.waiting.push_back(grant);
        Ok(None)
    }

    /// A thread has done its work: the next grant for it, or its end.
    fn next(&mut self) -> Option<ChannelGrant> {
        let next = self.waiting.pop_front();
        self.threads -= usize::from(next.is_none());
        next
    }
}

/// The address of a session's channels, and the proof that they belong to it.
pub(crate) struct Access {
    pub address: Address,
    pub transport: TransportOptions,
    pub stack: Option<Arc<dyn Over>>,
    pub session: SessionId,
    pub secret: JoinSecret,
    pub key_limits: Limits,
    pub deadline: Duration,
}

/// Connects channels 2..n and hands each to its pipeline as soon as it is up.
pub(crate) struct Joiner {
    access: Access,
    /// The mailboxes of the pipelines.
    pub posts: Vec<PumpSender>,
    /// Calls in flight: a pipeline takes part in them from its first channel on.
    pub calls: Queue,
    pub joined: AtomicUsize,
    pub stopped: AtomicBool,
    /// Why the last channel that failed did.
    pub failure: Mutex<Option<Error>>,
    grants: Mutex<Grants>,
}

/// How far a channel has come.
enum ChannelStep {
    /// It is being connected: what is sent then, and how much is read behind that.
    Connecting { send: Vec<u8>, want: usize },
    /// The first message is on its way, behind which so much is read.
    Sending { want: usize },
    /// The server's answers are read.
    Reading,
}

/// A channel that is being connected.
struct PendingChannel {
    channel: ChannelId,
    joining: ClientJoining,
    step: ChannelStep,
    records: RecordLayer,
}

impl Joiner {
    /// Channel 1 is up; the others go to these mailboxes.
    pub(crate) fn new(access: Access, posts: Vec<PumpSender>, limits: &SessionLimits) -> Self {
        let (joined, stopped, failure) = (AtomicUsize::new(1), AtomicBool::new(false), Mutex::new(None));
        let calls = Queue::new(posts.len() as u8, limits.calls_room);
        let grants = Mutex::new(Grants::new(limits.channels));
        Self { access, posts, calls, joined, stopped, failure, grants }
    }

    /// Asks for a channel in place of a lost one.
    pub(crate) fn want_another(&self) {
        let mut grants = self.grants();
        grants.asked = grants.asked.saturating_add(1);
        drop(grants);
        self.tell(Message::Command(Command::WantChannels(1)));
    }

    /// Sends a message to the first pipeline, without waiting: this may run on that pipeline's own
    /// thread.
    pub(crate) fn tell(&self, mail: Message<Link>) {
        if let Some(post) = self.posts.first() {
            let _ = post.try_send(mail);
        }
    }

    /// One pipeline has failed: the session is over for the others too (P-42).
    pub(crate) fn tell_others(&self, failed: PipelineId, error: &Error) {
        for (index, post) in self.posts.iter().enumerate() {
            if index != usize::from(failed.0) {
                let _ = post.send(Message::Command(Command::Abandon(error.clone())));
            }
        }
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the channels of a grant on a separate thread.
    pub(crate) fn start(joiner: &Arc<Self>, grant: ChannelGrant) {
        let added = joiner.grants().add(grant);
        let mut next = match added {
            Ok(grant @ Some(_)) => grant,
            Ok(None) => return,
            Err(error) => return joiner.failed(error),
        };
        let worker = Arc::clone(joiner);
        let spawned = thread::Builder::new().name("xdfs-joining".into()).spawn(move || {
            while let Some(grant) = next {
                if let Err(error) = worker.join_all(&grant) {
                    worker.failed(error);
                }
                next = worker.grants().next();
            }
        });
        if let Err(error) = spawned {
            joiner.grants().threads -= 1;
            joiner.failed(Error::new(ErrorKind::Resources, format!("cannot start a thread: {error}")));
        }
    }

    fn failed(&self, error: Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn join_all(&self, grant: &ChannelGrant) -> Result<(), Error> {
        let resources = |error: std::io::Error| Error::new(ErrorKind::Resources, format!("cannot join: {error}"));
        let mut dispatch = Dispatcher::new().map_err(resources)?;
        let mut left = (grant.first..grant.first + grant.count).filter(|channel| *channel > 1);
        let mut coming: BTreeMap<SocketId, PendingChannel> = BTreeMap::new();
        let until = dispatch.now().after(self.access.deadline);
        loop {
            while coming.len() < AT_A_TIME && !self.stopped.load(Ordering::Relaxed) {
                let Some(channel) = left.next() else { break };
                let (link, one) = self.begin(ChannelId(channel), grant)?;
                let socket = dispatch.attach(link, &[]).map_err(resources)?;
                dispatch.submit(Op::Connect { socket });
                coming.insert(socket, one);
            }
            if coming.is_empty() || self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            match dispatch.next(Some(until)).map_err(resources)? {
                Completion::Deadline => {
                    let text = format!("{} channel(s) did not join in time", coming.len());
                    return Err(Error::new(ErrorKind::TimedOut, text));
                }
                completion => self.advance(&mut dispatch, &mut coming, completion),
            }
        }
    }

    fn begin(&self, channel: ChannelId, grant: &ChannelGrant) -> Result<(Link, PendingChannel), Error> {
        let Access { address, transport, stack, session, secret, key_limits, .. } = &self.access;
        let keys = ChannelKeys::derive(secret, &GrantSecret::new(&grant.secret), *session, channel)?;
        let keys = keys.for_role(Role::Client);
        let join = Join { session: *session, channel, nonce: random::array()?, mac: [0; 32] };
        let (joining, step) = ClientJoining::start(join, keys.join);
        let OpeningStep::Go { send, want } = step else {
            return Err(Error::internal("a channel has joined that has sent nothing"));
        };
        let link = transport::connect(address, transport)
            .map_err(|error| Error::new(ErrorKind::ConnectionLost, error.to_string()))?;
        let link = layered(link, stack.as_deref())?;
        let records = RecordLayer::new(keys.seal, keys.open, *key_limits)?;
        Ok((link, PendingChannel { channel, joining, step: ChannelStep::Connecting { send, want }, records }))
    }

    fn advance(
        &self,
        dispatch: &mut Dispatcher,
        coming: &mut BTreeMap<SocketId, PendingChannel>,
        completion: Completion<Link>,
    ) {
        match completion {
            Completion::Connected { socket } => {
                if let Some(one) = coming.get_mut(&socket)
                    && let ChannelStep::Connecting { send, want } = &mut one.step
                {
                    let (send, want) = (std::mem::take(send), *want);
                    one.step = ChannelStep::Sending { want };
                    dispatch.submit(Op::Send { socket, head: None, body: Body::Bytes(send) });
                }
            }
            Completion::Sent { socket, .. } => {
                if let Some(one) = coming.get_mut(&socket)
                    && let ChannelStep::Sending { want } = one.step
                {
                    one.step = ChannelStep::Reading;
                    dispatch.submit(Op::Small { socket, length: want });
                }
            }
            Completion::Small { socket, bytes } => {
                let Some(one) = coming.get_mut(&socket) else { return };
                match one.joining.on_bytes(&bytes) {
                    Ok(OpeningStep::Go { want, .. }) => dispatch.submit(Op::Small { socket, length: want }),
                    Ok(OpeningStep::Done(())) => self.hand_over(dispatch, coming, socket),
                    Err(error) => {
                        self.failed(error);
                        coming.remove(&socket);
                        dispatch.detach(socket, &mut Vec::new());
                    }
                }
            }
            Completion::Ended { socket, cause, .. } => {
                let failure = dispatch.failure(socket);
                let text = match cause {
                    xdfs_io::dispatch::End::Failed(errno) => {
                        failure.unwrap_or_else(|| std::io::Error::from_raw_os_error(errno).to_string())
                    }
                    _ => "the server closed the connection".into(),
                };
                self.failed(Error::new(ErrorKind::ConnectionLost, text));
                coming.remove(&socket);
                dispatch.detach(socket, &mut Vec::new());
            }
            _ => {}
        }
    }

    fn hand_over(&self, dispatch: &mut Dispatcher, coming: &mut BTreeMap<SocketId, PendingChannel>, socket: SocketId) {
        let Some(one) = coming.remove(&socket) else { return };
        let detached = dispatch.detach(socket, &mut Vec::new());
        let pipeline = usize::from(one.channel.0.saturating_sub(1)) % self.posts.len().max(1);
        let channel = PipelineChannel {
            channel: one.channel,
            link: detached.link,
            unread: detached.unread,
            records: one.records,
            known: false,
            farewell: None,
        };
        // A pipeline that has ended needs no more channels.
        if self.posts[pipeline].send(Message::Attach(Box::new(channel))).is_ok() {
            // After the message, so that a caller that waits for it cannot close the session before
            // it.
            self.joined.fetch_add(1, Ordering::Relaxed);
            self.calls.opened(pipeline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_server_that_grants_without_end_gets_few_threads_and_a_bounded_queue(
            steps in proptest::collection::vec(any::<bool>(), 0..400),
        ) {
            let mut grants = Grants::new(400);
            let (mut threads, mut taken, mut begun) = (0_usize, 0_u16, 0);
            for granted in steps {
                if granted {
                    let grant = ChannelGrant { first: taken, count: 1, secret: [0; 32], life_ms: 0 };
                    match grants.add(grant) {
                        Ok(Some(_)) => (threads, taken, begun) = (threads + 1, taken + 1, begun + 1),
                        Ok(None) => taken += 1,
                        Err(error) => prop_assert_eq!(error.kind, ErrorKind::LimitExceeded),
                    }
                } else if threads > 0 {
                    match grants.next() {
                        // In their order, none twice.
                        Some(next) => {
                            prop_assert_eq!(next.first, begun);
                            begun += 1;
                        }
                        None => threads -= 1,
                    }
                }
                prop_assert_eq!(threads, grants.threads);
                prop_assert!(threads <= THREADS_MAX && grants.waiting.len() <= WAITING_MAX);
                prop_assert!(threads > 0 || grants.waiting.is_empty(), "nothing waits for nobody");
            }
        }
    }

    #[test]
    fn of_what_nobody_asked_for_nothing_joins_and_no_number_joins_twice() {
        let grant = |first, count| ChannelGrant { first, count, secret: [0; 32], life_ms: 0 };
        let mut grants = Grants::new(4);
        let taken = |outcome: Result<Option<ChannelGrant>, Error>| match outcome {
            Ok(grant) => grant.map(|grant| (grant.first, grant.count)),
            Err(error) => Some((0, u16::from(error.kind == ErrorKind::Protocol))),
        };
        assert_eq!(taken(grants.add(grant(1, 4096))), Some((1, 4)), "numbers that may be used, and four are");
        assert_eq!(taken(grants.add(grant(5, 1))), Some((0, 1)), "nobody asked for it");
        grants.asked = 3;
        assert_eq!(taken(grants.add(grant(4, 1))), Some((0, 1)), "it was granted before");
        assert_eq!(taken(grants.add(grant(9, 1))), Some((9, 1)));
        assert_eq!(taken(grants.add(grant(u16::MAX, 9))), Some((0, 1)), "there is no such number");
        assert_eq!(taken(grants.add(grant(5, 9))), Some((5, 2)));
        assert_eq!(taken(Grants::new(1).add(grant(2, 1))), Some((0, 1)), "a session of one channel has it");
    }
}
