//! tar into tar over a bare TCP connection: what people do where nothing else is at hand.

use std::path::Path;

use super::{Outcome, Server, System, Work, program};
use crate::args::PeerName;
use crate::error::{Error, Result};
use crate::process::Command;
use crate::world::World;

/// `tar | nc | tar`; the receiving end is started with each copy, as a person would.
#[derive(Debug)]
pub(super) struct TarNc;

/// The sender tries until somebody listens. Arguments: port, source, target.
const COPY: &str = r#"mkdir "$2" && { nc -l 127.0.0.1 "$0" | tar xf - -C "$2" & } && \
until tar cf - -C "$1" . 2>/dev/null | nc -N 127.0.0.1 "$0" 2>/dev/null; do :; done; wait"#;

impl System for TarNc {
    fn name(&self) -> PeerName {
        PeerName::TarNc
    }

    fn label(&self) -> String {
        "tar|nc|tar".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("tar", "tar"), ("nc", "netcat-openbsd")]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::Tree { .. })
    }

    fn serve(&self, _world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        Ok(None)
    }

    fn command(&self, world: &World, _server: Option<&Server>, work: &Work) -> Result<Command> {
        let Work::Tree { source, target, .. } = work else {
            return Err(Error::Unreadable { program: "tar".to_owned(), detail: "copies trees only".to_owned() });
        };
        Ok(program("sh").args(["-c", COPY, &world.free_port()?.to_string()]).arg(source).arg(target))
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}
