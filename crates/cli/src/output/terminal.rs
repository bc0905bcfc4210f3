//! For a terminal: a bar with rate and time left, and one line for each completed file, on request
//! with its channels.
//!
//! A bar never takes more than one line: a narrow terminal gets a shorter one. No rate is shown at
//! first: the first moments measure how quickly buffers were filled, and resumed bytes did not
//! move.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use xdfs_client::tree::Counted;
use xdfs_proto::base::ErrorKind;

use super::plain::skipped_message;
use super::{CopiedFile, CopiedTree, CopyItem, Endpoint, Output, TreeProgress, error_text, without_errno};
use crate::exit::Failure;
use crate::size::{human, human_rate};
use crate::text::shown;

/// Drawings per second: enough to look smooth, too few to cost anything.
const DRAWS_PER_SECOND: u8 = 10;

/// The format of a bar on a terminal of at least this many columns: for a known size, and for an
/// unknown one. Each has room for some letters of the name; below the last one only a number is
/// left.
const TEMPLATES: [(usize, &str, &str); 4] = [
    (
        80,
        "{prefix}{wide_msg} {bar:16} {percent:>3}% {decimal_bytes:>10} {rate:>12} {left:>9}",
        "{prefix}{wide_msg} {spinner} {decimal_bytes:>10} {rate:>12}",
    ),
    (50, "{wide_msg} {percent:>3}% {decimal_bytes:>10} {rate:>12}", "{wide_msg} {decimal_bytes:>10} {rate:>12}"),
    (30, "{wide_msg} {percent:>3}% {decimal_bytes:>10}", "{wide_msg} {decimal_bytes:>10}"),
    (0, "{percent:>3}% {decimal_bytes:>10}", "{decimal_bytes:>10}"),
];

/// Columns if the terminal does not report them.
const COLUMNS: usize = 80;

/// Time before a rate is shown.
const RATE_AFTER: Duration = Duration::from_secs(1);

/// What moves in this time after the start, or after it is known what an earlier command has left,
/// counts in no rate: it fills buffers, and what was allowed meanwhile goes at once.
const SETTLES_IN: Duration = Duration::from_millis(500);

/// The widest form without a bar.
const WITHOUT_BAR: usize = 79;

/// Time without progress after which the bar says so, besides the pauses of a slow rate.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// What stands in place of the middle of a name that is too long.
const GAP: &str = "...";

/// Bars on standard error.
#[derive(Debug)]
pub(super) struct Terminal {
    bars: MultiProgress,
    file: Option<Bar>,
    show_channels: bool,
    /// Time without progress after which a bar says so.
    stalled_after: Duration,
}

/// The bar of a file or tree, over all its attempts.
#[derive(Debug)]
struct Bar {
    bar: ProgressBar,
    /// The source as it is shown, and its number.
    name: String,
    number: usize,
    /// The last drawn form: the columns of the terminal, whether the size is known, and the seconds
    /// without progress.
    drawn: Option<(usize, bool, u64)>,
    /// The most that was reached, and when. An attempt after a lost connection begins at zero until
    /// the server says what it has.
    reached: u64,
    moved: Instant,
    /// From when on the rate is measured.
    settled: Instant,
    stalled_after: Duration,
}

impl Bar {
    fn new(bar: ProgressBar, name: String, number: usize, stalled_after: Duration) -> Self {
        let (moved, settled) = (Instant::now(), Instant::now() + SETTLES_IN);
        Self { bar, name, number, drawn: None, reached: 0, moved, settled, stalled_after }
    }

    /// The names of a tree that are settled, and how many there are.
    fn count(&self, progress: &TreeProgress) {
        let settled = progress.summary.settled();
        self.bar.set_prefix(match progress.total {
            Counted::Known(total) => format!("{settled}/{} files ", total.names.max(settled)),
            Counted::Counting => format!("{settled} files, still listing "),
            Counted::Unknown => format!("{settled} files "),
        });
    }

    /// This many bytes are done, of this size if known.
    fn show(&mut self, bytes: u64, size: Option<u64>) {
        if bytes > self.reached {
            (self.reached, self.moved) = (bytes, Instant::now());
        }
        let still = self.moved.elapsed();
        let still = if still < self.stalled_after { 0 } else { still.as_secs() };
        let (columns, sized) = (columns(), size.is_some());
        if self.drawn.replace((columns, sized, still)) != Some((columns, sized, still)) {
            // A bar that does not move says less than the reason.
            let form = if still > 0 { columns.min(WITHOUT_BAR) } else { columns };
            self.bar.set_style(style(form, sized));
            let fixed = fixed_columns(form, sized, &self.bar.prefix());
            self.bar.set_message(message(&self.name, still, columns.saturating_sub(fixed)));
        }
        size.iter().for_each(|size| self.bar.set_length(*size));
        self.bar.set_position(self.reached);
        if Instant::now() < self.settled {
            self.measure_from_here();
        }
    }

    /// The rate is that of what moves from now on.
    fn measure_from_here(&mut self) {
        // Else the position may not be known to what measures it.
        self.bar.tick();
        self.bar.reset_eta();
    }

    /// An earlier command has left this many bytes: they did not move now.
    fn resume_at(&mut self, bytes: u64, size: Option<u64>) {
        self.settled = Instant::now() + SETTLES_IN;
        self.show(bytes, size);
    }
}

/// The text before a bar, in so many columns: the name, and the time without an answer.
fn message(name: &str, still: u64, columns: usize) -> String {
    match still {
        0 => in_the_middle(name, columns),
        still => {
            let stalled = format!("no answer for {still} s ");
            let left = columns.saturating_sub(stalled.len());
            stalled + &in_the_middle(name, left)
        }
    }
}

/// A name in at most so many columns: of a longer one its start and its end, which tells files of
/// one directory apart.
fn in_the_middle(name: &str, columns: usize) -> String {
    if console_width(name) <= columns {
        return name.to_owned();
    }
    let Some(rest) = columns.checked_sub(GAP.len()) else { return String::new() };
    let (mut start, mut end) = (String::new(), Vec::new());
    let half = rest / 2;
    for character in name.chars() {
        if console_width(&start) + console_width(character.encode_utf8(&mut [0; 4])) > half {
            break;
        }
        start.push(character);
    }
    let mut left = rest - console_width(&start);
    for character in name.chars().rev() {
        let width = console_width(character.encode_utf8(&mut [0; 4]));
        if width > left {
            break;
        }
        left -= width;
        end.push(character);
    }
    start + GAP + &end.iter().rev().collect::<String>()
}

/// Columns that a text takes: characters outside of ASCII may take two.
fn console_width(text: &str) -> usize {
    text.chars().map(|character| if character.is_ascii() { 1 } else { 2 }).sum()
}

/// Columns that a template needs for everything but the message.
fn fixed_columns(form: usize, sized: bool, prefix: &str) -> usize {
    match (form, sized) {
        (80.., true) => 56 + console_width(prefix),
        (80.., false) => 26 + console_width(prefix),
        (50.., true) => 29,
        (50.., false) => 24,
        (30.., true) => 16,
        (30.., false) => 11,
        _ => 0,
    }
}

impl Terminal {
    /// Nothing is wrong if nothing moves for `longest_pause`.
    pub(super) fn new(show_channels: bool, longest_pause: Duration) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        Self { bars, file: None, show_channels, stalled_after: STALLED_AFTER + longest_pause }
    }

    fn say(&self, line: &str) {
        use std::io::Write;
        // The bars make room for it. A lost terminal is no reason to stop a transfer.
        self.bars.suspend(|| writeln!(std::io::stderr().lock(), "{}", shown(line))).unwrap_or_default();
    }

    /// A bar for a file or tree; its size is set when the server has reported it.
    fn add(&mut self, name: String, number: usize) -> &mut Bar {
        // Nothing is drawn before its form is known.
        let bar = self.bars.add(ProgressBar::no_length().with_style(style(0, false)));
        self.file.insert(Bar::new(bar, name, number, self.stalled_after))
    }

    fn clear(&mut self) {
        if let Some(Bar { bar, .. }) = self.file.take() {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
    }
}

impl Output for Terminal {
    fn begin(&mut self, item: &CopyItem) {
        let same = |bar: &Bar| bar.name == item.source.shown() && bar.number == item.number;
        if self.file.as_ref().is_some_and(same) {
            // Another attempt: the bar keeps its place.
            return;
        }
        self.clear();
        let bar = self.add(item.source.to_string(), item.number);
        if item.count > 1 {
            bar.bar.set_prefix(format!("[{}/{}] ", item.number, item.count));
        }
    }

    fn progress(&mut self, bytes: u64, size: Option<u64>) {
        self.file.iter_mut().for_each(|bar| bar.show(bytes, size));
    }

    fn resumes_at(&mut self, bytes: u64, size: Option<u64>) {
        self.file.iter_mut().for_each(|bar| bar.resume_at(bytes, size));
    }

    fn finished(&mut self, item: &CopyItem, transfer: &CopiedFile) -> Result<(), Failure> {
        self.clear();
        self.say(&finished_line(item, transfer));
        if self.show_channels {
            for (number, &bytes) in (1..).zip(&transfer.channel_bytes) {
                self.say(&channel_line(number, bytes, transfer.bytes));
            }
        }
        Ok(())
    }

    fn kept(&mut self, item: &CopyItem) -> Result<(), Failure> {
        self.clear();
        self.note(&skipped_message(item));
        Ok(())
    }

    fn failed(&mut self, _path: &str, _kind: ErrorKind, message: &str) -> Result<(), Failure> {
        self.clear();
        self.say(&error_text(message));
        Ok(())
    }

    fn shows_tree_progress(&self) -> bool {
        true
    }

    fn tree_progress(&mut self, (source, _): (&Endpoint, &Endpoint), progress: &TreeProgress) {
        if self.file.is_none() {
            self.add(source.to_string(), 0);
        }
        if let Some(bar) = &mut self.file {
            bar.count(progress);
            bar.show(progress.bytes(), progress.size());
        }
    }

    fn tree_finished(&mut self, tree: &CopiedTree) -> Result<(), Failure> {
        self.clear();
        super::plain::tree_notes(tree).iter().for_each(|note| self.note(note));
        Ok(())
    }

    fn note(&mut self, message: &str) {
        self.say(&format!("xdfs: {}", without_errno(message)));
    }

    fn not_done(&mut self, message: &str) {
        self.clear();
        self.say(&error_text(message));
    }

    fn line(&mut self, text: &str) {
        self.say(text);
    }
}

fn finished_line(item: &CopyItem, transfer: &CopiedFile) -> String {
    // What was there before did not move in this time; what an attempt of this command left did.
    let there = if transfer.retries == 0 { transfer.resumed } else { 0 };
    format!(
        "{}  {}  {}  {}  {} channel{} {}",
        item.source,
        human(transfer.bytes),
        duration(transfer.elapsed),
        human_rate(transfer.bytes.saturating_sub(there), transfer.elapsed),
        transfer.channels,
        if transfer.channels == 1 { "," } else { "s," },
        transfer.level.name(),
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

/// Columns of the terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(COLUMNS, |size| if size.ws_col == 0 { COLUMNS } else { size.ws_col.into() })
}

fn template(columns: usize, sized: bool) -> &'static str {
    let fits = TEMPLATES.iter().find(|(least, ..)| *least <= columns).unwrap_or(&TEMPLATES[TEMPLATES.len() - 1]);
    if sized { fits.1 } else { fits.2 }
}

fn style(columns: usize, sized: bool) -> ProgressStyle {
    // The templates are constants of this file, and a test reads each.
    let style = ProgressStyle::with_template(template(columns, sized)).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Writing to a line of text cannot fail.
    style
        .progress_chars("=> ")
        .with_key("rate", |state: &ProgressState, line: &mut dyn std::fmt::Write| {
            if state.elapsed() >= RATE_AFTER {
                let _ = write!(line, "{}/s", human(state.per_sec() as u64));
            }
        })
        .with_key("left", |state: &ProgressState, line: &mut dyn std::fmt::Write| {
            if state.elapsed() >= RATE_AFTER {
                let _ = write!(line, "{:#} left", indicatif::HumanDuration(state.eta()));
            }
        })
}

#[cfg(test)]
mod tests {
    use xdfs_proto::base::{Level, Safety};

    use super::*;
    use crate::plan::Check;

    #[test]
    fn every_template_can_be_read() {
        for template in TEMPLATES.iter().flat_map(|(_, sized, unsized_)| [sized, unsized_]) {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_name_is_shortened_in_the_middle_and_a_stall_is_told() {
        assert_eq!(in_the_middle("short", 5), "short");
        assert_eq!(in_the_middle("a-file-with-a-long-name.bin", 15), "a-file...me.bin");
        assert_eq!(in_the_middle("gr\u{fc}\u{fc}\u{fc}\u{fc}n", 8), "gr...\u{fc}n");
        assert_eq!(in_the_middle("name", 2), "");
        for columns in 0..40 {
            assert!(console_width(&in_the_middle("a-file-with-a-long-name.bin", columns)) <= columns);
        }
        assert_eq!(message("name", 0, 20), "name");
        assert_eq!(message("name", 8, 30), "no answer for 8 s name");
    }

    #[test]
    fn what_an_earlier_command_has_left_counts_in_no_rate() {
        let mut bar = Bar::new(ProgressBar::hidden(), "name".to_owned(), 1, STALLED_AFTER);
        bar.show(0, Some(1 << 40));
        bar.resume_at(1 << 39, Some(1 << 40));
        assert_eq!(bar.bar.position(), 1 << 39);
        bar.show((1 << 39) + (1 << 29), Some(1 << 40));
        assert_eq!(bar.bar.per_sec(), 0.0, "nor what comes in one piece with it");
        bar.settled = Instant::now();
        bar.show((1 << 39) + (1 << 30), Some(1 << 40));
        assert!(bar.bar.per_sec() > 0.0, "what moves now counts");
    }

    #[test]
    fn a_tree_is_still_listed_until_it_is_known_how_much_it_holds() {
        let bar = Bar::new(ProgressBar::hidden(), "name".to_owned(), 1, STALLED_AFTER);
        let prefix = |total| {
            let summary = xdfs_client::tree::Summary { files: 3, skipped: 2, ..Default::default() };
            bar.count(&TreeProgress { summary, moving: 0, total });
            bar.bar.prefix()
        };
        assert_eq!(prefix(Counted::Counting), "5 files, still listing ");
        let known = |names| Counted::Known(xdfs_client::tree::Sum { names, ..Default::default() });
        assert_eq!(prefix(known(40)), "5/40 files ");
        // Some came while it was counted.
        assert_eq!(prefix(known(4)), "5/5 files ");
        assert_eq!(prefix(Counted::Unknown), "5 files ");
    }

    #[test]
    fn a_bar_says_that_nothing_moves_after_the_pauses_of_a_slow_rate() {
        let mut bar = Bar::new(ProgressBar::hidden(), "name".to_owned(), 1, STALLED_AFTER);
        bar.moved = bar.moved.checked_sub(Duration::from_secs(6)).unwrap();
        bar.show(0, None);
        assert_eq!(bar.drawn.unwrap().2, 6);
        bar.stalled_after = STALLED_AFTER + Duration::from_secs(7);
        bar.show(0, None);
        assert_eq!(bar.drawn.unwrap().2, 0);
    }

    #[test]
    fn a_file_that_is_done_leaves_one_line() {
        let item = CopyItem { source: Endpoint::of(b"a.bin"), target: Endpoint::of(b"b"), number: 1, count: 1 };
        let mut transfer = CopiedFile {
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
        transfer.resumed = 1_000_000_000;
        assert_eq!(finished_line(&item, &transfer), "a.bin  2.00 GB  0.80 s  1.25 GB/s  8 channels, clear");
        (transfer.resumed, transfer.channels) = (0, 1);
        transfer.elapsed = Duration::from_secs(3_725);
        assert_eq!(finished_line(&item, &transfer), "a.bin  2.00 GB  1:02:05 h  537 kB/s  1 channel, clear");
        assert_eq!(channel_line(3, 500_000_000, 2_000_000_000), "  channel 3      500 MB   25.0 %");
        assert_eq!(channel_line(1, 0, 0), "  channel 1         0 B    0.0 %");
    }
}
