//! The list of all packages that are built into the program, in CycloneDX's form, from what cargo knows.

use crate::{Failure, metadata, tree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The list for a kind of machine.
pub(super) fn list(target: &str) -> Result<String, Failure> {
    let known = metadata::resolved(target)?;
    let checksums = checksums()?;
    let packages = by_id(&known, "packages");
    let nodes = by_id(known.get("resolve").ok_or("cargo metadata resolved nothing")?, "nodes");
    let root = packages.iter().find(|(_, package)| package["name"] == "xdfs").map(|(id, _)| id.clone());
    let root = root.ok_or("cargo metadata knows no package xdfs")?;
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![root.clone()]);
    let mut dependencies = Vec::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let below = nodes.get(&id).map(built_in).unwrap_or_default();
        let names: Vec<String> = below.iter().filter_map(|id| packages.get(id)).map(purl).collect();
        dependencies.push(json!({ "ref": packages.get(&id).map(purl), "dependsOn": names }));
        waiting.extend(below);
    }
    let (ours, others): (Vec<_>, Vec<_>) =
        seen.iter().filter_map(|id| packages.get(id)).partition(|package| purl(package) == purl(&packages[&root]));
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(ours[0], "application", &checksums) },
        "components": others.iter().map(|package| component(package, "library", &checksums)).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    serde_json::to_string_pretty(&list).map(|text| text + "\n").map_err(|error| error.to_string().into())
}

fn by_id(value: &Value, field: &str) -> BTreeMap<String, Value> {
    let entries = value[field].as_array().into_iter().flatten();
    entries.filter_map(|entry| Some((entry["id"].as_str()?.to_owned(), entry.clone()))).collect()
}

/// The packages that a package brings into the program; what only its build or its tests use is left out.
fn built_in(node: &Value) -> Vec<String> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let ours = dependencies.filter(|dependency| {
        dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
    });
    ours.filter_map(|dependency| dependency["pkg"].as_str().map(str::to_owned)).collect()
}

/// The name of a package in all of the world.
fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
        // The form of manifests from before SPDX.
        "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
    });
    if let Some(sum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

fn text(package: &Value, field: &str) -> String {
    package[field].as_str().unwrap_or_default().to_owned()
}

/// The checksums of the sources of foreign packages.
fn checksums() -> Result<BTreeMap<(String, String), String>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure(format!("Cargo.lock: {error}"));
    let lock = std::fs::read_to_string(tree::root().join("Cargo.lock")).map_err(|error| failed(&error))?;
    let lock: toml::Table = lock.parse().map_err(|error| failed(&error))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let of = |package: &toml::Value, field: &str| package.get(field)?.as_str().map(str::to_owned);
    let sums = packages
        .filter_map(|package| Some(((of(package, "name")?, of(package, "version")?), of(package, "checksum")?)));
    Ok(sums.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_listed_with_licence_and_checksum_and_nothing_else() {
        let list: Value = serde_json::from_str(&list("x86_64-unknown-linux-musl").expect("a list")).expect("JSON");
        let components = list["components"].as_array().expect("components");
        let named = |name: &str| components.iter().find(|component| component["name"] == name);
        let rustls = named("rustls").expect("it is built in");
        assert_eq!(rustls["hashes"][0]["content"].as_str().expect("a checksum").len(), 64);
        assert!(named("xdfs-proto").is_some());
        for absent in ["proptest", "cc", "xtask", "xdfs"] {
            assert!(named(absent).is_none(), "{absent} is not built in");
        }
        for component in components {
            assert_ne!(component["licenses"][0]["expression"], "", "{component}");
        }
        let references: BTreeSet<&str> = components.iter().filter_map(|part| part["bom-ref"].as_str()).collect();
        for dependency in list["dependencies"].as_array().expect("dependencies") {
            for name in dependency["dependsOn"].as_array().expect("a list") {
                assert!(references.contains(name.as_str().expect("a name")), "{name} is no component");
            }
        }
    }
}
