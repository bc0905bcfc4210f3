//! What a test needs of the machine besides the toolchain: rights, programs, namespaces. A test that does not find what it
//! needs fails. A developer who cannot provide it sets `XDFS_TESTS_MAY_LEAVE_OUT=1`: such tests then return at once and say
//! so in a line that `xtask ci` counts. It must not try to install anything.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The variable by which a developer allows tests to be left out.
pub const MAY_LEAVE_OUT: &str = "XDFS_TESTS_MAY_LEAVE_OUT";

/// Fails the calling test because `missing` is not here. Returns where tests may be left out; the test then returns too.
///
/// # Panics
/// Unless [`MAY_LEAVE_OUT`] is `1`, and always on a build machine, where `CI` is set.
#[track_caller]
pub fn leave_out(missing: &str) {
    let may_leave_out = std::env::var_os(MAY_LEAVE_OUT).is_some_and(|value| value == "1");
    assert!(
        may_leave_out && std::env::var_os("CI").is_none(),
        "this test needs {missing}. `cargo run -p xtask -- setup` installs what Debian has; {MAY_LEAVE_OUT}=1 leaves out \
         the tests that lack something"
    );
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let test = std::thread::current().name().unwrap_or("unnamed").to_owned();
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(test.clone()) {
        // The harness hides what the macros print; the line break comes first since it may have begun a line.
        let line = format!("\nleft out: {test} needs {missing}\n");
        std::io::stdout().write_all(line.as_bytes()).expect("standard output is open");
    }
}

/// What was found, or what is missing instead: see [`leave_out`].
#[track_caller]
pub fn found<T>(found: Result<T, String>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(missing) => {
            leave_out(&missing);
            None
        }
    }
}

/// Whether the test runs as root, which it needs `for_what`: see [`leave_out`].
#[track_caller]
pub fn root(for_what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    found(if root { Ok(()) } else { Err(format!("root: {for_what}")) }).is_some()
}

/// Whether a program of this name can be started; it comes with Debian's `package`: see [`leave_out`].
#[track_caller]
pub fn program(name: &str, package: &str) -> bool {
    let started = quiet(Command::new(name).arg("--version")).status();
    found(started.map(drop).map_err(|error| format!("the program {name} (package {package}): {error}"))).is_some()
}

/// Whether strace may trace a program: see [`leave_out`].
#[track_caller]
pub fn tracing() -> bool {
    works("strace that may trace programs", Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]))
}

/// Whether a user namespace with mounts of its own can be made: see [`leave_out`].
#[track_caller]
pub fn namespaces() -> bool {
    let script = ["--user", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"];
    works("user and mount namespaces (unshare)", Command::new("unshare").args(script))
}

/// Whether a network namespace of a test's own can be made and its loopback switched on: see [`leave_out`].
#[track_caller]
pub fn networks() -> bool {
    let script = ["--user", "--map-root-user", "--net", "sh", "-c", "ip link set lo up"];
    works("network namespaces (unshare) and ip (package iproute2)", Command::new("unshare").args(script))
}

#[track_caller]
fn works(what: &str, command: &mut Command) -> bool {
    let output = quiet(command).stderr(Stdio::piped()).output();
    let why = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    leave_out(&format!("{what}: {why}"));
    false
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
