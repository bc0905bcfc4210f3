//! Lists the requirements of docs/papers.md for which nobody says how they are shown to hold.
//!
//! A requirement is a table row whose first cell is its id: `| WIRE-01 | … |`. Its row names a test, in back quotes, as
//! `path/to/file.rs` or `path/to/file.rs::name_of_the_test`, and the test exists; or one of its cells starts with
//! `reason:` and says why there is none. No requirement has two rows: they would come to say different things.

use std::collections::BTreeMap;

use crate::tree::{self, File};
use crate::{Outcome, verdict};

const TABLE: &str = "docs/papers.md";

/// Is there a table?
pub(crate) fn exists() -> bool {
    tree::root().join(TABLE).exists()
}

/// Checks every row of the table.
pub(crate) fn check() -> Outcome {
    let files = tree::files()?;
    let table = files.iter().find(|file| file.path == TABLE).ok_or_else(|| format!("there is no {TABLE}"))?;
    let (count, findings) = judge(&table.text, &files);
    verdict(findings, format!("{count} requirements name a test or a reason"))
}

/// How many requirements the table has, and what is wrong with its rows.
fn judge(table: &str, files: &[File]) -> (usize, Vec<String>) {
    let mut findings = Vec::new();
    let mut line_of = BTreeMap::new();
    for (number, line) in (1..).zip(table.lines()) {
        let Some((id, cells)) = row(line) else { continue };
        if let Some(first) = line_of.get(id) {
            findings.push(format!("{TABLE}:{number}: {id} has a row already, in line {first}"));
        } else {
            line_of.insert(id, number);
        }
        if let Err(what) = shown(&cells, files) {
            findings.push(format!("{TABLE}:{number}: {id} {what}"));
        }
    }
    (line_of.len(), findings)
}

/// Id and other cells of a row; none for other lines.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let inner = line.trim().strip_prefix('|')?.trim_end_matches('|');
    let mut cells = inner.split('|').map(str::trim);
    let id = cells.next()?;
    let (group, number) = id.split_once('-')?;
    let valid = !group.is_empty()
        && group.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
        && !number.is_empty()
        && number.chars().all(|letter| letter.is_ascii_digit());
    valid.then(|| (id, cells.collect()))
}

fn shown(cells: &[&str], files: &[File]) -> Result<(), String> {
    let mut tests = 0;
    for quoted in cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        let (path, name) = quoted.split_once("::").map_or((quoted, None), |(path, name)| (path, Some(name)));
        if !(path.ends_with(".rs") || path.ends_with(".py")) {
            continue;
        }
        let file =
            files.iter().find(|file| file.path == path).ok_or_else(|| format!("names {path}, which is not there"))?;
        match name.map(|name| name.rsplit("::").next().unwrap_or(name)) {
            Some(name)
                if !file.text.contains(&format!("fn {name}(")) && !file.text.contains(&format!("def {name}(")) =>
            {
                return Err(format!("names {quoted}, and {path} has no test of that name"));
            }
            Some(_) => tests += 1,
            None if file.text.contains("#[test]") || is_test(path) => tests += 1,
            None => {} // where it lives
        }
    }
    let reason = cells.iter().any(|cell| cell.strip_prefix("reason:").is_some_and(|reason| !reason.trim().is_empty()));
    if tests > 0 || reason { Ok(()) } else { Err("names neither a test nor a reason".to_owned()) }
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        vec![
            file("crates/proto/src/a.rs", "fn a() {}"),
            file("crates/proto/src/b.rs", "#[test]\nfn b_is_b() {}"),
            file("tests/sim/src/c.rs", "pub fn c() {}"),
        ]
    }

    fn passes(line: &str) -> bool {
        let (_, cells) = row(line).expect("a row");
        shown(&cells, &files()).is_ok()
    }

    #[test]
    fn rows_are_told_from_other_lines() {
        assert_eq!(row("| WIRE-01 | a | b |"), Some(("WIRE-01", vec!["a", "b"])));
        assert_eq!(row("| id | a |"), None);
        assert_eq!(row("|---|---|"), None);
        assert_eq!(row("WIRE-01 in a sentence"), None);
    }

    #[test]
    fn a_test_counts_when_it_exists() {
        assert!(passes("| A-1 | x | `crates/proto/src/b.rs::b_is_b` |"));
        assert!(passes("| A-1 | x | `tests/sim/src/c.rs` |"));
        assert!(!passes("| A-1 | x | `crates/proto/src/b.rs::gone` |"));
        assert!(!passes("| A-1 | x | `crates/proto/src/gone.rs` |"));
    }

    #[test]
    fn a_requirement_with_two_rows_is_a_finding() {
        let row = "| A-1 | x | `crates/proto/src/b.rs::b_is_b` |";
        assert_eq!(judge(row, &files()), (1, vec![]));
        let (count, findings) = judge(&format!("{row}\n\n## again\n\n{row}\n"), &files());
        assert_eq!(
            (count, findings.as_slice()),
            (1, ["docs/papers.md:5: A-1 has a row already, in line 1".to_owned()].as_slice())
        );
    }

    #[test]
    fn the_place_alone_does_not_count_and_a_reason_does() {
        assert!(!passes("| A-1 | `crates/proto/src/a.rs` | |"));
        assert!(passes("| A-1 | `crates/proto/src/a.rs` | reason: replaced by a larger rule |"));
        assert!(!passes("| A-1 | `crates/proto/src/a.rs` | reason: |"));
    }
}
