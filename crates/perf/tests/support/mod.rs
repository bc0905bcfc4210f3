//! Starts `xioperf` and `globus-xioperf` as a person does, each with a deadline.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(dead_code, reason = "each suite uses its part")]
#![allow(clippy::disallowed_methods, reason = "looks for the processes that it started")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Seconds after which a command is killed: far more than any takes.
const DEADLINE_S: &str = "60";

/// A command that runs.
pub struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    seen: String,
}

/// What a command came to.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub errors: String,
}

/// Starts the program of this crate.
pub fn xioperf(line: &str) -> Running {
    start(&[env!("CARGO_BIN_EXE_xioperf")], line)
}

/// The same, with drivers of that folder.
pub fn xioperf_with_drivers(folder: &std::path::Path, line: &str) -> Running {
    let path = format!("XDFS_DRIVER_PATH={}", folder.display());
    start(&["env", &path, env!("CARGO_BIN_EXE_xioperf")], line)
}

/// Starts Debian's, line by line: its output is otherwise buffered until it ends.
pub fn globus(line: &str) -> Running {
    start(&["stdbuf", "-oL", "globus-xioperf"], line)
}

/// Starts the program of this crate with these variables of the environment.
pub fn xioperf_in(environment: &[(String, String)], line: &str) -> Running {
    start_in(environment, &[env!("CARGO_BIN_EXE_xioperf")], line)
}

/// The same with Debian's.
pub fn globus_in(environment: &[(String, String)], line: &str) -> Running {
    start_in(environment, &["stdbuf", "-oL", "globus-xioperf"], line)
}

/// Starts the program of this crate, and has its calls of these names written to a file.
pub fn traced(names: &str, calls: &std::path::Path, line: &str) -> Running {
    let (trace, calls) = (format!("trace={names}"), calls.to_str().unwrap());
    start(&["strace", "-f", "-qq", "-s", "0", "-e", &trace, "-o", calls, env!("CARGO_BIN_EXE_xioperf")], line)
}

/// Starts the program of this crate on a terminal of its own.
pub fn on_terminal(line: &str) -> Running {
    let command = format!("{} {line}", env!("CARGO_BIN_EXE_xioperf"));
    start(&["script", "--quiet", "--return", "--command", &command, "/dev/null"], "")
}

fn start(program: &[&str], line: &str) -> Running {
    start_in(&[], program, line)
}

fn start_in(environment: &[(String, String)], program: &[&str], line: &str) -> Running {
    let mut command = Command::new("timeout");
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // In the foreground it passes a signal on once; otherwise also to its group, and so twice.
    command.args(["--foreground", DEADLINE_S]).args(program).args(line.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    Running { child, output, seen: String::new() }
}

impl Running {
    /// Reads lines until one has `words` in it, and returns that one.
    #[track_caller]
    pub fn line(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.output.read_line(&mut line).unwrap();
            self.seen += &line;
            if bytes == 0 {
                let errors = self.errors();
                panic!("it ended without '{words}': {} {errors}", self.seen);
            }
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The port that a server says it listens at.
    #[track_caller]
    pub fn port(&mut self) -> String {
        let line = self.line("listening");
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        digits(line.rsplit_once(':').filter(|(before, _)| !before.ends_with("on")).unwrap().1)
    }

    /// The port of a server that reports as JSON.
    #[track_caller]
    pub fn json_port(&mut self) -> String {
        let event: Value = serde_json::from_str(&self.line("listening")).unwrap();
        event["contact"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned()
    }

    /// As Ctrl-C does. `timeout` would pass it on, but not before it knows its child, which may be after that has begun.
    pub fn interrupt(&self) {
        let timeout = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{timeout}/task/{timeout}/children")).unwrap();
        assert!(Command::new("kill").args(["-INT", children.trim()]).status().unwrap().success());
    }

    fn errors(&mut self) -> String {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        errors
    }

    /// Waits until it has ended.
    pub fn wait(mut self) -> Outcome {
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes).unwrap();
        self.seen += &String::from_utf8_lossy(&bytes);
        let errors = self.errors();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Outcome { code, out: std::mem::take(&mut self.seen), errors }
    }

    /// Waits, and expects success.
    #[track_caller]
    pub fn succeeds(self) -> Outcome {
        let outcome = self.wait();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only where a test has failed; timeout passes it on.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
    }
}

impl Outcome {
    /// The last line that begins with `name`, without it.
    #[track_caller]
    pub fn field(&self, name: &str) -> String {
        let line = self.out.lines().rev().find_map(|line| line.trim().strip_prefix(name));
        line.unwrap_or_else(|| panic!("there is no {name} in {self:?}")).trim().to_owned()
    }

    /// The events of a report in JSON with that name.
    pub fn events(&self, name: &str) -> Vec<Value> {
        let events = self.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == name).collect()
    }

    /// The report of the end.
    pub fn end(&self) -> Value {
        self.events("end").pop().unwrap_or_else(|| panic!("there is no end in {self:?}"))
    }
}
