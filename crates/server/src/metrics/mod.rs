//! Metrics for Prometheus: figures of a running server, as text, on a socket of this machine.
//!
//! No label is chosen by a peer: exports are those of the configuration, everything else is a word of
//! this program. docs/metrics.md explains each metric, and a test compares it with [`METRICS`].

mod http;
mod place;
mod text;

pub use http::{HttpLimits, serve};
pub use place::{MetricsPlace, parse_place};

use crate::clock::seconds_now;
use crate::traffic::Moved;

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows, until the process is another one.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, help }
}

/// All metrics, in the order in which they are written.
pub const METRICS: [Metric; 17] = [
    gauge("xdfs_build_info", "Always 1; the label is the version of the program."),
    gauge("xdfs_start_time_seconds", "When the process started to serve, in seconds since 1970."),
    gauge("xdfs_sessions", "Sessions that are open."),
    gauge("xdfs_channels", "Channels of all open sessions."),
    gauge("xdfs_connections_opening", "Connections that are not a session or channel yet."),
    gauge("xdfs_operations_running", "Uploads, downloads and batches of calls in progress."),
    gauge("xdfs_pipeline_threads", "Threads that move data."),
    gauge("xdfs_threads", "Threads of the process."),
    gauge("xdfs_resident_memory_bytes", "Memory of the process."),
    counter("xdfs_sessions_total", "Sessions that were opened."),
    counter("xdfs_sessions_failed_total", "Sessions that ended with an error."),
    counter("xdfs_logins_failed_total", "Logins that failed."),
    counter("xdfs_connections_refused_total", "Connections that were refused or did not become a session."),
    counter("xdfs_limits_hit_total", "How often a limit was hit."),
    counter("xdfs_payload_bytes_total", "Bytes of files and calls that moved on an export."),
    counter("xdfs_operations_total", "Uploads, downloads and calls on an export that are over."),
    gauge("xdfs_bandwidth_limit_bytes", "Bytes per second that an export may move; 0 is no limit."),
];

/// The figures of a server at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    pub(crate) sessions: u64,
    pub(crate) channels: u64,
    pub(crate) opening: u64,
    pub(crate) operations: u64,
    pub(crate) pipeline_threads: u64,
    pub(crate) totals: Totals,
    pub(crate) limits_hit: Vec<(&'static str, u64)>,
    pub(crate) exports: Vec<ExportFigures>,
}

/// What happened since the server started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    /// In seconds since 1970.
    pub started: u64,
    pub sessions: u64,
    pub sessions_failed: u64,
    pub logins_failed: u64,
    pub refused: u64,
}

impl Totals {
    /// Those of a server that starts now.
    pub fn starting() -> Self {
        Self { started: seconds_now(), ..Self::default() }
    }
}

/// The figures of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExportFigures {
    pub name: String,
    pub moved: Moved,
    pub bandwidth: u64,
}
