//! What cargo knows of the workspace and of the packages it depends on.

use crate::{Failure, process};
use serde_json::Value;
use std::path::PathBuf;

/// One package, ours or foreign.
#[derive(Debug)]
pub(crate) struct Package {
    /// Name as in its manifest.
    pub(crate) name: String,
    /// Version, as text.
    pub(crate) version: String,
    /// Licence expression, where the manifest has one.
    pub(crate) license: Option<String>,
    /// The manifest's path.
    pub(crate) manifest: String,
    /// Where it was fetched from; none for our own.
    pub(crate) source: Option<String>,
    /// What it depends on directly.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One entry of a manifest's dependency tables.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package's name (not the name it may be given inside).
    pub(crate) name: String,
    /// True for entries of `dev-dependencies`.
    pub(crate) development: bool,
    /// Features that are switched on.
    pub(crate) features: Vec<String>,
}

/// The members of the workspace.
pub(crate) fn members() -> Result<Vec<Package>, Failure> {
    packages(&metadata(&["--no-deps"])?)
}

/// The members and all packages that they use on this kind of machine.
///
/// Works without a network where the packages have been built before.
pub(crate) fn all() -> Result<Vec<Package>, Failure> {
    packages(&metadata(&["--locked", "--filter-platform", &host()?])?)
}

/// All that cargo says of the packages for a kind of machine, and of how they depend on each other.
pub(crate) fn resolved(target: &str) -> Result<Value, Failure> {
    metadata(&["--locked", "--filter-platform", target])
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf, Failure> {
    let metadata = metadata(&["--no-deps"])?;
    text(&metadata, "target_directory").map(PathBuf::from)
}

fn metadata(arguments: &[&str]) -> Result<Value, Failure> {
    let mut command = process::cargo(&["metadata", "--quiet", "--format-version", "1"]);
    let printed = process::output(command.args(arguments))?;
    serde_json::from_str(&printed).map_err(|error| format!("cargo metadata: {error}").into())
}

/// The kind of machine we build for, as rustc names it.
fn host() -> Result<String, Failure> {
    let printed = process::output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".into())
}

fn packages(metadata: &Value) -> Result<Vec<Package>, Failure> {
    list(metadata, "packages")?.iter().map(package).collect()
}

fn package(value: &Value) -> Result<Package, Failure> {
    Ok(Package {
        name: text(value, "name")?,
        version: text(value, "version")?,
        license: text(value, "license").ok(),
        manifest: text(value, "manifest_path")?,
        source: text(value, "source").ok(),
        dependencies: list(value, "dependencies")?.iter().map(dependency).collect::<Result<_, _>>()?,
    })
}

fn dependency(value: &Value) -> Result<Dependency, Failure> {
    let features = list(value, "features")?.iter().filter_map(|feature| feature.as_str().map(str::to_owned));
    Ok(Dependency {
        name: text(value, "name")?,
        development: text(value, "kind").is_ok_and(|kind| kind == "dev"),
        features: features.collect(),
    })
}

fn text(value: &Value, field: &str) -> Result<String, Failure> {
    let found = value.get(field).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| format!("cargo metadata: no text named {field}").into())
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, Failure> {
    let found = value.get(field).and_then(Value::as_array);
    found.ok_or_else(|| format!("cargo metadata: no list named {field}").into())
}
