//! `xdfs mkdir`.

use super::{Done, did, trouble, wire_name};
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::Session;

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (parents, mode): (bool, u32)) -> Done {
    session.make_directory(wire_name(url), mode, parents).map_err(|error| trouble(url, &error))?;
    did(plan, "mkdir", url)
}
