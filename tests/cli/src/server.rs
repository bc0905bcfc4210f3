//! Servers on free ports.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scene::{STACK_OF_SERVER, listening_over};

/// Longest time until a server says that it is ready, and until it has stopped.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server that is ready; killed when this value goes.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ready: Value,
    /// Lines behind the first.
    later: Receiver<String>,
}

impl Server {
    /// Starts `command` with `words` and waits for its ready line.
    pub fn start(mut command: Command, words: &[&str]) -> Self {
        let mut words: Vec<_> = words.iter().map(OsString::from).collect();
        let stack = command.get_envs().find(|(name, _)| *name == STACK_OF_SERVER);
        if let Some(stack) = stack.and_then(|(_, stack)| stack.map(ToOwned::to_owned)) {
            listening_over(&mut words, &stack);
        }
        let mut child = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let later = lines(&mut child);
        // Owned from here on: whatever fails below, the process is ended.
        let mut server = Self { child, ready: Value::Null, later };
        let line = server.later.recv_timeout(DEADLINE).expect("the server says in time that it is ready");
        server.ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}' is no JSON: {error}"));
        assert_eq!(server.ready["event"], "ready", "{line}");
        server
    }

    /// The ready line.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// The next line that it writes.
    pub fn next_line(&self) -> Value {
        let line = self.later.recv_timeout(DEADLINE).expect("the server says something in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}' is no JSON: {error}"))
    }

    /// Its address, `127.0.0.1:40001`.
    pub fn address(&self) -> &str {
        self.ready["address"].as_str().expect("the ready line has an address")
    }

    /// Its key, `SHA256:...`.
    pub fn host_key(&self) -> &str {
        self.ready["host_key"].as_str().expect("the ready line has a host key")
    }

    /// The URL of `path` in the export `data`.
    pub fn url(&self, path: &str) -> String {
        self.url_in("data", path)
    }

    /// The URL of `path` in the export `name`.
    pub fn url_in(&self, name: &str, path: &str) -> String {
        format!("xdfs://{}/{name}/{path}#{}", self.address(), self.host_key())
    }

    /// Its process.
    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).expect("the server is there");
    }

    /// Asks it to stop and waits; its exit code.
    pub fn stop(self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it ends, having been asked to; its exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("the server can be waited for").code()
    }

    /// Ends it at once, as a crash does.
    pub fn kill(mut self) {
        self.child.kill().expect("the server is there");
        self.child.wait().expect("the server can be waited for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines that are kept for a test that asks for them; a server says a few in its life.
const LINES_MAX: usize = 16;

/// The lines that the server says, read beside the test so that a silent server meets the deadline.
fn lines(child: &mut Child) -> Receiver<String> {
    let output = child.stdout.take().expect("its standard output is a pipe");
    let (tell, lines) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(output);
        loop {
            let mut text = String::new();
            // A server that says nothing has ended; the empty line then tells so.
            let read = reader.read_line(&mut text).unwrap_or(0);
            // What nobody asks for is dropped, so the server never waits for a reader.
            let _ = tell.try_send(text);
            if read == 0 {
                return;
            }
        }
    });
    lines
}
