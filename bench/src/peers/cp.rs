//! cp inside one file system: no network, one copy less. `--reflink=never`, because a copy that copies nothing is
//! nobody's peer (and measured slower where it falls back).

use std::path::Path;

use super::{Outcome, Server, System, Work, program};
use crate::args::PeerName;
use crate::error::{Error, Result};
use crate::process::Command;
use crate::world::World;

/// GNU cp.
#[derive(Debug)]
pub(super) struct Cp;

impl System for Cp {
    fn name(&self) -> PeerName {
        PeerName::Cp
    }

    fn label(&self) -> String {
        "cp".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("cp", "coreutils")]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::File { .. })
    }

    fn uses_network(&self) -> bool {
        false
    }

    fn serve(&self, _world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        Ok(None)
    }

    fn command(&self, _world: &World, _server: Option<&Server>, work: &Work) -> Result<Command> {
        match work {
            Work::File { source, target, .. } => Ok(program("cp").arg("--reflink=never").arg(source).arg(target)),
            Work::Memory { .. } => {
                Err(Error::Unreadable { program: "cp".to_owned(), detail: "copies files only".to_owned() })
            }
        }
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}
