//! The programs of tests of the copy: how they are built and run.

use super::fault::{Program, Run};
use crate::{Failure, process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A run ends after this many seconds: a fault may make it hang.
const LIMIT: &str = "900";

/// Variables of the tests that the rows use.
const OURS: [&str; 8] = [
    "XDFS_BUG",
    "XDFS_MODEL",
    "XDFS_PROPERTY",
    "XDFS_SEED",
    "XDFS_TREES",
    "XDFS_SIM_FROM",
    "XDFS_SIM_SESSIONS",
    "XDFS_TESTS_MAY_LEAVE_OUT",
];

/// The program files, and the folders in which they run.
pub(super) struct Built {
    programs: BTreeMap<(&'static str, Option<&'static str>), (PathBuf, PathBuf)>,
}

impl Built {
    /// Builds them from the copy.
    pub(super) fn new(sources: &Path, target: &Path, wanted: &BTreeSet<&'static Program>) -> Result<Self, Failure> {
        let mut tests: BTreeMap<&str, BTreeSet<Option<&'static str>>> = BTreeMap::new();
        for program in wanted {
            tests.entry(program.package).or_default().insert(program.test);
        }
        let mut programs = BTreeMap::new();
        for (package, tests) in tests {
            let mut cargo = process::cargo(&["test", "--no-run", "--quiet", "--locked", "--package", package]);
            cargo
                .args(["--message-format", "json-render-diagnostics", "--target-dir"])
                .arg(target)
                .current_dir(sources);
            for test in &tests {
                cargo.args(test.map_or(vec!["--lib"], |test| vec!["--test", test]));
            }
            let messages = process::output(&mut cargo)?;
            let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            for test in tests {
                let found = messages.iter().find_map(|message| executable(message, test));
                let found = found.ok_or_else(|| format!("cargo has built no tests {test:?} of {package}"))?;
                programs.insert((package, test), found);
            }
        }
        Ok(Self { programs })
    }

    /// Runs a test, with a fault or without: whether it passed. What it printed goes to the file `output`.
    pub(super) fn passes(&self, run: &Run, fault: Option<&str>, output: &Path) -> Result<bool, Failure> {
        let program = run.program;
        let Some((executable, folder)) = self.programs.get(&(program.package, program.test)) else {
            return Err(format!("{} is not built", run.shown()).into());
        };
        let text = |error: std::io::Error| Failure(format!("{}: {error}", output.display()));
        let file = File::create(output).map_err(text)?;
        let mut command = Command::new("timeout");
        // In this group of processes: who ends this ends it.
        command.args(["--foreground", "--kill-after=10", LIMIT]).arg(executable).args(["--nocapture", program.filter]);
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(file.try_clone().map_err(text)?).stderr(file);
        process::forget_our_package(&mut command);
        command.env("RUST_BACKTRACE", "0");
        // What somebody has set for a test of his own is not what a row means.
        OURS.iter().for_each(|variable| _ = command.env_remove(variable));
        if let Some(amount) = program.amount {
            command.env(amount, run.amount);
        }
        if let Some(fault) = fault {
            command.env("XDFS_BUG", fault);
            command.envs(program.property.map(|property| (property, run.says)));
        }
        let passed = command.status().map(|status| status.success()).map_err(text)?;
        let printed = fs::read(output).map_err(text)?;
        let printed = String::from_utf8_lossy(&printed);
        if printed.contains("running 0 tests") || printed.contains("left out: ") {
            return Err(format!("{} has not run, see {}", run.shown(), output.display()).into());
        }
        Ok(passed)
    }
}

impl Run {
    /// What is run, in words.
    pub(super) fn shown(&self) -> String {
        let Program { package, test, filter, .. } = *self.program;
        let amount = if self.amount.is_empty() { String::new() } else { format!(" ({})", self.amount) };
        format!("{package} {} {filter}{amount}", test.unwrap_or("unit tests"))
    }

    /// Whether what a run printed tells what it has to.
    pub(super) fn tells(&self, output: &Path) -> Result<bool, Failure> {
        let printed = fs::read(output).map_err(|error| format!("{}: {error}", output.display()))?;
        Ok(String::from_utf8_lossy(&printed).contains(self.says))
    }
}

/// The program that a message of cargo tells of, and its package's folder, if it is this one.
fn executable(message: &Value, test: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let target = &message["target"];
    let is_it = match test {
        Some(test) => target["kind"][0] == "test" && target["name"] == test,
        None => target["kind"][0] == "lib",
    };
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true || !is_it {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some((message["executable"].as_str()?.into(), folder.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_program_is_found_by_its_name_and_unit_tests_by_their_kind() {
        let message = |kind: &str, name: &str| {
            json!({
                "reason": "compiler-artifact", "manifest_path": "/copy/tests/sim/Cargo.toml", "profile": { "test": true },
                "target": { "name": name, "kind": [kind] }, "executable": "/target/one-1",
            })
        };
        let found = Some(("/target/one-1".into(), "/copy/tests/sim".into()));
        assert_eq!(executable(&message("test", "leases"), Some("leases")), found);
        assert_eq!(executable(&message("test", "sessions"), Some("leases")), None);
        assert_eq!(executable(&message("lib", "leases"), Some("leases")), None);
        assert_eq!(executable(&message("lib", "xdfs_test_sim"), None), found);
    }
}
