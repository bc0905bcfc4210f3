//! Finds functions that are too long, by counting braces.

use super::SLACK_LINES;
use super::allowed::{FUNCTIONS, LongFunction};
use crate::lex::{self, Token};
use crate::tree::File;

/// Adds a finding for every function of the file with more than `max` lines and no entry that allows it, and for every
/// entry that allows more than is needed.
pub(super) fn check(file: &File, max: usize, findings: &mut Vec<String>) {
    let found = functions(file);
    let entries = || FUNCTIONS.iter().filter(|entry| entry.path == file.path);
    for function in found.iter().filter(|function| function.lines > max) {
        let entry = entries().find(|entry| entry.name == function.name);
        let limit = entry.map_or(max, |entry| entry.lines);
        if function.lines > limit {
            let Function { name, line, lines } = function;
            findings.push(format!("{}:{line}: fn {name} has {lines} lines, {limit} allowed", file.path));
        }
    }
    for LongFunction { name, lines, .. } in entries() {
        let longest = found.iter().filter(|function| function.name == *name).map(|function| function.lines).max();
        if longest.is_none_or(|longest| longest <= max || longest + SLACK_LINES < *lines) {
            findings
                .push(format!("{}: the entry in allowed.rs for fn {name} allows {lines} lines: lower it", file.path));
        }
    }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// Where it starts, counted from 1.
    line: usize,
    /// From `fn` to the closing brace.
    lines: usize,
}

fn functions(file: &File) -> Vec<Function> {
    let code = file.code();
    let tokens = lex::tokens(&code);
    let mut functions = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.text == "fn" && names_function(&tokens[index..]) {
            let body = lex::item_end(&tokens, index);
            if tokens[body].text == "{" {
                let line = lex::line_of(&code, token.at);
                let last = lex::line_of(&code, tokens[lex::closing(&tokens, body)].at);
                functions.push(Function { name: tokens[index + 1].text.to_owned(), line, lines: last + 1 - line });
            }
        }
    }
    functions
}

/// True for `fn name(` and `fn name<`; false for the type `fn(…)`.
fn names_function(tokens: &[Token<'_>]) -> bool {
    tokens.len() > 2 && tokens[1].text != "(" && matches!(tokens[2].text, "(" | "<")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { path: "a.rs".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_function_counts_from_its_keyword_to_its_closing_brace() {
        let text = "/// fn no() {}\nfn a<const N: usize>(b: [u8; 3], c: fn(u8)) -> u8\nwhere\n    T: D,\n{\n    \"}\";\n}\nfn e();\n";
        assert_eq!(functions(&file(text)), [Function { name: "a".to_owned(), line: 2, lines: 6 }]);
    }

    #[test]
    fn the_limit_is_the_last_length_that_passes() {
        let text = |lines: usize| format!("//! a\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2));
        let findings = |lines| {
            let mut findings = Vec::new();
            check(&file(&text(lines)), 70, &mut findings);
            findings.len()
        };
        assert_eq!(findings(70), 0);
        assert_eq!(findings(71), 1);
    }
}
