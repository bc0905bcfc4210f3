//! Commands with a deadline.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::exit;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// Longest time for one command. Far above what any test needs, so only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(120);

/// A command that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub output: Vec<u8>,
    /// What it wrote to standard error.
    pub messages: String,
}

impl Outcome {
    /// The command failed, and said so itself: with a documented code, and not by a panic or a signal.
    #[track_caller]
    pub fn fails(&self) -> &Self {
        let is_documented =
            self.code.is_some_and(|code| matches!(code, exit::SOME_FAILED..=exit::BUSY | exit::CANCELLED));
        assert!(is_documented, "{:?}, standard error: {}", self.code, self.messages);
        self
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "standard error: {}", self.messages);
        self
    }

    /// Asserts that a message has all of `parts`.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.messages.contains(part), "'{part}' is not in: {}", self.messages);
        }
        self
    }

    /// Asserts that nothing was said on standard error.
    #[track_caller]
    pub fn is_silent(&self) -> &Self {
        assert_eq!(self.messages, "");
        self
    }

    /// The JSON objects of standard output, one a line, without those that tell the progress: how
    /// many there are depends on how quick the machine is.
    #[track_caller]
    pub fn objects(&self) -> Vec<Value> {
        self.all_objects().into_iter().filter(|object| object["event"] != "progress").collect()
    }

    /// The JSON objects of standard output, one a line.
    #[track_caller]
    pub fn all_objects(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.output).expect("JSON is UTF-8");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
    }

    /// Standard output as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.output).expect("standard output is UTF-8")
    }
}

/// A command that runs. Dropped without [`Running::wait`], it is killed.
#[derive(Debug)]
pub struct Running {
    process: Pid,
    input: Option<ChildStdin>,
    output: Option<JoinHandle<Vec<u8>>>,
    messages: Option<JoinHandle<Vec<u8>>>,
    ended: Receiver<Option<i32>>,
    /// How it ended, once somebody asked whether it did.
    code: Option<Option<i32>>,
    reaped: bool,
}

impl Running {
    /// Starts `command` with pipes for its standard streams.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let process = Pid::from_child(&child);
        let input = child.stdin.take();
        let output = child.stdout.take().map(|stream| std::thread::spawn(move || read_all(stream)));
        let messages = child.stderr.take().map(|stream| std::thread::spawn(move || read_all(stream)));
        Self { process, input, output, messages, ended: watch(child), code: None, reaped: false }
    }

    /// Its process.
    pub fn process(&self) -> Pid {
        self.process
    }

    /// Whether it has ended; it is still to be waited for.
    pub fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.as_raw_nonzero()));
        stat.map_or(true, |stat| stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" Z")))
    }

    /// Writes to its standard input. False when it does not read any more.
    pub fn feed(&mut self, bytes: &[u8]) -> bool {
        self.input.as_mut().is_some_and(|input| input.write_all(bytes).is_ok())
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.process, signal).expect("the process is there");
    }

    /// Ends it at once, where it has not ended by itself, and waits until it is gone.
    pub fn kill(self) -> Outcome {
        if self.code.is_none() {
            let _ = kill_process(self.process, Signal::KILL);
        }
        self.wait()
    }

    /// Sends a signal to it and all that it started, as Ctrl-C in a shell does; it must lead a process group.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(self.process, signal).expect("the process group is there");
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        is_running(self.process)
    }

    /// Waits for the end for so long, and says whether it has come; the command is still to be waited for.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        if self.code.is_none() {
            self.code = self.ended.recv_timeout(time).ok();
        }
        self.code.is_some()
    }

    /// The largest resident memory that it had so far, in bytes; it must still run.
    pub fn peak_memory(&self) -> u64 {
        self.peak_so_far().expect("the process is there")
    }

    /// The same; none if it has ended.
    pub fn peak_so_far(&self) -> Option<u64> {
        let path = format!("/proc/{}/status", self.process.as_raw_nonzero());
        let status = std::fs::read_to_string(path).ok()?;
        // A process that has ended has no memory any more.
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
        Some(kibibytes * 1024)
    }

    /// Closes standard input and waits for the end, at most until the deadline.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        self.close_input();
        self.wait_with_open_input()
    }

    /// Waits for the end, at most until the deadline; standard input stays open until then.
    #[track_caller]
    pub fn wait_with_open_input(self) -> Outcome {
        self.collect(DEADLINE)
    }

    /// Closes standard input and waits for the end, at most so long: for commands that have more to do than those of a test usually.
    #[track_caller]
    pub fn wait_within(mut self, deadline: Duration) -> Outcome {
        self.close_input();
        self.collect(deadline)
    }

    #[track_caller]
    fn collect(mut self, deadline: Duration) -> Outcome {
        let Some(code) = self.code.or_else(|| self.ended.recv_timeout(deadline).ok()) else {
            panic!("it did not end within {deadline:?}");
        };
        self.reaped = true;
        let collect = |reader: Option<JoinHandle<Vec<u8>>>| {
            reader.map(|reader| reader.join().expect("the reader of a pipe does not panic")).unwrap_or_default()
        };
        let output = collect(self.output.take());
        let messages = String::from_utf8_lossy(&collect(self.messages.take())).into_owned();
        Outcome { code, output, messages }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped && self.code.is_none() && self.ended.try_recv().is_err() {
            // It may end by itself in this moment; it is not reaped before the watcher's `wait` returns.
            let _ = kill_process(self.process, Signal::KILL);
            let _ = self.ended.recv_timeout(DEADLINE);
        }
    }
}

/// A thread that waits for `child` and tells its exit code.
fn watch(mut child: Child) -> Receiver<Option<i32>> {
    let (tell, ended) = sync_channel(1);
    std::thread::spawn(move || {
        let code = child.wait().ok().and_then(|status| status.code());
        // Nobody listens once the test is over.
        let _ = tell.send(code);
    });
    ended
}

/// Whether a process has not ended, be it waited for or not.
pub fn is_running(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    let state = stat.ok().and_then(|stat| stat.rsplit(')').next()?.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

fn read_all(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error still tells something.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
