//! GridFTP: without certificates in its fastest form, and with its data channel protected.
//!
//! globus-url-copy has no clock of its own that is fine enough (its rate counts in steps of 0.1 s), so the wall time of
//! the command is taken; 20 to 25 ms of it are its start, more where it first proves who it is.

mod certificates;
mod client;

use std::path::Path;

use super::{Outcome, Server, System, Work, port_of, program, start_on_port};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::Result;
use crate::process::Command;
use crate::world::World;
use certificates::{Certificates, HOST};
pub(super) use client::Client;

/// globus-gridftp-server, one process per session, and globus-url-copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GridFtp {
    /// Anonymous, nothing protected; trees in as many sessions as there are channels.
    Clear,
    /// The same, trees in one session, a file after the other.
    Serial,
    /// The same, trees in one session, many files asked for at a time.
    Pipelined,
    /// Data channel authenticated, with integrity.
    Safe,
    /// Data channel authenticated and encrypted.
    Private,
}

impl GridFtp {
    fn is_protected(self) -> bool {
        matches!(self, Self::Safe | Self::Private)
    }
}

impl System for GridFtp {
    fn name(&self) -> PeerName {
        match self {
            Self::Clear => PeerName::Gridftp,
            Self::Serial => PeerName::GridftpSerial,
            Self::Pipelined => PeerName::GridftpPipelined,
            Self::Safe => PeerName::GridftpSafe,
            Self::Private => PeerName::GridftpPrivate,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Clear => "gridftp".to_owned(),
            Self::Serial => "gridftp serial".to_owned(),
            Self::Pipelined => "gridftp -pp".to_owned(),
            Self::Safe => "gridftp integrity".to_owned(),
            Self::Private => "gridftp private".to_owned(),
        }
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        const CLEAR: [(&str, &str); 2] =
            [("globus-gridftp-server", "globus-gridftp-server-progs"), ("globus-url-copy", "globus-gass-copy-progs")];
        match self {
            Self::Clear | Self::Serial | Self::Pipelined => &CLEAR,
            Self::Safe | Self::Private => const { &[CLEAR[0], CLEAR[1], ("openssl", "openssl")] },
        }
    }

    fn can(&self, _work: &Work) -> bool {
        true
    }

    fn serve(&self, world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        let port = world.free_port()?;
        let mut command = program("globus-gridftp-server").args(["-p", &port.to_string()]).args([
            "-control-interface",
            "127.0.0.1",
            "-data-interface",
            "127.0.0.1",
        ]);
        let root = rustix::process::geteuid().is_root();
        if root {
            command = command.arg("-allow-root");
        }
        if !self.is_protected() {
            command = command.arg("-aa");
            if root {
                command = command.args(["-anonymous-user", "root"]);
            }
        } else {
            let made = certificates(world)?;
            command = command
                .env("X509_CERT_DIR", &made.authorities)
                .env("X509_USER_CERT", &made.host.0)
                .env("X509_USER_KEY", &made.host.1)
                .env("GRIDMAP", &made.map);
        }
        start_on_port(world, "gridftp", &command, port)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let port = port_of(server, "gridftp")?;
        let command = program("globus-url-copy").args(["-p", &work.channels().to_string()]);
        let (command, remote) = if !self.is_protected() {
            (command, format!("ftp://127.0.0.1:{port}"))
        } else {
            let made = certificates(world)?;
            let protection = if *self == Self::Private { "-dcpriv" } else { "-dcsafe" };
            let command = command.args(["-s", HOST, protection]);
            let command = command.env("X509_CERT_DIR", &made.authorities).env("X509_USER_PROXY", &made.user);
            // The name in the host's certificate.
            (command, format!("gsiftp://localhost:{port}"))
        };
        Ok(match work {
            Work::Tree { direction, channels, source, target, .. }
            | Work::Same { direction, channels, source, target, .. } => {
                let command = program("globus-url-copy").args(["-q", "-r", "-cd", "-fast"]);
                let command = match self {
                    Self::Serial => command,
                    Self::Pipelined => command.arg("-pp"),
                    _ => command.args(["-pp", "-cc"]).arg(channels.to_string()),
                };
                let (source, target) = (source.display(), target.display());
                match direction {
                    Direction::Down => command.arg(format!("{remote}{source}/")).arg(format!("file://{target}/")),
                    Direction::Up => command.arg(format!("file://{source}/")).arg(format!("{remote}{target}/")),
                }
            }
            Work::Memory { direction, bytes, .. } => {
                let command = command.args(["-len", &bytes.to_string()]);
                match direction {
                    Direction::Down => command.arg(format!("{remote}/dev/zero")).arg("file:///dev/null"),
                    Direction::Up => command.arg("file:///dev/zero").arg(format!("{remote}/dev/null")),
                }
            }
            Work::File { direction, source, target, .. } => {
                let (source, target) = (source.display(), target.display());
                match direction {
                    Direction::Down => command.arg(format!("{remote}{source}")).arg(format!("file://{target}")),
                    Direction::Up => command.arg(format!("file://{source}")).arg(format!("{remote}{target}")),
                }
            }
        })
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

/// The account that the user is mapped to is the one that the bench runs as.
fn certificates(world: &World) -> Result<Certificates> {
    let root = rustix::process::geteuid().is_root();
    let account = if root { "root".to_owned() } else { std::env::var("USER").unwrap_or_default() };
    Certificates::prepare(world.scratch.path(), &account)
}
