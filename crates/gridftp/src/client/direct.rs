//! Third party: a file moves from one server to another in Mode E, and only the control channels are here.
//!
//! The target listens and says where; the source is sent there, and nowhere else. Neither is believed: the address must
//! be that of the target's own control channel, markers only say where to go on, and whoever calls compares the result.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::link::LOOK_EVERY;
use super::security::Channels;
use super::{Client, Error, WAITS_WITH_MARKERS, refused};
use crate::address::{may_be_sent_to, of_epsv, of_pasv};
use crate::command::{Command, Mode};
use crate::control::Event;
use crate::markers::Marker;
use crate::mode_e::STREAMS_MAX;
use crate::ranges::Ranges;
use crate::reply::Reply;

/// Most ranges that a restart leaves out: the line has a bound, and what is not named moves again.
const RESTART_RANGES_MAX: usize = 100;

/// Most parts of a server that report what they moved.
const STRIPES_MAX: usize = 256;

/// A file that is to move between two servers.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a> {
    /// Its name at the source.
    pub from: &'a [u8],
    /// Its name at the target.
    pub to: &'a [u8],
    /// Its length.
    pub length: u64,
    /// How many connections carry it.
    pub streams: u16,
}

/// Why a file did not move between two servers.
#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    /// They cannot reach one another, or not protect what moves in the same way. Nothing has moved.
    #[error("{0}")]
    Apart(String),
    /// At the source.
    #[error(transparent)]
    Source(Error),
    /// At the target.
    #[error(transparent)]
    Target(Error),
    /// The caller's watch failed.
    #[error("{0}")]
    Watch(io::Error),
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

impl Side {
    fn error(self, error: Error) -> DirectError {
        match self {
            Self::Source => DirectError::Source(error),
            Self::Target => DirectError::Target(error),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
        }
    }
}

/// What a transfer has said of itself.
struct Progress<'h> {
    /// What the target has stored, over all attempts.
    stored: &'h mut Ranges,
    /// What was stored before.
    before: u64,
    /// Bytes of this transfer by the parts of the target.
    moved: BTreeMap<u16, u64>,
    length: u64,
    /// Whether anything was said of progress.
    is_told: bool,
}

impl Progress<'_> {
    fn on_marker(&mut self, reply: &Reply) -> Result<(), Error> {
        let unusable = || Error::Answer { verb: "STOR", reply: reply.shown() };
        match Marker::of(reply).ok_or_else(unusable)? {
            Marker::Stored(ranges) => {
                for range in ranges {
                    let is_within = range.end <= self.length;
                    let added = is_within.then(|| self.stored.cover(range));
                    added.and_then(Result::ok).ok_or_else(unusable)?;
                }
                self.is_told = true;
            }
            Marker::Moved { stripe, bytes } => {
                let is_new = !self.moved.contains_key(&stripe);
                if is_new && self.moved.len() >= STRIPES_MAX {
                    return Err(unusable());
                }
                self.moved.insert(stripe, bytes);
                self.is_told = true;
            }
            Marker::Alive => {}
        }
        Ok(())
    }

    /// Bytes that are there, as far as anybody knows; never more than the file has.
    fn reached(&self) -> u64 {
        let moved = self.moved.values().fold(self.before, |sum, bytes| sum.saturating_add(*bytes));
        moved.max(self.stored.total()).min(self.length)
    }

    fn has_moved(&self) -> bool {
        self.reached() > self.before
    }
}

/// Moves a file from one server to another, all but what `stored` holds, and adds to that what the target says it has.
/// `watch` learns how many bytes are there.
///
/// # Errors
/// If the servers cannot reach one another, or one of them refuses or is lost: after anything but
/// [`DirectError::Apart`] with both ready, the sessions are of no more use.
pub fn copy(
    source: &mut Client,
    target: &mut Client,
    what: &Direct<'_>,
    stored: &mut Ranges,
    watch: &mut dyn FnMut(u64) -> io::Result<()>,
) -> Result<(), DirectError> {
    let (retr, stor) = (Command::Retr(what.from.to_vec()), Command::Stor(what.to.to_vec()));
    retr.encode().map_err(|error| DirectError::Source(error.into()))?;
    stor.encode().map_err(|error| DirectError::Target(error.into()))?;
    check_together(source, target)?;
    prepare(source, target, what, stored)?;
    target.begin(&stor).map_err(DirectError::Target)?;
    source.begin(&retr).map_err(DirectError::Source)?;
    let before = stored.total();
    let mut progress = Progress { stored, before, moved: BTreeMap::new(), length: what.length, is_told: false };
    let ended = watch_both((source, &retr), (target, &stor), &mut progress, watch);
    match ended {
        Err(DirectError::Source(error) | DirectError::Target(error)) if !progress.has_moved() && is_apart(&error) => {
            Err(DirectError::Apart(error.to_string()))
        }
        ended => ended,
    }
}

/// Whether two sessions may have a data channel between their servers.
fn check_together(source: &Client, target: &Client) -> Result<(), DirectError> {
    let apart = |text: &str| Err(DirectError::Apart(text.to_owned()));
    match (&source.channels, &target.channels) {
        (Channels::Clear, Channels::Clear) => {}
        (Channels::Gsi(one), Channels::Gsi(other)) if one.data == other.data => {}
        _ => return apart("they do not protect data in the same way"),
    }
    if !may_be_sent_to(source.peer.ip(), target.peer.ip()) {
        return apart(&format!("the target's address {} means another machine at the source", target.peer.ip()));
    }
    Ok(())
}

/// Lets the target listen, sends the source there, and leaves out what is there already.
fn prepare(
    source: &mut Client,
    target: &mut Client,
    what: &Direct<'_>,
    stored: &mut Ranges,
) -> Result<(), DirectError> {
    let told = |side: Side| {
        move |error: Error| match error {
            Error::Refused { .. } => DirectError::Apart(format!("the {}: {error}", side.name())),
            error => side.error(error),
        }
    };
    target.use_mode(Mode::Extended).map_err(told(Side::Target))?;
    source.use_mode(Mode::Extended).map_err(told(Side::Source))?;
    let streams = what.streams.clamp(1, STREAMS_MAX);
    source.ask(&Command::Parallelism(streams)).map_err(told(Side::Source))?;
    let address = target.listening().map_err(told(Side::Target))?;
    source.ask(&Command::Port(address)).map_err(told(Side::Source))?;
    let mut unwanted = stored.list();
    unwanted.truncate(RESTART_RANGES_MAX);
    if !unwanted.is_empty() {
        let restart = Command::RestRanges(unwanted);
        // What one of them leaves out the other must leave out, too.
        source.ask(&restart).map_err(|error| DirectError::Source(unrestarted(error, stored)))?;
        target.ask(&restart).map_err(|error| DirectError::Target(unrestarted(error, stored)))?;
    }
    Ok(())
}

/// A server that cannot go on begins again the next time.
fn unrestarted(error: Error, stored: &mut Ranges) -> Error {
    *stored = Ranges::default();
    match error {
        Error::Refused { reply, .. } => Error::Lost(io::Error::other(format!("no restart: {reply}"))),
        error => error,
    }
}

/// Whether servers say that they did not find one another.
fn is_apart(error: &Error) -> bool {
    match error {
        Error::Refused { code: 425, .. } | Error::Silent(_) => true,
        Error::Refused { reply, .. } => {
            let text = reply.to_ascii_lowercase();
            ["unable to connect", "system error in connect", "illegal port"].iter().any(|words| text.contains(words))
        }
        _ => false,
    }
}

/// A session and the command whose replies are waited for.
type End<'e> = (&'e mut Client, &'e Command);

/// Waits for both servers' last words.
fn watch_both(
    (source, retr): End<'_>,
    (target, stor): End<'_>,
    progress: &mut Progress<'_>,
    watch: &mut dyn FnMut(u64) -> io::Result<()>,
) -> Result<(), DirectError> {
    let limit = target.waiting.limit;
    let mut quiet = Instant::now() + limit;
    // Whatever is said, the file has to move.
    let mut still = Instant::now() + limit * WAITS_WITH_MARKERS;
    let mut reached = progress.before;
    let (mut is_opened, mut is_sent, mut is_stored) = (false, false, false);
    while !(is_sent && is_stored) {
        let mut is_heard = false;
        // The target first: what it has stored is worth knowing, whatever the source says.
        for (side, client, command) in [(Side::Target, &mut *target, stor), (Side::Source, &mut *source, retr)] {
            while let Some(event) = client.control.poll() {
                is_heard = true;
                match event {
                    Event::Opened => is_opened = true,
                    Event::Answered(_) if side == Side::Source => is_sent = true,
                    Event::Answered(_) => is_stored = true,
                    Event::Marker(reply) if side == Side::Target => {
                        progress.on_marker(&reply).map_err(DirectError::Target)?;
                    }
                    Event::Refused(reply) => return Err(side.error(refused(command, &reply))),
                    _ => {}
                }
            }
        }
        let now = Instant::now();
        if is_heard {
            quiet = now + limit;
        }
        if progress.reached() > reached {
            reached = progress.reached();
            still = now + limit * WAITS_WITH_MARKERS;
        }
        watch(reached).map_err(DirectError::Watch)?;
        // A server without markers says nothing while a long file moves.
        let deadline = if !is_opened || progress.is_told || is_sent { quiet.min(still) } else { still };
        if !(is_sent && is_stored) {
            let heard = hear_either(source, target, (is_sent, is_stored), deadline);
            heard.inspect_err(|_| keep_markers(target, progress))?;
        }
    }
    Ok(())
}

/// What the target had said when one of the two was lost.
fn keep_markers(target: &mut Client, progress: &mut Progress<'_>) {
    while let Some(event) = target.control.poll() {
        if let Event::Marker(reply) = event {
            // It has failed already.
            let _ = progress.on_marker(&reply);
        }
    }
}

/// Reads once from whichever server has something to say.
fn hear_either(
    source: &mut Client,
    target: &mut Client,
    (is_sent, is_stored): (bool, bool),
    deadline: Instant,
) -> Result<(), DirectError> {
    let mut ready = [source.link.holds_more(), target.link.holds_more()];
    if ready == [false; 2] {
        // One that has answered may have gone since: it is not waited for.
        let links = [(&source.link, is_sent), (&target.link, is_stored)];
        let open = links.iter().filter(|(_, is_done)| !is_done);
        let mut waited: Vec<PollFd<'_>> =
            open.map(|(link, _)| PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN)).collect();
        // So that the caller can look whether to go on.
        let look = Instant::now() + LOOK_EVERY;
        match target.waiting.until_ready(&mut waited, deadline.min(look)) {
            Err(Error::Silent(_)) if Instant::now() < deadline => return Ok(()),
            outcome => outcome.map_err(DirectError::Target)?,
        }
        let mut found = waited.iter().map(|fd| !fd.revents().is_empty());
        ready = [is_sent, is_stored].map(|is_done| !is_done && found.next().unwrap_or(false));
    }
    if ready[1] {
        target.read_control(deadline).map_err(DirectError::Target)?;
    }
    if ready[0] {
        source.read_control(deadline).map_err(DirectError::Source)?;
    }
    Ok(())
}

impl Client {
    /// Where the server listens, in its own words where the protocol has them: they are given to another server.
    fn listening(&mut self) -> Result<SocketAddr, Error> {
        if self.peer.ip().to_canonical().is_ipv4() {
            let reply = self.ask(&Command::Pasv)?;
            return Ok(of_pasv(&reply, self.peer.ip())?);
        }
        let reply = self.ask(&Command::Epsv)?;
        Ok(of_epsv(&reply, self.peer.ip())?)
    }
}
