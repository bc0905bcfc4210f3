//! What earlier servers left, looked for once when a server starts: counted, told, and removed when it is too old.

use crate::authorise::Export;
use crate::log::{Log, LogEvent};
use std::time::{SystemTime, UNIX_EPOCH};
use xdfs_xio::store::{Recovered, expired_before};

/// Looks through every export, on a thread of its own: nobody waits for a large tree.
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
    // Without it nothing is lost: the next start looks again.
    let _ = std::thread::Builder::new().name("xdfs-recovery".into()).spawn(work);
}
