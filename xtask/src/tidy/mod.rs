//! Keeps the tree tidy: sizes, headers, left-over marks, white space, and words that have no place in a public tree.
//!
//! What is allowed to break a rule stands in `allowed.rs` with its reason. That list is a ratchet: an entry that is
//! larger than needed is a finding too.

mod allowed;
mod fields;
mod functions;
mod marks;

use crate::tree::File;
use crate::{Outcome, tree, verdict};
use allowed::{FILES, FUNCTIONS, TYPES};

/// Lines at which a file is worth a thought.
const FILE_LINES_WARN: usize = 300;

/// Lines that a file may have.
const FILE_LINES_MAX: usize = 500;

/// Lines that a function may have, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Fields that a type may have.
const FIELDS_MAX: usize = 15;

/// How far an entry of the allow-list may exceed what it allows.
const SLACK_LINES: usize = 40;

/// Checks every text file of the tree.
pub(crate) fn check() -> Outcome {
    let files = tree::files()?;
    let mut findings = Vec::new();
    let mut long = Vec::new();
    for file in &files {
        marks::check(file, &mut findings);
        if file.is_rust() {
            header(file, &mut findings);
            length(file, &mut findings, &mut long);
            functions::check(file, FUNCTION_LINES_MAX, &mut findings);
            fields::check(file, FIELDS_MAX, &mut findings);
        }
    }
    stale(&files, &mut findings);
    if !long.is_empty() {
        println!("over {FILE_LINES_WARN} lines, worth a thought: {}", long.join(", "));
    }
    verdict(findings, format!("{} files are tidy", files.len()))
}

fn header(file: &File, findings: &mut Vec<String>) {
    if !file.text.starts_with("//!") {
        findings
            .push(format!("{}:1: starts without `//!`: say what the file is for and what it must not do", file.path));
    }
}

fn length(file: &File, findings: &mut Vec<String>, long: &mut Vec<String>) {
    let lines = file.text.lines().count();
    if lines > FILE_LINES_WARN {
        long.push(format!("{} ({lines})", file.path));
    }
    let entry = FILES.iter().find(|entry| entry.path == file.path);
    let limit = entry.map_or(FILE_LINES_MAX, |entry| entry.lines);
    if lines > limit {
        findings.push(format!(
            "{}: {lines} lines, {limit} allowed: split it, or give it an entry with a reason",
            file.path
        ));
    } else if entry.is_some() && (lines <= FILE_LINES_MAX || lines + SLACK_LINES < limit) {
        findings.push(format!("{}: {lines} lines, its entry in allowed.rs says {limit}: lower it", file.path));
    }
}

/// Entries of the allow-lists whose file is gone.
fn stale(files: &[File], findings: &mut Vec<String>) {
    let paths = FILES.iter().map(|entry| entry.path).chain(FUNCTIONS.iter().map(|entry| entry.path));
    for path in
        paths.chain(TYPES.iter().map(|entry| entry.path)).filter(|path| !files.iter().any(|file| file.path == *path))
    {
        findings.push(format!("{path}: has an entry in allowed.rs and does not exist"));
    }
}
