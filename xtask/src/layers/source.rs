//! Finds uses in sources that the rules do not allow there.

use super::rules::{SOURCES, SourceRule, Use};
use crate::lex::{self, Token};
use crate::{Failure, tree::File};

/// Lines that the protocol's crate root must have: what keeps input and output out is the compiler, not we.
const PROTO_ROOT: &str = "crates/proto/src/lib.rs";
const PROTO_LINES: [&str; 2] = ["#![no_std]", "#![forbid(unsafe_code)]"];

/// All findings in all Rust files.
pub(super) fn findings(files: &[File]) -> Result<Vec<String>, Failure> {
    let mut findings = Vec::new();
    let modules = test_modules(files);
    for file in files.iter().filter(|file| file.is_rust()) {
        let test = is_test_file(&file.path) || modules.iter().any(|module| module.holds(&file.path));
        scan(file, test, &mut findings);
    }
    let root = files.iter().find(|file| file.path == PROTO_ROOT);
    let root = root.ok_or_else(|| format!("there is no {PROTO_ROOT}"))?;
    for line in PROTO_LINES {
        if !root.text.lines().any(|have| have == line) {
            findings.push(format!("{PROTO_ROOT}: must have the line {line}"));
        }
    }
    Ok(findings)
}

fn scan(file: &File, test: bool, findings: &mut Vec<String>) {
    let code = file.code();
    let all = lex::tokens(&code);
    let product = lex::without_tests(&all);
    let rules = SOURCES.iter().filter(|rule| holds(rule, &file.path));
    for rule in rules.filter(|rule| !(rule.tests_may && test)) {
        let tokens = if rule.tests_may { &product } else { &all };
        for at in uses(tokens, rule.what) {
            findings.push(format!("{}:{}: {}", file.path, lex::line_of(&file.text, at), rule.why));
        }
    }
}

fn holds(rule: &SourceRule, path: &str) -> bool {
    let applies = rule.applies.iter().any(|prefix| path.starts_with(prefix));
    applies && !rule.except.iter().any(|(prefix, _)| path.starts_with(prefix))
}

/// Files that cargo builds for tests and examples alone.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/examples/")
}

/// A module in files of its own: `a/b.rs`, and everything below `a/b/`.
#[derive(Debug, PartialEq, Eq)]
struct Module(String);

impl Module {
    fn holds(&self, path: &str) -> bool {
        path.strip_prefix(&self.0).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }
}

/// The modules that some file declares as `#[cfg(test)] mod name;`.
fn test_modules(files: &[File]) -> Vec<Module> {
    const DECLARED: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut modules = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = file.code();
        let tokens = lex::tokens(&code);
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let folder = match name {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
        };
        for window in tokens.windows(DECLARED.len() + 2) {
            let declared = window.iter().zip(DECLARED).all(|(token, word)| token.text == word);
            if declared && window[DECLARED.len() + 1].text == ";" {
                modules.push(Module(format!("{folder}/{}", window[DECLARED.len()].text)));
            }
        }
    }
    modules
}

/// Where a path is used, in bytes.
fn uses(tokens: &[Token<'_>], what: Use) -> Vec<usize> {
    let (path, but): (&[&str], &[&str]) = match what {
        Use::Path(path) => (path, &[]),
        Use::PathBut(path, but) => (path, but),
    };
    let separated = |words: &[&'static str]| -> Vec<&'static str> {
        words
            .iter()
            .enumerate()
            .flat_map(|(index, word)| if index == 0 { vec![*word] } else { vec!["::", *word] })
            .collect()
    };
    let wanted = separated(path);
    let mut let_off = separated(but);
    if !let_off.is_empty() {
        let_off.insert(0, "::");
    }
    let starts = |at: usize, words: &[&str]| {
        tokens.len() >= at + words.len() && tokens[at..].iter().zip(words).all(|(token, word)| token.text == *word)
    };
    let found = (0..tokens.len()).filter(|at| starts(*at, &wanted));
    found.filter(|at| let_off.is_empty() || !starts(at + wanted.len(), &let_off)).map(|at| tokens[at].at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        scan(&file(path, text), is_test_file(path), &mut findings);
        findings.len()
    }

    #[test]
    fn unsafe_is_found_but_where_it_belongs() {
        assert_eq!(found("crates/engine/src/pump.rs", "fn a() { unsafe { b() } }"), 1);
        assert_eq!(found("crates/io/src/sys/call.rs", "fn a() { unsafe { b() } }"), 0);
        assert_eq!(found("crates/engine/src/pump.rs", "// unsafe\nconst A: &str = \"unsafe\";"), 0);
    }

    #[test]
    fn xio_sees_the_base_of_the_protocol_and_nothing_else() {
        assert_eq!(found("crates/io/src/lib.rs", "use xdfs_proto::base::{Error, RelPath};"), 0);
        assert_eq!(found("crates/io/src/lib.rs", "use xdfs_proto::wire::Head;"), 1);
        assert_eq!(found("crates/io/src/lib.rs", "use xdfs_proto::{base, wire};"), 1);
        assert_eq!(found("crates/io/src/lib.rs", "use xdfs_proto as protocol;"), 1);
    }

    #[test]
    fn sessions_are_driven_by_the_engine_and_by_tests() {
        let text = "use xdfs_secure::record::Opener; fn a() { session.on_control(b, c, d); Head::decode(e); }";
        assert_eq!(found("crates/server/src/listen/idle.rs", text), 3);
        assert_eq!(found("crates/client/src/session.rs", text), 3);
        assert_eq!(found("crates/engine/src/control.rs", text), 0);
        assert_eq!(found("crates/client/tests/hostile/raw.rs", text), 0);
        assert_eq!(found("crates/client/src/lib.rs", "pub use xdfs_secure::record::Limits as KeyLimits;"), 0);
    }

    #[test]
    fn files_are_opened_by_the_resolver_and_by_tests() {
        let text = "fn a() { std::fs::read(\"b\"); }";
        assert_eq!(found("crates/engine/src/stage.rs", text), 1);
        assert_eq!(found("crates/io/src/store/resolve.rs", text), 0);
        assert_eq!(found("crates/engine/src/stage.rs", &format!("#[cfg(test)] mod tests {{ {text} }}")), 0);
        assert_eq!(found("crates/engine/tests/stage.rs", text), 0);
        assert_eq!(found("crates/engine/src/stage.rs", "use std::fs::File;"), 0);
        assert_eq!(found("crates/io/src/transport/tcp.rs", "openat(a, b)"), 1);
    }

    #[test]
    fn the_protocol_has_no_standard_library_outside_of_its_tests() {
        assert_eq!(found("crates/proto/src/a.rs", "use std::time::Instant;"), 1);
        assert_eq!(found("crates/proto/src/lib.rs", "#[cfg(test)]\nextern crate std;"), 0);
        assert_eq!(found("crates/proto/src/lib.rs", "extern crate std;"), 1);
    }

    #[test]
    fn a_module_that_is_declared_for_tests_is_a_test() {
        let files = [
            file("crates/a/src/lib.rs", "#[cfg(test)]\nmod vectors;\nmod b;"),
            file("crates/a/src/b.rs", "#[cfg(test)] mod tests;"),
        ];
        let modules = test_modules(&files);
        let holds = |path: &str| modules.iter().any(|module| module.holds(path));
        assert!(holds("crates/a/src/vectors.rs") && holds("crates/a/src/b/tests.rs"));
        assert!(holds("crates/a/src/vectors/more.rs"));
        assert!(!holds("crates/a/src/b.rs") && !holds("crates/a/src/vectors2.rs"));
    }
}
