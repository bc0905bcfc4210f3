//! The program without a protocol, from this crate.

use std::path::Path;

use super::{Outcome, Server, System, Work, file_name, port_of, read_transfer, start_ready};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::process::Command;
use crate::world::World;

/// One thread a side, one buffer.
#[derive(Debug)]
pub(super) struct Bound;

impl System for Bound {
    fn name(&self) -> PeerName {
        PeerName::Bound
    }

    fn label(&self) -> String {
        "bound".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn can(&self, work: &Work) -> bool {
        !matches!(work, Work::Tree { .. } | Work::Same { .. })
    }

    fn serve(&self, world: &World, directory: Option<&Path>) -> Result<Option<Server>> {
        let mut command = Command::new(&world.bound).args(["serve", "--congestion", &world.args.congestion]);
        if let Some(directory) = directory {
            command = command.arg("--directory").arg(directory);
        }
        start_ready(world, "bound", &command)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let verb = match work.direction() {
            Direction::Up => "send",
            Direction::Down => "recv",
        };
        let command = Command::new(&world.bound)
            .args([verb, "--connect", &format!("127.0.0.1:{}", port_of(server, "bound")?)])
            .args(["--congestion", &world.args.congestion]);
        Ok(match work {
            Work::Memory { channels, bytes, .. } => {
                command.args(["-P", &channels.to_string(), "--bytes", &bytes.to_string()])
            }
            Work::Tree { .. } | Work::Same { .. } => {
                return Err(Error::Unreadable { program: "bound".to_owned(), detail: "copies no trees".to_owned() });
            }
            // Files always go over one stream: the receiving core is the limit, and this is a bound.
            Work::File { direction, source, target, .. } => {
                let (local, remote) = match direction {
                    Direction::Up => (source, target),
                    Direction::Down => (target, source),
                };
                command.arg("--file").arg(local).arg("--name").arg(file_name(remote))
            }
        })
    }

    fn outcome(&self, output: &str) -> Result<Outcome> {
        read_transfer("bound", output)
    }
}
