//! Whether another process can take over from this one, or has done so.

use std::os::fd::OwnedFd;
use std::path::Path;

use xdfs_server::Server;
use xdfs_server::config::Confinement;

use super::fixed::Fixed;
use super::local;
use super::standby::Standby;
use crate::exit::Failure;
use crate::plan::ServePlan;
use crate::signal::{Notifier, Signals};

/// Whether another process can take over.
pub(super) enum HandOver {
    /// It waits.
    Ready {
        /// The process.
        standby: Standby,
        /// A duplicate of the listening socket, for that process.
        socket: OwnedFd,
        /// Asks this process for a reload.
        reloaded: Notifier,
        /// Asks this process for its end.
        ended: Notifier,
    },
    /// None waits: none was needed, the one there was could not take over, or the server ends.
    Impossible,
    /// Another process serves: here are only the sessions that stayed, and what it reads again holds
    /// for them.
    Done,
}

impl HandOver {
    /// Starts the process that waits to take over, if a reload may need one.
    pub(super) fn prepare(
        plan: &ServePlan,
        fixed: &Fixed,
        server: &Server,
        signals: &Signals,
    ) -> Result<Self, Failure> {
        if plan.config.is_none() || fixed.confinement == Confinement::Off {
            return Ok(Self::Impossible);
        }
        let listening = server.listening_socket();
        let socket = listening.map_err(|error| local("the socket for the process that waits", &error))?;
        let standby = Standby::start().map_err(|error| {
            let failure = local("the process that waits to take over", &error);
            if Path::new("/proc/self").exists() {
                failure
            } else {
                failure.help("it needs /proc: mount -t proc proc /proc")
            }
        })?;
        let (reloaded, ended) = signals.reload_and_end()?;
        Ok(Self::Ready { standby, socket, reloaded, ended })
    }

    /// Whether another process has taken over.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}
