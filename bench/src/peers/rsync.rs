//! rsync daemon with whole files: no delta search, which on one machine would only slow it down.

use std::fs;
use std::path::Path;

use super::{Outcome, Server, System, Work, file_name, port_of, program, start_on_port};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Context, Error, Result};
use crate::process::Command;
use crate::world::World;

/// Daemon protocol, no ssh.
#[derive(Debug)]
pub(super) enum Rsync {
    /// What the file system has taken.
    Written,
    /// Each file is synced.
    Synced,
}

impl Rsync {
    fn extra(&self) -> &'static [&'static str] {
        match self {
            Self::Written => &[],
            Self::Synced => &["--fsync"],
        }
    }
}

impl System for Rsync {
    fn name(&self) -> PeerName {
        match self {
            Self::Written => PeerName::Rsync,
            Self::Synced => PeerName::RsyncFsync,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Written => "rsync".to_owned(),
            Self::Synced => "rsync --fsync".to_owned(),
        }
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("rsync", "rsync")]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::File { channels: 1, .. } | Work::Tree { .. } | Work::Same { .. })
    }

    fn serve(&self, world: &World, directory: Option<&Path>) -> Result<Option<Server>> {
        let Some(directory) = directory else { return Ok(None) };
        let port = world.free_port()?;
        let configuration = world.scratch.path().join("rsyncd.conf");
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let owner = if user == 0 { format!("uid = {user}\ngid = {group}\n") } else { String::new() };
        let text = format!(
            "address = 127.0.0.1\nport = {port}\nuse chroot = no\n{owner}[f]\npath = {}\nread only = no\n",
            directory.display()
        );
        fs::write(&configuration, text).context(|| configuration.display().to_string())?;
        let command =
            program("rsync").args(["--daemon", "--no-detach"]).arg(format!("--config={}", configuration.display()));
        start_on_port(world, "rsync", &command, port)
    }

    fn command(&self, _world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let module = format!("rsync://127.0.0.1:{}/f", port_of(server, "rsync")?);
        let (direction, source, target) = match work {
            Work::File { direction, source, target, .. } => (direction, source, target),
            Work::Tree { direction, source, target, .. } | Work::Same { direction, source, target, .. } => {
                let command = program("rsync").args(["-a", "-W"]).args(self.extra());
                let below = |path: &Path| format!("{}/", path.display());
                return Ok(match direction {
                    Direction::Down => command.arg(format!("{module}/{}/", file_name(source))).arg(below(target)),
                    Direction::Up => command.arg(below(source)).arg(format!("{module}/{}/", file_name(target))),
                });
            }
            Work::Memory { .. } => {
                return Err(Error::Unreadable { program: "rsync".to_owned(), detail: "copies files only".to_owned() });
            }
        };
        let command = program("rsync").arg("-W");
        Ok(match direction {
            Direction::Down => command.arg(format!("{module}/{}", file_name(source))).arg(target),
            Direction::Up => command.arg(source).arg(format!("{module}/{}", file_name(target))),
        })
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}
