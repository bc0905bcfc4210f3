//! Patterns of names, typed or in files, in the form of .gitignore.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::option_file::read_bounded;
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
        if let Some(remedy) = foreign(&pattern.text, pattern.include, place.contains(", line ")) {
            return Err(Failure::new(Exit::Usage, format!("{place}: {}", remedy.0)).help(remedy.1));
        }
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

/// What is wrong with a pattern that means something to rsync or in a .gitignore and not here, and what to write.
fn foreign(text: &str, include: bool, is_in_file: bool) -> Option<(&'static str, String)> {
    if text.contains("***") {
        return Some(("'***' is rsync's and means nothing here", instead_of_three_stars(text, include)));
    }
    // On the command line it is a name, as for rsync; a file may be somebody's .gitignore.
    if let Some(rest) = text.strip_prefix('!').filter(|_| is_in_file) {
        let (rest, mark) = (rest.trim_start(), if include { '-' } else { '+' });
        let remedy = format!("write '{mark} {rest}', above what it is an exception to; a '!' in a name is written \\!");
        return Some(("a '!' at the start turns nothing round here", remedy));
    }
    is_unfinished(text.as_bytes())
        .then(|| ("a '[' has no ']' behind it", "close it, or write \\[ for a '[' in a name".to_owned()))
}

/// What to write for a pattern with `***`: rsync takes a directory with all in it by `a/***`, `a/b/***` at any depth.
fn instead_of_three_stars(text: &str, include: bool) -> String {
    let directory = text.strip_suffix("/***").filter(|directory| !directory.is_empty() && !directory.contains("***"));
    let Some(directory) = directory else { return "'**' stands for everything below a directory".to_owned() };
    let is_deep = directory.starts_with('/') || directory.starts_with("**/") || !directory.contains('/');
    let directory = if is_deep { directory.to_owned() } else { format!("**/{directory}") };
    if include {
        format!("a directory with all in it is taken by two patterns, '{directory}/' and '{directory}/**'")
    } else {
        format!("a directory with all in it is left out by '{directory}/'")
    }
}

/// Whether a set such as `[a-z]` does not end.
fn is_unfinished(mut text: &[u8]) -> bool {
    loop {
        text = match text {
            [] => return false,
            [b'\\', _, rest @ ..] => rest,
            // A bracket that comes first is a member.
            [b'[', b'!' | b'^', b']', rest @ ..]
            | [b'[', b'!' | b'^', rest @ ..]
            | [b'[', b']', rest @ ..]
            | [b'[', rest @ ..] => match rest.iter().position(|byte| *byte == b']') {
                Some(end) => &rest[end + 1..],
                None => return true,
            },
            [_, rest @ ..] => rest,
        };
    }
}

/// Whether a name is taken.
pub(super) fn takes(patterns: &Gitignore, path: &[u8], directory: bool) -> bool {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    // Entries of an excluded directory are never checked.
    !matches!(patterns.matched(path, directory), Match::Ignore(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str, include: bool) -> Option<String> {
        let pattern = Pattern { include, text: text.to_owned() };
        of(&[Selection::Pattern(pattern)]).err().map(|failure| failure.message)
    }

    #[test]
    fn a_pattern_that_means_something_elsewhere_is_refused_with_its_form_here() {
        for (text, include, cause, remedy) in [
            ("cache/***", false, "'***' is rsync's", "by 'cache/'"),
            ("/a/b/***", false, "'***' is rsync's", "by '/a/b/'"),
            ("a/b/***", false, "'***' is rsync's", "by '**/a/b/'"),
            ("foo/***", true, "'***' is rsync's", "'foo/' and 'foo/**'"),
            ("a***", false, "'***' is rsync's", "'**' stands"),
            ("/***", false, "'***' is rsync's", "'**' stands"),
            ("a[bc", false, "has no ']'", "\\["),
            ("a[]", false, "has no ']'", "\\["),
            ("a[!]x", false, "has no ']'", "\\["),
        ] {
            let told = refusal(text, include).expect(text);
            assert!(told.contains(cause) && told.contains(remedy), "{told}");
        }
        for text in ["**/build/out", "a**", "[]x]", "[!]x]y", "\\[a", "!a", "\\!a", "a!", "a]"] {
            assert_eq!(refusal(text, false), None, "{text}");
        }
    }

    #[test]
    fn what_is_advised_for_three_stars_takes_a_directory_with_all_in_it() {
        let pattern = |include, text: &str| Selection::Pattern(Pattern { include, text: text.to_owned() });
        let patterns = of(&[pattern(true, "foo/"), pattern(true, "foo/**"), pattern(false, "*")]).unwrap().unwrap();
        assert!(
            takes(&patterns, b"foo", true) && takes(&patterns, b"foo/a/b", false) && !takes(&patterns, b"c", false)
        );
    }

    #[test]
    fn a_slash_within_a_pattern_means_the_top_unless_stars_stand_before_it() {
        for (text, deep) in [("build/out", false), ("**/build/out", true)] {
            let pattern = Pattern { include: false, text: text.to_owned() };
            let patterns = of(&[Selection::Pattern(pattern)]).unwrap().unwrap();
            assert!(!takes(&patterns, b"build/out", true), "{text}");
            assert_eq!(!takes(&patterns, b"a/build/out", true), deep, "{text}");
        }
    }
}
