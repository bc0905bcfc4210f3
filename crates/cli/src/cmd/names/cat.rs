//! `xdfs cat`: a download to standard output; or a range of a remote file, and what is appended to it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::{Done, NameError, Sessions, trouble, wire_name};
use crate::cmd::pipe::{Connected, Cut};
use crate::exit::{Exit, Failure, Side, is_of_peer};
use crate::output::reader_is_gone;
use crate::url::Url;
use xdfs_client::file::{File, OpenOptions, PipeSide, Remote};
use xdfs_client::{ErrorKind, GetOptions, Session, Target, Transfer};
use xdfs_io::store::Stage;

pub(super) fn run(session: &Session, url: &Url) -> Done {
    let began = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&began);
    let target = Target::stage(move |_, _| {
        begins.store(true, Ordering::Release);
        Stage::standard_output()
    });
    let transfer = session.get(wire_name(url), target, &GetOptions::default());
    let Err(error) = transfer.and_then(Transfer::wait) else { return Ok(()) };
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

/// How often a file that is followed is looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

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
        if !part.follow || reader_is_gone() {
            break;
        }
        pause();
    }
    file.close().map_err(told)?;
    // What was to be read was read: how the session ends makes no difference.
    let _ = remote.close();
    Ok(())
}

/// Writes what comes out of a FIFO; none if it is something else.
pub(super) fn pipe(sessions: &Sessions, url: &Url) -> Option<Done> {
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

fn pause() {
    // A channel that nobody sends on: the wait is its timeout.
    let (_sender, receiver) = sync_channel::<()>(0);
    let _ = receiver.recv_timeout(FOLLOW_PAUSE);
}
