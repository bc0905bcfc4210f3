//! Checks docs/papers.md: every requirement that the project has taken on has a row, and its row says how it is shown to hold.
//!
//! A requirement is a table row whose first cell is its id: `| WIRE-01 | … |`. Its row names a test, in back quotes, as
//! `path/to/file.rs::name_of_the_test`, and that is a test; or one of its cells starts with `reason:` and says why there is
//! none. A file without the name of a test is a place and shows nothing. No requirement has two rows: they would come to say
//! different things.
//!
//! In docs/mount.md every row of a table whose last column is headed `shown by` names a test in that cell, as
//! `module::name_of_the_test`, or says `the same` below a row that does. In docs/security.md, where it is headed `test` or
//! `where`, it names tests as above, or files that have some.

use std::collections::BTreeMap;

use crate::tree::{self, File};
use crate::{Outcome, verdict};

const TABLE: &str = "docs/papers.md";

/// A page whose tables name in their last column what shows each row to hold.
struct Page {
    path: &'static str,
    /// How that column is headed.
    headed: &'static [&'static str],
    /// Whether what a cell quotes shows something; an error if that is not there.
    shows: fn(&str, &[File]) -> Result<bool, String>,
}

/// The page that says what of POSIX holds, and the one about attacks.
const PAGES: [Page; 2] = [
    Page { path: "docs/mount.md", headed: &["shown by"], shows: is_mount_test },
    Page { path: "docs/security.md", headed: &["test", "where"], shows: has_tests },
];

/// The directory of the tests that docs/mount.md names.
const MOUNT_TESTS: &str = "tests/cli/tests/mount";

/// The groups that were taken on, each with the number of its last requirement; they are numbered from 1.
const GROUPS: &[(&str, usize)] = &[
    ("WIRE", 76),
    ("FTSM", 32),
    ("PATHM", 16),
    ("DFSM", 26),
    ("CHAN", 25),
    ("XDOPI", 8),
    ("SEC", 39),
    ("SRV", 107),
    ("CLI", 34),
    ("STOR", 26),
    ("XIO", 76),
    ("GXIO", 31),
    ("PERF", 37),
];

/// Is there a table?
pub(crate) fn exists() -> bool {
    tree::root().join(TABLE).exists()
}

/// Checks every row of the tables.
pub(crate) fn check() -> Outcome {
    let files = tree::files()?;
    let page = |path: &str| files.iter().find(|file| file.path == path).ok_or_else(|| format!("there is no {path}"));
    let (count, mut findings) = judge(&page(TABLE)?.text, GROUPS, &files);
    let mut shown = Vec::new();
    for named in &PAGES {
        let (rows, wrong) = judge_shown(named, &page(named.path)?.text, &files);
        findings.extend(wrong);
        if rows == 0 {
            findings.push(format!("{}: no table says what its rows are shown by", named.path));
        }
        shown.push(format!("{rows} rows of {}", named.path));
    }
    verdict(findings, format!("{count} requirements name a test or a reason, and {} a test", shown.join(" and ")))
}

/// How many requirements the table has, and what is wrong with it.
fn judge(table: &str, groups: &[(&str, usize)], files: &[File]) -> (usize, Vec<String>) {
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
    for (group, last) in groups {
        let missing =
            (1..=*last).map(|number| format!("{group}-{number:02}")).filter(|id| !line_of.contains_key(&**id));
        findings.extend(missing.map(|id| format!("{TABLE}: {id} has no row")));
    }
    (line_of.len(), findings)
}

/// How many rows of a page are to be shown by a test, and what is wrong with them.
fn judge_shown(page: &Page, text: &str, files: &[File]) -> (usize, Vec<String>) {
    let (mut rows, mut findings) = (0, Vec::new());
    let mut table = Table::Outside;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(inner) = line.trim().strip_prefix('|') else {
            table = Table::Outside;
            continue;
        };
        let last = inner.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        let above_shown = match table {
            Table::Outside if page.headed.contains(&last) => {
                table = Table::Shown { above: false };
                continue;
            }
            Table::Outside => {
                table = Table::Other;
                continue;
            }
            Table::Other => continue,
            Table::Shown { above } => above,
        };
        if !last.is_empty() && last.chars().all(|letter| matches!(letter, '-' | ':')) {
            continue;
        }
        rows += 1;
        let told = if last == "the same" && above_shown { Ok(()) } else { shows_something(last, page, files) };
        table = Table::Shown { above: told.is_ok() };
        findings.extend(told.err().map(|what| format!("{}:{number}: {what}", page.path)));
    }
    (rows, findings)
}

/// Where a line of a page is.
enum Table {
    Outside,
    /// A table that names no tests.
    Other,
    /// One that does, and whether the row above did.
    Shown {
        above: bool,
    },
}

/// Whether a cell names what shows its row to hold, and all that it names is there.
fn shows_something(cell: &str, page: &Page, files: &[File]) -> Result<(), String> {
    let mut shown = false;
    for quoted in cell.split('`').skip(1).step_by(2) {
        shown |= (page.shows)(quoted, files)?;
    }
    if shown { Ok(()) } else { Err("the row names no test".to_owned()) }
}

/// `module::test` of the tests of mounts.
fn is_mount_test(quoted: &str, files: &[File]) -> Result<bool, String> {
    let (module, name) = quoted.split_once("::").ok_or_else(|| format!("`{quoted}` is no `module::test`"))?;
    let path = format!("{MOUNT_TESTS}/{module}.rs");
    let file = files.iter().find(|file| file.path == path).ok_or_else(|| format!("there is no {path}"))?;
    if is_test(file, name, files) { Ok(true) } else { Err(format!("{path} has no test '{name}'")) }
}

/// `path/to/file.rs::test`, the test's name alone, or a file or a folder with tests. Other words are only quoted.
fn has_tests(quoted: &str, files: &[File]) -> Result<bool, String> {
    if !quoted.contains('/') {
        if !quoted.contains('_') {
            return Ok(false);
        }
        let mut named = files.iter().filter(|file| file.text.contains(quoted));
        let found = named.any(|file| is_test(file, quoted, files));
        return if found { Ok(true) } else { Err(format!("there is no test '{quoted}'")) };
    }
    let (path, name) = quoted.split_once("::").map_or((quoted, None), |(path, name)| (path, Some(name)));
    let below = |file: &&File| file.path == path || file.path.starts_with(&format!("{}/", path.trim_end_matches('/')));
    let mut named = files.iter().filter(below).peekable();
    named.peek().ok_or_else(|| format!("there is no {path}"))?;
    let shows = |file: &File| match name {
        Some(name) => is_test(file, name, files),
        None => file.code().contains("#[test]") || file.text.contains("fuzz_target!"),
    };
    if named.any(shows) { Ok(true) } else { Err(format!("`{quoted}` has no such test")) }
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
        // Without a name it is where something lives.
        let Some(name) = name.map(|name| name.rsplit("::").next().unwrap_or(name)) else { continue };
        if !is_test(file, name, files) {
            return Err(format!("names {quoted}, and {path} has no test of that name"));
        }
        tests += 1;
    }
    let reason = cells.iter().any(|cell| cell.strip_prefix("reason:").is_some_and(|reason| !reason.trim().is_empty()));
    if tests > 0 || reason { Ok(()) } else { Err("names neither a test nor a reason".to_owned()) }
}

/// Whether `name` is a test of `file`: a function under `#[test]` that is not ignored, or one of a suite, which a macro of the same package makes
/// tests of for every member.
fn is_test(file: &File, name: &str, files: &[File]) -> bool {
    let code = file.code();
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let defines = |line: &str| words(line).collect::<Vec<_>>().windows(2).any(|pair| pair == ["fn", name]);
    let Some(at) = lines.iter().position(|line| defines(line)) else { return false };
    let attributes = lines[..at].iter().rev().take_while(|line| line.is_empty() || line.starts_with("#["));
    let attributes: Vec<_> = attributes.collect();
    let has = |name: &str| attributes.iter().any(|line| line.starts_with(name));
    if is_left_out(file, files) {
        return false;
    }
    if has("#[test]") {
        // This looks for the attribute in the sources and leaves out nothing itself: a test that nobody runs shows nothing.
        return !has("#[ignore");
    }
    let ends = ["/tests/", "/src/"].into_iter().filter_map(|folder| file.path.find(folder)).min();
    let package = format!("{}/", &file.path[..ends.unwrap_or(file.path.len())]);
    let makes_tests = |other: &&File| other.path.starts_with(&package) && other.text.contains("#[test] fn $");
    files.iter().filter(makes_tests).any(|suite| {
        let code = suite.code();
        code.lines().any(|line| !defines(line) && words(line).any(|word| word == name))
    })
}

/// Whether the file belongs to a test target that its manifest leaves out (`test = false`).
fn is_left_out(file: &File, files: &[File]) -> bool {
    let manifests =
        files.iter().filter_map(|manifest| Some((manifest.path.strip_suffix("Cargo.toml")?, &manifest.text)));
    manifests.filter(|(package, _)| file.path.starts_with(package)).any(|(package, text)| {
        text.split("[[test]]").skip(1).filter(|target| target.contains("\ntest = false")).any(|target| {
            let path = target.lines().find_map(|line| line.strip_prefix("path = \""));
            let folder = path.and_then(|path| path.trim_end_matches('"').strip_suffix("main.rs"));
            folder.is_some_and(|folder| file.path.starts_with(&format!("{package}{folder}")))
        })
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        vec![
            file("crates/proto/src/a.rs", "fn a() {}\n// #[test]\nfn b() {}"),
            file("crates/proto/src/b.rs", "#[test]\n/// It is.\n#[should_panic]\nfn b_is_b() {}\n\nfn helper() {}"),
            // Text that the tests below read, and no test: an ignored one must not count.
            file("crates/proto/src/e.rs", "#[test]\n#[ignore = \"slow\"]\nfn e_is_e() {}"),
            file("tests/sim/src/c.rs", "pub fn c() {}"),
            file("tests/suite/tests/main.rs", "macro_rules! all { () => { #[test] fn $test() {} } }\nall! { d_is_d, }"),
            file("tests/suite/tests/d.rs", "pub fn d_is_d() {}\npub fn helper() {}"),
            file("tests/long/Cargo.toml", "[[test]]\nname = \"x\"\npath = \"tests/x/main.rs\"\ntest = false\n"),
            file("tests/long/tests/x/main.rs", "#[test]\nfn x_is_x() {}"),
            file("tests/long/tests/y.rs", "#[test]\nfn y_is_y() {}"),
            file("tests/suite/src/rules.rs", "pub fn d_is_d() {}\npub fn helper() {}"),
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
    fn a_test_counts_and_any_other_function_or_file_does_not() {
        assert!(passes("| A-1 | x | `crates/proto/src/b.rs::b_is_b` |"));
        assert!(passes("| A-1 | x | `tests/suite/tests/d.rs::d_is_d` |"));
        assert!(passes("| A-1 | x | `tests/suite/src/rules.rs::d_is_d` |"));
        for named in [
            "proto/src/e.rs::e_is_e",
            "proto/src/b.rs::helper",
            "proto/src/b.rs::gone",
            "proto/src/a.rs::b",
            "proto/src/gone.rs",
        ] {
            assert!(!passes(&format!("| A-1 | x | `crates/{named}` |")), "{named}");
        }
        assert!(!passes("| A-1 | x | `tests/suite/tests/d.rs::helper` |"));
        assert!(passes("| A-1 | x | `tests/long/tests/y.rs::y_is_y` |"));
        assert!(!passes("| A-1 | x | `tests/long/tests/x/main.rs::x_is_x` |"), "of a target that no run has");
        assert!(!passes("| A-1 | x | `tests/sim/src/c.rs::c` |"));
        assert!(!passes("| A-1 | x | `crates/proto/src/b.rs` |"));
    }

    #[test]
    fn a_requirement_with_two_rows_or_none_is_a_finding() {
        let row = "| A-01 | x | `crates/proto/src/b.rs::b_is_b` |";
        assert_eq!(judge(row, &[("A", 1)], &files()), (1, vec![]));
        let (count, findings) = judge(&format!("{row}\n\n## again\n\n{row}\n"), &[("A", 2)], &files());
        let wrong = ["docs/papers.md:5: A-01 has a row already, in line 1", "docs/papers.md: A-02 has no row"];
        assert_eq!((count, findings), (1, wrong.map(str::to_owned).to_vec()));
    }

    #[test]
    fn each_row_that_is_to_be_shown_names_a_test_that_exists() {
        let test = |path: &str, name: &str| File { path: path.to_owned(), text: format!("#[test]\nfn {name}() {{}}") };
        let files = [test("tests/cli/tests/mount/posix.rs", "a_is_a"), test("tests/cli/tests/other.rs", "b_is_b")];
        let page = |cells: &[&str]| {
            let rows: String = cells.iter().map(|cell| format!("| a | b | {cell} |\n")).collect();
            format!(
                "| x | y |\n|---|---|\n| 1 | 2 |\n\n| | | shown by |\n|---|--:|:---|\n{rows}\n| x | y |\n|---|---|\n| 1 | 2 |\n"
            )
        };
        let mount = &PAGES[0];
        let judged = |cells: &[&str]| judge_shown(mount, &page(cells), &files);
        assert_eq!(judged(&["`posix::a_is_a`", "the same", "the same"]), (3, vec![]));
        for wrong in
            ["", "reason: none", "the same", "`posix::a`", "`other::b_is_b`", "`a_is_a`", "`posix::a_is_a`, `posix::b`"]
        {
            let (rows, findings) = judged(&[wrong, "`posix::a_is_a`"]);
            assert_eq!((rows, findings.len()), (2, 1), "{wrong}: {findings:?}");
            assert!(findings[0].starts_with("docs/mount.md:7: "), "{findings:?}");
        }
        assert_eq!(judged(&["reason: none", "the same"]).1.len(), 2, "nothing is named above");
        assert_eq!(judge_shown(mount, "| x | y |\n|---|---|\n| 1 | 2 |\n", &files), (0, vec![]));
    }

    #[test]
    fn a_row_about_an_attack_names_tests_or_files_that_have_some() {
        let judged = |cell: &str| {
            let page =
                format!("| attack | test |\n|---|---|\n| a | {cell} |\n\n| sent | log |\n|---|---|\n| b | - |\n");
            judge_shown(&PAGES[1], &page, &files())
        };
        for cell in ["`crates/proto/src/b.rs`", "`crates/proto/src/b.rs`: `b_is_b`", "`crates/proto/src/`"] {
            assert_eq!(judged(cell), (1, vec![]), "{cell}");
        }
        for cell in [
            "`crates/proto/src/a.rs`",
            "`crates/proto/src/gone.rs`",
            "`crates/proto/src/b.rs::gone`",
            "`is_gone`",
            "`LimitExceeded`",
            "below",
        ] {
            assert_eq!((judged(cell).0, judged(cell).1.len()), (1, 1), "{cell}");
        }
    }

    #[test]
    fn the_place_alone_does_not_count_and_a_reason_does() {
        assert!(!passes("| A-1 | `crates/proto/src/a.rs` | |"));
        assert!(passes("| A-1 | `crates/proto/src/a.rs` | reason: replaced by a larger rule |"));
        assert!(!passes("| A-1 | `crates/proto/src/a.rs` | reason: |"));
    }
}
