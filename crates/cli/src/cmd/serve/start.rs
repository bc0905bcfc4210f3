//! Obstacles that keep a server from starting although its configuration is valid.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::Access;
use rustix::io::Errno;
use xdfs_io::store::LocalPlace;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_server::config::Audit;
use xdfs_server::metrics::MetricsPlace;
use xdfs_server::privilege::Needs;

use super::offer::{Fixed, ServerOffer, folder_of};
use crate::exit::{Exit, Failure};
use crate::output::complain;
use crate::plan::{ExportPlan, Root, ServePlan};
use crate::text::printable_path;

/// Whether this process may enter every directory that it offers. A directory can be opened without
/// that permission, but nothing in it.
pub(super) fn check_entry(plan: &ServePlan, needs: &Needs) -> Result<(), Failure> {
    for path in needs.readable.iter().chain(&needs.writable) {
        // The path to a directory's own '.' leads through it.
        let inside = LocalPlace::of(path.join(".").as_os_str().as_bytes());
        if !inside.is_err_and(|error| error.kind == ErrorKind::PermissionDenied) {
            continue;
        }
        let of_path = |export: &&ExportPlan| matches!(&export.root, Root::Directory(root) if root == path);
        let name =
            plan.exports.iter().find(of_path).map_or(String::new(), |export| format!("--export {}=", export.name));
        let message = format!("{name}{}: permission denied", printable_path(path));
        let remedy = "offer a directory that the user of the server may enter, such as one below /srv, or run the server as the \
                      owner of this one";
        return Err(Failure::new(Exit::PermissionDenied, message).help(remedy));
    }
    Ok(())
}

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

/// Reports that the limit of open files allows fewer channels than a session may have.
pub(super) fn tell_channels(offer: &ServerOffer, limit: u64) {
    let channels = offer.limits.channels;
    if usize::from(offer.policy.channels_max) > channels {
        let remedy = "raise it with 'ulimit -Hn' or LimitNOFILE=";
        let text =
            format!("all sessions together get at most {channels} channels: {limit} files may be open; {remedy}");
        complain(&text);
    }
}

/// The kernel refused the address; reported once, with the option that selects another.
pub(super) fn cannot_listen(listen: SocketAddr, error: &Error) -> Failure {
    let of_address = [Errno::ADDRINUSE, Errno::ADDRNOTAVAIL, Errno::ACCESS].map(std::io::Error::from);
    let failure = |message: String| Failure::new(Exit::ConnectionLost, message);
    match of_address.iter().find(|answer| error.message.ends_with(&answer.to_string())) {
        Some(answer) => failure(format!("cannot listen on {listen}: {answer}"))
            .help("name another address with --listen ADDR:PORT (port 0 takes a free one)"),
        None => failure(error.to_string()),
    }
}
