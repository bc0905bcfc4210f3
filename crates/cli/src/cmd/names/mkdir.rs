//! `xdfs mkdir`.

use super::{Done, NameError, did, trouble, wire_name};
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::{ErrorKind, Session};

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (parents, mode): (bool, u32)) -> Done {
    session.make_directory(wire_name(url), mode, parents).map_err(|error| {
        match (error.kind, trouble(url, &error)) {
            (ErrorKind::NotFound, NameError::Told(failure, kind)) if !parents && error.errno != 0 => {
                NameError::Told(failure.help("-p makes the directories above it too"), kind)
            }
            (_, trouble) => trouble,
        }
    })?;
    did(plan, "mkdir", url)
}
