//! `--install`: fetches missing peers with apt-get, in the machine's network, before the run enters its own.

use std::process::Command;

use clap::ValueEnum;

use crate::args::PeerName;
use crate::error::{Context, Error, Result};
use crate::peers::{find_program, systems};

/// Installs the Debian packages of all peers that are not there. Does nothing when all are.
pub fn missing_peers() -> Result<()> {
    let mut packages: Vec<&str> = systems(PeerName::value_variants())
        .iter()
        .flat_map(|system| system.programs())
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| *package)
        .filter(|package| !package.is_empty())
        .collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    apt_get(&["update"])?;
    apt_get(&[&["install", "-y", "--no-install-recommends"], packages.as_slice()].concat())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let line = || format!("apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // invoke-rc.d starts no service then: the bench starts its own, and nothing else is to listen.
        .env("RUNLEVEL", "1")
        .status()
        .context(line)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: line(), status: status.to_string(), output: String::new() })
}
