//! `xdfs chmod`: sets permission bits, or changes those that are there.

use super::{Done, NameError, did, trouble, wire_name};
use crate::mode::ModeChange;
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Session};

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, change: &ModeChange) -> Done {
    let mode = match change {
        ModeChange::Set(mode) => Ok(*mode),
        ModeChange::Change(_) => session.look(wire_name(url), Wanted::MODE).and_then(|facts| {
            let unknown =
                || Error::new(ErrorKind::Unsupported, "its mode is not known\nhelp: give all bits, as in 640");
            Ok(change.apply(facts.mode.ok_or_else(unknown)?, facts.kind == FileType::Directory))
        }),
    };
    let changed = mode.and_then(|mode| session.set_mode(wire_name(url), mode));
    changed.map_err(|error| match trouble(url, &error) {
        NameError::Told(failure, kind @ ErrorKind::Unsupported) if error.errno != 0 => {
            NameError::Told(failure.help("if it is a symbolic link: it has no permission bits of its own"), kind)
        }
        trouble => trouble,
    })?;
    did(plan, "chmod", url)
}
