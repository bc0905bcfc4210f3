//! What is searched: a session with two pipelines, and the faults around its storage, each with a budget.

use crate::setting::{Plan, Setting};

/// The bounds of the search: two pipelines and a budget of storage faults.
#[derive(Clone, Debug)]
pub struct Restarts {
    /// For reports.
    pub name: &'static str,
    /// The session of every attempt; its faults are those of the first.
    pub session: Setting,
    /// Attempts in all.
    pub attempts: u8,
    /// Restarts of the receiver: a kill, or a power cut.
    pub restarts: u8,
    /// Markers.
    pub markers: u8,
    /// Syncs that may fail.
    pub sync_faults: u8,
    /// Times that somebody else replaces the target.
    pub others: u8,
    /// The store gives a name only where the target is what it was.
    pub store_compares: bool,
    /// The store knows a file that has its name already.
    pub store_remembers: bool,
}

const UPLOAD: &[Plan] = &[Plan::upload(2)];
const DOWNLOAD: &[Plan] = &[Plan::download(2)];

const fn session(name: &'static str, plans: &'static [Plan]) -> Setting {
    Setting { pipelines: 2, resumes: true, hash: true, ..Setting::plain(name, plans) }
}

const fn plain(name: &'static str, plans: &'static [Plan]) -> Restarts {
    Restarts {
        name,
        session: session(name, plans),
        attempts: 2,
        restarts: 1,
        markers: 1,
        sync_faults: 0,
        others: 0,
        store_compares: true,
        store_remembers: true,
    }
}

const UPLOAD_3: &[Plan] = &[Plan::upload(3)];
const DOWNLOAD_3: &[Plan] = &[Plan::download(3)];

/// The server restarts in an upload.
pub const UPLOAD_RESTART: Restarts = plain("upload, restart", UPLOAD);
/// The client restarts in a download.
pub const DOWNLOAD_RESTART: Restarts = plain("download, restart", DOWNLOAD);
/// Syncs fail, and the user tries again.
pub const UPLOAD_SYNCS: Restarts = Restarts { sync_faults: 1, ..plain("upload, restart, syncs fail", UPLOAD) };
/// Somebody else writes the target.
pub const UPLOAD_OTHERS: Restarts = Restarts { others: 1, ..plain("upload, restart, others", UPLOAD) };
/// Channels break, a block becomes another one, and the receiver restarts.
pub const UPLOAD_LOSSES: Restarts = Restarts {
    session: Setting { breaks: 1, flips: 1, ..session("upload, restart, losses", UPLOAD) },
    ..plain("upload, restart, losses", UPLOAD)
};

const DOWNLOAD_LOSSES: Restarts = Restarts {
    session: Setting { breaks: 1, cancels: 1, ..session("download, restart, losses", DOWNLOAD) },
    ..plain("download, restart, losses", DOWNLOAD)
};
/// Two restarts, three blocks.
const UPLOAD_TWICE: Restarts =
    Restarts { restarts: 2, attempts: 3, markers: 2, ..plain("upload, 2 restarts", UPLOAD_3) };
const DOWNLOAD_TWICE: Restarts =
    Restarts { restarts: 2, attempts: 3, markers: 2, ..plain("download, 2 restarts", DOWNLOAD_3) };

/// Searched in every run of the tests.
pub const USUAL: &[Restarts] = &[
    UPLOAD_RESTART,
    DOWNLOAD_RESTART,
    UPLOAD_SYNCS,
    UPLOAD_OTHERS,
    UPLOAD_LOSSES,
    DOWNLOAD_LOSSES,
    UPLOAD_TWICE,
    DOWNLOAD_TWICE,
];

/// Searched by command: minutes.
pub const LARGE: &[Restarts] = &[
    Restarts { sync_faults: 1, ..DOWNLOAD_LOSSES },
    Restarts { sync_faults: 1, others: 1, ..UPLOAD_LOSSES },
    Restarts { sync_faults: 1, others: 1, ..UPLOAD_TWICE },
    Restarts { sync_faults: 1, others: 1, ..DOWNLOAD_TWICE },
];
