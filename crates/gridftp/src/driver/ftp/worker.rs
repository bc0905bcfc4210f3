//! The thread of an element: it has the session, and does what the element asks for.

use super::cache::{Key, SETTLING};
use super::certified::Certified;
use super::shared::{Intent, Phase, Shared, State};
use super::target::{Account, Name, Target};
use super::{Access, Transport, cache};
use crate::client::{Client, Error as FtpError, Part, Security, Session, Settings, Take, Waiting};
use crate::control::ControlError;
use crate::mode_e::BlockError;
use crate::ranges::Range;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread;
use xdfs_secure::handshake::tls::byte_stream::StreamError;
use xdfs_xio::{Error, ErrorKind, Result};

use super::queue::Queue;

/// What came of something in a session.
type FtpResult<T> = std::result::Result<T, FtpError>;

/// Most elements at a time; each has a thread.
const ELEMENTS_MAX: usize = 256;

/// Elements whose threads have not ended.
static ELEMENTS: AtomicUsize = AtomicUsize::new(0);

/// Counts an element while its thread runs.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        ELEMENTS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts the thread of an element. Returns whose session it has.
pub(super) fn start(target: Target, transport: Transport, shared: Arc<Shared>) -> Result<Arc<Key>> {
    let before = ELEMENTS.fetch_add(1, Ordering::AcqRel);
    let counted = Counted;
    if before >= ELEMENTS_MAX {
        let what = format!("{ELEMENTS_MAX} files of FTP servers are open: close some first");
        return Err(Error::new(ErrorKind::TooMany, what));
    }
    let Target { account, name, shown } = target;
    let key = Arc::new(Key { account, silence: transport.silence });
    let worker = Worker { key: Arc::clone(&key), name, shown, transport, shared, session: SessionState::Closed };
    let run = move || {
        let _counted = counted;
        worker.run();
    };
    thread::Builder::new().name("xio-ftp".to_owned()).spawn(run)?;
    Ok(key)
}

/// What the thread of an element has.
struct Worker {
    /// Whose session it is.
    key: Arc<Key>,
    /// What the URL calls the file.
    name: Name,
    /// The contact for messages.
    shown: String,
    /// How bytes are moved.
    transport: Transport,
    /// What the element sees too.
    shared: Arc<Shared>,
    /// Its session.
    session: SessionState,
}

/// The session of an element.
enum SessionState {
    /// There is none.
    Closed,
    /// The server has just answered in it.
    Fresh(Session),
    /// Nothing was asked in it for a while: the server may have ended it.
    Idle(Session),
}

impl SessionState {
    /// Something is asked in it again.
    fn on_job(&mut self) {
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Closed => Self::Closed,
            Self::Fresh(session) | Self::Idle(session) => Self::Idle(session),
        };
    }

    /// Something has failed in it: it is given up if it cannot go on. Returns whether it may have ended before.
    fn on_failed(&mut self) -> bool {
        let (mut session, was_idle) = match std::mem::replace(self, Self::Closed) {
            Self::Closed => return false,
            Self::Fresh(session) => (session, false),
            Self::Idle(session) => (session, true),
        };
        if session.client().is_ready() {
            *self = Self::Fresh(session);
            return false;
        }
        was_idle
    }
}

impl Worker {
    fn run(mut self) {
        let opened = self.retried(|worker| worker.look().map_err(|error| (error, false)));
        {
            let mut state = self.shared.lock();
            match opened {
                Ok((size, position)) => {
                    state.size = size;
                    state.position = position;
                    state.incoming = Queue::starting_at(position);
                    state.phase = Phase::Fresh;
                }
                Err(error) => state.on_failed(self.told(error), false),
            }
            self.shared.wake(&mut state);
        }
        while let Some(start) = self.next_job() {
            self.session.on_job();
            let outcome = self.retried(|worker| worker.transfer(start));
            let mut state = self.shared.lock();
            match outcome {
                Ok(()) => state.on_ended(),
                Err(error) => state.on_failed(self.told(error), self.reads()),
            }
            self.shared.wake(&mut state);
        }
        let intent = std::mem::replace(&mut self.shared.lock().intent, Intent::Abandon);
        // Who waits for the session to come back waits no longer than until it is kept.
        if let Intent::Close(_returning) = intent {
            match self.session {
                SessionState::Fresh(session) | SessionState::Idle(session) => cache::keep(&self.key, session),
                SessionState::Closed => {}
            }
        }
    }

    fn reads(&self) -> bool {
        matches!(self.transport.access, Access::Read { .. })
    }

    /// Waits until a transfer is asked for, and says where it begins; none when the element has gone.
    fn next_job(&self) -> Option<u64> {
        let mut state = self.shared.lock();
        loop {
            match state.phase {
                _ if state.intent.is_closed() => return None,
                Phase::Asked(start) => {
                    state.phase = Phase::Running;
                    return Some(start);
                }
                _ => state = self.shared.wait(state),
            }
        }
    }

    /// Does something in the session, and once more in a new one if the server has ended that before any
    /// byte was moved, which `call` says with its error.
    fn retried<T>(
        &mut self,
        mut call: impl FnMut(&mut Self) -> std::result::Result<T, (FtpError, bool)>,
    ) -> FtpResult<T> {
        loop {
            match call(self) {
                Ok(done) => return Ok(done),
                Err((error, moved)) => {
                    let is_stale = self.session.on_failed() && !moved;
                    let is_lost = matches!(error, FtpError::Lost(_) | FtpError::Control(ControlError::Closing(_)));
                    if !is_stale || !is_lost {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The session: the one that there is, or one that was kept, or a new one.
    fn session(&mut self) -> FtpResult<&mut Session> {
        if let SessionState::Closed = self.session {
            self.session = match cache::take(&self.key) {
                Some(session) => SessionState::Idle(session),
                None => SessionState::Fresh(connect(&self.key.account, self.waiting())?),
            };
        }
        let (SessionState::Fresh(session) | SessionState::Idle(session)) = &mut self.session else {
            // It was opened above.
            return Err(FtpError::Cancelled);
        };
        if let Some(window) = self.transport.window {
            session.client().use_window(window)?;
        }
        Ok(session)
    }

    fn waiting(&self) -> Waiting {
        Waiting { limit: self.transport.silence, stop: Arc::clone(&self.shared.stop) }
    }

    /// What the server calls the file.
    fn name(&mut self) -> FtpResult<Vec<u8>> {
        let name = self.name.clone();
        let session = self.session()?;
        Ok(match name {
            Name::Whole(name) => name,
            Name::BelowHome(name) => session.below_home(&name),
        })
    }

    /// The file's length, as far as that is needed and the server says it, and where the first byte that
    /// is moved belongs.
    fn look(&mut self) -> FtpResult<(Option<u64>, u64)> {
        let (access, name) = (self.transport.access, self.name()?);
        let client = self.session()?.client();
        match (access, client.size(&name)) {
            (Access::Read { offset, .. }, Ok(size)) => Ok((Some(size), offset)),
            // The server does not know the command.
            (Access::Read { offset, .. }, Err(FtpError::Refused { code: 500..=504, .. })) => Ok((None, offset)),
            (Access::Append, Ok(size)) => Ok((None, size)),
            (Access::Append, Err(FtpError::Refused { code: 550, .. })) => Ok((None, 0)),
            // The file need not be there.
            (Access::Write { offset }, Ok(_) | Err(FtpError::Refused { .. })) => Ok((None, offset)),
            (_, Err(error)) => Err(error),
        }
    }

    /// Moves bytes from this offset on. With an error goes whether some were moved.
    fn transfer(&mut self, start: u64) -> std::result::Result<(), (FtpError, bool)> {
        let name = self.name().map_err(|error| (error, false))?;
        let (transport, shared) = (self.transport, Arc::clone(&self.shared));
        let client = self.session().map_err(|error| (error, false))?.client();
        let (outcome, moved, is_enough) = match transport.access {
            Access::Read { end, .. } => {
                let size = shared.lock().size;
                let end_of_part = PartEnd::of(end, size, transport.streams);
                let mut sink = Incoming { shared: &shared, at: start, end: end_of_part };
                let outcome = match (size, transport.streams) {
                    (Some(length), Some(streams)) => {
                        let wanted = Range { start, end: end.map_or(length, |end| end.min(length)) };
                        client.download_part(&name, Part { wanted, length, streams }, &mut sink)
                    }
                    (Some(length), None) => {
                        let wanted = Range { start, end: length };
                        client.download(&name, wanted, &mut |offset, bytes| sink.take(offset, bytes))
                    }
                    (None, _) => {
                        let mut take = |offset: u64, bytes: &[u8]| sink.take(offset, bytes);
                        client.download_to_end(&name, start, &mut take).map(drop)
                    }
                };
                (outcome, sink.at > start, sink.is_enough())
            }
            Access::Write { .. } | Access::Append => {
                let mut source = Outgoing { shared: &shared, moved: false };
                let mut fill = |_: u64, into: &mut [u8]| source.fill(into);
                let outcome = match transport.streams {
                    Some(streams) => client.upload_parallel_from(&name, start, streams, &mut fill),
                    None => client.upload(&name, start, &mut fill),
                };
                let outcome = outcome.and_then(|end| check_place(client, &name, start, end));
                (outcome, source.moved, false)
            }
        };
        let Err(error) = outcome else { return Ok(()) };
        if let FtpError::Local(_) = error {
            // Broken off here: the session goes on if the server takes it so.
            let _ = client.settle(SETTLING);
        }
        if is_enough { Ok(()) } else { Err((error, moved)) }
    }

    /// An error for the element's user.
    fn told(&self, error: FtpError) -> io::Error {
        let kind = kind_of(&error);
        io::Error::new(kind, format!("{}: {error}", self.shown))
    }
}

/// A new session; every address of the server is tried.
fn connect(account: &Account, waiting: Waiting) -> FtpResult<Session> {
    let security = account.certified.as_ref().map_or(Security::Clear, Certified::security);
    let settings = Settings { waiting, security };
    let mut last = FtpError::Local(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for address in &account.addresses {
        match Session::open(*address, account.login.clone(), settings.clone()) {
            Err(error @ FtpError::Connect { .. }) => last = error,
            outcome => return outcome,
        }
    }
    Err(last)
}

fn kind_of(error: &FtpError) -> io::ErrorKind {
    match error {
        FtpError::Connect { error, .. } | FtpError::Local(error) => error.kind(),
        FtpError::Lost(_) | FtpError::Block(BlockError::Cut) | FtpError::Control(ControlError::Closing(_)) => {
            io::ErrorKind::ConnectionReset
        }
        FtpError::Refused { code: 550, verb: "SIZE" | "RETR", .. } => io::ErrorKind::NotFound,
        FtpError::Refused { .. } | FtpError::Control(ControlError::Login(_)) => io::ErrorKind::PermissionDenied,
        FtpError::Silent(_) => io::ErrorKind::TimedOut,
        FtpError::Control(ControlError::Name(_)) => io::ErrorKind::InvalidInput,
        FtpError::Tls(StreamError::Untrusted(_)) => io::ErrorKind::PermissionDenied,
        FtpError::Cancelled => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::InvalidData,
    }
}

/// Finds that a server has written what was for a place behind the file's end at its end, as pure-ftpd does.
fn check_place(client: &mut Client, name: &[u8], start: u64, end: u64) -> FtpResult<()> {
    if start == 0 {
        return Ok(());
    }
    match client.size(name) {
        Ok(size) if size < end => {
            let what = format!(
                "the server's file has {size} bytes, not {end}: it does not write behind a file's end; write in order"
            );
            Err(FtpError::Local(io::Error::new(io::ErrorKind::InvalidData, what)))
        }
        Ok(_) | Err(FtpError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What ends a transfer that the element gave up.
fn given_up() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// Where the part of a file ends that an element reads.
#[derive(Clone, Copy)]
enum PartEnd {
    /// Where the file does.
    File,
    /// Here; bytes behind it are left out.
    Cut(u64),
    /// Here; the transfer is broken off.
    BreakOff(u64),
}

impl PartEnd {
    /// Of a file of this size, if the server says it, on so many connections in Mode E.
    fn of(end: Option<u64>, size: Option<u64>, streams: Option<u16>) -> Self {
        match (end, size) {
            (None, _) => Self::File,
            (Some(end), Some(size)) if end >= size || streams.is_some() => Self::Cut(end),
            // In Mode S the server would go on to the file's end.
            (Some(end), _) => Self::BreakOff(end),
        }
    }
}

/// Takes what a download brings, as fast as the element's user reads it.
struct Incoming<'a> {
    shared: &'a Shared,
    /// The highest offset that came.
    at: u64,
    /// Where no more is taken.
    end: PartEnd,
}

impl Incoming<'_> {
    /// Whether the transfer is broken off: all that is wanted has come.
    fn is_enough(&self) -> bool {
        matches!(self.end, PartEnd::BreakOff(end) if self.at >= end)
    }

    /// Waits until there is room, while the transfer goes on.
    fn room(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.shared.lock();
        loop {
            if state.intent.is_closed() || matches!(state.intent, Intent::Seek) {
                return Err(given_up());
            }
            if !state.incoming.is_full() {
                return Ok(state);
            }
            state = self.shared.wait(state);
        }
    }
}

impl Take for Incoming<'_> {
    fn take(&mut self, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let left = match self.end {
            PartEnd::File => u64::MAX,
            PartEnd::Cut(end) | PartEnd::BreakOff(end) => end.saturating_sub(offset),
        };
        bytes = &bytes[..usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))];
        let mut piece = self.room()?.incoming.spare();
        piece.extend_from_slice(bytes);
        let mut state = self.shared.lock();
        // It may have been given up meanwhile.
        if matches!(state.intent, Intent::Seek) {
            return Err(given_up());
        }
        state.incoming.add(offset, piece);
        if !state.incoming.is_empty() {
            self.shared.wake_reader(&mut state);
        }
        self.at = self.at.max(offset + bytes.len() as u64);
        if self.is_enough() { Err(given_up()) } else { Ok(()) }
    }

    fn has_room_at(&self, offset: u64) -> bool {
        self.shared.lock().incoming.has_room_at(offset)
    }
}

/// Gives an upload what the element's user writes.
struct Outgoing<'a> {
    shared: &'a Shared,
    /// Whether it has given any.
    moved: bool,
}

impl Outgoing<'_> {
    fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.shared.lock();
        loop {
            match state.intent {
                Intent::Close(_) | Intent::Abandon => return Err(given_up()),
                _ if !state.outgoing.is_empty() => {
                    let count = io::Read::read(&mut state.outgoing, into)?;
                    self.moved = true;
                    self.shared.wake_writer(&mut state);
                    return Ok(count);
                }
                Intent::Seek | Intent::Finish => return Ok(0),
                Intent::Continue => state = self.shared.wait(state),
            }
        }
    }
}
