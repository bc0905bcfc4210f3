//! `xdfs cat`: a download to standard output; or a range of a remote file, and what is appended to it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::{Done, NameError, Sessions, trouble, wire_name};
use crate::cmd::pipe::{Connected, Cut};
use crate::exit::{Exit, Failure, Side, is_of_peer};
use crate::output::reader_is_gone;
use crate::url::Url;
use xdfs_client::file::{File, OpenOptions, PipeSide, Remote};
use xdfs_client::watch::{Changes, Watch, Watched};
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{ErrorKind, GetOptions, Session, Target, Transfer, when_permitted};
use xdfs_io::store::Stage;

pub(super) fn run(session: &Session, url: &Url) -> Done {
    let began = Arc::new(AtomicBool::new(false));
    let written = when_permitted(|| {
        let begins = Arc::clone(&began);
        let target = Target::stage(move |_, _| {
            begins.store(true, Ordering::Release);
            Stage::standard_output()
        });
        let outcome = session.get(wire_name(url), target, &GetOptions::default()).and_then(Transfer::wait);
        // What was written cannot be taken back: from there on it is not begun anew.
        if began.load(Ordering::Acquire) { Ok(outcome) } else { outcome.map(Ok) }
    });
    let Err(error) = written.and_then(|outcome| outcome) else { return Ok(()) };
    if !began.load(Ordering::Acquire) {
        return Err(trouble(url, &error));
    }
    // The reader needs no more, neither of this file nor of the following ones.
    if reader_is_gone() {
        return Err(NameError::Output(Failure::new(Exit::Done, "")));
    }
    if is_of_peer(error.kind) || matches!(error.kind, ErrorKind::SourceChanged | ErrorKind::OutOfRange) {
        return Err(trouble(url, &error));
    }
    let message = format!("cannot write to standard output: {error}");
    Err(NameError::Output(Failure::new(Exit::of_error(&error, Side::Here), message)))
}

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 2 << 20;

/// How often a file that is followed is looked at, where the server does not tell of changes; and whether
/// there still is a reader.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

/// The same where it does: some changes are told by nobody, those that another machine made among them.
const WATCHED_PAUSE: Duration = Duration::from_secs(30);

/// What of a file is written.
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: Option<u64>,
    /// Wait at its end for more.
    pub(super) follow: bool,
}

/// Writes a part of a file, which may grow meanwhile.
pub(super) fn in_place(sessions: &Sessions, url: &Url, part: &Part) -> Done {
    let (session, _tunnel) = sessions.own(url).map_err(|(failure, kind)| NameError::Told(failure, kind))?;
    let remote = Remote::over(session);
    let told = |error| trouble(url, &error);
    let file = File::open(&remote, wire_name(url), &OpenOptions::new().read(true)).map_err(told)?;
    let mut growth = part.follow.then(|| Growth::of(&remote, url));
    let (mut offset, mut left) = (part.offset, part.length.unwrap_or(u64::MAX));
    let mut buffer = vec![0; PIECE_BYTES];
    let mut output = std::io::stdout().lock();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let read = file.read_at(&mut buffer[..most], offset).map_err(told)?;
        output
            .write_all(&buffer[..read])
            .and_then(|()| output.flush())
            .map_err(|error| Failure::from_output(&error))?;
        (offset, left) = (offset + read as u64, left - read as u64);
        if read == most {
            continue;
        }
        match &mut growth {
            Some(growth) if !reader_is_gone() => growth.wait(&remote, url),
            _ => break,
        }
    }
    drop(growth);
    file.close().map_err(told)?;
    // What was to be read was read: how the session ends makes no difference.
    let _ = remote.close();
    Ok(())
}

/// Writes what comes out of a FIFO; none if it is something else.
pub(super) fn pipe(sessions: &mut Sessions, url: &Url) -> Option<Done> {
    // To try anything else would be refused, or logged by the server, for want of a right to pipes.
    let (session, _) = sessions.with(url).ok()?;
    session.look(wire_name(url), Wanted::default()).ok().filter(|found| found.kind == FileType::Fifo)?;
    let passed = match Connected::open(sessions, url, PipeSide::Read) {
        Err(Cut::Peer(error)) if error.kind == ErrorKind::NotRegular => return None,
        connected => connected.and_then(|pipe| pipe.drain(&|| false)),
    };
    Some(match passed {
        Ok(_) | Err(Cut::Stopped) => Ok(()),
        Err(Cut::Session(failure, kind)) => Err(NameError::Told(failure, kind)),
        Err(Cut::Peer(error)) => Err(trouble(url, &error)),
        Err(Cut::Here(error)) => Err(Failure::from_output(&error).into()),
    })
}

/// Tells when a file may have grown.
struct Growth {
    watch: Option<Watch>,
    changed: Receiver<()>,
    // The wait for a change is a timeout where nobody else can send one.
    sender: SyncSender<()>,
}

impl Growth {
    fn of(remote: &Remote, url: &Url) -> Self {
        let (sender, changed) = sync_channel(1);
        let mut growth = Self { watch: None, changed, sender };
        growth.watch(remote, url);
        growth
    }

    /// A server that cannot tell of changes is asked again and again instead.
    fn watch(&mut self, remote: &Remote, url: &Url) {
        let sender = self.sender.clone();
        let told = move |_: Changes, _: &[u8]| {
            let _ = sender.try_send(());
        };
        self.watch = remote.watch(wire_name(url), Watched::Name, told).ok();
    }

    /// Waits until the file should be looked at, or nobody reads the output any more.
    fn wait(&mut self, remote: &Remote, url: &Url) {
        let until = Instant::now() + if self.watch.is_some() { WATCHED_PAUSE } else { FOLLOW_PAUSE };
        while self.changed.recv_timeout(FOLLOW_PAUSE).is_err() && Instant::now() < until {
            if reader_is_gone() {
                return;
            }
        }
        if self.watch.as_ref().is_some_and(Watch::is_over) {
            self.watch(remote, url);
        }
    }
}
