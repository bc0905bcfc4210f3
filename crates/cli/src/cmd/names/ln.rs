//! `xdfs ln`.

use super::{Done, did, trouble, wire_name};
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::Session;

pub(super) fn hard(plan: &NamesPlan, session: &Session, url: &Url, of: &Url) -> Done {
    let linked = session.link(&url.export, of.path.as_bytes(), url.path.as_bytes());
    linked.map_err(|error| trouble(url, &error))?;
    did(plan, "ln", url)
}

pub(super) fn symbolic(plan: &NamesPlan, session: &Session, url: &Url, text: &[u8]) -> Done {
    session.symlink(wire_name(url), text).map_err(|error| trouble(url, &error))?;
    did(plan, "ln", url)
}
