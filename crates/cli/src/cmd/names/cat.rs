//! `xdfs cat`: a download to standard output.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Done, NameError, trouble, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::reader_is_gone;
use crate::url::Url;
use xdfs_client::{ErrorKind, GetOptions, Session, Target, Transfer};
use xdfs_io::store::Stage;

pub(super) fn run(session: &Session, url: &Url) -> Done {
    let began = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&began);
    let target = Target::stage(move |_, _| {
        begins.store(true, Ordering::Release);
        Stage::standard_output()
    });
    let transfer = session.get(wire_name(url), target, &GetOptions::default());
    let Err(error) = transfer.and_then(Transfer::wait) else { return Ok(()) };
    if !began.load(Ordering::Acquire) {
        return Err(trouble(url, &error));
    }
    // The reader needs no more, neither of this file nor of the following ones.
    if reader_is_gone() {
        return Err(NameError::Output(Failure::new(Exit::Done, "")));
    }
    match Exit::of_error(&error, Side::Here) {
        Exit::LocalStorage if !matches!(error.kind, ErrorKind::SourceChanged | ErrorKind::OutOfRange) => Err(
            NameError::Output(Failure::new(Exit::LocalStorage, format!("cannot write to standard output: {error}"))),
        ),
        _ => Err(trouble(url, &error)),
    }
}
