//! The figures of the server, for the metrics and for the log.

use super::Server;
use crate::metrics::{ExportFigures, Figures};
use std::sync::atomic::Ordering;
use xdfs_io::dispatch::Dispatch;

impl Server {
    /// The figures of this moment.
    pub(super) fn figures(&mut self) -> Figures {
        let sum = |value: fn(&crate::sessions::SessionEntry) -> u64| self.sessions.running.values().map(value).sum();
        let exports = self.services.authority.now();
        let exports = exports.exports().iter().map(|export| ExportFigures {
            name: export.name().to_owned(),
            moved: export.load().traffic.read(),
            bandwidth: export.load().limit.rate(),
        });
        Figures {
            sessions: self.sessions.running.len() as u64,
            channels: sum(|entry| entry.context.metrics.channels.load(Ordering::Relaxed)),
            opening: self.logins.pending.len() as u64,
            operations: sum(|entry| entry.context.metrics.live.load(Ordering::Relaxed)),
            pipeline_threads: sum(|entry| entry.running().count() as u64),
            totals: self.totals,
            exports: exports.collect(),
            limits_hit: self.logins.admission.drops().all(),
        }
    }

    /// Sessions, threads, memory and rates, one line each (SRV-54).
    pub(super) fn status_lines(&mut self) -> Vec<String> {
        let now = self.dispatch.now();
        let threads: usize = self.sessions.running.values().map(|entry| entry.running().count()).sum();
        let memory = xdfs_io::host::resident_bytes().map_or_else(|| "?".into(), |bytes| format!("{} KiB", bytes >> 10));
        let mut lines = vec![format!(
            "status: {} session(s), {} connection(s) opening, {threads} pipeline thread(s), {} thread(s) in all, {memory} resident",
            self.sessions.running.len(),
            self.logins.pending.len(),
            xdfs_io::host::threads().map_or_else(|| "?".into(), |count| count.to_string()),
        )];
        let drops: Vec<String> =
            self.logins.admission.drops().all().into_iter().map(|(name, count)| format!("{name} {count}")).collect();
        if !drops.is_empty() {
            lines.push(format!("limits that have bitten: {}", drops.join(", ")));
        }
        for (id, entry) in &self.sessions.running {
            let moved = entry.context.metrics.traffic.read();
            let bytes = moved.received + moved.sent;
            let seconds = now.since(entry.terms.opened).as_secs_f64().max(1e-9);
            lines.push(format!(
                "session {id} of {}: {} channel(s), {} running pipeline(s), {} operation(s) done, {bytes} bytes, {:.1} MB/s since it was opened",
                entry.terms.peer,
                entry.terms.channels,
                entry.running().count(),
                entry.context.metrics.operations.load(Ordering::Relaxed),
                bytes as f64 / seconds / 1e6,
            ));
        }
        lines
    }
}
