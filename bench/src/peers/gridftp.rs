//! GridFTP without encryption and without certificates: its fastest form.
//!
//! globus-url-copy has no clock of its own that is fine enough (its rate counts in steps of 0.1 s), so the wall time of
//! the command is taken; 20 to 25 ms of it are its start.

use std::path::Path;

use super::{Outcome, Server, System, Work, port_of, program, start_on_port};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::Result;
use crate::process::Command;
use crate::world::World;

/// globus-gridftp-server, one process per session, and globus-url-copy.
#[derive(Debug)]
pub(super) struct GridFtp;

impl System for GridFtp {
    fn name(&self) -> PeerName {
        PeerName::Gridftp
    }

    fn label(&self) -> String {
        "gridftp".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("globus-gridftp-server", "globus-gridftp-server-progs"), ("globus-url-copy", "globus-gass-copy-progs")]
    }

    fn can(&self, _work: &Work) -> bool {
        true
    }

    fn serve(&self, world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        let port = world.free_port()?;
        let mut command = program("globus-gridftp-server").args(["-aa", "-p", &port.to_string()]).args([
            "-control-interface",
            "127.0.0.1",
            "-data-interface",
            "127.0.0.1",
        ]);
        if rustix::process::geteuid().is_root() {
            command = command.args(["-anonymous-user", "root", "-allow-root"]);
        }
        start_on_port(world, "gridftp", &command, port)
    }

    fn command(&self, _world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let remote = format!("ftp://127.0.0.1:{}", port_of(server, "gridftp")?);
        let command = program("globus-url-copy").args(["-p", &work.channels().to_string()]);
        Ok(match work {
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
