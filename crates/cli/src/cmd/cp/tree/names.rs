//! Which names of a tree are copied, and the list of those that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xdfs_client::ErrorKind;
use xdfs_client::tree::Filter;

use super::option_file::{read_bounded, unreadable};
use super::patterns;
use crate::args::Selection;
use crate::exit::{Exit, Failure};
use crate::output::Causes;
use crate::plan::TreePlan;
use crate::text::printable_path;

/// Longest list of names: a hundred million bytes are more than a million names.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// The names that the patterns and the list of names select, `None` for all; and the list.
pub(in crate::cmd::cp) fn filter(plan: &TreePlan) -> Result<(Option<Filter>, Option<Arc<Only>>), Failure> {
    let patterns = patterns::of(&plan.patterns)?;
    let only = plan.files_from.as_deref().map(read_list).transpose()?.map(Arc::new);
    if patterns.is_none() && only.is_none() {
        return Ok((None, None));
    }
    let listed = only.clone();
    let filter = move |path: &[u8], directory: bool| {
        let listed = only.as_ref().is_none_or(|only| only.takes(path, directory));
        listed && patterns.as_ref().is_none_or(|patterns| patterns::takes(patterns, path, directory))
    };
    Ok((Some(Arc::new(filter)), listed))
}

/// Fails if a typed pattern is none, or a file of patterns or names is missing, before anybody is connected to or asked.
pub(in crate::cmd::cp) fn must_have_lists(plan: &TreePlan) -> Result<(), Failure> {
    let is_typed = |selection: &&Selection| matches!(selection, Selection::Pattern(_));
    patterns::of(&plan.patterns.iter().filter(is_typed).cloned().collect::<Vec<_>>())?;
    let patterns = plan.patterns.iter().filter_map(|selection| match selection {
        Selection::File { include, path } => {
            Some((if *include { "--include-from" } else { "--exclude-from" }, path.as_path()))
        }
        Selection::Pattern(_) => None,
    });
    for (option, path) in patterns.chain(plan.files_from.as_deref().map(|path| ("--files-from", path))) {
        // A pipe is opened only once.
        if path.as_os_str() != "-" {
            path.metadata().map_err(|error| unreadable(option, path, &error))?;
        }
    }
    Ok(())
}

/// The names of a list, each with whether the source has it, and their ancestors. The top is the
/// empty name.
#[derive(Debug, Default)]
pub(in crate::cmd::cp) struct Only {
    names: BTreeMap<Vec<u8>, AtomicBool>,
    above: BTreeSet<Vec<u8>>,
}

impl Only {
    /// Names that were not found, once the copy is complete.
    pub(super) fn missing(&self) -> impl Iterator<Item = &[u8]> {
        let missing = self.names.iter().filter(|(name, met)| !name.is_empty() && !met.load(Ordering::Relaxed));
        missing.map(|(name, _)| name.as_slice())
    }

    fn takes(&self, path: &[u8], directory: bool) -> bool {
        if let Some(met) = self.names.get(path) {
            met.store(true, Ordering::Relaxed);
            return true;
        }
        if (directory && self.above.contains(path)) || self.names.contains_key(&b""[..]) {
            return true;
        }
        // A listed directory is copied with all its entries.
        let mut at = path;
        while let Some(slash) = at.iter().rposition(|&byte| byte == b'/') {
            at = at.get(..slash).unwrap_or_default();
            if self.names.contains_key(at) {
                return true;
            }
        }
        false
    }
}

fn read_list(path: &Path) -> Result<Only, Failure> {
    let text = read_bounded("--files-from", path, LIST_BYTES_MAX)?;
    let mut only = Only::default();
    for line in text.split(|&byte| byte == b'\n') {
        let name = unescaped(line.strip_suffix(b"\r").unwrap_or(line));
        let name = name.strip_prefix(b"./").unwrap_or(&name);
        let name = match name.strip_suffix(b"/").unwrap_or(name) {
            b"" => continue,
            b"." => b"",
            name => name,
        };
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        only.above.extend(slashes.map(|(at, _)| name.get(..at).unwrap_or_default().to_vec()));
        only.names.insert(name.to_vec(), AtomicBool::new(false));
    }
    Ok(only)
}

/// A name as a line: a line break and a backslash in it are escaped.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            b'\\' => line.extend(b"\\\\"),
            byte => line.push(*byte),
        }
    }
    line
}

fn unescaped(line: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(line.len());
    let mut bytes = line.iter();
    while let Some(&byte) = bytes.next() {
        name.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(&other) => other,
                None => b'\\',
            },
            byte => byte,
        });
    }
    name
}

/// Where failed names are written, and what kinds of failures there were.
#[derive(Debug)]
pub(super) struct Failures {
    file: Option<(BufWriter<File>, String)>,
    causes: Causes,
}

impl Failures {
    /// Opens the file; it exists, but is empty, if nothing failed.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self { file: None, causes: Causes::default() }) };
        let shown = printable_path(path);
        let file = File::create(path).map_err(|error| failed(&shown, &error))?;
        Ok(Self { file: Some((BufWriter::new(file), shown)), causes: Causes::default() })
    }

    pub(super) fn add(&mut self, name: &[u8], kind: ErrorKind) -> Result<(), Failure> {
        self.causes.add(kind);
        self.write(name)
    }

    fn write(&mut self, name: &[u8]) -> Result<(), Failure> {
        let Some((file, shown)) = &mut self.file else { return Ok(()) };
        // The top has no name; an empty line would be meaningless.
        let mut line = if name.is_empty() { b".".to_vec() } else { escaped(name) };
        line.push(b'\n');
        file.write_all(&line).map_err(|error| failed(shown, &error))
    }

    /// Ends the list of a copy that ended before all was tried: it names all that was asked for, so that nothing is left out where
    /// it is read.
    pub(super) fn close_early(mut self, asked_for: Option<&Only>) -> Result<Causes, Failure> {
        match asked_for {
            Some(only) => only.names.keys().try_for_each(|name| self.write(name))?,
            None => self.write(b"")?,
        }
        self.close()
    }

    /// Ends the list; the kinds of failures that there were.
    pub(super) fn close(self) -> Result<Causes, Failure> {
        if let Some((mut file, shown)) = self.file {
            file.flush().map_err(|error| failed(&shown, &error))?;
        }
        Ok(self.causes)
    }
}

fn failed(shown: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::of_io(error), format!("--failures {shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Pattern, Selection};

    fn plan(patterns: &[(bool, &str)]) -> TreePlan {
        TreePlan {
            keep: xdfs_client::tree::Preserve::default(),
            patterns: patterns
                .iter()
                .map(|(include, text)| Selection::Pattern(Pattern { include: *include, text: (*text).to_owned() }))
                .collect(),
            files_from: None,
            failures: None,
            atomic: false,
            dry_run: false,
            checksum: false,
            delete: None,
        }
    }

    fn taken(patterns: &[(bool, &str)], path: &str, directory: bool) -> bool {
        filter(&plan(patterns)).unwrap().0.is_none_or(|filter| filter(path.as_bytes(), directory))
    }

    #[test]
    fn the_first_pattern_that_fits_decides() {
        let only_c = [(true, "*.c"), (true, "*/"), (false, "*")];
        for (path, directory, expected) in [
            ("a.c", false, true),
            ("a.h", false, false),
            ("d", true, true),
            ("d/b.c", false, true),
            ("d/b", false, false),
        ] {
            assert_eq!(taken(&only_c, path, directory), expected, "{path}");
        }
        assert!(!taken(&[(false, "*"), (true, "*.c")], "a.c", false));
        assert!(taken(&[], "a", false));
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        for (pattern, path, directory, left_out) in [
            ("*.tmp", "a/b/x.tmp", false, true),
            ("/x.tmp", "x.tmp", false, true),
            ("/x.tmp", "a/x.tmp", false, false),
            ("cache/", "a/cache", true, true),
            ("cache/", "a/cache", false, false),
            ("a/**/z", "a/b/c/z", false, true),
            ("#x", "#x", false, true),
            ("!x", "!x", false, true),
            ("[ab]?", "a1", false, true),
        ] {
            assert_eq!(!taken(&[(false, pattern)], path, directory), left_out, "{pattern} {path}");
        }
        assert!(filter(&plan(&[(false, "[z-a]")])).is_err());
    }

    #[test]
    fn a_list_takes_its_names_what_is_in_them_and_the_way_there() {
        let mut only = Only::default();
        let names = ["a/b/file", "whole", "absent"].map(|name| (name.as_bytes().to_vec(), AtomicBool::new(false)));
        only.names.extend(names);
        only.above.extend([b"a".to_vec(), b"a/b".to_vec()]);
        for (path, directory, expected) in [
            ("a", true, true),
            ("a/b", true, true),
            ("a/b", false, false),
            ("a/b/file", false, true),
            ("a/b/other", false, false),
            ("whole", true, true),
            ("whole/in/it", false, true),
            ("wholesome", false, false),
        ] {
            assert_eq!(only.takes(path.as_bytes(), directory), expected, "{path}");
        }
        assert_eq!(only.missing().collect::<Vec<_>>(), [b"absent"]);
    }

    #[test]
    fn a_name_survives_its_way_through_a_list() {
        for name in [&b"plain"[..], b"two\nlines", b"back\\slash", b"\\n", b"\xff\r"] {
            let line = escaped(name);
            assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            assert_eq!(unescaped(&line), name);
        }
    }
}
