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

/// Both also compile with the headers of Globus itself, and what the second one finds out is so with Globus, too.
const BY_THEIR_NAMES: [&str; 2] = ["globus_calls.c", "globus_registered.c"];

#[test]
fn the_names_of_globus_mean_the_same() {
    BY_THEIR_NAMES.iter().for_each(|source| succeeds(source, "include/globus", &[]));
}

#[test]
fn what_is_called_by_the_names_of_globus_compiles_with_globus_too() {
    let Some(flags) = globus_flags() else { return };
    let library = Library::installed();
    for source in BY_THEIR_NAMES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror"]).arg(path).arg("-o").arg(library.path().join("theirs"));
        compiler.args(flags.split_whitespace().map(|flag| flag.replace("-I", "-isystem")));
        compiled(compiler.arg("-lpthread"));
    }
    // The last one does the same there. By itself Globus calls back only who asks it to.
    let mut theirs = Command::new("timeout");
    theirs.env("GLOBUS_THREAD_MODEL", "pthread").arg("60").arg(library.path().join("theirs")).arg(library.path());
    assert_eq!(theirs.output().unwrap().stdout, b"done\n");
}

#[test]
fn headers_are_read_by_compilers_of_c_and_of_cxx() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers = ["include/xdfs_xio.h", "include/globus/globus_xio.h", "../xio/include/xdfs_xio_driver.h"];
    for (compiler, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++11")] {
        for header in headers {
            let mut compiler = Command::new(compiler);
            compiler.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-function"]);
            compiler.arg(standard).arg(format!("-I{}", package.join("include").display()));
            compiled(compiler.args(["-x", language]).arg(package.join(header)));
        }
    }
}
