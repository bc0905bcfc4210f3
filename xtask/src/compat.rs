//! `xtask long compat`: this version beside an earlier one. The earlier commit is checked out and built below the target directory; what
//! the two have to do together is said by `tests/cli/src/bin/compat.rs`.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, metadata, process, tree};

/// The version whose clients and servers are in use: the last commit before staging directories and journals with a MAC.
const EARLIER: &str = "e19a2f9";

/// Runs every scenario with the binary of `commit` on one side.
pub(crate) fn run(commit: Option<&str>) -> Outcome {
    let commit = commit.unwrap_or(EARLIER);
    let target = metadata::target_directory()?;
    let folder = target.join("compat");
    let sources = folder.join(commit);
    if !sources.exists() {
        let mut checkout = Command::new("git");
        checkout.args(["clone", "--quiet", "--shared", "--no-checkout"]).arg(tree::root()).arg(&sources);
        process::run(&mut checkout)?;
    }
    process::run(Command::new("git").arg("-C").arg(&sources).args(["checkout", "--quiet", "--detach", commit]))?;
    let built = folder.join("target");
    build(&sources, &built)?;
    build(&tree::root(), &target)?;
    let binary = |target: &Path| target.join("release/xdfs");
    let mut scenarios =
        process::cargo(&["run", "--release", "--locked", "--package", "xdfs-test-cli", "--bin", "compat"]);
    scenarios.env("XDFS_BINARY", binary(&target)).env("XDFS_EARLIER_BINARY", binary(&built));
    process::run(&mut scenarios)?;
    Ok(format!("this version and {commit} understand each other"))
}

fn build(sources: &Path, target: &Path) -> Result<(), crate::Failure> {
    let mut command = process::cargo(&["build", "--release", "--locked", "--package", "xdfs", "--target-dir"]);
    command.arg(target).current_dir(sources);
    process::run(&mut command)
}
