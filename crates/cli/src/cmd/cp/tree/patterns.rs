//! Patterns of names, typed or in files, in the form of .gitignore.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::names::read_bounded;
use crate::args::{Pattern, Selection};
use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// Longest file of patterns: each of them is compared with every name of a tree.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A pattern, and where it is from for an error.
struct Placed<'a> {
    pattern: Cow<'a, Pattern>,
    place: String,
}

/// What was typed, and what is in the files that were named; none if that is nothing.
pub(super) fn of(selections: &[Selection]) -> Result<Option<Gitignore>, Failure> {
    let mut all = Vec::new();
    for selection in selections {
        match selection {
            Selection::Pattern(pattern) => {
                let option = if pattern.include { "--include" } else { "--exclude" };
                let place = format!("{option} {:?}", pattern.text);
                all.push(Placed { pattern: Cow::Borrowed(pattern), place });
            }
            Selection::File { include, path } => read(*include, path, &mut all)?,
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    // In .gitignore the last line that fits decides, here the first: so they are added in reverse order.
    let mut builder = GitignoreBuilder::new("");
    for Placed { pattern, place } in all.iter().rev() {
        let mark = if pattern.include { "!" } else { "" };
        // A line of a .gitignore may be a comment or begin with a special character; this is a pattern.
        let quote = if pattern.text.starts_with(['#', '!']) { "\\" } else { "" };
        let line = format!("{mark}{quote}{}", pattern.text);
        builder.add_line(None, &line).map_err(|error| Failure::new(Exit::Usage, format!("{place}: {error}")))?;
    }
    let built = builder.build();
    built.map(Some).map_err(|error| Failure::new(Exit::Usage, format!("--include, --exclude: {error}")))
}

/// The patterns of a file: one on each line, as rsync reads them.
fn read(include: bool, path: &Path, all: &mut Vec<Placed<'_>>) -> Result<(), Failure> {
    let option = if include { "--include-from" } else { "--exclude-from" };
    let text = read_bounded(option, path, FILE_BYTES_MAX)?;
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let place = format!("{option} {}, line {number}", printable_path(path));
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(Failure::new(Exit::Usage, format!("{place}: a pattern is in UTF-8, and this is not")));
        };
        if line.trim_start().is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (include, text) = match (line.strip_prefix("+ "), line.strip_prefix("- ")) {
            (Some(text), _) => (true, text),
            (_, Some(text)) => (false, text),
            (None, None) => (include, line),
        };
        if text.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("{place}: an empty pattern fits nothing")));
        }
        all.push(Placed { pattern: Cow::Owned(Pattern { include, text: text.to_owned() }), place });
    }
    Ok(())
}

/// Whether a name is taken.
pub(super) fn takes(patterns: &Gitignore, path: &[u8], directory: bool) -> bool {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    // Entries of an excluded directory are never checked.
    !matches!(patterns.matched(path, directory), Match::Ignore(_))
}
