//! Programs in C read files of Debian's vsftpd and globus-gridftp-server by their URLs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files that are read")]

#[path = "../../gridftp/tests/support/mod.rs"]
mod servers;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use servers::{Server, put};
use support::Library;

fn run(program: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("timeout").arg("60").arg(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

/// Ten bytes a line, which say where they are.
fn lines() -> String {
    (0..200_000).map(|line| format!("{line:09}\n")).collect()
}

#[test]
fn a_url_is_opened_and_a_command_seeks_from_the_beginning() {
    let (Some(globus), Some(vsftpd)) = (Server::globus(), Server::vsftpd()) else { return };
    let library = Library::installed();
    let program = library.compile("remote_file.c", "include/globus");
    for (scheme, server) in [("gsiftp", &globus), ("ftp", &globus), ("ftp", &vsftpd)] {
        put(&server.here, "file", lines().as_bytes());
        // Two slashes: from the root with either scheme.
        let url = format!("{scheme}://{}/{}/file", server.address, server.there);
        let output = run(&program, &[&url, "1500000", "30", "1999990", "0"]);
        let expected = ["000150000", "000000003", "000199999", "000000000"].map(|line| format!("{line}\n\n"));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected.concat(), "{url}");
    }
}

#[test]
fn the_papers_sample_reads_a_url_of_gridftp() {
    let Some(server) = Server::globus() else { return };
    let library = Library::installed();
    let program = library.compile("example.c", "include/globus");
    put(&server.here, "file", lines().as_bytes());
    let url = format!("gsiftp://{}{}/file", server.address, server.there);
    assert!(run(&program, &[&url, "gridftp"]).stderr == lines().as_bytes());
}
