//! From a URL to a session, for programs that are no command and link this library: the Python package
//! (`bindings/python`). Servers, keys and settings are found in the same places as by the command.
//!
//! Nobody is asked and nothing is printed: where the command would prompt, there is an error that
//! says what to do before.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use xdfs_client::file::Remote;
use xdfs_client::{ErrorKind, Level};

use crate::cmd::connect::SessionRequest;
use crate::cmd::remote::{Sessions, wire_name};
use crate::cmd::ssh::Tunnel;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::plan::{LoginPlan, level_of};
use crate::text::printable;
use crate::url::{FROM_ROOT, SCHEME, SSH_SCHEME, Url, Via};

/// Why there is no session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What kind of obstacle it is.
    pub reason: Reason,
    /// What happened, to which server, and what to do about it.
    pub message: String,
}

/// What kind of obstacle it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The URL, an option or the configuration file is not valid.
    Usage,
    /// The server's key is not known, or another one than expected.
    NotTrusted,
    /// Any other.
    Error(ErrorKind),
}

impl Refusal {
    fn of(failure: Failure, kind: ErrorKind) -> Self {
        let reason = match failure.exit {
            Exit::Usage => Reason::Usage,
            Exit::NotTrusted => Reason::NotTrusted,
            _ => Reason::Error(kind),
        };
        Self { reason, message: failure.message }
    }

    fn usage(message: String) -> Self {
        Self { reason: Reason::Usage, message }
    }
}

/// Who logs in and how; what is `None` comes from the environment, the configuration file or the usual
/// places, as for the command.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The one key to offer.
    pub identity: Option<PathBuf>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The authorities that are trusted to certify a server's name.
    pub ca: Option<PathBuf>,
    /// The state folder.
    pub state: Option<PathBuf>,
    /// Parallel channels; 4 if nothing says otherwise.
    pub channels: Option<u16>,
    /// Protection of the data on the way; private if nothing says otherwise.
    pub level: Option<Level>,
}

/// Channels of a session if nothing says otherwise: what `xdfs cp` uses.
const CHANNELS: u16 = 4;

/// A file or directory on a server, or the server itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    url: Url,
    config: Config,
}

impl Place {
    /// Reads a URL, or `NAME:path` with a server of the configuration file.
    pub fn parse(text: &OsStr) -> Result<Self, Refusal> {
        let shown = printable(text.as_encoded_bytes());
        let config = Config::read().map_err(|failure| Refusal::of(failure, ErrorKind::Storage))?;
        let expanded = config.expand(text).map_err(|error| Refusal::usage(error.to_string()))?;
        let url = Url::parse_listed(expanded.as_deref().unwrap_or(text))
            .map_err(|error| Refusal::usage(format!("{shown}: {error}; for example {}", error.example())))?;
        if matches!(url.via, Via::Ftp(_)) {
            return Err(Refusal::usage(format!("{shown}: only {SCHEME} and {SSH_SCHEME} URLs are possible here")));
        }
        Ok(Self { url, config })
    }

    /// The export and the path below it, as sessions take them; nothing for the server itself.
    pub fn path(&self) -> Vec<u8> {
        wire_name(&self.url)
    }

    /// The URL of the server itself: what has the same one is reached by the same session.
    pub fn server(&self) -> String {
        let export = if self.url.via == Via::Ssh { FROM_ROOT.to_owned() } else { String::new() };
        Url { export, path: Default::default(), directory: true, contents: false, ..self.url.clone() }.to_string()
    }

    /// Connects and logs in. A server that is lost is waited for so long.
    pub fn connect(&self, login: &Login, patience: Duration) -> Result<Connection, Refusal> {
        let host = self.config.find(&self.url);
        let wishes = SessionRequest {
            channels: login.channels.or(host.and_then(|host| host.channels)).unwrap_or(CHANNELS),
            level: login.level.or(host.and_then(|host| host.protection).map(level_of)).unwrap_or(Level::Private),
            ..SessionRequest::default()
        };
        let plan = LoginPlan {
            identity: login.identity.clone(),
            password_file: login.password_file.clone(),
            ca: login.ca.clone(),
            state: login.state.clone(),
            unattended: true,
            config: self.config.clone(),
            ..LoginPlan::default()
        };
        let refused = |(failure, kind): (Failure, ErrorKind)| Refusal::of(failure, kind);
        let (remote, tunnel) = Sessions::new(wishes, plan).lasting(&self.url, patience).map_err(refused)?;
        let facts = remote.run(|session| Ok((session.facts().channels, session.facts().level)));
        let (channels, level) = facts.map_err(|error| {
            let message = format!("{}: {error}", self.server());
            Refusal { reason: Reason::Error(error.kind), message }
        })?;
        Ok(Connection { remote, channels, level, _tunnel: tunnel })
    }
}

/// A server that is connected. After a loss it is connected again, unless ssh started it.
#[derive(Debug)]
pub struct Connection {
    /// The server. What uses it keeps the connection.
    pub remote: Arc<Remote>,
    /// Channels that were granted.
    pub channels: u16,
    /// Protection that was granted.
    pub level: Level,
    /// Behind the session, which ends first.
    _tunnel: Option<Tunnel>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<Place, Refusal> {
        Place::parse(OsStr::new(text))
    }

    #[test]
    fn a_url_is_a_server_and_a_path_on_it() {
        let key = "#SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
        let file = place(&format!("xdfs://anna@host:2800/data/a%20b{key}")).unwrap();
        assert_eq!((file.path(), file.server()), (b"data/a b".to_vec(), format!("xdfs://anna@host:2800/{key}")));
        assert_eq!(place(&file.server()).unwrap().server(), file.server());
        assert_eq!(place("xdfs://host").unwrap().path(), b"");
        let over_ssh = place("ssh:anna@host:a b").unwrap();
        assert_eq!((over_ssh.path(), over_ssh.server()), (b"home/a b".to_vec(), "ssh://anna@host/".to_owned()));
        assert_eq!(place(&over_ssh.server()).unwrap().path(), b"root");
        for other in ["ssh://host/x#key", "ftp://host/x", "file", "xdfs://host/a?b"] {
            assert_eq!(place(other).unwrap_err().reason, Reason::Usage, "{other}");
        }
    }

    #[test]
    fn where_nobody_listens_the_message_says_what_to_do() {
        let state = tempfile::tempdir().unwrap();
        // Nothing listens on a port that was just given back.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let login = Login { state: Some(state.path().to_owned()), ..Login::default() };
        let refusal =
            place(&format!("xdfs://127.0.0.1:{port}/data")).unwrap().connect(&login, Duration::ZERO).unwrap_err();
        assert_eq!(refusal.reason, Reason::Error(ErrorKind::ConnectionLost));
        assert!(refusal.message.contains("is 'xdfs serve' running there"), "{}", refusal.message);
    }
}
