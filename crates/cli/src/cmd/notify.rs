//! Notifies systemd that the server is ready or stopping, if requested (`Type=notify`,
//! NOTIFY_SOCKET).
//!
//! A confined server cannot make sockets: [`prepare`] is called before that.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

/// Ready for clients.
pub(super) const READY: &str = "READY=1";
/// The running transfers are finishing.
pub(super) const STOPPING: &str = "STOPPING=1";

/// The socket for notifications; `None` if it could not be made.
static OUT: OnceLock<Option<UnixDatagram>> = OnceLock::new();

fn out() -> Option<&'static UnixDatagram> {
    OUT.get_or_init(|| UnixDatagram::unbound().ok()).as_ref()
}

/// Makes the socket that [`notify`] needs, if notifications are requested.
pub(super) fn prepare() {
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        out();
    }
}

/// Sends `state` if requested. If the supervisor does not listen, this is logged once.
pub(super) fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        crate::output::complain(&format!("the service manager could not be told {state}: {error}"));
    }
}

fn send(socket: &OsStr, state: &str) -> std::io::Result<()> {
    // A name that starts with '@' is an abstract one, with a NUL in that place.
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    out().ok_or(std::io::ErrorKind::NotConnected)?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_reaches_a_socket_of_either_kind() {
        let name = format!("xdfs-notify-{}", std::process::id());
        let receive = |socket: UnixDatagram, address: &OsStr| {
            send(address, READY).unwrap();
            let mut bytes = [0; 32];
            let count = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"READY=1");
        };
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        receive(UnixDatagram::bind_addr(&abstract_address).unwrap(), OsStr::new(&format!("@{name}")));
        let path = std::env::temp_dir().join(&name);
        receive(UnixDatagram::bind(&path).unwrap(), path.as_os_str());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nobody_there_is_an_error_and_no_hang() {
        assert!(send(OsStr::new("/nonexistent/notify"), READY).is_err());
    }
}
