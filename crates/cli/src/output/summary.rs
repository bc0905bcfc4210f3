//! What a copy did, in one line at its end: "copied 1,729 files, 5.19 MB in 0.8 s".
//!
//! Wraps the output of a copy and counts what passes. The line is printed on a terminal, and on
//! request without one: a job of cron sends mail for every line.

use std::time::{Duration, Instant};

use xdfs_client::tree::{EntryAction, Summary};
use xdfs_proto::base::ErrorKind;

use super::plain::done_word;
use super::{CopiedFile, CopiedTree, CopyItem, Endpoint, Output, PlannedCopy, Recovered, TreeProgress, complain};
use crate::exit::Failure;
use crate::size::human;
use crate::text::printable;

/// What was done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Totals {
    files: u64,
    bytes: u64,
    /// Names that were the same, or were kept.
    left: u64,
    deleted: u64,
    failed: u64,
    /// Trees that were copied: their names may be more than files.
    trees: u64,
    dry_run: bool,
}

impl Totals {
    /// Adds a tree.
    fn add(&mut self, summary: &Summary) {
        self.trees += 1;
        self.files += summary.files;
        self.bytes = self.bytes.saturating_add(summary.bytes);
        self.left += summary.skipped;
        self.deleted += summary.deleted;
    }

    fn text(&self, elapsed: Duration) -> String {
        let (files, bytes) = (counted(self.files), human(self.bytes));
        let plural = if self.files == 1 { "" } else { "s" };
        let mut text = match self.dry_run {
            true => format!("would copy {files} file{plural} ({bytes})"),
            false => format!("copied {files} file{plural}, {bytes} in {:.1} s", elapsed.as_secs_f64()),
        };
        let deleted = if self.dry_run { "would be deleted" } else { "deleted" };
        for (count, what) in [(self.left, "left as they were"), (self.deleted, deleted), (self.failed, "failed")] {
            if count > 0 {
                text.push_str(&format!(", {} {what}", counted(count)));
            }
        }
        text
    }
}

/// A number with a comma between groups of three digits.
fn counted(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// When the line is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    Never,
    /// For more than one file.
    OfSeveral,
    Always,
}

/// Which files are named when they are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    Nothing,
    /// Those of trees.
    Trees,
    All,
}

/// An output that also counts.
pub(super) struct Summarised {
    inner: Box<dyn Output>,
    named: Named,
    totals: Totals,
    started: Instant,
    wanted: Wanted,
    /// The number of the file that is being copied, how far it is, and how much of that an earlier
    /// command has left.
    number: usize,
    reached: u64,
    there: u64,
    /// It cannot be continued.
    starts_over: bool,
    /// It was part of a message already.
    told: bool,
    /// Something was to be copied.
    begun: bool,
}

impl Summarised {
    pub(super) fn new(inner: Box<dyn Output>, wanted: Wanted, named: Named) -> Self {
        let (totals, started) = (Totals::default(), Instant::now());
        let (number, reached, there) = (0, 0, 0);
        Self {
            inner,
            named,
            totals,
            started,
            wanted,
            number,
            reached,
            there,
            starts_over: false,
            told: false,
            begun: false,
        }
    }
}

impl Output for Summarised {
    fn begin(&mut self, item: &CopyItem) {
        self.begun = true;
        // Another attempt goes on where this command was.
        if self.number != item.number {
            (self.number, self.reached, self.there) = (item.number, 0, 0);
        }
        // What went through a pipe is gone.
        self.starts_over = item.source.shown() == "-" || item.target.shown() == "-";
        self.inner.begin(item);
    }

    fn resumes_at(&mut self, bytes: u64, size: Option<u64>) {
        // Up to there this command had copied it.
        self.there += bytes.saturating_sub(self.reached);
        self.reached = self.reached.max(bytes);
        self.inner.resumes_at(bytes, size);
    }

    fn progress(&mut self, bytes: u64, size: Option<u64>) {
        self.reached = self.reached.max(bytes);
        self.inner.progress(bytes, size);
    }

    fn finished(&mut self, item: &CopyItem, transfer: &CopiedFile) -> Result<(), Failure> {
        self.totals.files += 1;
        self.totals.bytes += transfer.bytes.saturating_sub(self.there);
        (self.number, self.reached, self.there) = (0, 0, 0);
        self.inner.finished(item, transfer)?;
        if self.named == Named::All {
            self.inner.line(&format!("copied {} to {}", item.source, item.target));
        }
        Ok(())
    }

    fn kept(&mut self, item: &CopyItem) -> Result<(), Failure> {
        self.totals.left += 1;
        self.inner.kept(item)
    }

    fn planned(&mut self, planned: &PlannedCopy) -> Result<(), Failure> {
        self.totals.dry_run = true;
        self.totals.files += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(planned.bytes.unwrap_or(0));
        self.inner.planned(planned)
    }

    fn failed(&mut self, path: &str, kind: ErrorKind, message: &str) -> Result<(), Failure> {
        if kind != ErrorKind::Cancelled {
            self.totals.failed += 1;
            return self.inner.failed(path, kind, message);
        }
        self.told = true;
        // Somebody left at a question: there is nothing to continue.
        if !self.begun && self.totals == Totals::default() {
            return self.inner.failed(path, kind, message);
        }
        // What has arrived of a file is kept.
        self.totals.bytes += self.reached - self.there;
        let totals = self.totals.text(self.started.elapsed());
        let next = if self.starts_over { "the same command starts over" } else { "run the same command to continue" };
        self.inner.failed(path, kind, &format!("{message}: {totals}; {next}"))
    }

    fn expired(&mut self, directory: &str, found: &Recovered) -> Result<(), Failure> {
        self.inner.expired(directory, found)
    }

    fn name_done(&mut self, path: &[u8], action: EntryAction, dry_run: bool) -> Result<(), Failure> {
        self.inner.name_done(path, action, dry_run)?;
        // A dry run has named it.
        if let (false, false, Some(word)) = (self.named == Named::Nothing, dry_run, done_word(action)) {
            let path = if path.is_empty() { "." } else { &printable(path) };
            self.inner.line(&format!("{word} {path}"));
        }
        Ok(())
    }

    fn shows_tree_progress(&self) -> bool {
        self.inner.shows_tree_progress()
    }

    fn tree_progress(&mut self, ends: (&Endpoint, &Endpoint), progress: &TreeProgress) {
        self.inner.tree_progress(ends, progress);
    }

    fn tree_finished(&mut self, tree: &CopiedTree) -> Result<(), Failure> {
        self.totals.add(&tree.summary);
        self.totals.dry_run |= tree.dry_run;
        self.inner.tree_finished(tree)
    }

    fn tree_stopped(&mut self, summary: &Summary) {
        self.totals.add(summary);
        self.inner.tree_stopped(summary);
    }

    fn note(&mut self, message: &str) {
        self.inner.note(message);
    }

    fn not_done(&mut self, message: &str) {
        self.inner.not_done(message);
    }

    fn line(&mut self, text: &str) {
        self.inner.line(text);
    }

    fn ended(&mut self) {
        self.inner.ended();
        let several = self.totals.trees > 0 || self.totals.files + self.totals.left > 1;
        if !self.told && (self.wanted == Wanted::Always || self.wanted == Wanted::OfSeveral && several) {
            complain(&self.totals.text(self.started.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_what_was_done_and_what_would_be() {
        let totals = Totals { files: 1729, bytes: 5_190_000, ..Totals::default() };
        assert_eq!(totals.text(Duration::from_millis(812)), "copied 1,729 files, 5.19 MB in 0.8 s");
        let totals = Totals { files: 8511, bytes: 25_500_000, deleted: 2, dry_run: true, ..totals };
        assert_eq!(totals.text(Duration::ZERO), "would copy 8,511 files (25.5 MB), 2 would be deleted");
        let totals = Totals { files: 1, bytes: 7, left: 1000, deleted: 3, failed: 2, ..Totals::default() };
        let text = "copied 1 file, 7 B in 2.0 s, 1,000 left as they were, 3 deleted, 2 failed";
        assert_eq!(totals.text(Duration::from_secs(2)), text);
        assert_eq!([0, 999, 1000, 1_234_567].map(counted), ["0", "999", "1,000", "1,234,567"]);
    }

    /// The messages of an output.
    #[derive(Clone, Default)]
    struct Heard(std::rc::Rc<std::cell::RefCell<Vec<String>>>);

    impl Output for Heard {
        fn begin(&mut self, _item: &CopyItem) {}
        fn progress(&mut self, _bytes: u64, _size: Option<u64>) {}
        fn finished(&mut self, _item: &CopyItem, _transfer: &CopiedFile) -> Result<(), Failure> {
            Ok(())
        }
        fn kept(&mut self, _item: &CopyItem) -> Result<(), Failure> {
            Ok(())
        }
        fn failed(&mut self, _path: &str, _kind: ErrorKind, message: &str) -> Result<(), Failure> {
            self.0.borrow_mut().push(message.to_owned());
            Ok(())
        }
        fn note(&mut self, _message: &str) {}
        fn line(&mut self, _text: &str) {}
    }

    #[test]
    fn what_an_earlier_command_has_left_is_not_counted_as_copied() {
        let heard = Heard::default();
        let mut output = Summarised::new(Box::new(heard.clone()), Wanted::Always, Named::Nothing);
        let (source, target) = (Endpoint::of(b"a"), Endpoint::of(b"b"));
        let item = CopyItem { source, target, number: 1, count: 1 };
        output.begin(&item);
        output.resumes_at(31_000_000, None);
        output.progress(40_000_000, None);
        // The connection is lost; the next attempt goes on a little before that.
        output.begin(&item);
        output.resumes_at(39_000_000, None);
        output.progress(52_000_000, None);
        output.failed("b", ErrorKind::Cancelled, "cancelled").unwrap();
        let told = heard.0.borrow()[0].clone();
        assert!(told.starts_with("cancelled: copied 0 files, 21.0 MB in "), "{told}");
    }
}
