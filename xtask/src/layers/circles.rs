//! Finds modules of a crate that use each other, directly or round a longer way.
//!
//! Modules are compared with their siblings. A child may use its parent, a parent its children, and the crate's root
//! all. What the table of circles allows is a ratchet: an entry that is larger than needed is a finding too.

use super::modules::{Arrow, Sources};
use super::rules::{CIRCLES, Circle};
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// All circles that the table does not name, and what the table names and is none.
pub(super) fn findings(files: &[File]) -> Vec<String> {
    against(files, CIRCLES)
}

fn against(files: &[File], allowed: &[Circle]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut folders = BTreeMap::new();
    for src in sources(files) {
        match Sources::below(&format!("{src}/"), files).modules() {
            Ok(modules) => sort_by_folder(&src, &modules.arrows(), &mut folders),
            Err(problem) => findings.push(format!("{src}: {problem}")),
        }
    }
    for (folder, uses) in &folders {
        let rest = without_allowed(folder, uses, allowed);
        for circle in circles(&rest) {
            findings.push(format!("{folder}: {} use each other ({})", listed(&circle), example(&rest, &circle)));
        }
    }
    let none = Uses::new();
    for entry in allowed {
        check_entry(entry, folders.get(entry.folder).unwrap_or(&none), allowed, &mut findings);
    }
    findings
}

/// The `src` of every crate below `crates/`.
fn sources(files: &[File]) -> BTreeSet<String> {
    let src = |file: &File| {
        let (name, below) = file.path.strip_prefix("crates/")?.split_once('/')?;
        below.starts_with("src/").then(|| format!("crates/{name}/src"))
    };
    files.iter().filter_map(src).collect()
}

/// Which module of a folder uses which, each with an example for people.
type Uses = BTreeMap<(String, String), String>;

/// Sorts a crate's arrows by the folders of the siblings between which they are.
fn sort_by_folder(src: &str, arrows: &[Arrow<'_>], folders: &mut BTreeMap<String, Uses>) {
    for arrow in arrows {
        let shared = arrow.from.iter().zip(&arrow.to).take_while(|(from, to)| from == to).count();
        // Where one of both is above the other, there is no arrow between siblings.
        if let (Some(from), Some(to)) = (arrow.from.get(shared), arrow.to.get(shared)) {
            let below = arrow.from[..shared].iter().map(|name| format!("{name}/")).collect::<String>();
            let file = arrow.file.strip_prefix(&below).unwrap_or(arrow.file);
            let folder = [&[src], &arrow.from[..shared]].concat().join("/");
            let uses = folders.entry(folder).or_default();
            let example = || format!("{file} -> {to}: {}", arrow.name);
            uses.entry(((*from).to_owned(), (*to).to_owned())).or_insert_with(example);
        }
    }
}

fn without_allowed(folder: &str, uses: &Uses, allowed: &[Circle]) -> Uses {
    let is_allowed =
        |from: &str, to: &str| allowed.iter().any(|entry| entry.folder == folder && entry.arrows.contains(&(from, to)));
    let kept = uses.iter().filter(|((from, to), _)| !is_allowed(from, to));
    kept.map(|(arrow, example)| (arrow.clone(), example.clone())).collect()
}

/// The sets of more than one module that all lead to each other.
fn circles(uses: &Uses) -> BTreeSet<BTreeSet<&str>> {
    let modules: BTreeSet<&str> = uses.keys().map(|(from, _)| from.as_str()).collect();
    let circle = |module: &&str| -> BTreeSet<&str> {
        modules.iter().copied().filter(|other| other == module || is_circle(uses, module, other)).collect()
    };
    modules.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

fn is_circle(uses: &Uses, one: &str, other: &str) -> bool {
    way(uses, one, other).is_some() && way(uses, other, one).is_some()
}

/// The shortest way of at least one arrow, with both ends.
fn way<'a>(uses: &'a Uses, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in &ways {
            let after =
                |(from, next): &'a (String, String)| (way.last() == Some(&from.as_str())).then_some(next.as_str());
            for next in uses.keys().filter_map(after) {
                let way = [&way[..], &[next]].concat();
                if next == to {
                    return Some(way);
                }
                if seen.insert(next) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// A use for each arrow of the shortest circle among the modules.
fn example(uses: &Uses, modules: &BTreeSet<&str>) -> String {
    let shortest = modules.iter().filter_map(|module| way(uses, module, module)).min_by_key(Vec::len);
    let steps = shortest.iter().flat_map(|way| way.windows(2));
    let examples = steps.filter_map(|step| uses.get(&(step[0].to_owned(), step[1].to_owned())));
    examples.map(String::as_str).collect::<Vec<_>>().join("; ")
}

/// Adds what is wrong with an entry: it has to name a whole circle, and arrows without each of which it stays one.
fn check_entry(entry: &Circle, uses: &Uses, allowed: &[Circle], findings: &mut Vec<String>) {
    let Circle { folder, modules, arrows, .. } = entry;
    let named = BTreeSet::from_iter(modules.iter().copied());
    let circles = circles(uses);
    let Some(circle) = circles.iter().find(|circle| !circle.is_disjoint(&named)) else {
        findings.push(format!("{folder}: {} are no circle, their entry in CIRCLES says so: remove it", listed(&named)));
        return;
    };
    for gone in named.difference(circle) {
        findings.push(format!("{folder}: {gone} is in no circle with {}: remove it from the entry", listed(circle)));
    }
    for new in circle.difference(&named) {
        findings.push(format!("{folder}: {new} has come into the circle of {}, which only shrinks", listed(&named)));
    }
    let rest = without_allowed(folder, uses, allowed);
    for (from, to) in *arrows {
        let there = uses.contains_key(&((*from).to_owned(), (*to).to_owned()));
        if !there || way(&rest, to, from).is_none() {
            findings
                .push(format!("{folder}: the arrow from {from} to {to} closes no circle: remove it from the entry"));
        }
    }
}

/// Names for a sentence.
fn listed(names: &BTreeSet<&str>) -> String {
    let names = Vec::from_iter(names.iter().copied());
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests;
