//! Settings of a server that stay as they are until its next start, and whether it could start with them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::Access;
use rustix::io::Errno;
use xdfs_server::audit::OnFailure;
use xdfs_server::config::{Audit, Confinement, Settings};
use xdfs_server::metrics::MetricsPlace;

use super::paths::folder_of;
use crate::exit::{Exit, Failure};
use crate::plan::ServePlan;
use crate::state;
use crate::text::printable_path;

/// Settings that a running server keeps, whatever its configuration says meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fixed {
    /// The listening address.
    pub(super) listen: SocketAddr,
    /// The drivers that channels pass through.
    pub(super) stack: Option<String>,
    /// The confinement of the process.
    pub(super) confinement: Confinement,
    /// The destination of events.
    pub(super) audit: Audit,
    pub(super) audit_failure: OnFailure,
    /// The folder of its key and its users.
    pub(super) state: PathBuf,
    /// Where the metrics are answered.
    pub(super) metrics: Option<MetricsPlace>,
}

impl Fixed {
    pub(super) fn of(plan: &ServePlan, settings: &Settings) -> Result<Self, Failure> {
        Ok(Self {
            listen: plan.listen.or(settings.listen).unwrap_or_else(|| *LISTEN),
            stack: plan.stack.clone().or_else(|| settings.stack.clone()),
            confinement: plan.confinement.unwrap_or(settings.confinement),
            audit: settings.log.audit.clone(),
            audit_failure: settings.log.audit_failure,
            state: state::folder(plan.state.as_deref().or(settings.state.as_deref()))?,
            metrics: plan.metrics.clone().or_else(|| settings.metrics.clone()),
        })
    }

    /// The keys that have another value in `wanted` and keep it until the next start: a process that
    /// takes over starts, with the sockets of this one.
    pub(super) fn unlike(&self, wanted: &Self, hands_over: bool) -> Vec<&'static str> {
        let both_answer = self.metrics.is_some() && wanted.metrics.is_some();
        let keys = [
            ("listen", self.listen != wanted.listen),
            ("stack", self.stack != wanted.stack),
            ("confinement", self.confinement != wanted.confinement),
            ("audit", self.audit != wanted.audit),
            ("audit-failure", self.audit_failure != wanted.audit_failure),
            ("state", self.state != wanted.state),
            ("metrics", self.metrics != wanted.metrics),
        ];
        let inherited = |key: &str| key == "listen" || (key == "metrics" && both_answer);
        let differ = keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key);
        differ.filter(|key| !hands_over || inherited(key)).collect()
    }
}

/// The default listening address: all addresses, since only users who may log in are admitted. Determined once, since a
/// confined process cannot make sockets.
static LISTEN: LazyLock<SocketAddr> = LazyLock::new(|| {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let has_ipv6 = UdpSocket::bind((any.ip(), 0)).is_ok();
    if has_ipv6 { any } else { SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)) }
});

/// The port of xdfs.
const PORT: u16 = 2799;

/// Whether a server could write where it writes at its start: its state, the audit log and the socket of the metrics.
pub(super) fn check_places(fixed: &Fixed) -> Result<(), Failure> {
    let refuse = |what: &str, path: &Path, errno: Errno, remedy: &str| {
        let error = std::io::Error::from(errno);
        Err(Failure::new(Exit::of_io(&error), format!("{what} {}: {error}", printable_path(path))).help(remedy))
    };
    // The first start puts its key there. Later nothing has to be written.
    let state = &fixed.state;
    let above = state.ancestors().find(|path| path.symlink_metadata().is_ok());
    if !state.join("host_key").exists()
        && let Err(errno) = may_add_to(above.unwrap_or(Path::new(".")))
    {
        return refuse("the state folder", state, errno, "name another one with --state DIR, or let it be written to");
    }
    if let Audit::File(path) = &fixed.audit {
        let may = if path.exists() { rustix::fs::access(path, Access::WRITE_OK) } else { may_add_to(&folder_of(path)) };
        // A directory that is missing is told with its line.
        if let Err(errno) = may.or_else(|errno| if errno == Errno::NOENT { Ok(()) } else { Err(errno) }) {
            return refuse("the audit log", path, errno, "name another file, or let this one be written to");
        }
    }
    if let Some(MetricsPlace::Unix(path)) = &fixed.metrics
        && let Err(errno) = may_add_to(&folder_of(path))
    {
        return refuse("the socket of the metrics", path, errno, "name another place, or make its directory");
    }
    Ok(())
}

/// Whether this process may make files in a directory.
fn may_add_to(directory: &Path) -> Result<(), Errno> {
    if directory.exists() && !directory.is_dir() {
        return Err(Errno::NOTDIR);
    }
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)
}
