//! Runs all of CI several times in a row, every second time beside four busy processes: a test that depends on luck
//! shows itself. It must not decide what CI is.

use crate::{Failure, Outcome, metadata};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Runs where nothing else is said.
const RUNS: u32 = 10;

/// Busy processes beside every second run.
const BUSY: usize = 4;

/// Runs CI `amount` times and stops at the first run that fails, whose output is kept.
pub(crate) fn run(amount: Option<&str>) -> Outcome {
    let runs = match amount {
        None => RUNS,
        Some(text) => text.parse().map_err(|_| format!("'{text}' is not a number of runs"))?,
    };
    let folder = metadata::target_directory()?.join("repeated");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for number in 1..=runs {
        let is_busy = number % 2 == 0;
        let began = Instant::now();
        let said = one(&folder, number, is_busy)?;
        let beside = if is_busy { ", beside four busy processes" } else { "" };
        println!("run {number} of {runs}{beside}: {said}, {:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(format!("{runs} runs of CI in a row were green"))
}

/// One run of CI and the last line of it.
fn one(folder: &Path, number: u32, is_busy: bool) -> Result<String, Failure> {
    let (log, tally) = (folder.join(format!("{number}.log")), folder.join(format!("{number}.tally")));
    let busy = if is_busy { Busy::start()? } else { Busy(Vec::new()) };
    let status = ci(&log, &tally)?.status().map_err(|error| format!("cannot start CI: {error}"))?;
    drop(busy);
    let said = std::fs::read_to_string(&tally).unwrap_or_default().trim().to_owned();
    if status.success() {
        return Ok(said);
    }
    Err(format!("run {number} failed ({status}; {said}): see {}", log.display()).into())
}

/// This program once more, as `make test` runs it. Without `CI` the tests have no limit of time, which they would meet
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
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Result<Self, Failure> {
        let mut busy = Self(Vec::new());
        for _ in 0..BUSY {
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
