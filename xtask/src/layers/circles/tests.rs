//! Circles of made-up crates.

use super::*;

fn file((path, text): &(&str, &str)) -> File {
    File { path: format!("crates/a/src/{path}"), text: (*text).to_owned() }
}

fn findings_in(files: &[(&str, &str)], allowed: &[Circle]) -> Vec<String> {
    against(&files.iter().map(file).collect::<Vec<_>>(), allowed)
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    findings_in(files, &[])
}

const ROOT: (&str, &str) = ("lib.rs", "mod b;\nmod c;\nmod d;");

#[test]
fn two_that_use_each_other_are_found_with_a_use_of_each() {
    let files = [
        ("lib.rs", "mod local; mod memory;"),
        ("local/mod.rs", "mod part;"),
        ("local/part.rs", "use crate::memory::Name;"),
        ("memory.rs", "use super::local::{self, Other as Another};"),
    ];
    let text =
        "crates/a/src: local and memory use each other (local/part.rs -> memory: Name; memory.rs -> local: local)";
    assert_eq!(found(&files), [text]);
}

#[test]
fn three_in_a_row_that_closes_are_found() {
    let files = [
        ROOT,
        ("b.rs", "use crate::{x, c::{self, Y}};"),
        ("c.rs", "fn e() -> super::d::F { 1 }"),
        ("d.rs", "use {crate::b::*};"),
    ];
    let text = "crates/a/src: b, c and d use each other (b.rs -> c: c; c.rs -> d: F; d.rs -> b: *)";
    assert_eq!(found(&files), [text]);
    let open = [ROOT, files[1], files[2], ("d.rs", "")];
    assert_eq!(found(&open), [""; 0]);
}

#[test]
fn siblings_below_a_module_are_found_in_its_folder() {
    let files = [
        ("lib.rs", "mod pump;"),
        ("pump.rs", "mod b { use super::c::D; } mod c;"),
        ("pump/c.rs", "fn e() { crate::pump::b::f(); }"),
    ];
    let text = "crates/a/src/pump: b and c use each other (pump.rs -> c: D; c.rs -> b: f)";
    assert_eq!(found(&files), [text]);
}

#[test]
fn what_the_root_and_a_parent_import_counts_as_a_use_of_its_module() {
    let files = [
        ("lib.rs", "mod b; mod c; pub use b::{Name as Other};"),
        ("b.rs", "use crate::c::D;"),
        ("c.rs", "use crate::Other;"),
    ];
    assert_eq!(found(&files).len(), 1);
    let module = [("lib.rs", "mod b; mod c;"), ("b.rs", "use crate::c; mod f { fn e() { super::c::d() } }")];
    assert_eq!(found(&[module[0], module[1], ("c.rs", "fn d() { crate::b::f::e() }")]).len(), 1);
    // What another crate has is nobody's.
    let foreign = [("lib.rs", "mod b; mod c; pub use e::Name;"), files[1], ("c.rs", "use crate::Name;")];
    assert_eq!(found(&foreign), [""; 0]);
}

#[test]
fn tests_close_no_circle() {
    let files = [
        ROOT,
        ("b.rs", "use crate::c::D;"),
        ("c.rs", "#[cfg(test)] mod tests { use crate::b; } #[cfg(test)] mod other; #[cfg(test)] use crate::b::E;"),
        ("c/other.rs", "use crate::b;"),
        ("d.rs", ""),
    ];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn comments_and_strings_close_no_circle() {
    let files = [
        ROOT,
        ("b.rs", "use crate::c::D;"),
        ("c.rs", "// use crate::b;\nconst E: &str = \"crate::b::F\";"),
        ("d.rs", ""),
    ];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn a_parent_and_its_child_are_no_circle_and_neither_is_the_root() {
    let files = [
        ("lib.rs", "mod b; use b::c::D; struct F;"),
        ("b.rs", "mod c; use c::D; struct E; impl E { fn f() { self::c::g() } }"),
        ("b/c.rs", "use super::E; impl E { fn h(d: super::super::F) { crate::g(); Self::f(); } }"),
    ];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn a_module_without_a_file_is_found() {
    assert_eq!(found(&[("lib.rs", "mod b;")]), ["crates/a/src: lib.rs declares b, which has no file"]);
}

const CIRCLE: Circle = Circle { folder: "crates/a/src", modules: &["b", "c"], arrows: &[("c", "b")], why: "d" };

const BOTH: [(&str, &str); 4] = [ROOT, ("b.rs", "use crate::c::D;"), ("c.rs", "use crate::b::E;"), ("d.rs", "")];

#[test]
fn a_circle_that_the_table_names_is_let_off() {
    assert_eq!(findings_in(&BOTH, &[CIRCLE]), [""; 0]);
}

#[test]
fn an_entry_whose_circle_is_gone_is_found() {
    let gone = [ROOT, BOTH[1], ("c.rs", ""), BOTH[3]];
    assert_eq!(
        findings_in(&gone, &[CIRCLE]),
        ["crates/a/src: b and c are no circle, their entry in CIRCLES says so: remove it"]
    );
}

#[test]
fn an_entry_that_is_larger_than_its_circle_is_found() {
    let entry = Circle { modules: &["b", "c", "d"], arrows: &[("c", "b"), ("d", "b")], ..CIRCLE };
    assert_eq!(
        findings_in(&BOTH, &[entry]),
        [
            "crates/a/src: d is in no circle with b and c: remove it from the entry",
            "crates/a/src: the arrow from d to b closes no circle: remove it from the entry"
        ]
    );
}

#[test]
fn a_circle_that_has_grown_is_found() {
    let grown = [ROOT, BOTH[1], ("c.rs", "use crate::{b::E, d::F};"), ("d.rs", "use crate::c::D;")];
    assert_eq!(
        findings_in(&grown, &[CIRCLE]),
        [
            "crates/a/src: c and d use each other (c.rs -> d: F; d.rs -> c: D)",
            "crates/a/src: d has come into the circle of b and c, which only shrinks"
        ]
    );
}
