//! The output of a copy, during and after it. Each format is one file behind [`Output`].
//!
//! Standard output carries data or JSON lines, nothing else; everything for people goes to standard
//! error.

mod causes;
mod json;
mod plain;
mod summary;
mod system_log;
mod terminal;

use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use xdfs_client::tree::{Counted, EntryAction, Summary};
use xdfs_proto::base::{ErrorKind, Level, Safety};

use summary::{Named, Summarised, Wanted};

pub(crate) use causes::Causes;
pub(crate) use json::{JsonLines, Ready, Recovered, SumLine, told};
pub(crate) use plain::not_preserved;
pub(crate) use system_log::use_system_log;

use crate::exit::Failure;
use crate::plan::{Check, Format, Progress};
use crate::text::{printable, shown};
use crate::url::Url;

/// A source or a target: its display form and its exact form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    shown: String,
    bytes: Vec<u8>,
}

impl Endpoint {
    /// That of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { shown: printable(bytes), bytes: bytes.to_vec() }
    }

    /// The display form.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl From<&Url> for Endpoint {
    fn from(url: &Url) -> Self {
        Self::of(url.to_string().as_bytes())
    }
}

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Self {
        Self::of(path.as_os_str().as_bytes())
    }
}

/// One file of a copy, before it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CopyItem {
    /// The source.
    pub(crate) source: Endpoint,
    /// The target.
    pub(crate) target: Endpoint,
    /// Its number among all files, from 1.
    pub(crate) number: usize,
    /// The number of files.
    pub(crate) count: usize,
}

/// A file that a dry run would copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedCopy {
    /// The file.
    pub(crate) item: CopyItem,
    /// Its size, where it is known before it is read.
    pub(crate) bytes: Option<u64>,
    /// Its target exists and would be replaced.
    pub(crate) replaces: bool,
}

/// A file that was copied.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CopiedFile {
    /// Bytes in the target.
    pub(crate) bytes: u64,
    /// From the first connect (or the last transfer's end) to the last acknowledgement.
    pub(crate) elapsed: Duration,
    /// Channels of the session.
    pub(crate) channels: u16,
    /// Congestion control in use.
    pub(crate) congestion: String,
    /// Protection granted.
    pub(crate) level: Level,
    /// How safe the target is.
    pub(crate) safety: Safety,
    /// What was verified.
    pub(crate) check: Check,
    /// The hash of the content, if it was verified by hash.
    pub(crate) hash: Option<String>,
    /// Bytes that an earlier attempt had left.
    pub(crate) resumed: u64,
    /// Attempts that were lost before this one; blocks that were sent twice show in
    /// `channel_bytes`.
    pub(crate) retries: u64,
    /// Payload bytes by channel.
    pub(crate) channel_bytes: Vec<u64>,
}

/// A tree that was copied.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CopiedTree {
    /// The source.
    pub(crate) source: Endpoint,
    /// The target.
    pub(crate) target: Endpoint,
    /// What was done.
    pub(crate) summary: Summary,
    /// Why names failed.
    pub(crate) causes: Causes,
    /// From the first connect to the last acknowledgement.
    pub(crate) elapsed: Duration,
    /// Channels of the session.
    pub(crate) channels: u16,
    /// Protection granted.
    pub(crate) level: Level,
    /// Sessions that were lost before.
    pub(crate) retries: u64,
    /// Nothing was changed.
    pub(crate) dry_run: bool,
    /// All metadata were to be kept (`-a`).
    pub(crate) archive: bool,
    /// Everything was tried, and nothing failed.
    pub(crate) ok: bool,
}

/// How far a tree copy has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeProgress {
    /// What is done.
    pub(crate) summary: Summary,
    /// Bytes that transfers in progress have moved.
    pub(crate) moving: u64,
    /// What the source holds.
    pub(crate) total: Counted,
}

impl TreeProgress {
    /// Bytes that were moved.
    fn bytes(&self) -> u64 {
        self.summary.bytes.saturating_add(self.moving)
    }

    /// Bytes to move in all: those of files that are the same need not be.
    fn size(&self) -> Option<u64> {
        match self.total {
            // A file may have grown since it was counted.
            Counted::Known(total) => Some(total.bytes.saturating_sub(self.summary.skipped_bytes).max(self.bytes())),
            Counted::Unknown | Counted::Counting => None,
        }
    }
}

/// Receives the events of a copy.
pub(crate) trait Output {
    /// A file starts.
    fn begin(&mut self, item: &CopyItem);
    /// This many bytes are done, of this size (if known).
    fn progress(&mut self, bytes: u64, size: Option<u64>);
    /// So many bytes of the file are there already, and count in no rate.
    fn resumes_at(&mut self, _bytes: u64, _size: Option<u64>) {}
    /// It is complete.
    fn finished(&mut self, item: &CopyItem, transfer: &CopiedFile) -> Result<(), Failure>;
    /// Its target existed and was kept.
    fn kept(&mut self, item: &CopyItem) -> Result<(), Failure>;
    /// A dry run would copy it. This is printed on standard output, in every format.
    fn planned(&mut self, planned: &PlannedCopy) -> Result<(), Failure> {
        let CopyItem { source, target, .. } = &planned.item;
        match planned.replaces {
            true => print(&format!("replace {target} by {source}\n")),
            false => print(&format!("copy {source} to {target}\n")),
        }
    }
    /// It failed; `path` is the subject of the error.
    fn failed(&mut self, path: &str, kind: ErrorKind, message: &str) -> Result<(), Failure>;
    /// Expired part files in `directory` were removed.
    fn expired(&mut self, directory: &str, found: &Recovered) -> Result<(), Failure> {
        let (expired, parts) = (found.expired, found.parts);
        let more = if parts == 0 { String::new() } else { format!("; {parts} younger can still be gone on with") };
        let files = if expired == 1 { "part file" } else { "part files" };
        self.note(&format!("{directory}: removed {expired} {files} that nobody went on with for seven days{more}"));
        Ok(())
    }
    /// A name of a tree is settled. A dry run prints each on standard output, in every format.
    fn name_done(&mut self, path: &[u8], action: EntryAction, dry_run: bool) -> Result<(), Failure> {
        match (dry_run, plain::action_word(action)) {
            (true, Some(word)) => print(&format!("{word} {}\n", printable(path))),
            _ => Ok(()),
        }
    }
    /// Whether the progress of trees is shown, so that it is worth counting what they hold.
    fn shows_tree_progress(&self) -> bool {
        false
    }
    /// The progress of a tree.
    fn tree_progress(&mut self, _ends: (&Endpoint, &Endpoint), _progress: &TreeProgress) {}
    /// A tree copy has ended.
    fn tree_finished(&mut self, tree: &CopiedTree) -> Result<(), Failure> {
        plain::tree_notes(tree).iter().for_each(|note| self.note(note));
        Ok(())
    }
    /// A tree copy ended without its result, after this was done.
    fn tree_stopped(&mut self, _summary: &Summary) {}
    /// A note that stops nothing.
    fn note(&mut self, message: &str);
    /// Something that was asked for was not done, though no single file failed.
    fn not_done(&mut self, message: &str) {
        report(message);
    }
    /// A line that was asked for, without the name of the program in front.
    fn line(&mut self, text: &str);
    /// The command has done all that it can do.
    fn ended(&mut self) {}
}

/// The requested format, or the one that suits standard error.
pub(crate) fn choose(format: Format) -> Box<dyn Output> {
    let wanted = match format.summary {
        // A bar leaves a line about one file.
        true if !has_bar(format) => Wanted::Always,
        true => Wanted::OfSeveral,
        false if !format.quiet && !format.json && std::io::stderr().is_terminal() => Wanted::OfSeveral,
        false => Wanted::Never,
    };
    let named = match (format.names && !format.json && !format.quiet, has_bar(format)) {
        (false, _) => Named::Nothing,
        // A bar leaves a line about each file that is copied alone.
        (true, true) => Named::Trees,
        (true, false) => Named::All,
    };
    Box::new(Summarised::new(of_format(format), wanted, named))
}

fn has_bar(format: Format) -> bool {
    let asked = !format.quiet && !format.json && format.progress != Progress::None;
    asked && std::io::stderr().is_terminal()
}

fn of_format(format: Format) -> Box<dyn Output> {
    if format.json {
        let progress = !format.quiet && format.progress != Progress::None;
        return Box::new(json::Json::new(format.quiet, progress));
    }
    if has_bar(format) {
        return Box::new(terminal::Terminal::new(format.progress == Progress::Channels, format.longest_pause));
    }
    Box::new(plain::Plain::new(format.quiet))
}

/// Prints requested text on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    output.write_all(shown(text).as_bytes()).and_then(|()| output.flush()).map_err(|error| Failure::from_output(&error))
}

/// Prints names on standard output, one on a line: for people with hidden characters escaped, and as
/// they are for a program, as `ls` does.
pub(crate) fn print_names<'n>(names: impl Iterator<Item = &'n [u8]>) -> Result<(), Failure> {
    use std::io::Write;
    let for_people = std::io::stdout().is_terminal();
    let mut lines = Vec::new();
    for name in names {
        match for_people {
            true => lines.extend(printable(name).into_bytes()),
            false => lines.extend(name),
        }
        lines.push(b'\n');
    }
    let mut output = std::io::stdout().lock();
    output.write_all(&lines).and_then(|()| output.flush()).map_err(|error| Failure::from_output(&error))
}

/// Whether the reader of standard output has closed it: the rest is not needed then. The kernel
/// reports this, not an error number, which a peer could choose.
pub(crate) fn reader_is_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let output = std::io::stdout();
    let mut files = [PollFd::new(&output, PollFlags::OUT)];
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut files, Some(&Timespec::default())).is_ok_and(|_| files.iter().any(|file| file.revents().intersects(gone)))
}

/// A failure for people, on standard error: its cause, and lines that say what to do about it.
pub(crate) fn report(message: &str) {
    write_line(&error_text(message));
}

/// The same as a text.
fn error_text(message: &str) -> String {
    format!("error: {}", without_errno(message))
}

/// A message for people, on standard error. A lost terminal is no reason to stop a transfer.
pub(crate) fn complain(message: &str) {
    let message = without_errno(message);
    write_line(&format!("xdfs: {message}"));
    system_log::send(&shown(&message));
}

/// A line that another program of this command said, on standard error.
pub(crate) fn pass_on(line: &str) {
    write_line(line);
}

fn write_line(line: &str) {
    use std::io::Write;
    // In one piece: standard error has no buffer, and a busy server writes many lines.
    let _ = std::io::stderr().write_all(format!("{}\n", shown(line)).as_bytes());
}

/// A message without the numbers that the standard library adds to the texts of the system:
/// `(os error 111)` tells nobody more than "Connection refused".
pub(crate) fn without_errno(message: &str) -> String {
    const MARK: &str = " (os error ";
    let (mut rest, mut text) = (message, String::with_capacity(message.len()));
    while let Some((before, after)) = rest.split_once(MARK) {
        text.push_str(before);
        let digits = after.trim_start_matches(|character: char| character.is_ascii_digit());
        match digits.strip_prefix(')') {
            Some(behind) if digits.len() < after.len() => {
                decapitalise(&mut text);
                rest = behind;
            }
            _ => {
                text.push_str(MARK);
                rest = after;
            }
        }
    }
    text + rest
}

/// The text of the system at the end of a message begins with a capital letter; here it continues a
/// sentence. Abbreviations stay.
fn decapitalise(text: &mut str) {
    let start = text.rfind(": ").map_or(text.len(), |colon| colon + 2);
    let mut letters = text.bytes().skip(start);
    if letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.next().is_some_and(|second| second.is_ascii_lowercase())
        && let Some(first) = text.get_mut(start..=start)
    {
        first.make_ascii_lowercase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_error_of_the_system_is_left_out_and_nothing_else() {
        for (message, plain) in [
            ("refused (os error 111); again", "refused; again"),
            ("Name: No such file or directory (os error 2)", "Name: no such file or directory"),
            ("x: I/O error (os error 5)", "x: I/O error"),
            ("a (os error 1)b (os error 22)", "ab"),
            ("(os error 5)", "(os error 5)"),
            ("a (os error x) b", "a (os error x) b"),
            ("a (os error ) b", "a (os error ) b"),
            ("a (os error 5", "a (os error 5"),
        ] {
            assert_eq!(without_errno(message), plain);
        }
        assert_eq!(error_text("no\nhelp: yes"), "error: no\nhelp: yes");
    }
}
