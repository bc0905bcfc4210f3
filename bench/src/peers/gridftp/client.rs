//! xdfs as a client of globus-gridftp-server: the same server as for globus-url-copy, and the same streams.

use std::path::Path;

use super::super::{Outcome, Server, System, Work, port_of, read_transfer};
use super::{GridFtp, certificates};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::Result;
use crate::process::Command;
use crate::world::World;

/// `xdfs cp` with a `gsiftp` URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::peers) enum Client {
    /// Anonymous, nothing protected.
    Clear,
    /// Data channel authenticated and encrypted.
    Private,
}

impl Client {
    fn peer(self) -> GridFtp {
        match self {
            Self::Clear => GridFtp::Clear,
            Self::Private => GridFtp::Private,
        }
    }
}

impl System for Client {
    fn name(&self) -> PeerName {
        match self {
            Self::Clear => PeerName::XdfsGridftp,
            Self::Private => PeerName::XdfsGridftpPrivate,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Clear => "xdfs".to_owned(),
            Self::Private => "xdfs private".to_owned(),
        }
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        self.peer().programs()
    }

    fn can(&self, work: &Work) -> bool {
        // What has no end is not a file to copy.
        !matches!(work, Work::Memory { .. })
    }

    fn serve(&self, world: &World, directory: Option<&Path>) -> Result<Option<Server>> {
        self.peer().serve(world, directory)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let port = port_of(server, "gridftp")?;
        let word = if matches!(work, Work::Same { .. }) { "sync" } else { "cp" };
        // As globus-url-copy: nothing is hashed or continued.
        let command = Command::new(&world.xdfs)
            .args([word, "-P", &work.channels().to_string(), "--verify", "none", "--durability", "written"])
            .arg("--no-resume");
        let (command, remote) = match self {
            Self::Clear => (command.args(["--protection", "clear"]), format!("gsiftp://anonymous@127.0.0.1:{port}")),
            Self::Private => {
                let made = certificates(world)?;
                let command = command.args(["--protection", "private"]);
                let command = command.env("X509_CERT_DIR", &made.authorities).env("X509_USER_PROXY", &made.user);
                (command, format!("gsiftp://localhost:{port}"))
            }
        };
        let (source, target, command) = match work {
            Work::Tree { source, target, .. } => (source, target, command.args(["-r", "-q"])),
            Work::Same { source, target, .. } => (source, target, command.arg("-q")),
            Work::File { source, target, .. } => (source, target, command.args(["--json", "--progress", "none"])),
            Work::Memory { .. } => return Ok(command),
        };
        Ok(match work.direction() {
            Direction::Up => command.arg(source).arg(format!("{remote}{}", target.display())),
            Direction::Down => command.arg(format!("{remote}{}", source.display())).arg(target),
        })
    }

    fn outcome(&self, output: &str) -> Result<Outcome> {
        if output.trim().is_empty() {
            return Ok(Outcome::default());
        }
        // By the wall, as globus-url-copy is timed.
        Ok(Outcome { seconds: None, ..read_transfer("xdfs", output)? })
    }
}
