//! `--json`: one object per line on standard output. Names and order of the fields are part of the
//! command line's contract; fields may be added at the end.

mod progress;

use std::borrow::Cow;
use std::io::Write;

use serde::Serialize;
use xdfs_client::tree::EntryAction;
use xdfs_proto::base::ErrorKind;

use self::progress::{Current, NamesLine};
use super::plain::{Plain, skipped_message, tree_notes};
use super::{CopiedFile, CopiedTree, CopyItem, Endpoint, Output, PlannedCopy, TreeProgress, without_errno};
use crate::exit::{Exit, Failure, HELP};
use crate::text::{escaped, json_line};

/// A server is ready.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "ready")]
pub(crate) struct Ready {
    /// The listening address, with the actual port.
    pub(crate) address: String,
    /// Fingerprint of its host key.
    pub(crate) host_key: String,
}

/// What a server found of earlier attempts, some time after it was ready.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "recovered")]
pub(crate) struct Recovered {
    /// Part files that can be resumed.
    pub(crate) parts: u64,
    /// Bytes in them that need not be sent again.
    pub(crate) bytes: u64,
    /// Part files that cannot.
    pub(crate) others: u64,
    /// Part files that were removed because they had expired.
    pub(crate) expired: u64,
}

/// The hash of a file, or of a range of it.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "sum")]
pub(crate) struct SumLine {
    /// The file as it was typed.
    pub(crate) file: String,
    /// First byte.
    pub(crate) offset: u64,
    /// Number of bytes; `None` for all that follow.
    pub(crate) length: Option<u64>,
    /// The hash, in hexadecimal.
    pub(crate) hash: String,
    /// The file's name is not UTF-8, and is escaped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) file_escaped: bool,
}

/// A successful transfer.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "transfer")]
struct TransferLine<'a> {
    source: Cow<'a, str>,
    target: Cow<'a, str>,
    bytes: u64,
    seconds: f64,
    channels: u16,
    congestion: &'a str,
    protection: &'static str,
    verify: &'static str,
    durability: &'static str,
    /// The hash of the content, in hexadecimal; `None` if it was not verified by hash.
    hash: Option<&'a str>,
    resumed_bytes: u64,
    retries: u64,
    channel_bytes: &'a [u64],
    ok: bool,
    #[serde(flatten)]
    escaped: EscapedEnds,
}

/// A target that was kept.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "kept")]
struct KeptLine<'a> {
    source: Cow<'a, str>,
    target: Cow<'a, str>,
    ok: bool,
    #[serde(flatten)]
    escaped: EscapedEnds,
}

/// A name of a tree that is settled.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "name")]
struct NameLine<'a> {
    #[serde(flatten)]
    path: JsonName<'a>,
    action: &'static str,
    bytes: Option<u64>,
    durability: Option<&'static str>,
    dry_run: bool,
}

/// A name: UTF-8 unchanged, anything else escaped and marked so.
#[derive(Serialize, Debug)]
pub(crate) struct JsonName<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    path_escaped: bool,
}

impl<'a> JsonName<'a> {
    /// The name of these bytes.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let (path, path_escaped) = told(bytes);
        Self { path, path_escaped }
    }
}

/// A name as it is output, and whether it is escaped because it is not UTF-8.
pub(crate) fn told(name: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(name) {
        Ok(text) => (text.into(), false),
        Err(_) => (escaped(name).into(), true),
    }
}

/// Which ends are escaped because they are not UTF-8.
#[derive(Serialize, Debug)]
struct EscapedEnds {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    source_escaped: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    target_escaped: bool,
}

/// Both ends of a copy.
fn ends<'a>(source: &'a Endpoint, target: &'a Endpoint) -> (Cow<'a, str>, Cow<'a, str>, EscapedEnds) {
    let ((source, source_escaped), (target, target_escaped)) = (told(&source.bytes), told(&target.bytes));
    (source, target, EscapedEnds { source_escaped, target_escaped })
}

/// A file that a dry run would copy.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "planned")]
struct PlannedLine<'a> {
    source: Cow<'a, str>,
    target: Cow<'a, str>,
    action: &'static str,
    bytes: Option<u64>,
    dry_run: bool,
    #[serde(flatten)]
    escaped: EscapedEnds,
}

/// A tree copy that has ended.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "tree")]
struct TreeLine<'a> {
    source: Cow<'a, str>,
    target: Cow<'a, str>,
    files: u64,
    bytes: u64,
    directories: u64,
    others: u64,
    skipped: u64,
    deleted: u64,
    passed_over: u64,
    reduced: u64,
    failed: u64,
    surplus_kept: u64,
    seconds: f64,
    channels: u16,
    protection: &'static str,
    retries: u64,
    dry_run: bool,
    ok: bool,
    #[serde(flatten)]
    escaped: EscapedEnds,
}

/// Something that failed.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "error")]
struct ErrorLine<'a> {
    path: &'a str,
    code: String,
    /// What happened.
    message: String,
    /// What to do about it, if that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    help: Vec<&'a str>,
}

/// Writes objects to standard output, each on a line of its own and at once.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

impl JsonLines {
    /// Writes one object.
    pub(crate) fn write(&self, object: &impl Serialize) -> Result<(), Failure> {
        let line = json_line(serde_json::to_string(object).map_err(|error| Failure::from_output(&error.into()))?);
        let mut output = std::io::stdout().lock();
        writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|error| Failure::from_output(&error))
    }

    /// Writes an error.
    pub(crate) fn error(&self, path: &str, kind: ErrorKind, message: &str) -> Result<(), Failure> {
        self.failed(path, code_of(kind), message)
    }

    /// Writes why a command line cannot be carried out.
    pub(crate) fn usage(&self, message: &str) -> Result<(), Failure> {
        self.failed("", "usage".to_owned(), message)
    }

    /// Writes why a command could not begin.
    pub(crate) fn failure(&self, failure: &Failure) -> Result<(), Failure> {
        let code = match failure.exit {
            Exit::Usage => return self.usage(&failure.message),
            Exit::ConnectionLost => ErrorKind::ConnectionLost,
            Exit::NotFound => ErrorKind::NotFound,
            Exit::PermissionDenied => ErrorKind::PermissionDenied,
            Exit::NoSpace => ErrorKind::NoSpace,
            Exit::LoginRefused => ErrorKind::LoginRefused,
            Exit::Exists => ErrorKind::AlreadyExists,
            Exit::Changed => ErrorKind::TargetChanged,
            Exit::Corrupted => ErrorKind::Corrupted,
            Exit::Busy => ErrorKind::Busy,
            Exit::Cancelled => ErrorKind::Cancelled,
            Exit::NotTrusted => ErrorKind::Refused,
            Exit::Done | Exit::SomeFailed | Exit::Refused | Exit::Local => ErrorKind::Storage,
        };
        self.error("", code, &failure.message)
    }

    fn failed(&self, path: &str, code: String, message: &str) -> Result<(), Failure> {
        let mut parts = message.split(HELP);
        let message = without_errno(parts.next().unwrap_or_default());
        self.write(&ErrorLine { path, code, message, help: parts.collect() })
    }
}

/// The events of a copy as lines of JSON; messages for people still go to standard error.
#[derive(Debug)]
pub(super) struct Json {
    lines: JsonLines,
    messages: Plain,
    /// Lines of progress are wanted.
    progress: bool,
    current: Option<Current>,
}

impl Json {
    pub(super) fn new(quiet: bool, progress: bool) -> Self {
        Self { lines: JsonLines, messages: Plain::new(quiet), progress, current: None }
    }
}

impl Output for Json {
    fn name_done(&mut self, path: &[u8], action: EntryAction, dry_run: bool) -> Result<(), Failure> {
        let (action, bytes, durability) = match action {
            EntryAction::Copied { bytes, safety, replaces } => {
                // Whether a copy has replaced something may be unknown; a dry run looks.
                let action = if replaces && dry_run { "replaced" } else { "copied" };
                (action, Some(bytes), (!dry_run).then(|| safety.name()))
            }
            EntryAction::Made => ("made", None, None),
            EntryAction::Skipped => ("skipped", None, None),
            EntryAction::Deleted => ("deleted", None, None),
        };
        let path = JsonName::of(path);
        JsonLines.write(&NameLine { path, action, bytes, durability, dry_run })
    }

    fn tree_finished(&mut self, tree: &CopiedTree) -> Result<(), Failure> {
        self.current = None;
        let summary = &tree.summary;
        let (source, target, escaped) = ends(&tree.source, &tree.target);
        JsonLines.write(&TreeLine {
            source,
            target,
            files: summary.files,
            bytes: summary.bytes,
            directories: summary.directories,
            others: summary.others,
            skipped: summary.skipped,
            deleted: summary.deleted,
            passed_over: summary.passed_over,
            reduced: summary.reduced,
            failed: summary.failed,
            surplus_kept: summary.surplus_kept,
            seconds: tree.elapsed.as_secs_f64(),
            channels: tree.channels,
            protection: tree.level.name(),
            retries: tree.retries,
            dry_run: tree.dry_run,
            ok: tree.ok,
            escaped,
        })?;
        tree_notes(tree).iter().for_each(|note| self.note(note));
        Ok(())
    }

    fn begin(&mut self, item: &CopyItem) {
        self.current = self.progress.then(|| Current::new(item.source.clone(), item.target.clone()));
    }

    fn progress(&mut self, bytes: u64, size: Option<u64>) {
        self.current.iter_mut().for_each(|current| current.tell(NamesLine::default(), bytes, size));
    }

    fn shows_tree_progress(&self) -> bool {
        self.progress
    }

    fn tree_progress(&mut self, (source, target): (&Endpoint, &Endpoint), progress: &TreeProgress) {
        if self.progress {
            let current = self.current.get_or_insert_with(|| Current::new(source.clone(), target.clone()));
            current.tell(NamesLine::of(progress), progress.bytes(), progress.size());
        }
    }

    fn finished(&mut self, item: &CopyItem, transfer: &CopiedFile) -> Result<(), Failure> {
        self.lines.write(&line_of(item, transfer))
    }

    fn kept(&mut self, item: &CopyItem) -> Result<(), Failure> {
        self.messages.note(&skipped_message(item));
        let (source, target, escaped) = ends(&item.source, &item.target);
        self.lines.write(&KeptLine { source, target, ok: true, escaped })
    }

    fn planned(&mut self, planned: &PlannedCopy) -> Result<(), Failure> {
        let PlannedCopy { item, bytes, replaces } = planned;
        let action = if *replaces { "replaced" } else { "copied" };
        let (source, target, escaped) = ends(&item.source, &item.target);
        self.lines.write(&PlannedLine { source, target, action, bytes: *bytes, dry_run: true, escaped })
    }

    fn line(&mut self, text: &str) {
        self.messages.line(text);
    }

    fn failed(&mut self, path: &str, kind: ErrorKind, message: &str) -> Result<(), Failure> {
        self.messages.failed(path, kind, message)?;
        self.lines.error(path, kind, message)
    }

    fn expired(&mut self, directory: &str, found: &Recovered) -> Result<(), Failure> {
        self.messages.expired(directory, found)?;
        self.lines.write(found)
    }

    fn note(&mut self, message: &str) {
        self.messages.note(message);
    }
}

fn line_of<'a>(item: &'a CopyItem, transfer: &'a CopiedFile) -> TransferLine<'a> {
    let (source, target, escaped) = ends(&item.source, &item.target);
    TransferLine {
        source,
        target,
        bytes: transfer.bytes,
        seconds: transfer.elapsed.as_secs_f64(),
        channels: transfer.channels,
        congestion: &transfer.congestion,
        protection: transfer.level.name(),
        verify: transfer.check.name(),
        durability: transfer.safety.name(),
        hash: transfer.hash.as_deref(),
        resumed_bytes: transfer.resumed,
        retries: transfer.retries,
        channel_bytes: &transfer.channel_bytes,
        ok: true,
        escaped,
    }
}

/// The word for a kind of error: its name in lower case, `not_found`, `connection_lost`. docs/json.md
/// lists them.
fn code_of(kind: ErrorKind) -> String {
    let mut code = String::new();
    for character in format!("{kind:?}").chars() {
        if character.is_ascii_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.push(character.to_ascii_lowercase());
    }
    code
}

#[cfg(test)]
mod tests {
    use xdfs_proto::base::{Error, Level, Safety};

    use std::time::Duration;

    use super::*;
    use crate::exit::{Exit, Side};
    use crate::plan::Check;

    #[test]
    fn the_ready_line_is_as_documented() {
        let ready = Ready { address: "127.0.0.1:40001".to_owned(), host_key: "SHA256:x".to_owned() };
        let line = serde_json::to_string(&ready).unwrap();
        assert_eq!(line, r#"{"event":"ready","address":"127.0.0.1:40001","host_key":"SHA256:x"}"#);
    }

    #[test]
    fn a_transfer_line_has_every_documented_field_in_order() {
        let (source, target) = (Endpoint::of(b"a\"b"), Endpoint::of(b"xdfs://localhost/e/x"));
        let item = CopyItem { source, target, number: 1, count: 1 };
        let transfer = CopiedFile {
            bytes: 7,
            elapsed: Duration::from_millis(250),
            channels: 2,
            congestion: "cubic".to_owned(),
            level: Level::Integrity,
            safety: Safety::Durable,
            resumed: 3,
            check: Check::Hash,
            hash: Some("af13".to_owned()),
            retries: 1,
            channel_bytes: vec![3, 4],
        };
        assert_eq!(
            serde_json::to_string(&line_of(&item, &transfer)).unwrap(),
            r#"{"event":"transfer","source":"a\"b","target":"xdfs://localhost/e/x","bytes":7,"seconds":0.25,"channels":2,"congestion":"cubic","protection":"integrity","verify":"hash","durability":"durable","hash":"af13","resumed_bytes":3,"retries":1,"channel_bytes":[3,4],"ok":true}"#
        );
    }

    #[test]
    fn ends_are_told_as_they_are_and_only_what_is_no_utf8_is_escaped() {
        let line = |source: &[u8]| {
            let (source, target) = (Endpoint::of(source), Endpoint::of(b"t"));
            let (source, target, escaped) = ends(&source, &target);
            serde_json::to_string(&KeptLine { source, target, ok: true, escaped }).unwrap()
        };
        assert_eq!(line(b"a"), r#"{"event":"kept","source":"a","target":"t","ok":true}"#);
        assert_eq!(line(b"a\n\\n"), r#"{"event":"kept","source":"a\n\\n","target":"t","ok":true}"#);
        assert_eq!(
            line(b"\\xff\xff"),
            r#"{"event":"kept","source":"\\\\xff\\xff","target":"t","ok":true,"source_escaped":true}"#
        );
    }

    #[test]
    fn error_codes_are_words_and_the_page_lists_them_with_their_exit_codes() {
        assert_eq!(code_of(ErrorKind::NotFound), "not_found");
        let (_, table) = include_str!("../../../../docs/json.md").split_once("\n| `usage` ").expect("the table");
        let documented: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with("| ")).collect();
        let ours: Vec<String> = ErrorKind::ALL
            .iter()
            .map(|&kind| {
                let exit = |error: Error, side| Exit::of_error(&error, side) as u8;
                let error = Error::new(kind, "");
                let exits = match (exit(error.clone(), Side::Here), exit(error.reported(), Side::Peer)) {
                    (here, there) if here == there => here.to_string(),
                    (here, there) => format!("{here} here, {there} there"),
                };
                format!("| `{}` | {} | {exits} |", code_of(kind), kind.text())
            })
            .collect();
        assert_eq!(documented, ours);
    }
}
