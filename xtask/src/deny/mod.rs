//! Which foreign packages may come into the build: bans with minimum versions, licences, sources.
//!
//! The lists are those of deny.toml. What needs no network is checked here, each time; cargo-deny itself, which also
//! knows the advisories, runs where it is installed.

mod ban;
mod licence;

use crate::metadata::Package;
use crate::{Failure, Outcome, metadata, process, tree, verdict};
use ban::Ban;
use toml::{Table, Value};

/// Checks Cargo.lock and the packages' manifests against deny.toml.
pub(crate) fn check() -> Outcome {
    let lists = read_toml("deny.toml")?;
    let locked = locked(&read_toml("Cargo.lock")?)?;
    let mut findings = Vec::new();
    banned(&bans(&lists)?, &locked, &mut findings);
    // The lock file also names what features that nobody asked for would need.
    findings.retain(|finding| finding.split(' ').next().is_none_or(is_built));
    sources(&locked, &mut findings);
    let packages = metadata::all()?;
    licences(&texts(&lists, "licenses", "allow")?, &packages, &mut findings);
    let also = cargo_deny(&mut findings)?;
    verdict(findings, format!("bans and sources of {} packages, licences of {}; {also}", locked.len(), packages.len()))
}

/// One package of Cargo.lock.
#[derive(Debug)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

fn banned(bans: &[Ban], locked: &[Locked], findings: &mut Vec<String>) {
    for package in locked {
        for ban in bans.iter().filter(|ban| ban.hits(&package.name, &package.version)) {
            findings.push(format!("{} {} is banned: {}", package.name, package.version, ban.reason));
        }
    }
}

/// Whether anything of ours uses the package, on whatever target. Without an answer it counts as used.
fn is_built(name: &str) -> bool {
    let words = ["tree", "--locked", "--workspace", "--target", "all", "-e", "all", "-i", name];
    process::output(&mut process::cargo(&words)).map_or(true, |tree| !tree.trim().is_empty())
}

/// Foreign packages come from the registry alone: nothing from a git repository, which may change or go.
fn sources(locked: &[Locked], findings: &mut Vec<String>) {
    for Locked { name, version, source } in locked {
        if source.as_ref().is_some_and(|source| !source.starts_with("registry+")) {
            findings.push(format!("{name} {version} does not come from the registry"));
        }
    }
}

fn licences(allowed: &[String], packages: &[Package], findings: &mut Vec<String>) {
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let Package { name, version, .. } = package;
        match package.license.as_deref().map(|expression| (expression, licence::permits(expression, allowed))) {
            Some((_, Ok(true))) => {}
            Some((expression, Ok(false))) => {
                findings.push(format!("{name} {version}: the licence {expression} is not on the list of deny.toml"));
            }
            Some((expression, Err(what))) => {
                findings.push(format!("{name} {version}: the licence {expression} cannot be read: {what}"));
            }
            None => findings.push(format!("{name} {version}: names no licence")),
        }
    }
}

/// Runs cargo-deny where it is installed; says what was done.
fn cargo_deny(findings: &mut Vec<String>) -> Result<&'static str, Failure> {
    let installed = process::cargo(&["deny", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return Ok("cargo-deny is not installed, so nobody asked the advisories");
    }
    let ours = ["deny", "--offline", "check", "bans", "licenses", "sources"];
    if let Err(Failure(message)) = process::run(&mut process::cargo(&ours)) {
        findings.push(message);
    }
    // The advisories are a git repository that is fetched: no network is no fault of the tree.
    let known = process::cargo(&["deny", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !known {
        return Ok("cargo-deny agrees where it could look; the advisories could not be fetched");
    }
    if let Err(Failure(message)) = process::run(&mut process::cargo(&["deny", "check", "advisories"])) {
        findings.push(message);
    }
    Ok("cargo-deny ran as well, with the advisories")
}

fn read_toml(path: &str) -> Result<Table, Failure> {
    let text = std::fs::read_to_string(tree::root().join(path)).map_err(|error| format!("{path}: {error}"))?;
    text.parse().map_err(|error| format!("{path}: {error}").into())
}

fn locked(lock: &Table) -> Result<Vec<Locked>, Failure> {
    let packages = lock.get("package").and_then(Value::as_array).ok_or("Cargo.lock lists no packages")?;
    let text = |package: &Value, field: &str| package.get(field).and_then(Value::as_str).map(str::to_owned);
    let read = |package: &Value| {
        Some(Locked {
            name: text(package, "name")?,
            version: text(package, "version")?,
            source: text(package, "source"),
        })
    };
    packages
        .iter()
        .map(|package| read(package).ok_or_else(|| "Cargo.lock: a package without name or version".into()))
        .collect()
}

fn bans(lists: &Table) -> Result<Vec<Ban>, Failure> {
    let entries = field(lists, "bans", "deny")?.as_array().ok_or("deny.toml: bans.deny is no list")?;
    entries.iter().map(Ban::read).collect()
}

fn texts(lists: &Table, section: &str, name: &str) -> Result<Vec<String>, Failure> {
    let list =
        field(lists, section, name)?.as_array().ok_or_else(|| format!("deny.toml: {section}.{name} is no list"))?;
    Ok(list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

fn field<'a>(lists: &'a Table, section: &str, name: &str) -> Result<&'a Value, Failure> {
    let found = lists.get(section).and_then(|section| section.get(name));
    found.ok_or_else(|| format!("deny.toml: {section}.{name} is missing").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_lists_can_be_read() {
        let lists = read_toml("deny.toml").expect("deny.toml");
        assert!(bans(&lists).expect("bans").iter().any(|ban| ban.hits("ring", "0.17.14")));
        assert!(texts(&lists, "licenses", "allow").expect("licences").contains(&"MIT".to_owned()));
    }

    #[test]
    fn what_comes_from_elsewhere_than_the_registry_is_found() {
        let package = |source: Option<&str>| Locked {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            source: source.map(str::to_owned),
        };
        let mut findings = Vec::new();
        sources(
            &[package(None), package(Some("registry+https://index")), package(Some("git+https://b"))],
            &mut findings,
        );
        assert_eq!(findings.len(), 1);
    }
}
