//! Keeps the settings of the linters together: every member takes the workspace's lints, and the nearer clippy.toml
//! files, each of which holds alone, do not forget what the root's bans.

use crate::metadata::Package;
use crate::{Failure, tree};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Files that ban all that the root bans, and more.
const STRICTER: [&str; 2] = ["crates/proto/clippy.toml", "crates/secure/clippy.toml"];

/// Findings in the members' manifests and in the lists of bans.
pub(super) fn findings(members: &[Package]) -> Result<Vec<String>, Failure> {
    let mut findings = Vec::new();
    for member in members {
        let manifest = read(&member.manifest)?;
        let inherited = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool);
        if inherited != Some(true) {
            findings.push(format!("{}: its manifest needs `[lints] workspace = true`", member.name));
        }
    }
    let root = banned(&read("clippy.toml")?)?;
    for path in STRICTER {
        let stricter = banned(&read(path)?)?;
        for forgotten in root.difference(&stricter) {
            findings
                .push(format!("{path}: must repeat the root's ban of {forgotten}, since the nearest file holds alone"));
        }
    }
    Ok(findings)
}

fn banned(settings: &Table) -> Result<BTreeSet<String>, Failure> {
    let entries = settings.get("disallowed-methods").and_then(Value::as_array).ok_or("a clippy.toml without bans")?;
    let path = |entry: &Value| entry.get("path").and_then(Value::as_str).map(str::to_owned);
    entries.iter().map(|entry| path(entry).ok_or_else(|| "clippy.toml: a ban without a path".into())).collect()
}

/// Reads a file named from the root, or by its whole path.
fn read(path: &str) -> Result<Table, Failure> {
    let text = std::fs::read_to_string(tree::root().join(path)).map_err(|error| format!("{path}: {error}"))?;
    text.parse().map_err(|error| format!("{path}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_are_read_by_their_paths() {
        let settings: Table = "disallowed-methods = [{ path = \"a::b\", reason = \"c\" }]".parse().expect("a table");
        assert_eq!(banned(&settings).expect("bans"), BTreeSet::from(["a::b".to_owned()]));
        assert!(banned(&Table::new()).is_err());
    }
}
