//! `xdfs touch`: sets times, and makes a missing file.

use super::{Done, did, trouble, wire_name};
use crate::plan::NamesPlan;
use crate::url::Url;
use xdfs_client::wire::{Call, NewTime, Put};
use xdfs_client::{Batch, ErrorKind, Session, failed};
use xdfs_proto::base::Timestamp;

type Time = Option<Timestamp>;

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (create, time): (bool, Time)) -> Done {
    let new = Some(time.map_or(NewTime::Now, NewTime::At));
    let set = || session.set_times(wire_name(url), new, new);
    match set() {
        Ok(()) => {}
        Err(error) if error.kind == ErrorKind::NotFound => {
            if create {
                let made = make(session, url).and_then(|()| if time.is_some() { set() } else { Ok(()) });
                made.map_err(|error| trouble(url, &error))?;
            }
        }
        Err(error) => return Err(trouble(url, &error)),
    }
    did(plan, "touch", url)
}

fn make(session: &Session, url: &Url) -> Result<(), xdfs_client::Error> {
    let mut batch = Batch::new(wire_name(url));
    let (mode, modified, hash) = (0o666, None, None);
    let (path, content) = (b"".as_slice(), b"".as_slice());
    let put = Put { path, keep_existing: true, parents: false, mode, modified, holes: false, hash, content };
    batch.push(&Call::Put(put));
    let reply = session.call(&batch)?.wait()?;
    match reply.read()?.outcomes.first() {
        // Another process made it meanwhile: its times are new.
        Some(Err(failure)) if failure.kind != ErrorKind::AlreadyExists => Err(failed(*failure, &url.to_string())),
        _ => Ok(()),
    }
}
