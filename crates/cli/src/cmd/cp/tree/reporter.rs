//! Reports the events of a tree copy.

use std::time::{Duration, Instant};

use xdfs_client::tree::{EntryAction, Observer, Summary, Total};
use xdfs_client::{Error, ErrorKind};

use super::super::monitor::TransferMonitor;
use super::names::Failures;
use crate::exit::Failure;
use crate::output::{Endpoint, TreeProgress};
use crate::plan::TreePlan;
use crate::text::{printable, shortened};

/// Interval between updates of a progress bar.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Reports the progress and the failures of a tree copy.
pub(super) struct TreeReporter<'m, 'o> {
    moving: &'m mut TransferMonitor<'o>,
    failures: &'m mut Failures,
    dry_run: bool,
    source: &'m Endpoint,
    target: &'m Endpoint,
    total: &'m Total,
    shown: Instant,
    /// An output error: the copy stops.
    broken: Option<Failure>,
}

impl<'m, 'o> TreeReporter<'m, 'o> {
    pub(super) fn new(
        moving: &'m mut TransferMonitor<'o>,
        failures: &'m mut Failures,
        plan: &TreePlan,
        (source, target): (&'m Endpoint, &'m Endpoint),
        total: &'m Total,
    ) -> Self {
        Self { moving, failures, dry_run: plan.dry_run, source, target, total, shown: Instant::now(), broken: None }
    }

    /// Fails if an event could not be written.
    pub(super) fn check(self) -> Result<(), Failure> {
        self.broken.map_or(Ok(()), Err)
    }

    fn keep(&mut self, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.broken.get_or_insert(failure);
        }
    }
}

impl Observer for TreeReporter<'_, '_> {
    fn done(&mut self, path: &[u8], action: EntryAction) {
        let told = self.moving.output().name_done(path, action, self.dry_run);
        self.keep(told);
    }

    fn failed(&mut self, path: &[u8], error: &Error) {
        let name = if path.is_empty() { ".".to_owned() } else { printable(path) };
        let kind: ErrorKind = error.kind;
        let text = error.to_string();
        let start = if path.is_empty() { b".".as_slice() } else { path };
        let message = named_in(&text, &name).unwrap_or_else(|| format!("{}: {text}", shortened(start)));
        let told = self.moving.output().failed(&name, kind, &message);
        let listed = self.failures.add(path, kind);
        self.keep(told.and(listed));
    }

    fn note(&mut self, text: &str) {
        self.moving.output().note(text);
    }

    fn not_done(&mut self, text: &str) {
        self.moving.output().not_done(&format!("{}: {text}", self.target));
    }

    fn should_continue(&mut self, summary: &Summary, bytes_moving: u64) -> bool {
        let moved = summary.bytes.saturating_add(bytes_moving);
        let names = summary.files + summary.directories + summary.skipped + summary.others + summary.passed_over;
        self.moving.reach(moved.saturating_add(names + summary.deleted));
        if self.shown.elapsed() >= SHOW_EVERY {
            self.shown = Instant::now();
            let progress = TreeProgress { summary: *summary, moving: bytes_moving, total: self.total.counted() };
            self.moving.output().tree_progress((self.source, self.target), &progress);
        }
        !self.moving.stopped() && self.broken.is_none()
    }
}

/// A text that names the file already, as storage and servers do: in quotes, behind a path of theirs. All
/// names of a tree are told as they are in the tree.
fn named_in(text: &str, name: &str) -> Option<String> {
    let end = text.find(&format!("{name}'"))?;
    let (before, rest) = text.split_at(end);
    let start = before.rfind('\'')?;
    let above = &before[start + 1..];
    if name == "." || !before[..start].ends_with(' ') {
        return Some(text.to_owned());
    }
    (above.is_empty() || above.ends_with('/')).then(|| format!("{}'{rest}", &before[..start]))
}

#[cfg(test)]
mod tests {
    use super::named_in;

    #[test]
    fn a_name_of_a_tree_is_told_as_it_is_in_the_tree() {
        let told = |text: &str| named_in(text, "locale/uk");
        let short = Some("cannot create 'locale/uk': no space left on device".to_owned());
        assert_eq!(told("cannot create 'share/locale/uk': no space left on device"), short);
        assert_eq!(told("cannot create 'locale/uk': no space left on device"), short);
        assert_eq!(told("no space left on device"), None);
        assert_eq!(told("cannot create 'a-locale/uk': no space left on device"), None);
        let odd = "cannot create 'it's/locale/uk': no space left on device";
        assert_eq!(told(odd), Some(odd.to_owned()));
        assert_eq!(named_in("cannot list 'share/.': no", "."), Some("cannot list 'share/.': no".to_owned()));
    }
}
