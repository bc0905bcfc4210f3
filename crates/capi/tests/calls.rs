//! The calls of the C library, made by programs in C.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "lays the library where the linker finds it")]

mod support;

use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use support::{Library, compiled, globus_flags};

fn succeeds(source: &str, includes: &str, arguments: &[&str]) {
    succeeds_in(&Library::installed(), source, includes, arguments);
}

fn succeeds_in(library: &Library, source: &str, includes: &str, arguments: &[&str]) {
    let program = library.compile(source, includes);
    let mut command = Command::new("timeout");
    command.env("XDFS_DRIVER_PATH", library.path());
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
fn an_opening_that_nobody_answers_is_cancelled() {
    succeeds("calls.c", "include", &["cancelled_open"]);
}

/// A driver that is loaded, and a certificate with its key, where the program looks for them.
#[test]
fn the_stack_of_a_scheme_talks_to_a_server_of_that_stack() {
    let library = Library::installed();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC"]).arg(format!("-I{}", tree.join("crates/xio/include").display()));
    compiler.arg(tree.join("drivers/skeleton/skeleton_block.c"));
    compiled(compiler.arg("-o").arg(library.path().join("libxdfs_xio_skeleton_block.so")));
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(library.path().join("certificate.pem"), certificate.pem()).unwrap();
    std::fs::write(library.path().join("key.pem"), key.serialize_pem()).unwrap();
    succeeds_in(&library, "calls.c", "include", &["urls"]);
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

#[test]
fn what_is_called_by_the_names_of_globus_compiles_with_globus_too() {
    let Some(flags) = globus_flags() else { return };
    let library = Library::installed();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/globus_calls.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(library.path().join("theirs"));
    compiled(compiler.args(flags.split_whitespace().map(|flag| flag.replace("-I", "-isystem"))));
}
