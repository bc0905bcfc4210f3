//! A tree copy meets its server here: over a session of xdfs, or over sessions of FTP.

use std::sync::Arc;

use xdfs_client::tree::{Download, Ended, Observer, Summary, Total, Upload};
use xdfs_client::{Error, ErrorKind, Level, Session};
use xdfs_io::store::LocalStore;

use super::super::failure::Failed;
use crate::cmd::ftp::{FtpRemote, FtpServers};
use crate::cmd::remote::Sessions;
use crate::exit::Failure;
use crate::plan::Options;
use crate::url::Url;

/// The server of a tree copy.
pub(super) enum TreeServer<'s> {
    /// A session with an xdfs server.
    Session(&'s Session),
    /// Sessions with an FTP server.
    Ftp(FtpRemote),
}

impl<'s> TreeServer<'s> {
    /// What reaches the server of a URL, and whether its session is new. `local` is the other end of the
    /// tree, and of an FTP server `options` say how many sessions it gets at most.
    pub(super) fn open(
        (sessions, ftp): (&'s mut Sessions, &mut FtpServers),
        server: &Url,
        (local, options): (&LocalStore, &Options),
    ) -> Result<(Self, bool), (Failure, ErrorKind)> {
        match server.is_ftp() {
            true => ftp.remote(server, local, options).map(|remote| (Self::Ftp(remote), false)),
            false => sessions.with(server).map(|(session, new)| (Self::Session(session), new)),
        }
    }

    /// How it moved a tree.
    pub(super) fn facts(&self) -> LinkFacts {
        match self {
            Self::Session(session) => {
                LinkFacts { channels: session.facts().channels, level: session.facts().level, in_place: false }
            }
            Self::Ftp(remote) => LinkFacts {
                channels: remote.sessions(),
                level: remote.level(),
                in_place: remote.has_written_in_place(),
            },
        }
    }
}

/// How a link moved a tree.
pub(super) struct LinkFacts {
    pub(super) channels: u16,
    /// How the data are protected.
    pub(super) level: Level,
    /// Files were written under their final names, since the server takes no other.
    pub(super) in_place: bool,
}

/// One direction of a tree copy, over consecutive sessions.
pub(super) trait DirectionRun {
    /// Counts the source beside the copy.
    fn count_into(&mut self, total: Arc<Total>);

    fn run(&mut self, link: &mut TreeServer<'_>, observer: &mut dyn Observer) -> Ended;

    /// What was done over all sessions so far.
    fn summary(&self) -> Summary;

    /// Why nothing of the tree can be copied.
    fn refused(&self, target: &str, error: Error) -> Failed;
}

impl DirectionRun for Upload {
    fn count_into(&mut self, total: Arc<Total>) {
        self.count_into(total);
    }

    fn run(&mut self, link: &mut TreeServer<'_>, observer: &mut dyn Observer) -> Ended {
        match link {
            TreeServer::Session(session) => self.run(session, observer),
            TreeServer::Ftp(remote) => self.run_over(remote, observer),
        }
    }

    fn summary(&self) -> Summary {
        self.summary()
    }

    fn refused(&self, target: &str, error: Error) -> Failed {
        Failed::of_peer(target, error)
    }
}

impl DirectionRun for Download {
    fn count_into(&mut self, total: Arc<Total>) {
        self.count_into(total);
    }

    fn run(&mut self, link: &mut TreeServer<'_>, observer: &mut dyn Observer) -> Ended {
        match link {
            TreeServer::Session(session) => self.run(session, observer),
            TreeServer::Ftp(remote) => self.run_over(remote, observer),
        }
    }

    fn summary(&self) -> Summary {
        self.summary()
    }

    fn refused(&self, target: &str, error: Error) -> Failed {
        Failed::of_local(target, error)
    }
}
