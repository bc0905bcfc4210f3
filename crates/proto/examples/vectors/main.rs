//! Writes the golden frames of `vectors/wire`, `vectors/calls` and `vectors/handshake`; with `--check` compares them instead.
//!
//! `cargo run -p xdfs-proto --example vectors [-- --check]`. A frame that changes is a change of the wire: a new version
//! of the protocol, or a mistake.
#![allow(clippy::disallowed_methods, reason = "a tool for the tree, not part of the protocol")]

mod calls;
mod files;
mod frame;
mod handshake;
mod messages;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let files: BTreeMap<PathBuf, String> = handshake::frames()
        .iter()
        .chain(&messages::frames())
        .chain(&calls::frames())
        .chain(&files::frames())
        .map(|frame| (root.join(frame.path), frame.render()))
        .collect();
    let folders = [root.join("handshake"), root.join("wire"), root.join("calls")];
    if std::env::args().any(|argument| argument == "--check") {
        return check(&files, &folders);
    }
    for folder in &folders {
        std::fs::create_dir_all(folder).expect("a folder for the vectors");
    }
    for (path, text) in &files {
        std::fs::write(path, text).expect("a vector can be written");
    }
    println!("{} vectors written", files.len());
    ExitCode::SUCCESS
}

fn check(files: &BTreeMap<PathBuf, String>, folders: &[PathBuf]) -> ExitCode {
    let mut findings: Vec<String> = Vec::new();
    for (path, text) in files {
        match std::fs::read_to_string(path) {
            Ok(found) if found == *text => {}
            Ok(_) => findings.push(format!("{}: not what the code makes", path.display())),
            Err(error) => findings.push(format!("{}: {error}", path.display())),
        }
    }
    for folder in folders {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        findings.extend(
            entries
                .filter(|path| !files.contains_key(path))
                .map(|path| format!("{}: nothing makes it", path.display())),
        );
    }
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
