//! What earlier servers left, searched for once when a server starts: counted, logged, and removed
//! if it is too old.

use crate::authorise::Export;
use crate::log::{Log, LogEvent};
use std::time::{SystemTime, UNIX_EPOCH};
use xdfs_io::store::{Recovered, expired_before};

/// Searches every export, on a thread of its own, so that a large tree delays nothing.
pub(crate) fn start(exports: Vec<Export>, log: Log) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let expired = expired_before(now);
    let work = move || {
        let mut found = Recovered::default();
        exports.iter().for_each(|export| found += export.recover(expired));
        log(&LogEvent::Recovered {
            parts: found.parts,
            bytes: found.bytes,
            others: found.others,
            expired: found.expired,
        });
    };
    // If the thread cannot start nothing is lost: the next start searches again.
    let _ = std::thread::Builder::new().name("xdfs-recovery".into()).spawn(work);
}
