//! Runs other programs: cargo most of all.

use crate::{Failure, tally::Tally, tree};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

/// Variables that cargo sets for the program it runs.
const OURS: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// A cargo command at the root of the repository, without standard input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(tree::root()).stdin(Stdio::null());
    forget_our_package(&mut command);
    command
}

/// What the cargo that started us says about our own package is nothing to what we start.
pub(crate) fn forget_our_package(command: &mut Command) {
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| OURS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix))) {
        command.env_remove(name);
    }
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
    let mut child = spawn(command.stdout(Stdio::piped()), &shown)?;
    if let Some(stdout) = child.stdout.take() {
        pass_on(stdout, &mut std::io::stdout(), |line| tally.read(line))
            .map_err(|error| format!("{shown}: {error}"))?;
    }
    finished(&mut child, &shown)
}

/// Runs a command of cargo that compiles and fails when it warned of something in our packages.
///
/// Denying the warnings themselves would stop at the first package that has one, and hide those of the next.
pub(crate) fn run_without_warnings(command: &mut Command) -> Result<(), Failure> {
    let shown = show(command);
    let mut child = spawn(command.args(["--color", "never", "--keep-going"]).stderr(Stdio::piped()), &shown)?;
    let mut warned = 0_usize;
    if let Some(stderr) = child.stderr.take() {
        pass_on(stderr, &mut std::io::stderr(), |line| warned += usize::from(sums_up_warnings(line)))
            .map_err(|error| format!("{shown}: {error}"))?;
    }
    finished(&mut child, &shown)?;
    if warned == 0 { Ok(()) } else { Err(format!("{shown}: warnings count as errors, see above").into()) }
}

/// Cargo ends the warnings of a package with ``warning: `name` (lib) generated 2 warnings``.
fn sums_up_warnings(line: &str) -> bool {
    line.starts_with("warning: `") && line.contains(" generated ")
}

fn spawn(command: &mut Command, shown: &str) -> Result<Child, Failure> {
    command.spawn().map_err(|error| format!("cannot start {shown}: {error}").into())
}

fn finished(child: &mut Child, shown: &str) -> Result<(), Failure> {
    let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}").into()) }
}

/// Shows what comes, line by line, and lets `read` see each. Programs may print anything, so lines are bytes.
fn pass_on(from: impl Read, to: &mut impl Write, mut read: impl FnMut(&str)) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        // A reader of ours that went away is no reason to stop.
        let _ = to.write_all(&line);
        read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warnings_of_a_package_are_told_from_those_of_cargo() {
        assert!(sums_up_warnings("warning: `xdfs-proto` (lib test) generated 1 warning (1 duplicate)\n"));
        assert!(!sums_up_warnings("warning: spurious network error (3 tries remaining): timed out\n"));
        assert!(!sums_up_warnings("warning: unused variable: `a`\n"));
    }
}
