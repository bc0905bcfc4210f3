//! `-a` of a file that is copied alone.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xdfs_client::Session;
use xdfs_client::tree::{Keep, Reduced, keep_down, keep_up};
use xdfs_io::store::{FileKind, LocalPlace};
use xdfs_proto::base::Error;

use crate::cmd::remote::wire_name;
use crate::output::{CopyItem, Output, not_kept};
use crate::url::Url;

/// Gives a file of the server what is to be kept of a local one.
pub(super) fn up(
    session: &Session,
    source: &Path,
    (target, item): (&Url, &CopyItem),
    keep: Keep,
    output: &mut dyn Output,
) -> Result<(), Error> {
    if keep == Keep::default() {
        return Ok(());
    }
    let place = LocalPlace::of(source.as_os_str().as_bytes())?;
    if place.existing == Some(FileKind::Regular) {
        let reduced = keep_up(session, (&place.store, &place.name), &wire_name(target), keep)?;
        say(&reduced, item, output);
    }
    Ok(())
}

/// Gives a local file what is to be kept of one of the server.
pub(super) fn down(
    session: &Session,
    source: &Url,
    (place, item): (&LocalPlace, &CopyItem),
    keep: Keep,
    output: &mut dyn Output,
) -> Result<(), Error> {
    if keep != Keep::default() && place.existing != Some(FileKind::Other) {
        let reduced = keep_down(session, &wire_name(source), (&place.store, &place.name), keep)?;
        say(&reduced, item, output);
    }
    Ok(())
}

fn say(reduced: &Reduced, item: &CopyItem, output: &mut dyn Output) {
    if reduced.count > 0 {
        output.note(&not_kept(item.target.shown(), reduced.count, reduced.kinds, true));
    }
}
