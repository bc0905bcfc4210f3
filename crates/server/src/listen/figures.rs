//! The figures of the server, for the metrics.

use super::Server;
use crate::metrics::{ExportFigures, Figures};
use crate::sessions::PipelineState;
use std::sync::atomic::Ordering;

impl Server {
    /// The figures of this moment.
    pub(super) fn figures(&mut self) -> Figures {
        let sum = |value: fn(&crate::sessions::SessionEntry) -> u64| self.sessions.values().map(value).sum();
        let exports = self.services.authority.now();
        let exports = exports.exports().iter().map(|export| ExportFigures {
            name: export.name().to_owned(),
            moved: export.load().traffic.read(),
            bandwidth: export.load().limit.rate(),
        });
        Figures {
            sessions: self.sessions.len() as u64,
            channels: sum(|entry| entry.context.metrics.channels.load(Ordering::Relaxed)),
            opening: self.guests.len() as u64,
            operations: sum(|entry| entry.context.metrics.live.load(Ordering::Relaxed)),
            pipeline_threads: sum(|entry| {
                entry.pipes.iter().filter(|pipe| matches!(pipe, PipelineState::Running(_))).count() as u64
            }),
            totals: self.totals,
            exports: exports.collect(),
            limits_hit: self.admission.drops().all(),
        }
    }
}
