//! The papers' sample, compiled unchanged with our headers and with those of Globus XIO: both read the same.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(
    clippy::disallowed_methods,
    reason = "makes the file that is read, and lays the library where the linker finds it"
)]

mod support;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use support::{Library, compiled, globus_flags};

/// The sample with our library and with that of Globus.
fn samples(library: &Library) -> Option<[PathBuf; 2]> {
    let theirs = library.path().join("theirs");
    let flags = globus_flags()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/example.c");
    compiled(Command::new("cc").arg(source).arg("-o").arg(&theirs).args(flags.split_whitespace()));
    Some([library.compile("example.c", "include/globus"), theirs])
}

fn read(sample: &Path, contact: &str, driver: &str) -> Output {
    let limited = ["60", sample.to_str().unwrap(), contact, driver];
    Command::new("timeout").args(limited).output().unwrap()
}

/// Text of several buffers' length that shows where it is cut.
fn text() -> String {
    (0..500).map(|line| format!("line {line} of what is read\n")).collect()
}

#[test]
fn the_papers_sample_reads_a_file_as_with_globus() {
    let library = Library::installed();
    let Some(samples) = samples(&library) else { return };
    let file = library.path().join("content");
    for content in [text(), String::new()] {
        std::fs::write(&file, &content).unwrap();
        for sample in &samples {
            let output = read(sample, file.to_str().unwrap(), "file");
            assert!(output.status.success(), "{sample:?}: {output:?}");
            assert!(output.stderr == content.as_bytes(), "{sample:?}: {output:?}");
        }
    }
}

#[test]
fn the_papers_sample_reads_from_a_peer_as_with_globus() {
    let library = Library::installed();
    let Some(samples) = samples(&library) else { return };
    for sample in &samples {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let contact = listener.local_addr().unwrap().to_string();
        let sending = thread::spawn(move || listener.accept().unwrap().0.write_all(text().as_bytes()).unwrap());
        let output = read(sample, &contact, "tcp");
        assert!(output.status.success(), "{sample:?}: {output:?}");
        assert!(output.stderr == text().as_bytes(), "{sample:?}: {output:?}");
        sending.join().unwrap();
    }
}

#[test]
fn the_sample_stops_where_there_is_no_such_driver() {
    let library = Library::installed();
    let Some(samples) = samples(&library) else { return };
    for sample in &samples {
        let output = read(sample, "somewhere", "nosuchdriver");
        assert!(!output.status.success(), "{sample:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("GLOBUS_SUCCESS"), "{sample:?}: {output:?}");
    }
}
