//! `xdfs mkfifo`.

use super::{Done, did, trouble, wire_name};
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::Session;

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, mode: u32) -> Done {
    session.make_fifo(wire_name(url), mode).map_err(|error| trouble(url, &error))?;
    did(plan, "mkfifo", url)
}
