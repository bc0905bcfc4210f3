//! Finds types that have grown too many fields.

use super::allowed::{ManyFields, TYPES};
use crate::lex::{self, Token};
use crate::tree::File;

/// Derives and attributes of what is a table by its nature: options, configuration, lines of JSON, structures of the kernel.
const TABLES: &[&str] = &["Deserialize", "Serialize", "Parser", "Args", "repr"];

/// Messages have the fields that the protocol gives them.
const MESSAGES: &str = "crates/proto/src/wire/";

/// Adds a finding for every type of a product file with more than `max` fields and no entry that allows it, and for every
/// entry that allows more than there are.
pub(super) fn check(file: &File, max: usize, findings: &mut Vec<String>) {
    let is_product = file.path.starts_with("crates/") && file.path.contains("/src/") && !file.path.contains("/tests/");
    if !is_product || file.path.starts_with(MESSAGES) {
        return;
    }
    let found = types(file);
    let entries = || TYPES.iter().filter(|entry| entry.path == file.path);
    for Type { name, line, fields } in found.iter().filter(|found| found.fields > max) {
        let limit = entries().find(|entry| entry.name == name).map_or(max, |entry| entry.fields);
        if *fields > limit {
            findings.push(format!("{}:{line}: {name} has {fields} fields, {limit} allowed", file.path));
        }
    }
    for ManyFields { name, fields, .. } in entries() {
        if found.iter().find(|found| found.name == *name).is_none_or(|found| found.fields < *fields) {
            findings
                .push(format!("{}: the entry in allowed.rs for {name} allows {fields} fields: lower it", file.path));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Type {
    name: String,
    /// Where it starts, counted from 1.
    line: usize,
    fields: usize,
}

fn types(file: &File) -> Vec<Type> {
    let code = file.code();
    let tokens = lex::tokens(&code);
    let mut types = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.text != "struct" || index + 1 == tokens.len() || is_table(&tokens[..index]) {
            continue;
        }
        let body = lex::item_end(&tokens, index);
        if tokens[body].text == "{" {
            let fields = fields(&tokens[body..=lex::closing(&tokens, body)]);
            types.push(Type { name: tokens[index + 1].text.to_owned(), line: lex::line_of(&code, token.at), fields });
        }
    }
    types
}

/// Whether the attributes in front of a type say that it is a table.
fn is_table(before: &[Token<'_>]) -> bool {
    let attributes = before.iter().rev().take_while(|token| !matches!(token.text, "}" | ";"));
    attributes.into_iter().any(|token| TABLES.contains(&token.text))
}

/// Names that a single colon follows, in the body itself.
fn fields(body: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    for (index, token) in body.iter().enumerate() {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ":" if depth == 1 => {
                let is_colon = |index: Option<usize>| {
                    index.and_then(|index| body.get(index)).is_some_and(|token| token.text == ":")
                };
                let is_path = is_colon(index.checked_sub(1)) || is_colon(Some(index + 1));
                count += usize::from(!is_path);
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { path: "crates/a/src/a.rs".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn fields_are_counted_and_neither_paths_nor_what_is_inside_of_types() {
        let text = "struct A<T: B> {\n    /// c: d\n    pub(crate) a: std::sync::Arc<T>,\n    b: Box<dyn Fn(u8) -> [u8; 3]>,\n}\n\
            struct E(u8);\n#[derive(Args)]\nstruct F { g: u8 }\n";
        assert_eq!(types(&file(text)), [Type { name: "A".to_owned(), line: 1, fields: 2 }]);
    }

    #[test]
    fn the_limit_is_the_last_number_that_passes() {
        let findings = |fields: usize| {
            let body: String = (0..fields).map(|field| format!("    f{field}: u8,\n")).collect();
            let mut findings = Vec::new();
            check(&file(&format!("struct A {{\n{body}}}\n")), 15, &mut findings);
            findings.len()
        };
        assert_eq!((findings(15), findings(16)), (0, 1));
    }
}
