//! For a terminal: a bar with rate and time left, and one line for each file done, on request with its channels.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use xdfs_client::tree::Summary;
use xdfs_proto::base::ErrorKind;

use super::plain::kept_message;
use super::{Item, Output, Transfer, Tree};
use crate::exit::Failure;
use crate::size::{human, human_rate};

/// Drawings per second: enough to look smooth, too few to cost anything.
const DRAWS_PER_SECOND: u8 = 10;

const WITH_SIZE: &str =
    "{prefix}{wide_msg} {bar:24} {percent:>3}% {decimal_bytes:>10} {decimal_bytes_per_sec:>12} {eta:>4} left";
const WITHOUT_SIZE: &str = "{prefix}{wide_msg} {spinner} {decimal_bytes:>10} {decimal_bytes_per_sec:>12}";

/// Bars on standard error.
#[derive(Debug)]
pub(super) struct Terminal {
    bars: MultiProgress,
    file: Option<ProgressBar>,
    show_channels: bool,
    sized: bool,
}

impl Terminal {
    pub(super) fn new(show_channels: bool) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        Self { bars, file: None, show_channels, sized: false }
    }

    fn say(&self, line: &str) {
        use std::io::Write;
        // The bars make room for it. A terminal that went away is no reason to stop a transfer.
        self.bars.suspend(|| writeln!(std::io::stderr().lock(), "{line}")).unwrap_or_default();
    }

    fn clear(&mut self) {
        if let Some(bar) = self.file.take() {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
    }
}

impl Output for Terminal {
    fn begin(&mut self, item: &Item) {
        self.clear();
        let bar = self.bars.add(ProgressBar::no_length().with_style(style(WITHOUT_SIZE)));
        bar.set_message(item.source.clone());
        if item.count > 1 {
            bar.set_prefix(format!("[{}/{}] ", item.number, item.count));
        }
        self.sized = false;
        self.file = Some(bar);
    }

    fn progress(&mut self, bytes: u64, size: Option<u64>) {
        let Some(bar) = &self.file else { return };
        if let Some(size) = size
            && !self.sized
        {
            bar.set_style(style(WITH_SIZE));
            bar.set_length(size);
            self.sized = true;
        }
        bar.set_position(bytes);
    }

    fn finished(&mut self, item: &Item, transfer: &Transfer) -> Result<(), Failure> {
        self.clear();
        self.say(&finished_line(item, transfer));
        if self.show_channels {
            for (number, &bytes) in (1..).zip(&transfer.channel_bytes) {
                self.say(&channel_line(number, bytes, transfer.bytes));
            }
        }
        Ok(())
    }

    fn kept(&mut self, item: &Item) -> Result<(), Failure> {
        self.clear();
        self.note(&kept_message(item));
        Ok(())
    }

    fn failed(&mut self, _path: &str, _kind: ErrorKind, message: &str) -> Result<(), Failure> {
        self.clear();
        self.note(message);
        Ok(())
    }

    fn tree_progress(&mut self, (source, _): (&str, &str), summary: &Summary, bytes_moving: u64) {
        let bar = self.file.get_or_insert_with(|| {
            let bar = self.bars.add(ProgressBar::no_length().with_style(style(WITHOUT_SIZE)));
            bar.set_message(source.to_owned());
            bar
        });
        bar.set_prefix(format!("{} files ", summary.files + summary.skipped));
        bar.set_position(summary.bytes + bytes_moving);
    }

    fn tree_finished(&mut self, tree: &Tree) -> Result<(), Failure> {
        self.clear();
        self.say(&tree_line(tree));
        super::plain::tree_notes(tree).iter().for_each(|note| self.note(note));
        Ok(())
    }

    fn note(&mut self, message: &str) {
        self.say(&format!("xdfs: {message}"));
    }
}

fn finished_line(item: &Item, transfer: &Transfer) -> String {
    format!(
        "{}  {}  {}  {}  {} channel{} {}",
        item.source,
        human(transfer.bytes),
        duration(transfer.elapsed),
        human_rate(transfer.bytes, transfer.elapsed),
        transfer.channels,
        if transfer.channels == 1 { "," } else { "s," },
        transfer.level.name(),
    )
}

fn tree_line(tree: &Tree) -> String {
    let Tree { summary, elapsed, .. } = tree;
    let counted = |count: u64, words: &str| if count == 0 { String::new() } else { format!(", {count} {words}") };
    format!(
        "{}  {} files  {}  {}  {}{}{}{}",
        tree.source,
        summary.files,
        human(summary.bytes),
        duration(*elapsed),
        human_rate(summary.bytes, *elapsed),
        counted(summary.skipped, "the same"),
        counted(summary.deleted, "deleted"),
        counted(summary.failed, "failed"),
    )
}

/// A channel's bytes and its share of the whole.
fn channel_line(number: usize, bytes: u64, all: u64) -> String {
    let share = if all == 0 { 0.0 } else { bytes as f64 * 100.0 / all as f64 };
    format!("  channel {number:<4} {:>8}  {share:5.1} %", human(bytes))
}

fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..60 => format!("{:.2} s", elapsed.as_secs_f64()),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02} h", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants of this file, and a test reads each.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use xdfs_proto::base::{Level, Safety};

    use super::*;
    use crate::plan::Check;

    #[test]
    fn every_template_can_be_read() {
        for template in [WITH_SIZE, WITHOUT_SIZE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_file_that_is_done_leaves_one_line() {
        let item = Item { source: "a.bin".to_owned(), target: "b".to_owned(), number: 1, count: 1 };
        let mut transfer = Transfer {
            bytes: 2_000_000_000,
            elapsed: Duration::from_millis(800),
            channels: 8,
            congestion: "cubic".to_owned(),
            level: Level::Clear,
            safety: Safety::Durable,
            resumed: 0,
            check: Check::None,
            hash: None,
            retries: 0,
            channel_bytes: Vec::new(),
        };
        assert_eq!(finished_line(&item, &transfer), "a.bin  2.00 GB  0.80 s  2.50 GB/s  8 channels, clear");
        transfer.channels = 1;
        transfer.elapsed = Duration::from_secs(3_725);
        assert_eq!(finished_line(&item, &transfer), "a.bin  2.00 GB  1:02:05 h  537 kB/s  1 channel, clear");
        assert_eq!(channel_line(3, 500_000_000, 2_000_000_000), "  channel 3      500 MB   25.0 %");
        assert_eq!(channel_line(1, 0, 0), "  channel 1         0 B    0.0 %");
    }
}
