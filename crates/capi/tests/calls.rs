//! The calls of the C library, made by programs in C.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "lays the library where the linker finds it")]

mod support;

use std::process::Command;

use support::Library;

fn succeeds(source: &str, includes: &str, arguments: &[&str]) {
    let library = Library::installed();
    let program = library.compile(source, includes);
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments).arg(library.path());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n");
}

#[test]
fn operations_are_registered_and_told_and_the_close_last() {
    succeeds("calls.c", "include", &["registered"]);
}

#[test]
fn what_is_cancelled_or_late_loses_no_byte() {
    succeeds("calls.c", "include", &["cancelled"]);
}

#[test]
fn attributes_commands_and_descriptors_reach_their_driver() {
    succeeds("calls.c", "include", &["files"]);
}

#[test]
fn mistakes_are_errors_with_a_text() {
    succeeds("calls.c", "include", &["errors"]);
}

#[test]
fn the_names_of_globus_mean_the_same() {
    succeeds("globus_calls.c", "include/globus", &[]);
}
