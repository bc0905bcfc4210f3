//! Draws the state machines of `channel::life` into `docs/states`; with `--check` compares instead.
//!
//! `cargo run -p xdfs-proto --example states [-- --check]`. Each file has the drawing and the whole table, every state by
//! every event, so that what is refused can be read off as well.
#![allow(clippy::disallowed_methods, reason = "a tool for the tree, not part of the protocol")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xdfs_proto::channel::life::{Carrying, Life, Receiving, Row, Sending};

/// A machine as it is listed.
struct Machine {
    name: &'static str,
    about: &'static str,
    states: Vec<&'static str>,
    events: &'static [&'static str],
    table: &'static [Row],
}

fn machines() -> [Machine; 4] {
    [
        Machine {
            name: "life",
            about: "A channel, from the connection to its end.",
            states: Life::STATES.iter().map(|state| state.name()).collect(),
            events: Life::EVENTS,
            table: Life::TABLE,
        },
        Machine {
            name: "carrying",
            about: "What one direction of a channel carries.",
            states: Carrying::STATES.iter().map(|state| state.name()).collect(),
            events: Carrying::EVENTS,
            table: Carrying::TABLE,
        },
        Machine {
            name: "sending",
            about: "An operation at the end that sends the bytes: the client of an upload, the server of a download.",
            states: Sending::STATES.iter().map(|state| state.name()).collect(),
            events: Sending::EVENTS,
            table: Sending::TABLE,
        },
        Machine {
            name: "receiving",
            about: "An operation at the end that gets the bytes: the server of an upload, the client of a download.",
            states: Receiving::STATES.iter().map(|state| state.name()).collect(),
            events: Receiving::EVENTS,
            table: Receiving::TABLE,
        },
    ]
}

fn render(machine: &Machine) -> String {
    let mut text = format!("# {}\n\n{}\n\n", machine.name, machine.about);
    text.push_str("Made from `crates/proto/src/channel/life.rs` by `cargo run -p xdfs-proto --example states`.\n\n");
    text.push_str("```mermaid\nstateDiagram-v2\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "    [*] --> {}", machine.states[0]);
    for row in machine.table {
        let _ = writeln!(text, "    {} --> {}: {}", row.from, row.to, row.event);
    }
    let leaves = |state: &str| machine.table.iter().any(|row| row.from == state && row.to != state);
    for state in machine.states.iter().filter(|state| !leaves(state)) {
        let _ = writeln!(text, "    {state} --> [*]");
    }
    text.push_str("```\n\nAn empty cell: the event is refused in that state, which is an error and never ignored.\n\n");
    let _ = writeln!(text, "| | {} |", machine.states.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(machine.states.len()));
    for event in machine.events {
        let cell = |state: &&'static str| {
            let row = machine.table.iter().find(|row| row.event == *event && row.from == *state);
            row.map_or("", |row| row.to)
        };
        let cells: Vec<&str> = machine.states.iter().map(cell).collect();
        let _ = writeln!(text, "| {event} | {} |", cells.join(" | "));
    }
    text
}

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states");
    let files: BTreeMap<PathBuf, String> =
        machines().iter().map(|machine| (folder.join(format!("{}.md", machine.name)), render(machine))).collect();
    if std::env::args().any(|argument| argument == "--check") {
        return check(&files, &folder);
    }
    std::fs::create_dir_all(&folder).expect("a folder for the drawings");
    for (path, text) in &files {
        std::fs::write(path, text).expect("a drawing can be written");
    }
    println!("{} machines drawn", files.len());
    ExitCode::SUCCESS
}

fn check(files: &BTreeMap<PathBuf, String>, folder: &Path) -> ExitCode {
    let mut findings: Vec<String> = Vec::new();
    for (path, text) in files {
        if std::fs::read_to_string(path).ok().as_ref() != Some(text) {
            findings.push(format!("{}: not what the code makes", path.display()));
        }
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    findings.extend(
        entries.filter(|path| !files.contains_key(path)).map(|path| format!("{}: nothing makes it", path.display())),
    );
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
