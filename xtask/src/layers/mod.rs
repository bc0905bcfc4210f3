//! Keeps the layers apart: which crate may depend on which, and which module may use what.
//!
//! The rules are tables in `rules.rs`, each with its reason; a change of the architecture is a change there. This
//! module only compares.

mod circles;
mod lints;
mod modules;
mod rules;
mod source;

use crate::metadata::{self, Package};
use crate::{Outcome, tree, verdict};
use rules::{CRATES, CrateRule, DEVELOPMENT, TESTED_TOGETHER};

/// Checks manifests and sources.
pub(crate) fn check() -> Outcome {
    let members = metadata::members()?;
    let mut findings = arrows(&members);
    findings.extend(lints::findings(&members)?);
    let files = tree::files()?;
    findings.extend(source::findings(&files)?);
    findings.extend(circles::findings(&files));
    verdict(findings, format!("{} crates and {} files keep to their layers", members.len(), files.len()))
}

/// Findings in the manifests of the crates below `crates/`, `stores/` and `bindings/`. What tests, bench and xtask use is their own affair.
fn arrows(members: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in members
        .iter()
        .filter(|package| ["/crates/", "/stores/", "/bindings/"].iter().any(|place| package.manifest.contains(place)))
    {
        match CRATES.iter().find(|rule| rule.name == package.name) {
            Some(rule) => crate_findings(package, rule, members, &mut findings),
            None => findings.push(format!(
                "{}: a new crate needs a row in xtask/src/layers/rules.rs that says what it may use",
                package.name
            )),
        }
    }
    findings
}

fn crate_findings(package: &Package, rule: &CrateRule, members: &[Package], findings: &mut Vec<String>) {
    for dependency in &package.dependencies {
        let ours = members.iter().any(|member| member.name == dependency.name);
        let name = dependency.name.as_str();
        let allowed = if ours {
            rule.ours.contains(&name)
                || (dependency.development && (name == package.name || TESTED_TOGETHER.contains(&name)))
        } else {
            rule.foreign.contains(&name) || (dependency.development && DEVELOPMENT.contains(&name))
        };
        if !allowed {
            findings.push(format!("{} may not depend on {name}: {}", package.name, rule.why));
        }
        if ours && !dependency.development && !dependency.features.is_empty() {
            findings.push(format!(
                "{} switches on {} of {name}: features of our own crates are for tests, no release contains them",
                package.name,
                dependency.features.join(", ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        Package {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            license: None,
            manifest: format!("/somewhere/crates/{name}/Cargo.toml"),
            source: None,
            dependencies: dependencies
                .iter()
                .map(|(name, development)| Dependency {
                    name: (*name).to_owned(),
                    development: *development,
                    features: Vec::new(),
                })
                .collect(),
        }
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let members = [package("xdfs-proto", &[("xdfs-engine", false)]), package("xdfs-engine", &[])];
        assert_eq!(arrows(&members).len(), 1);
    }

    #[test]
    fn client_and_server_do_not_know_each_other() {
        let members = [package("xdfs-client", &[("xdfs-server", false)]), package("xdfs-server", &[])];
        assert_eq!(arrows(&members).len(), 1);
    }

    #[test]
    fn a_foreign_package_must_be_listed_and_test_tools_are_for_tests() {
        let found = |dependencies: &[(&str, bool)]| arrows(&[package("xdfs-proto", dependencies)]).len();
        assert_eq!(found(&[("libc", false)]), 1);
        assert_eq!(found(&[("proptest", true)]), 0);
        assert_eq!(found(&[("proptest", false)]), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(arrows(&[package("xdfs-new", &[])]).len(), 1);
    }

    #[test]
    fn a_feature_of_ours_in_the_product_is_found() {
        let mut engine = package("xdfs-engine", &[("xdfs-proto", false)]);
        engine.dependencies[0].features.push("fuzzing".to_owned());
        assert_eq!(arrows(&[engine, package("xdfs-proto", &[])]).len(), 1);
    }
}
