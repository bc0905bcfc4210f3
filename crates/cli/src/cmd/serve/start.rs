//! Obstacles that keep a server from starting although its configuration is valid.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use xdfs_io::store::LocalPlace;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_server::privilege::Needs;

use super::offer::ServerOffer;
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
