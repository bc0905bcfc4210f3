//! The real binary under strace: killed at a call on the file system, or told by it that the call failed.

use std::process::Command;
use std::time::{Duration, Instant};
use xdfs_test_cli::{Running, Scene, Server, pattern, xdfs_binary};

/// Calls by which a download makes its file.
pub const CALLS: &[&str] = &[
    "openat",
    "openat2",
    "pwrite64",
    "ftruncate",
    "fallocate",
    "fchmod",
    "utimensat",
    "fsync",
    "renameat",
    "renameat2",
    "flock",
    "unlinkat",
    "newfstatat",
    "fstatfs",
];
/// What a call may say instead of being made.
pub const ERRORS: &[&str] = &["EIO", "ENOSPC", "EDQUOT", "EINTR", "EMFILE"];

/// Bytes of the file: a few dozen blocks of the smallest size.
const SIZE: usize = 2 << 20;
/// Tests take so long where nothing is said; `XDFS_CRASH_SECONDS` says otherwise.
const SECONDS: u64 = 20;

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Points {
    /// Distinct calls and indexes at which something was done.
    pub injected: usize,
    /// Runs that ended in a complete file all the same.
    pub completed: usize,
    /// Runs behind which every call had been reached.
    pub exhausted: usize,
}

/// Downloads one file again and again, each time with another injection (`signal=SIGKILL`, `error=EIO`), as long as the time
/// allows: first the first call of each kind, then the second, and so on until a kind has no more.
pub fn sweep(injections: &[&str]) -> Points {
    let budget = std::env::var("XDFS_CRASH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let until = Instant::now() + Duration::from_secs(budget);
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 21);
    scene.write("server/file", &content);
    let mut open: Vec<(&str, &str)> =
        CALLS.iter().flat_map(|call| injections.iter().map(move |injection| (*call, *injection))).collect();
    let mut points = Points::default();
    for index in 1.. {
        open.retain(|(call, injection)| {
            if Instant::now() >= until {
                return false;
            }
            let reached = one(&scene, &server, &content, call, injection, index, &mut points);
            points.exhausted += usize::from(!reached);
            reached
        });
        if open.is_empty() {
            return points;
        }
    }
    points
}

/// One run. Whether there was such a call.
fn one(
    scene: &Scene,
    server: &Server,
    content: &[u8],
    call: &str,
    injection: &str,
    index: usize,
    points: &mut Points,
) -> bool {
    let what = format!("{call}:{injection}:when={index}");
    let into = scene.directory("into");
    scene.write("into/file", b"old");
    let mut command = Command::new("strace");
    let log = scene.path("strace.log");
    command.args(["-f", "-qq", "-e", &format!("trace={call}"), "-e", &format!("inject={what}"), "-o"]).arg(&log);
    command.arg(xdfs_binary()).args(["cp", "-q", "-P", "2", "-b", "64KiB", "--retry", "0", &server.url("file")]);
    scene.dress("somebody", &mut command);
    command.arg(into.join("file"));
    let outcome = Running::start(command).wait();
    let left = scene.read("into/file");
    assert!(left == b"old" || left == content, "{what}: {} bytes under the final name", left.len());
    assert!(outcome.code != Some(0) || left == content, "{what}: success was told of the old file");
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let injected = log.contains("(INJECTED)") || log.contains("killed by SIGKILL");
    points.injected += usize::from(injected);
    points.completed += usize::from(injected && left == content);
    // Whatever was left is gone on with, or given up, and nothing stays behind.
    if injected {
        let target = into.join("file").to_string_lossy().into_owned();
        scene.run(["cp", "-q", &server.url("file"), &target]).ends_with(0);
        assert!(scene.read("into/file") == content, "{what}: another attempt");
    }
    std::fs::remove_dir_all(into).expect("a directory of the scene");
    injected
}
