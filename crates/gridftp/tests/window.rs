//! The size of the buffers of data channels at this end, as the system was asked for it: this process is traced, so that it
//! has no other tests.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the servers' files themselves")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use support::{Server, content, put};
use xdfs_gridftp::driver;
use xdfs_xio::{Handle, Options, Registry, Stack};

fn open(server: &Server, attributes: &str, name: &str) -> Handle {
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    let stack = Stack::of(Arc::new(registry)).push("gridftp", attributes).unwrap();
    let contact = format!("ftp://{}/{}/{name}", server.address, server.there);
    Handle::open(&stack, &contact, &Options::default()).unwrap()
}

/// Traces this process, until it is told to end.
fn trace_ourselves(into: &Path) -> Child {
    let (own, into) = (std::process::id().to_string(), into.to_str().unwrap());
    let mut strace = Command::new("strace");
    // The servers that this process starts are let go.
    let rest = ["-f", "-b", "execve", "-e", "trace=setsockopt", "-o", into, "-p", &own];
    strace.args(rest).stderr(Stdio::piped());
    let mut strace = strace.spawn().unwrap();
    let said = BufReader::new(strace.stderr.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("attached")), "strace can attach");
    std::thread::spawn(move || lines.for_each(drop));
    strace
}

#[test]
fn a_window_is_set_at_the_own_end_of_each_data_channel() {
    if !xdfs_test_needs::program("strace", "strace") || !xdfs_test_needs::tracing() {
        return;
    }
    let Some(server) = Server::globus() else { return };
    let scratch = tempfile::tempdir().unwrap();
    put(&server.here, "read", &content(100));
    for (number, driver) in ["mode=s", "streams=2"].into_iter().enumerate() {
        for access in ["read", "write"] {
            // Different ones, so that a call says which it is of.
            let window = 345_678 + number * 10 + usize::from(access == "write");
            let trace = scratch.path().join(window.to_string());
            let mut strace = trace_ourselves(&trace);
            let handle = open(&server, &format!("{driver};access={access};window={window}"), access);
            match access {
                "read" => {
                    let mut bytes = vec![0; 100];
                    assert_eq!(handle.read(&mut bytes, 100).unwrap().bytes, 100);
                }
                _ => assert_eq!(handle.write(&content(100)).unwrap(), 100),
            }
            handle.close().unwrap();
            kill_process(Pid::from_child(&strace), Signal::INT).unwrap();
            strace.wait().unwrap();
            let calls = std::fs::read_to_string(&trace).unwrap();
            for option in ["SO_SNDBUF", "SO_RCVBUF"] {
                assert!(calls.contains(&format!("{option}, [{window}], 4) = 0")), "{driver} {access}: {calls}");
            }
        }
    }
}
