//! `xdfs mv`: within one export, atomically.

use super::{Done, NameError, did, trouble, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::plan::NamesPlan;
use crate::text::printable;
use crate::url::Url;
use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Session};

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (target, keep): (&Url, bool)) -> Done {
    let renamed = session.rename(&url.export, url.path.as_bytes(), target.path.as_bytes(), keep);
    renamed.map_err(|error| explain(session, url, (target, keep), &error))?;
    did(plan, "mv", url)
}

/// The server reports an error, but not for which of the two names: their present state shows that.
fn explain(session: &Session, source: &Url, (target, keep): (&Url, bool), error: &Error) -> NameError {
    let kind = |url: &Url| session.look(wire_name(url), Wanted::NOTHING).map(|facts| facts.kind);
    let told = |text: String| {
        NameError::Told(Failure::new(Exit::of_error(error, Side::Peer), format!("{target}: {text}")), error.kind)
    };
    match error.kind {
        ErrorKind::NotFound | ErrorKind::NotDirectory => {
            if let Err(error) = kind(source) {
                return trouble(source, &error);
            }
            let parent = target.parent().filter(|parent| !parent.path.is_root());
            match parent.map(|parent| (kind(&parent), printable(parent.path.as_bytes()))) {
                Some((Err(missing), shown)) if missing.kind == ErrorKind::NotFound => {
                    told(format!("no such directory '{shown}'"))
                }
                Some((Ok(FileType::Regular), shown)) => told(format!("'{shown}' is not a directory")),
                _ => told(error.kind.text().to_owned()),
            }
        }
        // Only a directory that is not empty stays when something else is to take its name.
        ErrorKind::IsDirectory | ErrorKind::AlreadyExists if !keep && kind(target) == Ok(FileType::Directory) => {
            let name = printable(target.name().unwrap_or_default());
            let empty = if error.kind == ErrorKind::AlreadyExists { " that is not empty" } else { "" };
            told(format!("'{name}' is a directory{empty}\nhelp: write '{name}/' to move into it"))
        }
        ErrorKind::AlreadyExists => told(error.kind.text().to_owned()),
        _ => trouble(source, error),
    }
}
