//! Builds the test programs of the workspace and runs several of them at once: cargo runs one after the other, and most
//! of them wait for a server, a delay or a disk. A program writes into a file, which is shown when it has ended.

use crate::{Failure, Outcome, metadata, process, scratch::Scratch, tally::Tally, tree};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All of them end after this long on a build machine: a machine that has a limit of its own would report nothing.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// One of them ends after this long there, since a test of it hangs.
const LIMIT_OF_ONE: Duration = Duration::from_secs(10 * 60);

/// The same on any other machine, beside whatever else runs there.
const LIMIT_ELSEWHERE: Duration = Duration::from_secs(60 * 60);

/// The programs that run longest begin first, so that none of them runs alone in the end.
const LONGEST: [&str; 19] = [
    "python",
    "person",
    "kills",
    "dist",
    "ftp",
    "mount",
    "hostile",
    "trees",
    "secrets",
    "sessions",
    "settings",
    "restarts",
    "trace",
    "real",
    "ssh",
    "remote_file",
    "bounds",
    "files",
    "attack",
];

/// A program of tests, or a command that runs some.
struct Program {
    /// The package's folder and the target within it.
    name: String,
    /// What it is called in its package.
    target: String,
    executable: PathBuf,
    arguments: Vec<&'static str>,
    /// The package's folder, where its tests run.
    folder: PathBuf,
}

/// How programs are run.
pub(crate) struct Options {
    /// Programs at a time.
    pub(crate) at_once: usize,
    /// Tests at a time within one of them; none leaves that to the environment.
    pub(crate) threads: Option<usize>,
    /// Only programs whose name contains this.
    pub(crate) only: String,
    /// Variables of the tests.
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
}

/// Builds and runs all of them. A program that fails keeps none of the others from running.
pub(crate) fn run(options: &Options, tally: &mut Tally) -> Outcome {
    let before = tally.passed;
    let folder = metadata::target_directory()?.join("test-output");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut programs = build()?;
    programs.retain(|program| program.name.contains(&options.only));
    if programs.is_empty() {
        return Err(format!("no program of tests has '{}' in its name", options.only).into());
    }
    programs.sort_by_key(|program| rank(&program.target));
    let amount = programs.len();
    let scratch = Scratch::create()?;
    println!("{amount} programs, {} at a time", options.at_once);
    let started = Instant::now();
    let queue = Mutex::new(programs.into_iter().collect::<VecDeque<_>>());
    let results = Mutex::new((tally, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.at_once {
            scope.spawn(|| {
                while let Some(program) = next(&queue) {
                    let output = folder.join(program.log());
                    let began = Instant::now();
                    let outcome = program.run(options, &output, &scratch, started);
                    let took = began.elapsed();
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    let (tally, failed) = &mut *results;
                    println!("\n--- {} ({:.1} s)", program.name, took.as_secs_f64());
                    tally.took.push((program.name.clone(), took));
                    let counted = tally.failed;
                    if let Err(Failure(why)) = show(&output, tally).and(outcome) {
                        println!("{}: {why}", program.name);
                        // One that ended otherwise than by a failed test is told nowhere else.
                        if tally.failed == counted {
                            tally.note_failure(&program.name, &why);
                        }
                        failed.push(program.name);
                    }
                }
            });
        }
    });
    let (tally, failed) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let passed = tally.passed - before;
    if failed.is_empty() {
        scratch.clear()?;
        return Ok(format!("{passed} tests of {amount} programs"));
    }
    Err(format!("of {amount} programs these failed: {}", failed.join(", ")).into())
}

fn next(queue: &Mutex<VecDeque<Program>>) -> Option<Program> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// The place of a program in the order.
fn rank(target: &str) -> usize {
    LONGEST.iter().position(|name| *name == target).unwrap_or(LONGEST.len())
}

/// Shows what a program wrote, and counts the results in it.
fn show(output: &Path, tally: &mut Tally) -> Result<(), Failure> {
    let written = fs::read(output).map_err(|error| format!("{}: {error}", output.display()))?;
    // A reader of ours that went away is no reason to stop.
    let _ = std::io::stdout().write_all(&written);
    tally.begin_program();
    String::from_utf8_lossy(&written).lines().for_each(|line| tally.read(line));
    Ok(())
}

fn build() -> Result<Vec<Program>, Failure> {
    let mut programs: Vec<_> = built("test")?.iter().filter_map(program).collect();
    if programs.is_empty() {
        return Err("cargo test --no-run has built no program".into());
    }
    let other = |name: &str, executable: PathBuf, arguments: &[&'static str]| Program {
        name: name.to_owned(),
        target: name.to_owned(),
        executable,
        arguments: arguments.to_vec(),
        folder: tree::root().to_path_buf(),
    };
    let cargo = process::cargo(&[]).get_program().into();
    programs.push(other("comments", cargo, &["test", "--locked", "--workspace", "--no-fail-fast", "--doc"]));
    // It waits for downloads and delays most of its time.
    let ourselves = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    programs.push(other("python", ourselves, &["python"]));
    Ok(programs)
}

/// What cargo says it has built for the tests of the workspace: all of it has the same features then, and nothing is
/// built a second time.
fn built(command: &str) -> Result<Vec<Value>, Failure> {
    let mut arguments = vec![command, "--locked", "--workspace", "--message-format=json-render-diagnostics"];
    arguments.extend(if command == "test" { &["--no-run"][..] } else { &["--profile", "test", "--examples"] });
    let messages = process::output(&mut process::cargo(&arguments))?;
    Ok(messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The example of a package, given by its folder, built as the tests build it.
pub(crate) fn example(folder: &str, name: &str) -> Result<PathBuf, Failure> {
    executable(&built("build")?, folder, |message| message["target"]["name"] == name)
        .ok_or_else(|| format!("cargo has built no example {name} of {folder}").into())
}

/// The unit tests of a package, given by its folder, as the tests of the workspace are built.
pub(crate) fn unit_tests(folder: &str) -> Result<PathBuf, Failure> {
    let is_library = |message: &Value| message["profile"]["test"] == true && message["target"]["kind"][0] == "lib";
    executable(&built("test")?, folder, is_library)
        .ok_or_else(|| format!("cargo has built no unit tests of {folder}").into())
}

fn executable(messages: &[Value], folder: &str, is_it: impl Fn(&Value) -> bool) -> Option<PathBuf> {
    let manifest = tree::root().join(folder).join("Cargo.toml");
    let found = messages.iter().filter(|message| message["manifest_path"].as_str().map(Path::new) == Some(&manifest));
    found.filter(|message| is_it(message)).find_map(|message| message["executable"].as_str()).map(PathBuf::from)
}

/// The program that a message of cargo tells of.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let target = message["target"]["name"].as_str()?.to_owned();
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = folder.strip_prefix(tree::root()).unwrap_or(&folder).display().to_string();
    let executable = message["executable"].as_str()?.into();
    let name = format!("{package}/{target}");
    Some(Program { name, target, executable, arguments: Vec::new(), folder })
}

impl Program {
    /// A program's own file name has a number in it that no other has.
    fn log(&self) -> String {
        let own = self.executable.file_name().unwrap_or_default().to_string_lossy();
        if self.arguments.is_empty() { format!("{own}.log") } else { format!("{}.log", self.name) }
    }

    fn run(&self, options: &Options, output: &Path, scratch: &Scratch, started: Instant) -> Result<(), Failure> {
        let text = |error: std::io::Error| Failure(format!("{}: {error}", output.display()));
        let file = File::create(output).map_err(text)?;
        if std::env::var_os("CI").is_some() && started.elapsed() >= LIMIT {
            let _ = writeln!(&file, "not run: the tests have taken {} minutes", LIMIT.as_secs() / 60);
            return Err("not run: there was no time left".into());
        }
        let mut command = self.command(started);
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(text)?).stderr(file);
        process::forget_our_package(command.current_dir(&self.folder));
        if let Some(threads) = options.threads {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        command.env("TMPDIR", scratch.path());
        command.envs(options.variables.iter().map(|(name, value)| (name, value)));
        let status = command.status().map_err(|error| format!("cannot start it: {error}"))?;
        ended(status)
    }

    /// Under `timeout`, which ends the whole family of processes on a build machine. At a terminal interrupting must reach the
    /// tests.
    fn command(&self, started: Instant) -> Command {
        let mut command = Command::new("timeout");
        let limit = if std::env::var_os("CI").is_some() {
            LIMIT.saturating_sub(started.elapsed()).min(LIMIT_OF_ONE)
        } else {
            command.arg("--foreground");
            LIMIT_ELSEWHERE
        };
        // Zero would be no limit.
        command.args(["--kill-after=10", &limit.as_secs().max(1).to_string()]).arg(&self.executable);
        command.args(&self.arguments);
        command
    }
}

/// What `timeout` says of a program that it ended, and of one that it had to kill.
const OUT_OF_TIME: [i32; 2] = [124, 137];

fn ended(status: ExitStatus) -> Result<(), Failure> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) if OUT_OF_TIME.contains(&code) => {
            Err("out of time: a test of it hangs, see above which has not ended".into())
        }
        _ => Err(status.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_has_built() {
        let manifest = tree::root().join("tests/cli/Cargo.toml");
        let message = |test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact", "manifest_path": manifest, "profile": { "test": test },
                "target": { "name": "once" }, "executable": executable,
            })
        };
        let found = program(&message(true, json!("/t/once-1"))).expect("a program");
        assert_eq!((found.name.as_str(), found.target.as_str()), ("tests/cli/once", "once"));
        assert_eq!((found.executable, found.folder), ("/t/once-1".into(), tree::root().join("tests/cli")));
        assert!(program(&message(false, json!("/t/xdfs"))).is_none());
        assert!(program(&message(true, Value::Null)).is_none());
        assert!(program(&json!({ "reason": "build-finished", "success": true })).is_none());
    }

    #[test]
    fn the_longest_come_first() {
        assert!(rank("kills") < rank("mount") && rank("mount") < rank("names"));
    }

    #[test]
    fn a_program_that_hangs_is_told_from_one_that_fails() {
        let status = |script: &str| Command::new("sh").args(["-c", script]).status().expect("a shell");
        assert!(ended(status("exit 0")).is_ok());
        assert!(ended(status("exit 124")).is_err_and(|Failure(why)| why.contains("hangs")));
        assert!(ended(status("exit 101")).is_err_and(|Failure(why)| why.contains("101")));
        assert!(ended(status("kill -9 $$")).is_err_and(|Failure(why)| why.contains('9')));
    }
}
