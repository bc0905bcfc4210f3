//! Runs all of CI several times in a row, every second time beside four busy processes: a test that depends on luck
//! shows itself. Ten runs take longer than a working day has hours left, so a row that was interrupted goes on where
//! it was, as long as the sources are the same, also in another clone: commit its file. It must not decide what CI is.

use crate::{Failure, Outcome, metadata, process, tree};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Runs where nothing else is said.
const RUNS: u32 = 10;

/// Busy processes beside every second run.
const BUSY: usize = 4;

/// What may change within a row: the page and the folder in which its runs are written down.
const WRITTEN_DOWN: [&str; 2] = [":!docs/durability.md", ":!bench/results"];

/// The row so far. It is gone when the row is over.
const ROW: &str = "bench/results/row-of-ci";

/// Runs CI until `amount` runs in a row were green, and stops at the first that fails, whose output is kept.
pub(crate) fn run(amount: Option<&str>) -> Outcome {
    let runs = match amount {
        None => RUNS,
        Some(text) => text.parse().map_err(|_| format!("'{text}' is not a number of runs"))?,
    };
    let folder = metadata::target_directory()?.join("repeated");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let row = Row { file: tree::root().join(ROW), sources: sources()? };
    let green = row.green();
    for line in &green {
        println!("{line} (run before)");
    }
    let begin = u32::try_from(green.len()).unwrap_or(u32::MAX);
    for number in begin.saturating_add(1)..=runs {
        let is_busy = number % 2 == 0;
        let began = Instant::now();
        let said = one(&folder, number, is_busy).inspect_err(|_| row.end())?;
        let beside = if is_busy { ", beside four busy processes" } else { "" };
        let line = format!("run {number} of {runs}{beside}: {said}, {:.0} s", began.elapsed().as_secs_f64());
        println!("{line}");
        if sources()? != row.sources {
            row.end();
            return Err(format!("the sources were changed during run {number}: the row is over").into());
        }
        row.add(&line)?;
    }
    row.end();
    Ok(format!("{runs} runs of CI in a row were green"))
}

/// The green runs of the same sources so far, in a file that a later command goes on with.
struct Row {
    file: PathBuf,
    sources: String,
}

impl Row {
    /// A line for each run. The file's first line names the sources; a row of others counts for nothing.
    fn green(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let mut lines = text.lines().map(str::to_owned);
        if lines.next().as_deref() == Some(self.sources.as_str()) { lines.collect() } else { Vec::new() }
    }

    fn add(&self, line: &str) -> Result<(), Failure> {
        let failed = |error| format!("{}: {error}", self.file.display());
        if self.green().is_empty() {
            std::fs::write(&self.file, format!("{}\n", self.sources)).map_err(failed)?;
        }
        let mut file = OpenOptions::new().append(true).open(&self.file).map_err(failed)?;
        writeln!(file, "{line}").map_err(failed)?;
        Ok(())
    }

    /// The next command begins with the first run.
    fn end(&self) {
        // A row that never began has no file.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// What stands for the sources: a hash of the names and contents that git has of them.
fn sources() -> Result<String, Failure> {
    let mut changed = Command::new("git");
    changed.args(["status", "--porcelain", "--", "."]).args(WRITTEN_DOWN).current_dir(tree::root());
    let changed = process::output(&mut changed)?;
    if !changed.is_empty() {
        return Err(format!("commit first: a row of runs is about one state of the sources:\n{changed}").into());
    }
    let mut hash = Command::new("sh");
    hash.args(["-c", "git ls-files --stage -- . \"$@\" | git hash-object --stdin", "sh"]).args(WRITTEN_DOWN);
    Ok(process::output(hash.current_dir(tree::root()))?.trim().to_owned())
}

/// One run of CI and the last line of it.
fn one(folder: &Path, number: u32, is_busy: bool) -> Result<String, Failure> {
    let (log, tally) = (folder.join(format!("{number}.log")), folder.join(format!("{number}.tally")));
    let busy = if is_busy { Busy::start(BUSY)? } else { Busy(Vec::new()) };
    let status = ci(&log, &tally)?.status().map_err(|error| format!("cannot start CI: {error}"))?;
    drop(busy);
    let said = std::fs::read_to_string(&tally).unwrap_or_default().trim().to_owned();
    if status.success() {
        return Ok(said);
    }
    Err(format!("run {number} failed ({status}; {said}): see {}", log.display()).into())
}

/// This program once more, as `make test` runs it. Without `CI` the tests have no limit of time that they would meet
/// beside others; nothing may be left out all the same.
fn ci(log: &PathBuf, tally: &Path) -> Result<Command, Failure> {
    let ourselves = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT").arg(ourselves).arg("ci");
    command.env_remove("CI").env_remove("XDFS_TESTS_MAY_LEAVE_OUT").env("XTASK_TALLY_FILE", tally);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    Ok(command)
}

/// Processes that compute and never wait. They end with this value.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    pub(crate) fn start(amount: usize) -> Result<Self, Failure> {
        let mut busy = Self(Vec::new());
        for _ in 0..amount {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            busy.0.push(command.spawn().map_err(|error| format!("cannot start a shell: {error}"))?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already is not busy either.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_on_only_with_the_same_sources() {
        let file = std::env::temp_dir().join(format!("xdfs-row-test-{}", std::process::id()));
        let row = |sources: &str| Row { file: file.clone(), sources: sources.to_owned() };
        assert!(row("a").green().is_empty());
        row("a").add("first").unwrap();
        row("a").add("second").unwrap();
        assert_eq!(row("a").green(), ["first", "second"]);
        assert!(row("b").green().is_empty());
        row("b").add("other").unwrap();
        assert_eq!(row("b").green(), ["other"]);
        assert!(row("a").green().is_empty());
        row("b").end();
        assert!(row("b").green().is_empty());
    }
}
