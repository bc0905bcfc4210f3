//! xdfs: one release binary, no option but those that the comparison names.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Outcome, Server, System, Work, file_name, port_of, read_transfer, start_ready};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Context, Result};
use crate::process::Command;
use crate::world::World;

/// xdfs with one protection level, and with its own number of channels where it is its own reference.
#[derive(Debug, Clone)]
pub struct Xdfs {
    /// `clear`, `integrity` or `private`.
    pub protection: &'static str,
    /// Instead of the work's number of channels.
    pub channels: Option<u32>,
    /// `none` or `hash`.
    pub verify: &'static str,
    /// `written` or `durable`.
    pub durability: &'static str,
    /// A copy that ends early can be gone on with: there are markers and a journal.
    pub resume: bool,
    /// The build that `--before` names.
    pub before: bool,
    /// The server grants leases, which is not its default.
    pub leases: bool,
}

impl Default for Xdfs {
    fn default() -> Self {
        Self {
            protection: "clear",
            channels: None,
            verify: "none",
            durability: "written",
            resume: true,
            before: false,
            leases: false,
        }
    }
}

/// What differs from the limits that are shipped.
const LIMITS: &str = "[limits]\nlogins-soft = 4096\nlogins = 4096\nlogins-per-source = 4096\nsessions = 20000\nsessions-per-user = 20000\nchannels-per-user = 20000\nvisitors-percent = 100\n";

/// The same of a server that grants leases.
const LEASES: &str = "lease-seconds = 10\n";

/// Starts `xdfs serve` with the memory export `m` and, where there are files, the export `f`.
fn serve(peer: &Xdfs, world: &World, directory: Option<&Path>) -> Result<Option<Server>> {
    // All clients of a measurement come from one address and are one visitor: hundreds of them at a time are no attack.
    let leases = if peer.leases { LEASES } else { "" };
    let limits = world.scratch.path().join("xdfs.toml");
    fs::write(&limits, format!("{LIMITS}{leases}")).context(|| limits.display().to_string())?;
    let mut command = Command::new(peer.binary(world))
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--allow-anonymous",
            "rw",
            "--export",
            "m=memory:",
            "--config",
        ])
        .arg(limits.display().to_string())
        .arg("--state")
        .arg(state(world));
    if let Some(directory) = directory {
        command = command.arg("--export").arg(format!("f={}", directory.display()));
    }
    start_ready(world, "xdfs", &command.args(&world.args.serve_arg))
}

/// The state folder of all servers of this run: one host key, one table of users.
pub fn state(world: &World) -> PathBuf {
    world.scratch.path().join("xdfs-state")
}

impl Xdfs {
    fn binary<'a>(&self, world: &'a World) -> &'a Path {
        world.args.before.as_deref().filter(|_| self.before).unwrap_or(&world.xdfs)
    }

    /// `xdfs cp` with what every run has in common.
    pub fn copy(&self, world: &World, channels: u32) -> Command {
        self.command_of(world, "cp", channels).args(["--json", "--progress", "none"])
    }

    /// A command with what every run has in common.
    fn command_of(&self, world: &World, word: &str, channels: u32) -> Command {
        Command::new(self.binary(world))
            .args([word, "-P", &channels.to_string(), "--protection", self.protection])
            .args(["--verify", self.verify, "--durability", self.durability])
            .args(if self.resume { &[][..] } else { &["--no-resume"] })
            .args(&world.args.cp_arg)
    }
}

impl System for Xdfs {
    fn name(&self) -> PeerName {
        PeerName::Xdfs
    }

    fn before(&self) -> Option<Box<dyn System>> {
        Some(Box::new(Self { before: true, ..*self }))
    }

    fn label(&self) -> String {
        let channels = self.channels.map(|channels| format!(" -P {channels}")).unwrap_or_default();
        let other = |value: &str, usual: &str| if value == usual { String::new() } else { format!(" {value}") };
        let (level, verify) = (other(self.protection, "clear"), other(self.verify, "none"));
        let durability = other(self.durability, "written");
        let without = if self.resume { "" } else { " --no-resume" };
        let before = if self.before { " before" } else { "" };
        format!("xdfs{before}{level}{verify}{durability}{without}{channels}")
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn can(&self, _work: &Work) -> bool {
        true
    }

    fn serve(&self, world: &World, directory: Option<&Path>) -> Result<Option<Server>> {
        serve(self, world, directory)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let port = port_of(server, "xdfs")?;
        let pin = server.map_or("", |server| server.pin.as_str());
        let channels = self.channels.unwrap_or(work.channels());
        let command = match work {
            Work::Memory { .. } | Work::File { .. } => self.copy(world, channels),
            // A line for each name is not what is measured.
            Work::Tree { .. } => self.command_of(world, "cp", channels).args(["-r", "-q"]),
            Work::Same { .. } => self.command_of(world, "sync", channels).arg("-q"),
        };
        Ok(match work {
            Work::Memory { direction: Direction::Up, bytes, .. } => {
                command.arg(format!("random:{bytes}")).arg(format!("xdfs://127.0.0.1:{port}/m/null{pin}"))
            }
            Work::Memory { direction: Direction::Down, bytes, .. } => command
                .args(["--length", &bytes.to_string()])
                .arg(format!("xdfs://127.0.0.1:{port}/m/random{pin}"))
                .arg("null:"),
            Work::File { direction: Direction::Up, source, target, .. }
            | Work::Tree { direction: Direction::Up, source, target, .. }
            | Work::Same { direction: Direction::Up, source, target, .. } => {
                command.arg(source).arg(format!("xdfs://127.0.0.1:{port}/f/{}{pin}", file_name(target)))
            }
            Work::File { direction: Direction::Down, source, target, .. }
            | Work::Tree { direction: Direction::Down, source, target, .. }
            | Work::Same { direction: Direction::Down, source, target, .. } => {
                command.arg(format!("xdfs://127.0.0.1:{port}/f/{}{pin}", file_name(source))).arg(target)
            }
        })
    }

    fn outcome(&self, output: &str) -> Result<Outcome> {
        // A tree says nothing but what failed.
        if output.trim().is_empty() { Ok(Outcome::default()) } else { read_transfer("xdfs", output) }
    }
}
