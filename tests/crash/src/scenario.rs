//! One transfer of the real command under strace: which of the two programs is traced, what it receives, and what must hold
//! behind it, whatever was done to one of its calls.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};
use xdfs_test_cli::{Outcome, Relay, Running, Scene, Server, is_running, pattern, xdfs_binary};

/// Which program makes the file, and is traced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The server, in an upload.
    Server,
    /// The client, in a download.
    Client,
}

/// One transfer of the real command under strace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scenario {
    /// See [`Side`].
    pub side: Side,
    /// Bytes of the file.
    pub size: usize,
    /// `durable` or `written`.
    pub durability: &'static str,
    /// Channels of the session.
    pub channels: &'static str,
    /// Whether the target is there before; without it the name must be new (`-n`).
    pub replaces: bool,
    /// An earlier attempt lost its connection half-way, and this one goes on.
    pub resumes: bool,
}

/// What is injected where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// The transfer.
    pub scenario: Scenario,
    /// The call.
    pub call: &'static str,
    /// `signal=SIGKILL`, `error=EIO`, `retval=0`.
    pub injection: &'static str,
    /// Which of the calls that one thread makes, from 1.
    pub index: usize,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// There was such a call.
    pub reached: bool,
    /// The new file was there behind the run.
    pub completed: bool,
    /// The client said that all went well.
    pub told: bool,
}

const OLD: &[u8] = b"old";
/// Longest wait for what an attempt leaves when its connection is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every scenario: with and without a journal (from 1 MiB), both promises, both directions.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for size in [3 << 20, 100_000] {
        for durability in ["durable", "written"] {
            for side in [Side::Server, Side::Client] {
                let channels = if size > 1 << 20 { "2" } else { "1" };
                let replaces = durability == "durable";
                all.push(Scenario { side, size, durability, channels, replaces, resumes: false });
            }
        }
    }
    for side in [Side::Server, Side::Client] {
        let (size, durability, channels) = (6 << 20, "durable", "1");
        all.push(Scenario { side, size, durability, channels, replaces: true, resumes: true });
    }
    all
}

impl Point {
    /// Makes the transfer with the injection, and judges what it left; then makes it again without.
    pub fn run(&self) -> Ending {
        let room = Room::new(self.scenario);
        let what = format!("{}:{}:when={}", self.call, self.injection, self.index);
        let (outcome, injected) = room.traced(self.call, &what);
        let left = std::fs::read(&room.target).ok();
        let is_new = left.as_ref() == Some(&room.content);
        let old = self.scenario.replaces.then(|| OLD.to_vec());
        assert!(is_new || left == old, "{self:?}: {:?} bytes under the final name", left.map(|left| left.len()));
        assert!(outcome.code != Some(0) || is_new, "{self:?}: success was told, and the file is not there");
        assert!(!outcome.messages.contains("0 B missing"), "{self:?}: {}", outcome.messages);
        if injected && !is_new {
            // Whatever was left is gone on with, or given up.
            let server = room.serve();
            let again = room.copy(&server, room.scene.command(["cp"]));
            assert_eq!(again.code, Some(0), "{self:?}: another attempt: {}", again.messages);
            assert!(std::fs::read(&room.target).ok().as_ref() == Some(&room.content), "{self:?}: another attempt");
        }
        room.judge_leftovers(self);
        Ending { reached: injected, completed: injected && is_new, told: outcome.code == Some(0) }
    }
}

/// A fresh directory with both ends.
struct Room {
    scene: Scene,
    scenario: Scenario,
    content: Vec<u8>,
    /// Where the file has to appear.
    target: PathBuf,
}

impl Room {
    fn new(scenario: Scenario) -> Self {
        let scene = Scene::new();
        let content = pattern(scenario.size, 21);
        let (source, target) = match scenario.side {
            Side::Server => ("client/file", "server/file"),
            Side::Client => ("server/file", "client/file"),
        };
        scene.directory("server");
        scene.directory("client");
        scene.write(source, &content);
        let target = scene.path(target);
        if scenario.replaces {
            std::fs::write(&target, OLD).expect("a file can be made");
        }
        Self { scene, scenario, content, target }
    }

    fn serve(&self) -> Server {
        let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
        Server::start(self.scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]), &words)
    }

    /// An attempt whose connection is lost when half of it has passed; it leaves a part file and its journal. What a slow server has
    /// not read by then goes with the connection, and with it the attempt may: then there is another one.
    fn attempt(&self, server: &Server) {
        let since = Instant::now();
        while !self.attempt_is_kept(server) {
            assert!(since.elapsed() < PATIENCE, "no journal came");
        }
    }

    fn attempt_is_kept(&self, server: &Server) -> bool {
        let relay = Relay::holding(server, 1, self.scenario.size as u64 / 2);
        let running = Running::start(self.command(&relay.url("file"), self.scene.command(["cp"])));
        relay.wait_until_held();
        drop(relay);
        assert_ne!(running.wait().code, Some(0), "its connection was cut");
        let folder = self.target.parent().expect("it is in a directory");
        let since = Instant::now();
        let is_there = |end: &str| {
            let mut entries = std::fs::read_dir(folder.join(".xdfs-staging")).into_iter().flatten().flatten();
            entries.any(|entry| entry.path().extension().is_some_and(|found| found == end))
        };
        // A part file without a journal is one that is about to get it, or to go.
        while !is_there("journal") && is_there("part") {
            assert!(since.elapsed() < PATIENCE, "the part file stays, and gets no journal");
            std::thread::yield_now();
        }
        is_there("journal")
    }

    /// Copies by `command`, which ends in `cp`.
    fn copy(&self, server: &Server, command: Command) -> Outcome {
        Running::start(self.command(&server.url("file"), command)).wait()
    }

    /// The whole command of `command`, which ends in `cp`.
    fn command(&self, url: &str, mut command: Command) -> Command {
        let scenario = &self.scenario;
        command.args(["-q", "-b", "64KiB", "--retry", "0", "-P", scenario.channels]);
        command.args(["--durability", scenario.durability]);
        if !scenario.replaces {
            command.arg("-n");
        }
        let local = self.scene.path("client/file");
        match scenario.side {
            Side::Server => command.arg(local).arg(url),
            Side::Client => command.arg(url).arg(local),
        };
        self.scene.dress("somebody", &mut command);
        command
    }

    /// The transfer with an injection. How the client ended, and whether the call was reached.
    fn traced(&self, call: &str, what: &str) -> (Outcome, bool) {
        let server = self.serve();
        if self.scenario.resumes {
            self.attempt(&server);
        }
        let log = self.scene.path("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "-e", &format!("trace={call}"), "-e", &format!("inject={what}"), "-o"]).arg(&log);
        match self.scenario.side {
            Side::Client => {
                command.arg("-qq").arg(xdfs_binary()).arg("cp");
                let outcome = self.copy(&server, command);
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let reached = log.contains("(INJECTED)") || log.contains("killed by SIGKILL");
                (outcome, reached)
            }
            Side::Server => {
                let tracer = Tracer::attach(command, server.process());
                let outcome = self.copy(&server, self.scene.command(["cp"]));
                let kills = what.contains("SIGKILL");
                tracer.detach(kills);
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let has_ended = has_ended(server.process(), kills && outcome.code != Some(0));
                (outcome, log.contains("(INJECTED)") || has_ended)
            }
        }
    }

    /// Nothing is left but what has an expiry: part files and journals of the target.
    fn judge_leftovers(&self, point: &Point) {
        let folder = self.target.parent().expect("it is in a directory");
        for entry in std::fs::read_dir(folder).expect("the directory is there").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(name == "file" || name == ".xdfs-staging", "{point:?}: {name} is left");
        }
        for entry in std::fs::read_dir(folder.join(".xdfs-staging")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = [".part", ".journal", ".journal.new"].iter().any(|end| name.ends_with(end));
            assert!(ours, "{point:?}: {name} is left");
        }
    }
}

/// Whether the process has ended. A killed one closes its connections before it has: where its client failed for them its end is
/// waited for.
pub(crate) fn has_ended(process: Pid, is_failed: bool) -> bool {
    let since = Instant::now();
    while is_failed && is_running(process) && since.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    !is_running(process)
}

/// strace on a program that runs.
pub struct Tracer {
    child: Child,
    messages: BufReader<std::process::ChildStderr>,
}

impl Tracer {
    /// Returns when every thread is held by it.
    pub fn attach(mut command: Command, process: Pid) -> Self {
        command.args(["-p", &process.as_raw_nonzero().to_string()]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("strace runs");
        let mut messages = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        messages.read_line(&mut line).expect("strace says something");
        assert!(line.contains("attached"), "strace: {line}");
        Self { child, messages }
    }

    /// Beside a program that may be dead strace waits for ever: that ends only when the program is waited for. It then has to go at
    /// once, and its log says nothing.
    pub fn detach(mut self, at_once: bool) {
        // Fails where it has ended with the program.
        let _ = kill_process(Pid::from_child(&self.child), if at_once { Signal::KILL } else { Signal::TERM });
        // A few lines about threads: they fit into the pipe until here.
        let _ = self.messages.read_to_string(&mut String::new());
        self.child.wait().expect("strace can be waited for");
    }
}
