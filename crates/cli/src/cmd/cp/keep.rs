//! `-a` of a file that is copied alone.

use std::os::unix::ffi::OsStrExt;

use xdfs_client::Session;
use xdfs_client::tree::{Keep, Reduced, keep_down, keep_up};
use xdfs_io::store::{FileKind, LocalPlace};
use xdfs_proto::base::Error;

use super::items::{Download, Upload};
use super::monitor::FileOutcome;
use crate::cmd::remote::wire_name;
use crate::output::{CopyItem, Output, not_kept};
use crate::plan::Local;

/// Gives a file that was copied to a server what is to be kept of it.
pub(super) fn up(
    outcome: FileOutcome,
    session: &Session,
    pair: &Upload,
    (keep, output): (Keep, &mut dyn Output),
) -> Result<FileOutcome, Error> {
    if let (FileOutcome::Copied(item, _), Local::File(path)) = (&outcome, &pair.source)
        && keep != Keep::default()
    {
        let place = LocalPlace::of(path.as_os_str().as_bytes())?;
        if place.existing == Some(FileKind::Regular) {
            let reduced = keep_up(session, (&place.store, &place.name), &wire_name(&pair.target), keep)?;
            say(&reduced, item, output);
        }
    }
    Ok(outcome)
}

/// Gives a file that was copied from a server what is to be kept of it.
pub(super) fn down(
    outcome: FileOutcome,
    session: &Session,
    (pair, place): (&Download, Option<&LocalPlace>),
    (keep, output): (Keep, &mut dyn Output),
) -> Result<FileOutcome, Error> {
    if let (FileOutcome::Copied(item, _), Some(place)) = (&outcome, place)
        && keep != Keep::default()
        && place.existing != Some(FileKind::Other)
    {
        let reduced = keep_down(session, &wire_name(&pair.source), (&place.store, &place.name), keep)?;
        say(&reduced, item, output);
    }
    Ok(outcome)
}

fn say(reduced: &Reduced, item: &CopyItem, output: &mut dyn Output) {
    if reduced.count > 0 {
        output.note(&not_kept(item.target.shown(), reduced.count, reduced.kinds, true));
    }
}
