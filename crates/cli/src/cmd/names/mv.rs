//! `xdfs mv`: within one export, in one step.

use super::{Done, did, trouble};
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::Session;

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (target, keep): (&Url, bool)) -> Done {
    let renamed = session.rename(&url.export, url.path.as_bytes(), target.path.as_bytes(), keep);
    renamed.map_err(|error| trouble(url, &error))?;
    did(plan, "mv", url)
}
