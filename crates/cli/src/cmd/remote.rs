//! Sessions with the servers that a command names: one per server, opened when first needed.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType};
use xdfs_client::file::Remote;
use xdfs_client::pool::{Opened, SessionPool};
use xdfs_client::{ConnectOptions, Error, ErrorKind, GetOptions, Session, Target, Transfer};

use super::connect::SessionRequest;
use super::login::TypedSecrets;
use super::ssh::Tunnel;
use super::{connect, ssh};
use crate::exit::{Exit, Failure};
use crate::output::complain;
use crate::plan::LoginPlan;
use crate::text::shell_word;
use crate::url::{Host, Url, Via};

/// The sessions of a command.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The request to each server.
    wishes: SessionRequest,
    /// The login.
    login: LoginPlan,
    typed: TypedSecrets,
    /// Those that serve several files. If ssh started the server, they move through it.
    pool: SessionPool<Server, Option<Tunnel>, (Failure, ErrorKind)>,
}

/// Whom a session serves: the same server under the same key, for the same user (T31: permissions of
/// another user, or answers of another server, are never reused).
#[derive(Clone, PartialEq, Debug)]
struct Server {
    via: Via,
    host: Host,
    port: u16,
    user: Option<String>,
    key: Option<String>,
}

impl From<&Url> for Server {
    fn from(url: &Url) -> Self {
        Self { via: url.via, host: url.host.clone(), port: url.port, user: url.user.clone(), key: url.key.clone() }
    }
}

impl Sessions {
    pub(crate) fn new(wishes: SessionRequest, login: LoginPlan) -> Self {
        Self { wishes, login, typed: TypedSecrets::default(), pool: SessionPool::default() }
    }

    /// The session with a URL's server; the second value is true if it was opened by this call.
    pub(super) fn with(&mut self, url: &Url) -> Result<(&Session, bool), (Failure, ErrorKind)> {
        let (wishes, login, typed) = (&self.wishes, &self.login, &self.typed);
        let (session, first) = self.pool.with(url.into(), || {
            let (session, tunnel) = connect_by(url, wishes, (login, typed), &Session::connect)?;
            Ok(Opened { session, tunnel, first: () })
        })?;
        Ok((session, first.is_some()))
    }

    /// A session of the caller's own with a URL's server, and what it moves through.
    pub(super) fn own(&self, url: &Url) -> connect::ConnectResult<(Session, Option<Tunnel>)> {
        self.connect(url, &Session::connect)
    }

    /// The same with one channel: for what has an order.
    pub(super) fn own_narrow(&self, url: &Url) -> connect::ConnectResult<(Session, Option<Tunnel>)> {
        self.connect(url, &|options| Session::connect(&ConnectOptions { channels: 1, ..options.clone() }))
    }

    /// A server whose open files survive the loss of their session, which is waited for so long. Over
    /// ssh they do not: the session cannot be made again.
    pub(crate) fn lasting(
        &self,
        url: &Url,
        patience: Duration,
    ) -> connect::ConnectResult<(Arc<Remote>, Option<Tunnel>)> {
        self.connect(url, &|options| Remote::connect(options, patience))
    }

    /// Requests a download from a URL's server. If a session is opened for it, its opening carries
    /// the request, which brings the first bytes a round trip earlier; `target` is called once for
    /// each connection.
    pub(super) fn get(
        &mut self,
        url: &Url,
        target: &dyn Fn() -> Target,
        options: &GetOptions,
    ) -> connect::ConnectResult<(&Session, bool, Result<Transfer, Error>)> {
        let name = wire_name(url);
        let (wishes, login, typed) = (&self.wishes, &self.login, &self.typed);
        let (session, first) = self.pool.with(url.into(), || {
            let open = |connect: &ConnectOptions| Session::connect_and_get(connect, &name, target(), options);
            let ((session, first), tunnel) = connect_by(url, wishes, (login, typed), &open)?;
            Ok(Opened { session, tunnel, first })
        })?;
        let (new, transfer) = match first {
            Some(transfer) => (true, Ok(transfer)),
            None => (false, session.get(name, target(), options)),
        };
        Ok((session, new, transfer))
    }

    fn connect<T>(&self, url: &Url, open: connect::OpenFn<'_, T>) -> connect::ConnectResult<(T, Option<Tunnel>)> {
        connect_by(url, &self.wishes, (&self.login, &self.typed), open)
    }

    /// Forgets the session with a URL's server: it was lost, and the next file may find another.
    pub(super) fn forget(&mut self, url: &Url) {
        self.pool.forget(&url.into());
    }

    /// Ends every session, but waits for none that does not end in time: a stop was requested.
    pub(super) fn leave(self) {
        self.pool.close();
    }

    /// Closes every session in order. What was moved is safe by then, so a connection that breaks
    /// here is no failure, and a server that does not end its part is not waited for longer than a moment.
    pub(super) fn close(self) {
        for (session, tunnel) in self.pool.open() {
            let (joined, failure) = (session.joined(), session.join_failure());
            if let Some(note) = tunnel.as_ref().and_then(|tunnel| tunnel.note(joined, failure.as_ref())) {
                complain(&note);
            }
        }
        self.pool.close();
    }
}

/// Connects to a URL's server, in the way that the URL names.
fn connect_by<T>(
    url: &Url,
    wishes: &SessionRequest,
    (login, typed): (&LoginPlan, &TypedSecrets),
    open: connect::OpenFn<'_, T>,
) -> connect::ConnectResult<(T, Option<Tunnel>)> {
    match url.via {
        Via::Port => connect::connect(url, wishes, (login, typed), open).map(|opened| (opened, None)),
        Via::Ssh => {
            let (opened, tunnel) = ssh::connect(url, wishes, login, open)?;
            Ok((opened, Some(tunnel)))
        }
        // Each command has its own way there; what has none is refused by the plan.
        Via::Ftp(_) => {
            let failure = Failure::new(Exit::Usage, format!("{url}: this is not possible on an FTP server"));
            Err((failure, ErrorKind::Unsupported))
        }
    }
}

/// Refuses a congestion control that this machine does not have, by requesting it from the kernel
/// as a channel would: the kernel may load it for that.
pub(super) fn check_congestion(name: &str) -> Result<(), Failure> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let accepted = socket.and_then(|socket| set_tcp_congestion(&socket, name));
    accepted.map_err(|errno| {
        let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        let choice = if list.trim().is_empty() { String::new() } else { format!("; there are {}", list.trim()) };
        let reason = match errno {
            Errno::NOENT => "this machine does not have it".to_owned(),
            Errno::PERM => "it may not be used by everybody (tcp_allowed_congestion_control)".to_owned(),
            errno => std::io::Error::from(errno).to_string(),
        };
        Failure::new(Exit::Usage, format!("--congestion {name}: {reason}{choice}"))
    })
}

/// What to do where a server has no such export; `None` for any other error.
pub(super) fn remedy_without_export(url: &Url, error: &Error) -> Option<String> {
    // A file that is missing is told with the number of the system.
    let is_missing = error.kind == ErrorKind::NotFound && error.errno == 0 && error.message.starts_with("no export ");
    is_missing.then(|| format!("{} lists the exports that are open to you", list_exports(url, false)))
}

/// What to do where an export may only be read, or the file system below it.
pub(super) fn remedy_for_read_only(url: &Url, error: &Error) -> String {
    // The kernel's word comes with its number, and the export's without.
    if error.errno != 0 {
        return "the server's file system is mounted read-only there: whoever runs the server can change that"
            .to_owned();
    }
    format!("choose an export that may be written: {} shows the rights", list_exports(url, true))
}

/// The command that lists the exports of a URL's server, if wanted with one's rights.
pub(super) fn list_exports(url: &Url, with_rights: bool) -> String {
    let top = Url { export: String::new(), path: Default::default(), directory: true, pattern: None, ..url.clone() };
    format!("xdfs ls {}{}", if with_rights { "-l " } else { "" }, shell_word(&top.to_string()))
}

/// The name of a URL's file on the wire: `EXPORT/path`.
pub(crate) fn wire_name(url: &Url) -> Vec<u8> {
    let mut name = url.export.clone().into_bytes();
    if !url.path.is_root() {
        name.push(b'/');
        name.extend(url.path.as_bytes());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_congestion_control_is_checked_with_the_kernel() {
        assert_eq!(check_congestion("reno"), Ok(()));
        let refused = check_congestion("nosuch").unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.message.contains("nosuch") && refused.message.contains("reno"), "{}", refused.message);
    }

    #[test]
    fn a_name_on_the_wire_is_the_export_and_the_path_decoded() {
        for (url, name) in [
            ("xdfs://h/data/a%20b/c", &b"data/a b/c"[..]),
            ("xdfs://h/data", b"data"),
            ("xdfs://h/data/", b"data"),
            ("xdfs://h/data/%252F", b"data/%2F"),
        ] {
            assert_eq!(wire_name(&Url::parse(OsStr::new(url)).unwrap()), name, "{url}");
        }
    }

    #[test]
    fn b30_a_session_serves_its_own_server_key_and_user_and_nobody_else() {
        let url = |text: &str| Url::parse(OsStr::new(text)).unwrap();
        let key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
        let server = |text: &str| Server::from(&url(text));
        let opened = server(&format!("xdfs://ada@a.example:2799/data/x#{key}"));
        let other_file = format!("xdfs://ada@a.example/other/y#{key}");
        assert_eq!(server(&other_file), opened, "another file of the same server");
        for other in [
            format!("xdfs://bob@a.example/data/x#{key}"),
            format!("xdfs://a.example/data/x#{key}"),
            format!("xdfs://ada@b.example/data/x#{key}"),
            format!("xdfs://ada@a.example:2800/data/x#{key}"),
            format!("xdfs://ada@a.example/data/x#{}", key.replace("47DE", "57DE")),
            "xdfs://ada@a.example/data/x".to_owned(),
        ] {
            assert_ne!(server(&other), opened, "{other}");
        }
    }
}
