//! The same bytes through plain rustls: `tls-bound`, the program that comes with the bench.

use std::path::{Path, PathBuf};

use super::{Outcome, Server, System, Work, port_of, read_transfer, start_ready};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::process::Command;
use crate::world::World;

/// rustls, AES-256-GCM by aws-lc-rs, a thread per connection.
#[derive(Debug)]
pub struct Rustls;

impl Rustls {
    /// A client's subcommand with server and certificate.
    pub fn client(world: &World, port: u16, subcommand: &str) -> Command {
        Command::new(&world.tls_bound)
            .args([subcommand, "--connect", &format!("127.0.0.1:{port}"), "--congestion", &world.args.congestion])
            .arg("--certificate")
            .arg(certificate(world))
    }
}

fn certificate(world: &World) -> PathBuf {
    world.scratch.path().join("tls-bound.der")
}

impl System for Rustls {
    fn name(&self) -> PeerName {
        PeerName::Rustls
    }

    fn label(&self) -> String {
        "rustls".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::Memory { .. })
    }

    fn serve(&self, world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        let command = Command::new(&world.tls_bound)
            .args(["serve", "--congestion", &world.args.congestion, "--certificate"])
            .arg(certificate(world));
        start_ready(world, "rustls", &command)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let Work::Memory { direction, channels, bytes } = work else {
            return Err(Error::Unreadable { program: "tls-bound".to_owned(), detail: "moves no files".to_owned() });
        };
        let subcommand = match direction {
            Direction::Up => "send",
            Direction::Down => "recv",
        };
        let command = Self::client(world, port_of(server, "rustls")?, subcommand);
        Ok(command.args(["-P", &channels.to_string(), "--bytes", &bytes.to_string()]))
    }

    fn outcome(&self, output: &str) -> Result<Outcome> {
        read_transfer("tls-bound", output)
    }
}
