//! Hidden names that clients left behind (P-101): removed by a thread of their own, since storage may take
//! as long as it likes.

use super::Server;
use crate::files::hidden::kept;
use crate::log::LogEvent;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Server {
    /// Removes the hidden names whose sessions have been over for a time.
    pub(super) fn remove_hidden(&self) {
        // There is nothing to remove, or another removal runs.
        let Some(removal) =
            self.services.files.begin_removal(kept(self.config.limits.lease), std::time::Instant::now())
        else {
            return;
        };
        let (authority, log) = (self.services.authority.now(), Arc::clone(&self.config.log));
        let work = move || {
            let mut removed = BTreeMap::<String, usize>::new();
            for (name, hidden) in removal.names() {
                let export = name.split(|byte| *byte == b'/').next().unwrap_or_default();
                if removal.remove(&authority, name, hidden).is_ok() {
                    *removed.entry(export.escape_ascii().to_string()).or_default() += 1;
                }
            }
            for (export, count) in removed {
                let text =
                    format!("removed {count} file(s) that clients had removed while they had them open, and left");
                log(&LogEvent::Notice { export, text });
            }
        };
        // If the thread cannot start the names stay, as they do when the server is killed.
        let _ = std::thread::Builder::new().name("xdfs-hidden".into()).spawn(work);
    }
}
