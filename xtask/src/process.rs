//! Runs other programs: cargo most of all.

use crate::{Failure, tally::Tally, tree};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Variables that cargo sets for the program it runs.
const OURS: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// A cargo command at the root of the repository, without standard input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(tree::root()).stdin(Stdio::null());
    // What the cargo that started us says about our own package is nothing to the packages that this one builds.
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| OURS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix))) {
        command.env_remove(name);
    }
    command
}

/// Runs a command whose output goes to ours.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = show(command);
    let status = command.status().map_err(|error| format!("cannot start {shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}").into()) }
}

/// Runs a command and returns what it printed; its error output goes to ours.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = show(command);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot start {shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}", output.status).into());
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{shown}: its output is not UTF-8").into())
}

/// Runs a command that runs tests: shows its output as it comes and counts the results in it.
pub(crate) fn run_counted(command: &mut Command, tally: &mut Tally) -> Result<(), Failure> {
    let shown = show(command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start {shown}: {error}"))?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        let mut terminal = std::io::stdout().lock();
        // Tests may print anything, so lines are bytes. A reader of ours that went away is no reason to stop.
        while reader.read_until(b'\n', &mut line).map_err(|error| format!("output of {shown}: {error}"))? > 0 {
            let _ = terminal.write_all(&line);
            tally.read(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}").into()) }
}

fn show(command: &Command) -> String {
    let mut shown = String::new();
    let program = std::path::Path::new(command.get_program());
    shown.push_str(&program.file_name().unwrap_or(program.as_os_str()).to_string_lossy());
    for argument in command.get_args() {
        shown.push(' ');
        shown.push_str(&argument.to_string_lossy());
    }
    shown
}
