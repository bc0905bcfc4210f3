//! The copy of the sources in which every fault can be selected.

use super::fault::{Fault, PROTO};
use super::faults;
use crate::{Failure, tree};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The crate that is told which fault is selected.
const LIBRARY: &str = "crates/proto/src/lib.rs";

/// What that crate has besides, in the copy alone.
const QUESTION: &str = r#"
/// Which fault is selected.
pub mod seeded {
    extern crate std;

    static CHOSEN: std::sync::OnceLock<Option<std::string::String>> = std::sync::OnceLock::new();

    /// Whether it is this one.
    pub fn is(name: &str) -> bool {
        CHOSEN.get_or_init(|| std::env::var("XDFS_BUG").ok()).as_deref() == Some(name)
    }
}
"#;

/// Makes `to` a copy of what git knows or would know, as it is now, with the faults. Files that stay what they are keep their times, so
/// that a second build has little to do.
pub(super) fn make(to: &Path) -> Result<(), Failure> {
    let (root, mut names) = (tree::root(), BTreeSet::new());
    for name in tree::paths(&root)? {
        let (from, text) = (root.join(&name), |error: std::io::Error| Failure(format!("{name}: {error}")));
        let facts = match fs::metadata(&from) {
            Ok(facts) if facts.is_file() => facts,
            // A link to a directory, whose files have names of their own.
            Ok(_) => continue,
            // One that was removed, and git has not been told yet, is in no build.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(text(error)),
        };
        let bytes = fs::read(&from).map_err(text)?;
        let bytes = if is_changed(&name) { changed(&name, bytes)? } else { bytes };
        put(&to.join(&name), &bytes)?;
        // Scripts stay programs.
        fs::set_permissions(to.join(&name), facts.permissions()).map_err(text)?;
        names.insert(to.join(&name));
    }
    remove_others(to, &names)
}

fn is_changed(name: &str) -> bool {
    name == LIBRARY || faults::all().flat_map(|fault| fault.edits).any(|edit| edit.file == name)
}

/// A file with the faults that are in it.
fn changed(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))?;
    let mut text = with_faults(name, &text, faults::all())?;
    if name == LIBRARY {
        text.push_str(QUESTION);
    }
    Ok(text.into_bytes())
}

/// All places are looked up in the text as it is, so that no fault depends on another one.
fn with_faults<'a>(file: &str, text: &str, faults: impl Iterator<Item = &'a Fault>) -> Result<String, Failure> {
    let owner = if file.starts_with(PROTO) { "crate" } else { "xdfs_proto" };
    let mut places: Vec<(Range<usize>, String)> = Vec::new();
    for fault in faults {
        for edit in fault.edits.iter().filter(|edit| edit.file == file) {
            let mut found = text.match_indices(edit.right);
            let (Some((at, _)), None) = (found.next(), found.next()) else {
                let why = "what the code has in the place of the fault is not there once";
                return Err(format!("{file}: {why}: '{}', {}", fault.name, edit.right.trim()).into());
            };
            let wrong = edit.wrong.replace("BUG", &format!("{owner}::seeded::is(\"{}\")", fault.name));
            places.push((at..at + edit.right.len(), wrong));
        }
    }
    places.sort_by_key(|(place, _)| place.start);
    let (mut made, mut end) = (String::new(), 0);
    for (place, wrong) in places {
        let between = text.get(end..place.start).ok_or_else(|| format!("{file}: two faults are in one place"))?;
        made.push_str(between);
        made.push_str(&wrong);
        end = place.end;
    }
    made.push_str(&text[end..]);
    Ok(made)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, bytes)).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A file of an earlier copy that git knows no longer would still be compiled: cargo finds tests by itself.
fn remove_others(folder: &Path, names: &BTreeSet<PathBuf>) -> Result<(), Failure> {
    let text = |error: std::io::Error| Failure(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(text)? {
        let path = entry.map_err(text)?.path();
        if path.is_dir() {
            remove_others(&path, names)?;
        } else if !names.contains(&path) {
            fs::remove_file(&path).map_err(text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fault::{Edit, edit};
    use super::*;

    const fn fault(name: &'static str, edits: &'static [Edit]) -> Fault {
        Fault { name, what: "", edits, runs: &[] }
    }

    #[test]
    fn each_fault_has_its_places_in_the_sources_and_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        for fault in faults::all() {
            assert!(names.insert(fault.name), "two faults are called '{}'", fault.name);
            assert!(fault.edits.iter().any(|edit| edit.wrong.contains("BUG")), "'{}' is always there", fault.name);
            assert!(!fault.runs.is_empty(), "nothing finds '{}'", fault.name);
            for edit in fault.edits {
                let text = fs::read(tree::root().join(edit.file)).expect(edit.file);
                assert!(changed(edit.file, text).is_ok_and(|made| !made.is_empty()), "'{}'", fault.name);
            }
        }
    }

    /// A test that was renamed would run nothing, and nothing passes.
    #[test]
    fn each_fault_has_tests_that_there_are() {
        let all = tree::files().expect("the sources");
        for run in faults::all().flat_map(|fault| fault.runs) {
            let filter = run.program.filter;
            let (module, name) = filter.rsplit_once("::").unwrap_or(("", filter));
            let is_there = |text: &str| {
                text.contains(&format!("fn {name}")) || text.contains(&format!("mod {name};")) && !module.is_empty()
            };
            assert!(all.iter().any(|file| is_there(&file.text)), "there is no test '{filter}'");
        }
    }

    #[test]
    fn several_faults_of_a_file_are_made_beside_each_other() {
        const FIRST: Fault = fault("first", &[edit("crates/proto/a.rs", "one", "BUG one")]);
        const SECOND: Fault = fault("second", &[edit("crates/proto/a.rs", "zero ", "BUG one zero ")]);
        let made = with_faults("crates/proto/a.rs", "zero one two", [FIRST, SECOND].iter()).expect("both");
        assert_eq!(made, r#"crate::seeded::is("second") one zero crate::seeded::is("first") one two"#);
        assert!(with_faults("crates/proto/a.rs", "zero one one", [FIRST].iter()).is_err());
        const ACROSS: Fault = fault("across", &[edit("crates/proto/a.rs", "o o", "BUG")]);
        assert!(with_faults("crates/proto/a.rs", "zero one two", [FIRST, ACROSS].iter()).is_err());
    }

    #[test]
    fn other_crates_ask_the_protocols() {
        const OTHER: Fault = fault("other", &[edit("crates/io/a.rs", "one", "BUG")]);
        let made = with_faults("crates/io/a.rs", "one", [OTHER].iter()).expect("it is there");
        assert_eq!(made, r#"xdfs_proto::seeded::is("other")"#);
    }
}
