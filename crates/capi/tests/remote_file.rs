//! Programs in C read files of Debian's vsftpd and globus-gridftp-server by their URLs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files that are read")]

#[path = "../../gridftp/tests/support/mod.rs"]
mod servers;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use servers::site::Site;
use servers::{Server, put};
use support::Library;

fn run(program: &Path, arguments: &[&str]) -> Output {
    run_in(&[], program, arguments)
}

/// The same with variables of the environment.
fn run_in(environment: &[(&str, PathBuf)], program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.arg("60").arg(program).args(arguments).output().unwrap();
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

#[test]
fn the_papers_sample_logs_in_by_a_certificate_and_checks_the_subject_of_its_url() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    let library = Library::installed();
    let program = library.compile("example.c", "include/globus");
    put(&server.here, "file", lines().as_bytes());
    let environment = [("X509_USER_PROXY", site.path("proxy")), ("X509_CERT_DIR", site.path("certificates"))];
    let port = server.address.port();
    for subject in ["", "</O=Grid/OU=xdfs/CN=host/localhost>"] {
        let url = format!("gsiftp://{subject}localhost:{port}{}/file", server.there);
        assert!(run_in(&environment, &program, &[&url, "gridftp"]).stderr == lines().as_bytes(), "{url}");
    }
    let url = format!("gsiftp://</O=Grid/CN=Otto>localhost:{port}{}/file", server.there);
    let program = library.compile("remote_file.c", "include/globus");
    let output = Command::new("timeout").envs(environment).arg("60").arg(&program).arg(&url).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("expected is '/O=Grid/CN=Otto'"), "{said}");
}
