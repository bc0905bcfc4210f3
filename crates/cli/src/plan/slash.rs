//! What a slash at the end of a target would mean to rsync: the directory of the source, in it. `sync`
//! makes the target itself equal to the source, and with `--delete` would remove all else in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::written::without_password;
use super::{PlanError, Sides, show};
use crate::config::Config;
use crate::text::{printable_path, shell_word};
use crate::url::{Url, Via};

/// What a target may mean, and the command for each.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "--delete: the '/' at the end of {target} leaves open what is meant: to make {itself} equal to {source_name} and remove all \
     else in it, or to make {into}, as rsync does; nothing was done\nhelp: the directory itself: {itself_command}\nhelp: one in \
     it: {into_command}"
)]
pub(crate) struct TwoReadings {
    /// As it was typed.
    target: String,
    /// As it was typed.
    source_name: String,
    /// The directory itself.
    itself: String,
    /// The directory in it.
    into: String,
    /// The command for the directory itself.
    itself_command: String,
    /// The command for the directory in it.
    into_command: String,
}

/// Refuses a deletion in a target that ends in a slash while the source does not: which of two
/// directories is meant, only the user knows.
pub(super) fn must_mean_one_directory(
    (source, target): (&OsStr, &OsStr),
    config: &Config,
    sides: &Sides,
) -> Result<(), PlanError> {
    let Some((itself, into)) = readings(source, target, sides) else { return Ok(()) };
    Err(PlanError::DeleteInto(Box::new(TwoReadings {
        target: without_password(show(target)),
        source_name: without_password(show(source)),
        // The content of the source, as it is written for rsync: right also where the target is a link that is followed.
        itself_command: command((source, target), config, Change::Source(&content_of(source, sides))),
        into_command: command((source, target), config, Change::Target(&into)),
        itself,
        into,
    })))
}

/// The source with a slash at its end.
fn content_of(source: &OsStr, sides: &Sides) -> String {
    match sides {
        Sides::Up(..) => format!("{}/", show(source)),
        Sides::Between(from, _) | Sides::Down(from, _) => Url { directory: true, ..from.clone() }.to_string(),
    }
}

/// The two directories, as they are typed; `None` where only one can be meant.
fn readings(source: &OsStr, target: &OsStr, sides: &Sides) -> Option<(String, String)> {
    match sides {
        Sides::Up(_, to) => two_urls(to, local_name(source)?),
        Sides::Between(from, to) => two_urls(to, remote_name(from)?),
        Sides::Down(from, to) => {
            let itself: PathBuf = to.components().collect();
            // The top of the file system has no other form.
            let ends_in_slash = [&b"/"[..], b"/."].iter().any(|end| target.as_bytes().ends_with(end));
            let is_into = ends_in_slash && itself.parent().is_some();
            let into = itself.join(OsStr::from_bytes(remote_name(from)?));
            is_into.then(|| (printable_path(&itself), printable_path(&into)))
        }
    }
}

fn two_urls(to: &Url, name: &[u8]) -> Option<(String, String)> {
    // A home directory, and the top of a file system, have no other form.
    let is_into = to.directory && (to.via == Via::Port || !to.path.is_root());
    let itself = Url { directory: false, ..to.clone() };
    let into = itself.join(name).ok()?;
    is_into.then(|| (itself.to_string(), into.to_string()))
}

/// The name of a directory here; none where what is in it was named, as in `photos/` and `.`.
fn local_name(source: &OsStr) -> Option<&[u8]> {
    let bytes = source.as_bytes();
    let is_content = bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b".";
    Path::new(source).file_name().filter(|_| !is_content).map(OsStr::as_bytes)
}

/// The same on a server. The top of an export has none: of a module, rsync takes the content, too.
fn remote_name(source: &Url) -> Option<&[u8]> {
    source.name().filter(|_| !source.directory && !source.contents)
}

/// Which of the two names is another one in the command.
#[derive(Clone, Copy)]
enum Change<'a> {
    Source(&'a str),
    Target(&'a str),
}

/// The command that was typed with another source or target: with its options, on which depends what is removed. Where it
/// cannot be told which of its words to change, what to change by hand.
fn command((source, target): (&OsStr, &OsStr), config: &Config, change: Change<'_>) -> String {
    let (typed, new) = match change {
        Change::Source(new) => (source, new),
        Change::Target(new) => (target, new),
    };
    let expanded = |word: &OsString| config.expand(word).ok().flatten();
    let is_it = |word: &OsString| word == typed || expanded(word).is_some_and(|word| word == typed);
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let found: Vec<usize> = (0..words.len()).filter(|at| is_it(&words[*at])).collect();
    // Read by something else than this process's command line, or a value of an option is the same.
    let [at] = found.as_slice() else {
        let (role, word) = match change {
            Change::Source(_) => ("source", shell_word(&without_password(show(source)))),
            Change::Target(_) => ("target", shell_word(&without_password(show(target)))),
        };
        return format!("write {} as the {role} instead of {word}", shell_word(&without_password(new.to_owned())));
    };
    words[*at] = OsString::from(new);
    let words = words.iter().map(|word| shell_word(&without_password(show(word))));
    std::iter::once("xdfs".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
