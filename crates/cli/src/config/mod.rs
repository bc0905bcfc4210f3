//! The configuration file of the clients (TOML): the servers that a person uses, under short names.
//!
//! It is read whole and checked whole before anything is done; an error names file and line. It holds
//! no secrets. What was typed counts before what it says.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xdfs_io::store::read_settings;

use crate::bandwidth::Schedule;
use crate::exit::{Exit, Failure};
use crate::protection::Protection;
use crate::state;
use crate::text::{printable_path, shell_word, shown};
use crate::url::pattern::encode_typed;
use crate::url::{SCHEME, SSH_PREFIX, Url, Via, is_user_name};

/// Largest configuration file: thousands of servers.
const FILE_BYTES_MAX: usize = 1 << 20;

/// What the file says, shared by everything that connects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Config(Arc<Content>);

#[derive(PartialEq, Eq, Debug, Default)]
struct Content {
    /// Where it is, or would be; empty where there is no place for it.
    path: PathBuf,
    hosts: BTreeMap<String, HostSettings>,
}

/// A server of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostSettings {
    /// The top of the server, as a URL without an export; over ssh as the user's home directory.
    pub(crate) server: Url,
    /// The export of `NAME:path`.
    pub(crate) export: Option<String>,
    /// The line of the file that names the server's key, if one does.
    pub(crate) key_line: Option<usize>,
    /// The key to log in with.
    pub(crate) identity: Option<PathBuf>,
    /// Parallel channels.
    pub(crate) channels: Option<u16>,
    /// Protection of the transfers.
    pub(crate) protection: Option<Protection>,
    /// The limit of bandwidth of copies.
    pub(crate) bandwidth: Option<Schedule>,
    /// The drivers that channels pass through.
    pub(crate) stack: Option<String>,
}

/// Why `NAME:path` stands for no URL.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum AliasError {
    /// No default export.
    #[error(
        "{typed}: {name} has no default export\nhelp: write {name}:/EXPORT/path, or export = \"NAME\" below [hosts.{name}] in {file}"
    )]
    NoExport {
        /// As it was typed.
        typed: String,
        /// The name of the server.
        name: String,
        /// The file.
        file: String,
    },
    /// A user name that is none.
    #[error("{typed}: what is before '@' is no user name")]
    User {
        /// As it was typed.
        typed: String,
    },
}

impl Config {
    /// Reads the file; without one there are no servers in it.
    pub(crate) fn read() -> Result<Self, Failure> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let Some(path) = place(variable("XDG_CONFIG_HOME"), state::home()) else { return Ok(Self::default()) };
        let refused = |message: String| Failure::new(Exit::Usage, message);
        let bytes = read_settings(&path, FILE_BYTES_MAX).map_err(|error| refused(error.message))?;
        let Some(bytes) = bytes else { return Ok(Self::of(path, BTreeMap::new())) };
        let text = String::from_utf8(bytes).map_err(|_| {
            refused(format!("{}: it is not UTF-8\nhelp: write it again as UTF-8", printable_path(&path)))
        })?;
        let hosts = file::parse(&path, &text, state::home().as_deref()).map_err(refused)?;
        Ok(Self::of(path, hosts))
    }

    fn of(path: PathBuf, hosts: BTreeMap<String, HostSettings>) -> Self {
        Self(Arc::new(Content { path, hosts }))
    }

    /// Whether any server is reached through drivers.
    pub(crate) fn has_stacks(&self) -> bool {
        self.0.hosts.values().any(|host| host.stack.is_some())
    }

    /// The server of a URL, whichever way the URL was typed.
    pub(crate) fn find(&self, url: &Url) -> Option<&HostSettings> {
        let server = |host: &&HostSettings| {
            (host.server.via, &host.server.host, host.server.port) == (url.via, &url.host, url.port)
        };
        let same: Vec<_> = self.0.hosts.values().filter(server).collect();
        // One for this very user counts before one for anybody.
        let exact = same.iter().find(|host| host.server.user == url.user);
        let open = || same.iter().find(|host| host.server.user.is_none() || url.user.is_none());
        // The only one is meant by `bob@NAME:path`, too.
        exact.or_else(open).or(if let [only] = &same[..] { Some(only) } else { None }).copied()
    }

    /// Where the file names the key of this URL: `FILE:LINE`, and the server's short name there.
    pub(crate) fn pin(&self, url: &Url) -> Option<(String, &str)> {
        let same = |host: &HostSettings| {
            let server = &host.server;
            (&server.host, server.port, &server.key) == (&url.host, url.port, &url.key)
        };
        let (name, line) =
            self.0.hosts.iter().find_map(|(name, host)| Some((name, host.key_line?)).filter(|_| same(host)))?;
        Some((format!("{}:{line}", printable_path(&self.0.path)), name))
    }

    /// The URL that `NAME:path` or `user@NAME:path` stands for; `None` if it is something else.
    pub(crate) fn expand(&self, typed: &OsStr) -> Result<Option<OsString>, AliasError> {
        let Some((user, name, path)) = alias_parts(typed) else { return Ok(None) };
        let Some((name, host)) = self.0.hosts.get_key_value(name) else { return Ok(None) };
        let shown = || crate::text::printable(typed.as_bytes());
        let mut server = host.server.clone();
        if let Some(user) = user {
            if !is_user_name(user) {
                return Err(AliasError::User { typed: shown() });
            }
            server.user = Some(user.to_owned());
        }
        if server.via == Via::Ssh {
            return Ok(Some(OsString::from_vec(over_ssh(&server, path))));
        }
        let path = match (path.strip_prefix(b"/"), &host.export) {
            (Some(below), _) => below.to_vec(),
            (None, Some(export)) => [export.as_bytes(), b"/", path].concat(),
            (None, None) if path.is_empty() => Vec::new(),
            (None, None) => {
                let file = printable_path(&self.0.path);
                return Err(AliasError::NoExport { typed: shown(), name: name.clone(), file });
            }
        };
        let key = server.key.take().map_or(String::new(), |key| format!("#{key}"));
        let top = server.to_string();
        Ok(Some(OsString::from_vec([top.as_bytes(), &encoded(&path), key.as_bytes()].concat())))
    }

    /// The short names of the servers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.hosts.keys().map(String::as_str)
    }

    /// What to say of a word that was perhaps meant as `NAME:path`.
    pub(crate) fn hint(&self, typed: &OsStr) -> Option<String> {
        let file = match self.0.path.as_os_str().is_empty() {
            true => "~/.config/xdfs/config".to_owned(),
            false => printable_path(&self.0.path),
        };
        if let Some(name) = typed.to_str().filter(|typed| self.0.hosts.contains_key(*typed)) {
            return Some(format!(
                "this is a server of {file}\nhelp: write {name}:path, or {name}: for its top; a local file is ./{name}"
            ));
        }
        let (user, name, _) = alias_parts(typed)?;
        let known: Vec<&str> = self.0.hosts.keys().map(String::as_str).collect();
        let has = match &known[..] {
            [] => format!("which names no server with [hosts.{name}]"),
            names => format!("which has {}", names.join(", ")),
        };
        Some(format!(
            "'{name}' is no server of {file}, {has}\nhelp: write {ssh} for what scp and rsync write without {SSH_PREFIX}\n\
             help: or {SCHEME}{at}{name}/EXPORT/path for a server of xdfs",
            ssh = shell_word(&shown(&format!("{SSH_PREFIX}{}", typed.to_string_lossy()))),
            at = user.map(|user| format!("{user}@")).unwrap_or_default(),
        ))
    }
}

/// The default place of the file.
fn place(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let folder = xdg.filter(|xdg| xdg.is_absolute()).or_else(|| home.map(|home| home.join(".config")))?;
    Some(folder.join("xdfs/config"))
}

/// User, name and path of `[user@]NAME:path`. A URL and the special sources are something else, and
/// so is a local file whose path has a slash before the colon.
fn alias_parts(typed: &OsStr) -> Option<(Option<&str>, &str, &[u8])> {
    let bytes = typed.as_bytes();
    let colon = bytes.iter().position(|&byte| byte == b':')?;
    let (before, path) = (std::str::from_utf8(&bytes[..colon]).ok()?, &bytes[colon + 1..]);
    let (user, name) = before.rsplit_once('@').map_or((None, before), |(user, name)| (Some(user), name));
    (is_alias(name) && !path.starts_with(b"//")).then_some((user, name, path))
}

/// Whether a server may have this name: what begins a URL or a special source is not one.
fn is_alias(name: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty()
        && !name.starts_with(['-', '.'])
        && name.bytes().all(byte)
        && !["ssh", "xdfs", "zero", "random", "null"].contains(&name)
}

/// A path as it was typed, in the form of a URL: empty components and '.' mean nothing, but for the
/// end.
fn encoded(path: &[u8]) -> Vec<u8> {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let end: &[u8] = match *names.last().unwrap_or(&path) {
        b"." if names.len() > 1 => b"/.",
        b"" | b"." => b"/",
        _ => b"",
    };
    let meant: Vec<String> = names.into_iter().filter(|name| !matches!(*name, b"" | b".")).map(encode_typed).collect();
    if meant.is_empty() { Vec::new() } else { [meant.join("/").as_bytes(), end].concat() }
}

/// In the form of scp: what follows the colon is as it was typed.
fn over_ssh(server: &Url, path: &[u8]) -> Vec<u8> {
    let user = server.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
    [format!("{SSH_PREFIX}{user}{}:", server.host).as_bytes(), path].concat()
}

/// A path of the file: relative to its folder, '~/' to the home directory.
fn path_of(text: &str, file: &Path, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => file.parent().unwrap_or(Path::new("")).join(text),
    }
}
