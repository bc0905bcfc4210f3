//! Finds left-over marks, white space at line ends, and words that have no place in a public tree: paths of somebody's
//! workplace, and the host names of package registries (which registry is used is a setting of the machine).
//!
//! The words are put together from halves, so that this file passes its own check.

use crate::tree::File;

/// Marks of work that is not finished; looked for in everything that people write.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimple", "mented!(")];

/// Words of a workplace and of registries.
const FOREIGN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("shared/", "DESIGN"),
    concat!("shared/", "research"),
    concat!("shared/", "requirements"),
    concat!("shared/", "seeds"),
    concat!("shared/", "bench"),
    concat!(".lib", "rary"),
    concat!("far", "m-"),
    concat!("bash", "_jobs"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("registry", ".npmjs"),
    concat!("deb.debian", ".org"),
    concat!("static.rust", "-lang"),
];

/// Written by cargo, names the registry of each package.
const GENERATED: &[&str] = &["Cargo.lock"];

/// Inputs for the fuzz program: bytes that are text now and then.
const INPUTS: &str = "fuzz/corpus/";

/// Manual pages are made from the command's help, by a generator that ends lines with blanks.
const MANUAL_PAGE: &str = ".1";

/// Adds a finding for each line with something in it that has no place there.
pub(super) fn check(file: &File, findings: &mut Vec<String>) {
    if GENERATED.contains(&file.path.as_str()) || file.path.starts_with(INPUTS) {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        let mut found = |what: String| findings.push(format!("{}:{}: {what}", file.path, index + 1));
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            found(format!("{word}: finish it, or leave it out and say so in an issue"));
        }
        for word in FOREIGN.iter().filter(|word| line.contains(**word)) {
            found(format!("`{word}` has no place in a public tree"));
        }
        if line.ends_with([' ', '\t']) && !file.path.ends_with(MANUAL_PAGE) {
            found("white space at the end of the line".to_owned());
        }
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        findings.push(format!("{}: must end with one line end", file.path));
    }
}

/// Is the word in the line, and not in the middle of a longer one?
fn has_word(line: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(part);
        let after = line[at + word.len()..].chars().next().is_some_and(part);
        !before && (word.ends_with('(') || !after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let mut findings = Vec::new();
        check(&File { path: "a.md".to_owned(), text: text.to_owned() }, &mut findings);
        findings.len()
    }

    #[test]
    fn each_mark_is_found_and_whole_words_only() {
        for word in UNFINISHED.iter().chain(FOREIGN) {
            assert_eq!(found(&format!("a {word} b\n")), 1, "{word}");
        }
        assert_eq!(found(concat!("MASTO", "DON\n")), 0);
    }

    #[test]
    fn line_ends_are_clean() {
        assert_eq!(found("a \n"), 1);
        assert_eq!(found("a"), 1);
        assert_eq!(found("a\n\n"), 1);
        assert_eq!(found("a\n"), 0);
    }
}
