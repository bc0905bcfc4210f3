//! Sessions with the servers that a command names: one per server, opened when first needed.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType};
use xdfs_client::file::Remote;
use xdfs_client::{ConnectOptions, Error, ErrorKind, GetOptions, Session, Target, Transfer};

use super::connect::SessionRequest;
use super::login::TypedSecrets;
use super::ssh::Tunnel;
use super::{connect, ssh};
use crate::exit::{Exit, Failure};
use crate::output::complain;
use crate::plan::LoginPlan;
use crate::text::shell_word;
use crate::url::{Url, Via};

/// The sessions of a command.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The request to each server.
    wishes: SessionRequest,
    /// The login.
    login: LoginPlan,
    typed: TypedSecrets,
    servers: Vec<ServerSession>,
}

/// Time for the threads of a lost or abandoned session to end.
const LEAVE_DEADLINE: Duration = Duration::from_secs(3);

/// A silent server of a mount is taken for lost after this time at the least, and at the most.
const STALL_MIN: Duration = Duration::from_secs(2);
const STALL_MAX: Duration = Duration::from_secs(30);

/// A server, and the result of connecting to it. A failure is kept: it is not waited for again with
/// every file.
#[derive(Debug)]
struct ServerSession {
    /// The URL that it was opened for.
    url: Url,
    session: connect::ConnectResult,
    /// What it moves through, if ssh started the server. Behind the session, which ends first.
    tunnel: Option<Tunnel>,
}

impl ServerSession {
    /// Whether a session opened for one URL serves another: the same server under the same key, for
    /// the same user (T31: permissions of another user, or answers of another server, are never
    /// reused).
    fn serves(&self, url: &Url) -> bool {
        self.url.via == url.via
            && self.url.host == url.host
            && self.url.port == url.port
            && self.url.user == url.user
            && self.url.key == url.key
    }
}

impl Sessions {
    pub(crate) fn new(wishes: SessionRequest, login: LoginPlan) -> Self {
        Self { wishes, login, typed: TypedSecrets::default(), servers: Vec::new() }
    }

    /// The session with a URL's server; the second value is true if it was opened by this call.
    pub(super) fn with(&mut self, url: &Url) -> Result<(&Session, bool), (Failure, ErrorKind)> {
        let known = self.servers.iter().position(|server| server.serves(url));
        let index = known.unwrap_or_else(|| {
            let (session, tunnel) = unzip(self.connect(url, &Session::connect));
            self.servers.push(ServerSession { url: url.clone(), session, tunnel });
            self.servers.len() - 1
        });
        match &self.servers[index].session {
            Ok(session) => Ok((session, known.is_none())),
            Err(failure) => Err(failure.clone()),
        }
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
        // A server that does not answer is lost, and so is the next try, before the calls are given up.
        let soon = (patience / 2).clamp(STALL_MIN, STALL_MAX);
        let open = |options: &ConnectOptions| {
            let options = ConnectOptions { stall: Some(soon), ..options.clone() };
            Session::connect(&options).map(|session| (session, options))
        };
        let ((session, mut options), tunnel) = self.connect(url, &open)?;
        if tunnel.is_some() {
            return Ok((Remote::over(session), tunnel));
        }
        options.deadline = options.deadline.min(soon);
        Ok((Remote::continuing(session, options, patience), None))
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
        if self.servers.iter().any(|server| server.serves(url)) {
            let (session, new) = self.with(url)?;
            return Ok((session, new, session.get(name, target(), options)));
        }
        let open = |connect: &ConnectOptions| Session::connect_and_get(connect, &name, target(), options);
        let ((session, transfer), tunnel) = match self.connect(url, &open) {
            Ok(both) => both,
            Err(failure) => {
                self.servers.push(ServerSession { url: url.clone(), session: Err(failure.clone()), tunnel: None });
                return Err(failure);
            }
        };
        self.servers.push(ServerSession { url: url.clone(), session: Ok(session), tunnel });
        let (session, _) = self.with(url)?;
        Ok((session, true, Ok(transfer)))
    }

    /// Connects to a URL's server, in the way that the URL names.
    fn connect<T>(&self, url: &Url, open: connect::OpenFn<'_, T>) -> connect::ConnectResult<(T, Option<Tunnel>)> {
        match url.via {
            Via::Port => {
                connect::connect(url, &self.wishes, (&self.login, &self.typed), open).map(|opened| (opened, None))
            }
            Via::Ssh => {
                let (opened, tunnel) = ssh::connect(url, &self.wishes, &self.login, open)?;
                Ok((opened, Some(tunnel)))
            }
            // Each command has its own way there; what has none is refused by the plan.
            Via::Ftp(_) => {
                let failure = Failure::new(Exit::Usage, format!("{url}: this is not possible on an FTP server"));
                Err((failure, ErrorKind::Unsupported))
            }
        }
    }

    /// Forgets the session with a URL's server: it was lost, and the next file may find another.
    pub(super) fn forget(&mut self, url: &Url) {
        let (lost, kept) = std::mem::take(&mut self.servers).into_iter().partition(|server| server.serves(url));
        self.servers = kept;
        end_in_time(lost);
    }

    /// Ends every session, but waits for none that does not end in time: a stop was requested.
    pub(super) fn leave(self) {
        end_in_time(self.servers);
    }

    /// Closes every session in order. What was moved is safe by then, so a connection that breaks
    /// here is no failure, and a server that does not end its part is not waited for longer than a moment.
    pub(super) fn close(self) {
        for server in &self.servers {
            let Ok(session) = &server.session else { continue };
            let (joined, failure) = (session.joined(), session.join_failure());
            if let Some(note) = server.tunnel.as_ref().and_then(|tunnel| tunnel.note(joined, failure.as_ref())) {
                complain(&note);
            }
        }
        end_in_time(self.servers);
    }
}

/// Ends the threads of sessions, which remove local staging files or write checkpoints, and waits
/// for them.
fn end_in_time(servers: Vec<ServerSession>) {
    let (done, ended) = sync_channel(1);
    let end = move || {
        for server in servers {
            let _ = server.session.map(Session::close);
        }
        let _ = done.send(());
    };
    if std::thread::Builder::new().name("xdfs-leaving".to_owned()).spawn(end).is_ok() {
        let _ = ended.recv_timeout(LEAVE_DEADLINE);
    }
}

fn unzip<T>(opened: connect::ConnectResult<(T, Option<Tunnel>)>) -> (connect::ConnectResult<T>, Option<Tunnel>) {
    match opened {
        Ok((opened, tunnel)) => (Ok(opened), tunnel),
        Err(failure) => (Err(failure), None),
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

/// What to do where an export may only be read.
pub(super) fn remedy_for_read_only(url: &Url) -> String {
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
        let of = |text: String| ServerSession {
            url: url(&text),
            session: Err((Failure::new(Exit::Usage, String::new()), ErrorKind::Refused)),
            tunnel: None,
        };
        let opened = of(format!("xdfs://ada@a.example:2799/data/x#{key}"));
        assert!(opened.serves(&url(&format!("xdfs://ada@a.example/other/y#{key}"))), "another file of the same server");
        for other in [
            format!("xdfs://bob@a.example/data/x#{key}"),
            format!("xdfs://a.example/data/x#{key}"),
            format!("xdfs://ada@b.example/data/x#{key}"),
            format!("xdfs://ada@a.example:2800/data/x#{key}"),
            format!("xdfs://ada@a.example/data/x#{}", key.replace("47DE", "57DE")),
            "xdfs://ada@a.example/data/x".to_owned(),
        ] {
            assert!(!opened.serves(&url(&other)), "{other}");
        }
    }
}
