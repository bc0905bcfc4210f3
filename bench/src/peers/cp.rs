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
pub(super) enum Cp {
    /// What the file system has taken.
    Written,
    /// Behind it `sync` of the file: what survives a power cut, but for its name.
    Synced,
}

impl System for Cp {
    fn name(&self) -> PeerName {
        match self {
            Self::Written => PeerName::Cp,
            Self::Synced => PeerName::CpSync,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Written => "cp".to_owned(),
            Self::Synced => "cp+sync".to_owned(),
        }
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("cp", "coreutils")]
    }

    fn can(&self, work: &Work) -> bool {
        match self {
            Self::Written => matches!(work, Work::File { .. } | Work::Tree { .. }),
            Self::Synced => matches!(work, Work::File { .. }),
        }
    }

    fn uses_network(&self) -> bool {
        false
    }

    fn serve(&self, _world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        Ok(None)
    }

    fn command(&self, _world: &World, _server: Option<&Server>, work: &Work) -> Result<Command> {
        if let Work::Tree { source, target, .. } = work {
            return Ok(program("cp").args(["-r", "--reflink=never"]).arg(source).arg(target));
        }
        let Work::File { source, target, .. } = work else {
            return Err(Error::Unreadable { program: "cp".to_owned(), detail: "copies files only".to_owned() });
        };
        Ok(match self {
            Self::Written => program("cp").arg("--reflink=never").arg(source).arg(target),
            Self::Synced => {
                let both = r#"cp --reflink=never "$0" "$1" && sync "$1""#;
                program("sh").args(["-c", both]).arg(source).arg(target)
            }
        })
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}
