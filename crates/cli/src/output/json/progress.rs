//! Lines of progress.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::Serialize;
use xdfs_client::tree::Counted;

use super::super::{Endpoint, TreeProgress};
use super::{EscapedEnds, JsonLines, ends};

/// How far a file or tree is, about once a second.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "progress")]
struct ProgressLine<'a> {
    source: Cow<'a, str>,
    target: Cow<'a, str>,
    #[serde(flatten)]
    names: NamesLine,
    /// Bytes that are done, those of earlier attempts included.
    bytes: u64,
    /// The size of the file, or of the files of a tree that are to be copied; `None` while it is not
    /// known.
    size: Option<u64>,
    seconds: f64,
    #[serde(flatten)]
    escaped: EscapedEnds,
}

/// The names of a tree.
#[derive(Serialize, Clone, Copy, Debug, Default)]
pub(super) struct NamesLine {
    /// Files that were copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// Names that are settled, directories aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    names_done: Option<u64>,
    /// All names, directories aside, once they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    names_total: Option<u64>,
}

impl NamesLine {
    pub(super) fn of(progress: &TreeProgress) -> Self {
        let names_total = match progress.total {
            Counted::Known(total) => Some(total.names),
            Counted::Unknown | Counted::Counting => None,
        };
        Self { files: Some(progress.summary.files), names_done: Some(progress.summary.settled()), names_total }
    }
}

/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What is being copied, for lines of progress.
#[derive(Debug)]
pub(super) struct Current {
    source: Endpoint,
    target: Endpoint,
    began: Instant,
    told: Instant,
}

impl Current {
    pub(super) fn new(source: Endpoint, target: Endpoint) -> Self {
        let now = Instant::now();
        Self { source, target, began: now, told: now }
    }

    /// Writes a line if the last one is a second old.
    pub(super) fn tell(&mut self, names: NamesLine, bytes: u64, size: Option<u64>) {
        if self.told.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.told = Instant::now();
        let (source, target, escaped) = ends(&self.source, &self.target);
        let seconds = self.began.elapsed().as_secs_f64();
        // Where nothing can be written, the line of the result reports it.
        let _ = JsonLines.write(&ProgressLine { source, target, names, bytes, size, seconds, escaped });
    }
}
