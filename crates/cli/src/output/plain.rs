//! For pipes, logs and `-q`: no output, except what the user has to know.

use std::ffi::OsStr;

use xdfs_client::tree::{EntryAction, NotPreserved};
use xdfs_proto::base::ErrorKind;

use super::{CopiedFile, CopiedTree, CopyItem, Output, complain, report, write_line};
use crate::exit::{Failure, HELP};
use crate::url::looks_like_url;

/// No progress, no success: only errors and, unless quiet, notes.
#[derive(Debug)]
pub(super) struct Plain {
    quiet: bool,
}

impl Plain {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet }
    }
}

impl Output for Plain {
    fn begin(&mut self, _item: &CopyItem) {}

    fn progress(&mut self, _bytes: u64, _size: Option<u64>) {}

    fn finished(&mut self, _item: &CopyItem, _transfer: &CopiedFile) -> Result<(), Failure> {
        Ok(())
    }

    fn kept(&mut self, item: &CopyItem) -> Result<(), Failure> {
        self.note(&skipped_message(item));
        Ok(())
    }

    fn failed(&mut self, _path: &str, _kind: ErrorKind, message: &str) -> Result<(), Failure> {
        report(message);
        Ok(())
    }

    fn note(&mut self, message: &str) {
        if !self.quiet {
            complain(message);
        }
    }

    fn line(&mut self, text: &str) {
        write_line(text);
    }
}

/// The message for a target that was kept.
pub(super) fn skipped_message(item: &CopyItem) -> String {
    format!("{}: it exists and was kept (-n)", item.target)
}

/// The word of a dry run for a name; `None` for one that is left alone.
pub(super) const fn action_word(action: EntryAction) -> Option<&'static str> {
    match action {
        EntryAction::Copied { replaces: true, .. } => Some("replace"),
        EntryAction::Copied { .. } => Some("copy"),
        EntryAction::Made => Some("make"),
        EntryAction::Deleted => Some("delete"),
        EntryAction::Skipped => None,
    }
}

/// The word of `-v` for a name; `None` for one that is left alone.
pub(super) const fn done_word(action: EntryAction) -> Option<&'static str> {
    match action {
        EntryAction::Copied { .. } => Some("copied"),
        EntryAction::Made => Some("made"),
        EntryAction::Deleted => Some("deleted"),
        EntryAction::Skipped => None,
    }
}

const fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// What the user has to know about a tree that was copied.
pub(super) fn tree_notes(tree: &CopiedTree) -> Vec<String> {
    let summary = &tree.summary;
    let mut notes = Vec::new();
    if summary.passed_over > 0 {
        let (count, s) = (summary.passed_over, plural(summary.passed_over));
        notes.push(format!(
            "{}: passed over {count} special file{s} (pipes, sockets, devices)\nhelp: -a takes them",
            tree.source
        ));
    }
    // Only root gives files away, so that every other copy would say so each time.
    let is_repeated = summary.has_made_nothing() && summary.not_preserved == NotPreserved::OWNER;
    if summary.reduced > 0 && !is_repeated {
        notes.push(not_preserved(tree.target.shown(), summary.reduced, summary.not_preserved, tree.archive));
    }
    if summary.failed > 0 {
        let (count, s) = (summary.failed, plural(summary.failed));
        notes.push(format!("{}: {count} name{s} failed{HELP}{}", tree.target, tree.causes.remedy()));
    }
    notes
}
/// What a target does not keep, and who can change that.
pub(crate) fn not_preserved(target: &str, count: u64, kinds: NotPreserved, archive: bool) -> String {
    let kinds = kinds.names().collect::<Vec<_>>().join(", ");
    let remedy = match looks_like_url(OsStr::new(target)) {
        _ if !archive => "",
        true => "\nhelp: the server's administrator grants them with 'keep' in the configuration of the export",
        false => "\nhelp: run it as root, who may give files away, or leave -a out",
    };
    let s = plural(count);
    format!("{target}: {count} attribute{s} or special file{s} could not be kept: {kinds}{remedy}")
}
