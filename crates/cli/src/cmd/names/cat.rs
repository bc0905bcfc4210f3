//! `xdfs cat`: a download to standard output.

use super::{Done, trouble, wire_name};
use crate::url::Url;
use xdfs_client::{GetOptions, Session, Target};

pub(super) fn run(session: &Session, url: &Url) -> Done {
    let transfer = session.get(wire_name(url), Target::standard_output(), &GetOptions::default());
    transfer.and_then(xdfs_client::Transfer::wait).map(drop).map_err(|error| trouble(url, &error))
}
