//! The commands on names of servers: one file for each, and what they share.

mod cat;
mod chmod;
mod df;
mod du;
mod find;
mod ftp;
mod ln;
mod ls;
mod mkdir;
mod mkfifo;
mod mv;
mod openers;
mod rm;
mod stat;
mod touch;

use serde::Serialize;
use xdfs_client::{Error, ErrorKind, Level, Session};
use xdfs_io::store::reserved::is_reserved;

use super::connect::SessionRequest;
use super::ftp::FtpServers;
use super::meant::meant;
use super::pattern;
use super::remote::{Sessions, remedy_for_read_only, remedy_without_export, wire_name};
use crate::exit::{Exit, Failure, HELP, Side};
use crate::output::{JsonLines, report, told};
use crate::plan::{NamesPlan, Verb};
use crate::signal::StopFlag;
use crate::text::printable;
use crate::url::{Url, Via};
use xdfs_proto::base::path::{DEPTH_MAX, PATH_BYTES_MAX};

/// Memory for names that were listed and are still pending, some 700,000 of usual length. What a
/// server lists beyond that is not remembered.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Bytes that are accounted for a name besides its own.
const NAME_BYTES: usize = 200;

/// Channels of a session that makes many calls in parallel.
const CHANNELS: u16 = 4;

/// Why an operation on a name failed.
enum NameError {
    /// The server's error, or a lost connection: reported, and the next name follows.
    Told(Failure, ErrorKind),
    /// Standard output cannot be written to any more: the command ends.
    Output(Failure),
}

impl From<Failure> for NameError {
    fn from(failure: Failure) -> Self {
        Self::Output(failure)
    }
}

type Done = Result<(), NameError>;

/// The error message for a URL.
fn trouble(url: &Url, error: &Error) -> NameError {
    // Only the text of the kind: the error of a call names the remote name as the wire has it.
    let said = match (error.errno, error.kind) {
        (0, kind) if kind != ErrorKind::ReadOnly => shortened(error),
        (_, kind) => kind.text().to_owned(),
    };
    let failure = Failure::new(Exit::of_error(error, Side::Peer), format!("{}: {said}", shortened(url)));
    let failure = match remedy_without_export(url, error) {
        Some(remedy) => failure.help(remedy),
        None if error.kind == ErrorKind::ReadOnly && url.via == Via::Port => {
            failure.help(remedy_for_read_only(url, error))
        }
        None => helped(failure, url, error.kind),
    };
    NameError::Told(failure, error.kind)
}

/// The same failure with what can be done about it.
fn helped(failure: Failure, url: &Url, kind: ErrorKind) -> Failure {
    match kind {
        ErrorKind::Refused => failure.help("ask the administrator of the server for the right"),
        ErrorKind::ConnectionLost | ErrorKind::TimedOut => failure.help("run the same command again"),
        // Where the server says no more.
        ErrorKind::NotRegular if failure.message.ends_with(": not a regular file") => {
            failure.help("a symbolic link is not followed in the middle of a path")
        }
        ErrorKind::InvalidPath if url.path.components().any(is_reserved) => {
            failure.help("xdfs reserves such names for part files")
        }
        ErrorKind::Busy | ErrorKind::Draining | ErrorKind::Locked => failure.help("try again later"),
        _ => failure,
    }
}

/// The error of a directory with an entry that cannot be named: it is deeper than a path may be, or
/// the server's name for it is invalid.
/// name.
fn unnameable(directory: &Url, name: &[u8]) -> Error {
    let start = name.get(..64).unwrap_or(name);
    let text = format!(
        "'{}' below {}: its path is longer than {PATH_BYTES_MAX} bytes or {DEPTH_MAX} directories, or this is no name",
        printable(start),
        shortened(directory)
    );
    Error::new(ErrorKind::InvalidPath, text)
}

/// Longest part of a message that names something: a path may have 32 KiB.
const SHOWN_CHARACTERS_MAX: usize = 400;

/// The displayed part of a text that may be long: its start identifies the subject, its end the
/// error.
fn shortened(text: &dyn std::fmt::Display) -> String {
    let text = text.to_string();
    let characters = text.chars().count();
    if characters <= SHOWN_CHARACTERS_MAX {
        return text;
    }
    let half = SHOWN_CHARACTERS_MAX / 2;
    let (start, end) = (text.chars().take(half), text.chars().skip(characters - half));
    start.chain("[...]".chars()).chain(end).collect()
}

/// Carries out the plan for every name for which that is possible; errors of the others are
/// reported and do not stop it.
pub(crate) fn run(plan: &NamesPlan) -> Result<Exit, Failure> {
    let many = matches!(plan.verb, Verb::Ls { .. } | Verb::Find(_) | Verb::Rm { .. } | Verb::Du { .. } | Verb::Cat);
    let channels = if many { CHANNELS } else { 1 };
    let mut sessions = Sessions::new(SessionRequest { channels, ..SessionRequest::default() }, plan.login.clone());
    let mut servers = FtpServers::new(plan.login.clone(), Level::Private, StopFlag::default());
    let mut operands = Vec::with_capacity(plan.urls.len());
    for typed in &plan.urls {
        match plan.verb.takes_patterns().then(|| pattern::expand(&mut sessions, typed)) {
            None => operands.push((typed.clone(), Ok(()))),
            Some(Ok(urls)) => operands.extend(urls.into_iter().map(|url| (url, Ok(())))),
            Some(Err(error)) => operands.push((typed.clone(), Err(error))),
        }
    }
    let mut exits = Vec::with_capacity(operands.len());
    let last = operands.len().saturating_sub(1);
    for (at, (url, expanded)) in operands.into_iter().enumerate() {
        let done = match (expanded, &plan.verb) {
            // Nothing to remove is no failure.
            (Err((_, ErrorKind::NotFound)), Verb::Rm { force: true, .. }) => did(plan, "rm", &url),
            (Err((failure, kind)), _) => Err(NameError::Told(failure, kind)),
            _ if url.is_ftp() => ftp::run(plan, &mut servers, &url),
            (_, &Verb::CatRange { offset, length, follow }) => {
                cat::in_place(&sessions, &url, &cat::Part { offset, length, follow: follow && at == last })
            }
            (_, Verb::Find(search)) => find::run(search, &mut sessions, &url),
            _ => sessions
                .with(&url)
                .map_err(|(failure, kind)| NameError::Told(failure, kind))
                .and_then(|(session, _)| one(plan, session, &url, !exits.contains(&Exit::Done))),
        };
        let done = match done {
            Err(NameError::Told(failure, ErrorKind::NotRegular)) if plan.verb == Verb::Cat && !url.is_ftp() => {
                cat::pipe(&mut sessions, &url).unwrap_or(Err(NameError::Told(failure, ErrorKind::NotRegular)))
            }
            Err(NameError::Told(failure, ErrorKind::NotFound))
                if url.pattern.is_some() && !plan.verb.takes_patterns() =>
            {
                Err(NameError::Told(failure.help("'*' and '[' are no patterns in this command"), ErrorKind::NotFound))
            }
            Err(NameError::Told(failure, ErrorKind::NotFound)) if !failure.message.contains(HELP) => {
                let meant = meant(&url, &mut sessions);
                Err(NameError::Told(meant.into_iter().fold(failure, Failure::help), ErrorKind::NotFound))
            }
            done => done,
        };
        exits.push(ended(plan, &url, done)?);
    }
    sessions.close();
    servers.close(Exit::Done);
    Ok(Exit::of_all(&exits))
}

/// Says why something of a command failed, as an object too where that is wanted.
fn told_of(plan: &NamesPlan, url: &Url, failure: &Failure, kind: ErrorKind) -> Result<(), Failure> {
    report(&failure.message);
    if plan.json { JsonLines.error(&url.to_string(), kind, &failure.message) } else { Ok(()) }
}

/// Reports how the operation on a name ended.
fn ended(plan: &NamesPlan, url: &Url, done: Done) -> Result<Exit, Failure> {
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(NameError::Output(failure)) => Err(failure),
        Err(NameError::Told(failure, kind)) => {
            if !failure.message.is_empty() {
                told_of(plan, url, &failure, kind)?;
            }
            Ok(failure.exit)
        }
    }
}

/// `first` is true until an operation has succeeded.
fn one(plan: &NamesPlan, session: &Session, url: &Url, first: bool) -> Done {
    match &plan.verb {
        Verb::Ls { .. } => ls::run(plan, session, url),
        Verb::Stat { locks } => stat::run(plan, session, url, *locks),
        Verb::Mkdir { parents, mode } => mkdir::run(plan, session, url, (*parents, *mode)),
        Verb::Mkfifo { mode } => mkfifo::run(plan, session, url, *mode),
        Verb::Rm { recursive, force } => rm::run(plan, session, url, (*recursive, *force)),
        Verb::Mv { target, no_clobber } => mv::run(plan, session, url, (target, *no_clobber)),
        Verb::Ln { of } => ln::hard(plan, session, url, of),
        Verb::Symlink { text } => ln::symbolic(plan, session, url, text),
        Verb::Chmod { mode } => chmod::run(plan, session, url, mode),
        Verb::Touch { create, time } => touch::run(plan, session, url, (*create, *time)),
        // It has sessions of its own.
        Verb::Find(_) => Ok(()),
        Verb::Cat | Verb::CatRange { .. } => cat::run(session, url),
        Verb::Du { human } => du::run(plan, session, url, *human),
        Verb::Df { human } => df::run(plan, session, url, (*human, first)),
    }
}

/// Reports an operation on a name: a line of JSON, and nothing for people.
fn did(plan: &NamesPlan, event: &'static str, url: &Url) -> Done {
    #[derive(Serialize)]
    struct ChangedLine {
        event: &'static str,
        url: String,
        ok: bool,
    }
    if plan.json {
        JsonLines.write(&ChangedLine { event, url: url.to_string(), ok: true })?;
    }
    Ok(())
}

/// A name for JSON, and whether it is escaped because it is not UTF-8.
fn json_name(name: &[u8]) -> (String, bool) {
    let (name, escaped) = told(name);
    (name.into_owned(), escaped)
}

/// A number of bytes for display.
fn amount(bytes: u64, human: bool) -> String {
    if human { crate::size::human(bytes) } else { bytes.to_string() }
}
