//! The modules of one crate as its product has them, and which of them names which: `use` trees and plain paths. Each
//! is read where its parent declares it, so that modules of tests are left out.
//!
//! Only names are followed. A method that another module's `impl` block gives to a type is not seen, and neither is a
//! macro that is found by the order of the text.

use crate::lex::{self, Token};
use crate::tree::File;
use std::collections::BTreeMap;

/// How many imports of imports are followed: rustc refuses a circle, this ends one.
const IMPORTS_MAX: usize = 16;

/// The Rust files of a crate's `src`, blanked, by their paths below it.
#[derive(Debug)]
pub(super) struct Sources(BTreeMap<String, String>);

impl Sources {
    /// The files below `folder`, which ends in `/`.
    pub(super) fn below(folder: &str, files: &[File]) -> Self {
        let files = files.iter().filter(|file| file.is_rust());
        Self(files.filter_map(|file| Some((file.path.strip_prefix(folder)?.to_owned(), file.code()))).collect())
    }

    /// The modules that the crate declares for its product.
    pub(super) fn modules(&self) -> Result<Modules<'_>, String> {
        let mut modules = Modules::default();
        let root = ["lib.rs", "main.rs"].into_iter().find_map(|name| self.0.get_key_value(name));
        let (file, code) = root.ok_or("has neither lib.rs nor main.rs")?;
        self.read(&[], file, &lex::without_tests(&lex::tokens(code)), &mut modules)?;
        Ok(modules)
    }

    /// Adds the module at `path`, whose tokens these are, and all below it.
    fn read<'a>(
        &'a self,
        path: &[&'a str],
        file: &'a str,
        tokens: &[Token<'a>],
        modules: &mut Modules<'a>,
    ) -> Result<(), String> {
        let mut module = Module { file, uses: Vec::new(), names: BTreeMap::new() };
        let mut at = 0;
        while at < tokens.len() {
            let text = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text);
            match (text(0), text(2)) {
                ("mod", ";") => {
                    let child = [path, &[text(1)]].concat();
                    let stem = child.join("/");
                    let names = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                    let found = names.iter().find_map(|name| self.0.get_key_value(name));
                    let (name, code) =
                        found.ok_or_else(|| format!("{file} declares {}, which has no file", text(1)))?;
                    self.read(&child, name, &lex::without_tests(&lex::tokens(code)), modules)?;
                    at += 3;
                }
                ("mod", "{") => {
                    let end = lex::closing(tokens, at + 2);
                    let child = [path, &[text(1)]].concat();
                    self.read(&child, file, &tokens[at + 3..end], modules)?;
                    at = end + 1;
                }
                // `use<'a>` in a type names no path.
                ("use", _) if text(1) != "<" => {
                    let mut tree = UseTree { tokens, at: at + 1 };
                    tree.read(&[], &mut module);
                    at = tree.at;
                }
                _ => at += module.path_in_code(tokens, at),
            }
        }
        modules.0.insert(path.to_vec(), module);
        Ok(())
    }
}

/// One module: what it names.
#[derive(Debug)]
struct Module<'a> {
    /// Its file, below `src`.
    file: &'a str,
    /// The paths of its `use` trees and of its code, as they are written.
    uses: Vec<Vec<&'a str>>,
    /// What its imports call the paths that they import.
    names: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Module<'a> {
    /// Takes a path of more than one word that starts at token `at`, and says how many tokens it took, or one.
    fn path_in_code(&mut self, tokens: &[Token<'a>], at: usize) -> usize {
        let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
        let goes_on = at.checked_sub(1).is_some_and(|before| matches!(text(before), "::" | "."));
        if !is_name(text(at)) || goes_on {
            return 1;
        }
        let mut path = vec![text(at)];
        let mut end = at + 1;
        while text(end) == "::" && is_name(text(end + 1)) {
            path.push(text(end + 1));
            end += 2;
        }
        if path.len() > 1 {
            self.uses.push(path);
        }
        end - at
    }
}

/// A reader of what follows `use`.
#[derive(Debug)]
struct UseTree<'t, 'a> {
    /// The tokens of the file.
    tokens: &'t [Token<'a>],
    /// The next one.
    at: usize,
}

impl<'a> UseTree<'_, 'a> {
    fn text(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    /// Reads one tree below `prefix`, up to the `,`, `}` or `;` behind it.
    fn read(&mut self, prefix: &[&'a str], module: &mut Module<'a>) {
        let mut path = prefix.to_vec();
        loop {
            match self.text() {
                "::" => self.at += 1,
                "{" => {
                    while matches!(self.text(), "{" | ",") {
                        self.at += 1;
                        self.read(&path, module);
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    path.push("*");
                    module.uses.push(path);
                    return;
                }
                word if is_name(word) => {
                    self.at += 1;
                    // `a::{self}` is `a`.
                    if word != "self" || path.is_empty() {
                        path.push(word);
                    }
                    if self.text() != "::" {
                        self.import(path, module);
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Takes the end of a path, and what it is called here.
    fn import(&mut self, path: Vec<&'a str>, module: &mut Module<'a>) {
        let mut name = path.last().copied().unwrap_or_default();
        if self.text() == "as" {
            self.at += 1;
            name = self.text();
            self.at += 1;
        }
        module.names.insert(name, path.clone());
        module.uses.push(path);
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first == '_' || first.is_alphabetic() || !first.is_ascii())
}

/// A name that a module takes from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow<'a> {
    /// Who uses it.
    pub(super) from: Vec<&'a str>,
    /// Whose it is.
    pub(super) to: Vec<&'a str>,
    /// The file of the user, below `src`.
    pub(super) file: &'a str,
    /// The last word of the path.
    pub(super) name: &'a str,
}

/// All modules of a crate by their paths; the root's is empty.
#[derive(Debug, Default)]
pub(super) struct Modules<'a>(BTreeMap<Vec<&'a str>, Module<'a>>);

impl<'a> Modules<'a> {
    /// Every use of a module by another. A path that goes through an import names both the module which has the
    /// import and the one from which that comes.
    pub(super) fn arrows(&self) -> Vec<Arrow<'a>> {
        let mut arrows = Vec::new();
        for (from, module) in &self.0 {
            for path in &module.uses {
                let mut passed = Vec::new();
                self.follow(from, path, &mut passed, IMPORTS_MAX);
                let name = path.last().copied().unwrap_or_default();
                arrows.extend(passed.into_iter().map(|to| Arrow { from: from.clone(), to, file: module.file, name }));
            }
        }
        arrows
    }

    /// Resolves a path that is written in `from`, and notes the modules to which it leads. The module that it names
    /// itself, or nothing where it names something else.
    fn follow(
        &self,
        from: &[&'a str],
        path: &[&'a str],
        passed: &mut Vec<Vec<&'a str>>,
        imports: usize,
    ) -> Option<Vec<&'a str>> {
        let (first, rest) = path.split_first()?;
        let (mut at, mut rest) = match *first {
            "crate" => (Vec::new(), rest),
            "self" => (from.to_vec(), rest),
            "super" => (from[..from.len().checked_sub(1)?].to_vec(), rest),
            _ => (from.to_vec(), path),
        };
        while let Some((word, after)) = rest.split_first() {
            let child = [&at[..], &[*word]].concat();
            if *word == "super" {
                at.pop()?;
            } else if self.0.contains_key(&child) {
                at = child;
            } else {
                let import = self.0.get(&at)?.names.get(word).filter(|_| imports > 0);
                let found = import.and_then(|import| self.follow(&at, import, passed, imports - 1));
                passed.push(at);
                at = found?;
            }
            rest = after;
        }
        passed.push(at.clone());
        Some(at)
    }
}
