//! The URL of a file: `xdfs://[user@]host[:port]/EXPORT/path[#SHA256:key]`, or over ssh
//! `ssh://[user@]host[:port]/path` and `ssh:[user@]host:path`; on FTP servers `ftp://`, `ftps://` and `gsiftp://`.
//!
//! %XX is decoded only here, once. The result is an export's name and a list of path components; no
//! later step splits or decodes them again. Nothing here resolves a name or opens a connection.

mod ftp;
pub(crate) mod pattern;
mod percent;
mod ssh;

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;

use xdfs_proto::base::{PathError, RelPath};

pub(crate) use self::ftp::{Ftp, UrlPassword};
pub(crate) use self::pattern::PathPattern;
pub(crate) use self::percent::{decode, encode_component};

/// The default port of `xdfs serve`.
pub(crate) const PORT_DEFAULT: u16 = 2799;

/// How a URL starts.
pub(crate) const SCHEME: &str = "xdfs://";

/// Longest name of an export, in bytes: it is one component of every URL and of the server's log
/// lines.
pub(crate) const EXPORT_NAME_BYTES_MAX: usize = 64;

/// Longest host name of the domain name system, in bytes (RFC 1035).
const HOST_NAME_BYTES_MAX: usize = 253;

/// What an allocation takes besides its bytes.
const ALLOCATION_BYTES: usize = 16;

/// Base64 digits of a SHA-256 value without padding, as OpenSSH prints it.
const KEY_DIGITS: usize = 43;

/// How the paths of a machine begin that is reached over ssh.
pub(crate) const SSH_SCHEME: &str = "ssh://";

/// The same without slashes, as in scp: the path starts in the user's home directory.
pub(crate) const SSH_PREFIX: &str = "ssh:";

/// How a server is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// By connecting to its port.
    Port,
    /// By starting it with ssh, for this command alone.
    Ssh,
    /// It is an FTP server.
    Ftp(Ftp),
}

/// The export that is the whole file system, of a server that has none of its own: over ssh and FTP.
pub(crate) const FROM_ROOT: &str = "root";

/// The one that is the directory in which a login begins there.
pub(crate) const FROM_HOME: &str = "home";

/// The exports of a server that ssh starts.
pub(crate) const SSH_EXPORTS: [&str; 2] = [FROM_ROOT, FROM_HOME];

/// A file or directory on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Url {
    /// How the server is reached.
    pub(crate) via: Via,
    /// The user who logs in.
    pub(crate) user: Option<String>,
    /// The password for an FTP server, if it was typed with the user; it is not shown again.
    pub(crate) password: Option<UrlPassword>,
    /// Where the server is.
    pub(crate) host: Host,
    /// Its port; for ssh 0 where none was named, since ssh has a configuration of its own.
    pub(crate) port: u16,
    /// The server's name for the tree that holds the file.
    pub(crate) export: String,
    /// The path below the export's root.
    pub(crate) path: RelPath,
    /// What was typed with `*` or `[` in it: it may stand for several names.
    pub(crate) pattern: Option<PathPattern>,
    /// It ended in a slash: only a directory is acceptable.
    pub(crate) directory: bool,
    /// The contents of the directory are copied, without its name: a source of `cp -r` that ended
    /// in `/.`.
    pub(crate) contents: bool,
    /// The server's key, `SHA256:` and 43 digits, if it was pinned.
    pub(crate) key: Option<String>,
}

/// The machine that a URL names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    /// A name to look up.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// What is wrong with a URL, by part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum UrlError {
    /// It has another scheme.
    #[error("it starts neither with {SCHEME} nor with {SSH_SCHEME}, ftp://, ftps:// or gsiftp://")]
    Scheme,
    /// `ssh:` without a path.
    #[error("it names no path: write ssh://HOST/path, or ssh:HOST:path for a path in the home directory there")]
    SshPath,
    /// A path that starts with `..`.
    #[error("its path goes up by '..'\nhelp: write it from the root, as in ssh://HOST/path")]
    SshUp,
    /// A user name that ssh would take for an option.
    #[error("its user name starts with '-'")]
    SshUser,
    /// A host key for ssh.
    #[error(
        "what follows its '#' is for xdfs servers; ssh knows the keys of its hosts itself\nhelp: a '#' in a file's name is written %23"
    )]
    SshKey,
    /// A fragment of a URL of FTP.
    #[error("what follows its '#' is for xdfs servers\nhelp: a '#' in a file's name is written %23")]
    FtpKey,
    /// The part before `@` of a URL of FTP.
    #[error("its user name is empty, or user name or password has a character that no login has")]
    FtpUser,
    /// The part before `@`.
    #[error("its user name is empty or has a character other than letters, digits, '.', '_' and '-'")]
    User,
    /// A password before `@`.
    #[error(
        "a password has no place in a URL, where everybody on this machine can read it: leave it out, and it is asked for; \
         or name a file with --password-file"
    )]
    Password,
    /// Nothing between `//` and `/`.
    #[error("it names no host")]
    HostMissing,
    /// Not a host name.
    #[error("its host '{0}' is neither a name nor an address")]
    Host(String),
    /// An IPv6 address without brackets.
    #[error("its host is an IPv6 address without brackets\nhelp: write [{0}]")]
    Brackets(String),
    /// Not an IPv6 address between the brackets.
    #[error("'{0}' between its brackets is no IPv6 address")]
    Ipv6(String),
    /// Not a port.
    #[error("its port '{0}' is no number from 1 to 65535")]
    Port(String),
    /// Nothing behind the colon.
    #[error("no port follows the ':' behind its host\nhelp: leave the ':' out")]
    PortMissing,
    /// No export.
    #[error("it names no export: the first name after the host is that of an export")]
    ExportMissing,
    /// Not the name of an export.
    #[error("its export '{0}' is no export's name (1 to 64 letters, digits, '.', '_' and '-', and not only dots)")]
    Export(String),
    /// A `%` without two hexadecimal digits.
    #[error("in its path a '%' is not followed by two hexadecimal digits\nhelp: a '%' in a file's name is written %25")]
    Percent,
    /// `%2F`.
    #[error("its path has an encoded slash (%2F); no file name holds a slash, and a separator is written '/'")]
    EncodedSlash,
    /// `%00`.
    #[error("its path has an encoded NUL (%00), which no file name can hold")]
    EncodedNul,
    /// A raw `?`.
    #[error("it has a '?', but there are no queries here\nhelp: a '?' in a file's name is written %3F")]
    Query,
    /// Any other fault of the path.
    #[error("its path cannot be used: {0}")]
    Path(PathError),
    /// The part after `#`.
    #[error(
        "what follows its '#' is no host key (SHA256: and 43 base64 digits)\nhelp: a '#' in a file's name is written %23"
    )]
    Key,
}

impl UrlError {
    /// A correct URL as an example for this fault.
    pub(crate) fn example(&self) -> &'static str {
        match self {
            Self::Scheme
            | Self::HostMissing
            | Self::Host(_)
            | Self::ExportMissing
            | Self::Export(_)
            | Self::Path(_) => "xdfs://localhost/data/run7/image.bin",
            Self::User | Self::Password => "xdfs://anna@localhost/data/image.bin",
            Self::SshPath | Self::SshUp | Self::SshUser | Self::SshKey => "ssh://anna@localhost/data/image.bin",
            Self::FtpKey | Self::FtpUser => "ftp://anna@localhost/data/image.bin",
            Self::Brackets(_) | Self::Ipv6(_) => "xdfs://[::1]:2799/data/image.bin",
            Self::Port(_) | Self::PortMissing => "xdfs://localhost:2799/data/image.bin",
            Self::Percent => "xdfs://localhost/data/100%25.bin",
            Self::EncodedSlash | Self::EncodedNul => "xdfs://localhost/data/run7/image.bin",
            Self::Query => "xdfs://localhost/data/why%3F.txt",
            Self::Key => "xdfs://localhost/data/image.bin#SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
        }
    }
}

/// Whether an argument is meant as a URL, of any scheme. A local file of such a name is written
/// `./xdfs:...`.
pub(crate) fn looks_like_url(text: &OsStr) -> bool {
    let bytes = text.as_bytes();
    let scheme = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
    let is_ours = [SSH_PREFIX, "xdfs:"].iter().any(|prefix| bytes.starts_with(prefix.as_bytes()));
    is_ours || scheme > 0 && bytes[scheme..].starts_with(b"://")
}

/// Whether `name` may name an export.
pub(crate) fn is_export_name(name: &str) -> bool {
    (1..=EXPORT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_name_byte)
        && name.bytes().any(|byte| byte != b'.')
}

impl Url {
    /// Reads a URL. The path is decoded here, once.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, UrlError> {
        Self::read(text, false)
    }

    /// The same if the URL may name the server itself, whose exports are listed: it then has no
    /// export.
    pub(crate) fn parse_listed(text: &OsStr) -> Result<Self, UrlError> {
        Self::read(text, true)
    }

    fn read(text: &OsStr, server: bool) -> Result<Self, UrlError> {
        if text.as_bytes().starts_with(SSH_PREFIX.as_bytes()) {
            return ssh::read(text.as_bytes());
        }
        if let Some((ftp, rest)) = ftp::scheme_of(text.as_bytes()) {
            return ftp::read(ftp, rest);
        }
        let rest = text.as_bytes().strip_prefix(SCHEME.as_bytes()).ok_or(UrlError::Scheme)?;
        let (rest, key) = match split_once(rest, b'#') {
            Some((rest, fragment)) => (rest, Some(parse_key(fragment)?)),
            None => (rest, None),
        };
        let (authority, path) = split_once(rest, b'/').unwrap_or((rest, b""));
        let (user, host_port) = match split_once(authority, b'@') {
            Some((user, host_port)) => (Some(parse_user(user)?), host_port),
            None => (None, authority),
        };
        let (host, port) = parse_host_port(host_port)?;
        let port = port.unwrap_or(PORT_DEFAULT);
        let typed = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).skip(1);
        let pattern = PathPattern::of_encoded(typed);
        let (export, path, directory) = match path {
            path if server && path.iter().all(|&byte| byte == b'/') => (String::new(), RelPath::default(), true),
            path => parse_path(path)?,
        };
        let (via, password, contents) = (Via::Port, None, false);
        Ok(Self { via, user, password, host, port, export, path, pattern, directory, contents, key })
    }

    /// The last component of the path; the root has none.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        self.path.name()
    }

    /// Whether a link of this name stands for the directory that it leads to: over ssh a slash
    /// behind a name means what it means to every program of the user.
    pub(crate) fn is_followed(&self) -> bool {
        self.via == Via::Ssh && self.directory
    }

    /// Whether it names a file of an FTP server.
    pub(crate) fn is_ftp(&self) -> bool {
        matches!(self.via, Via::Ftp(_))
    }

    /// The URL of its parent directory; `None` for the top of an export.
    pub(crate) fn parent(&self) -> Option<Self> {
        Some(Self { path: self.path.parent()?, pattern: None, directory: true, ..self.clone() })
    }

    /// The URL of an entry that a listing of this one contains; `None` for an invalid name.
    pub(crate) fn below(&self, name: &[u8]) -> Option<Self> {
        if !self.export.is_empty() {
            return self.join(name).ok();
        }
        let export = str::from_utf8(name).ok().filter(|name| is_export_name(name))?.to_owned();
        Some(Self { export, ..self.clone() })
    }

    /// The memory that it takes, for those who remember what a server lists.
    pub(crate) fn memory(&self) -> usize {
        let host = match &self.host {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        };
        let texts = [host, self.user.as_ref(), Some(&self.export), self.key.as_ref()];
        let texts = texts.into_iter().flatten().map(|text| text.len() + ALLOCATION_BYTES);
        size_of::<Self>() + self.path.as_bytes().len() + ALLOCATION_BYTES + texts.sum::<usize>()
    }

    /// The URL of `name` in this directory.
    pub(crate) fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        Ok(Self { path: self.path.child(name)?, pattern: None, directory: false, ..self.clone() })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Url {
    /// The URL in its canonical form, in ASCII: [`Url::parse`] reads it back as the same value, but for a path as scp has
    /// it, of which bytes that are no ASCII are shown escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.via {
            Via::Port => {}
            Via::Ssh => return ssh::show(self, f),
            Via::Ftp(ftp) => return ftp::show(self, ftp, f),
        }
        f.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.host)?;
        if self.port != PORT_DEFAULT {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.export)?;
        show_path(self, f)?;
        // The server itself has no export, and its slash is already written.
        if self.directory && !self.export.is_empty() {
            f.write_str("/")?;
        }
        match &self.key {
            Some(key) => write!(f, "#{key}"),
            None => Ok(()),
        }
    }
}

/// Every component behind a slash, with %XX for what has a meaning of its own.
fn show_path(url: &Url, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut patterns = url.pattern.iter().flat_map(PathPattern::components);
    url.path.components().try_for_each(|component| {
        f.write_str("/")?;
        match patterns.next().flatten() {
            Some(pattern) => pattern::show(pattern, f),
            None => f.write_str(&encode_component(component)),
        }
    })
}

fn parse_key(fragment: &[u8]) -> Result<String, UrlError> {
    let digits = fragment.strip_prefix(b"SHA256:").ok_or(UrlError::Key)?;
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
    if digits.len() != KEY_DIGITS || !digits.iter().all(is_digit) {
        return Err(UrlError::Key);
    }
    Ok(printable(fragment))
}

fn parse_user(user: &[u8]) -> Result<String, UrlError> {
    if user.contains(&b':') {
        return Err(UrlError::Password);
    }
    if !str_of(user).is_some_and(is_user_name) {
        return Err(UrlError::User);
    }
    Ok(printable(user))
}

/// Whether a user may have this name.
pub(crate) fn is_user_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_name_byte)
}

/// Reads `HOST` or `HOST:PORT`, as in a URL.
pub(crate) fn parse_server(text: &OsStr) -> Result<(Host, u16), UrlError> {
    let (host, port) = parse_host_port(text.as_bytes())?;
    Ok((host, port.unwrap_or(PORT_DEFAULT)))
}

fn parse_host_port(text: &[u8]) -> Result<(Host, Option<u16>), UrlError> {
    if let Some(bracketed) = text.strip_prefix(b"[") {
        let (address, rest) = split_once(bracketed, b']').ok_or_else(|| UrlError::Ipv6(printable(bracketed)))?;
        let parsed = str_of(address).and_then(|text| text.parse::<Ipv6Addr>().ok());
        let host = Host::Address(IpAddr::V6(parsed.ok_or_else(|| UrlError::Ipv6(printable(address)))?));
        return match rest.strip_prefix(b":") {
            Some(port) => Ok((host, Some(parse_port(port)?))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UrlError::Host(printable(text))),
        };
    }
    if let Some(address) = str_of(text).and_then(|text| text.parse::<Ipv6Addr>().ok()) {
        return Err(UrlError::Brackets(address.to_string()));
    }
    let (host, port) = match split_once(text, b':') {
        Some((_, b"")) => return Err(UrlError::PortMissing),
        Some((host, port)) => (host, Some(parse_port(port)?)),
        None => (text, None),
    };
    Ok((parse_host(host)?, port))
}

/// A name of letters, digits, '.', '_' and '-', or an IPv4 address in its usual form.
fn parse_host(host: &[u8]) -> Result<Host, UrlError> {
    if host.is_empty() {
        return Err(UrlError::HostMissing);
    }
    let text = printable(host);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Host::Address(address));
    }
    // A name's last label has a letter; without one it is an address in a form that resolvers
    // interpret in different ways (127.1, 0x7f.1, 2130706433).
    let last = host.strip_suffix(b".").unwrap_or(host).rsplit(|&byte| byte == b'.').next().unwrap_or(b"");
    let is_name = host.len() <= HOST_NAME_BYTES_MAX
        && host.iter().copied().all(is_name_byte)
        && host[0] != b'-'
        && last.first().is_some_and(u8::is_ascii_alphabetic);
    if is_name { Ok(Host::Name(text)) } else { Err(UrlError::Host(text)) }
}

fn parse_port(port: &[u8]) -> Result<u16, UrlError> {
    let number = match str_of(port) {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse::<u16>().ok(),
        _ => None,
    };
    match number {
        Some(number) if number > 0 => Ok(number),
        _ => Err(UrlError::Port(printable(port))),
    }
}

/// Export, path below it, and whether it ended in a slash. Several slashes are one, as in every path
/// of Unix: scripts join a directory that ends in one with a name that begins with one.
fn parse_path(text: &[u8]) -> Result<(String, RelPath, bool), UrlError> {
    if text.contains(&b'?') {
        return Err(UrlError::Query);
    }
    let mut names = text.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let export = printable(&decode(names.next().ok_or(UrlError::ExportMissing)?)?);
    if !is_export_name(&export) {
        return Err(UrlError::Export(export));
    }
    let components: Result<Vec<_>, _> = names.map(decode).collect();
    Ok((export, path_of(&components?)?, text.ends_with(b"/")))
}

fn path_of<C: AsRef<[u8]>>(components: &[C]) -> Result<RelPath, UrlError> {
    let mut path = RelPath::default();
    let mut bytes = 0;
    for component in components {
        path.push(component.as_ref()).map_err(UrlError::Path)?;
        bytes += component.as_ref().len() + 1;
    }
    if bytes > xdfs_proto::base::path::PATH_BYTES_MAX {
        return Err(UrlError::Path(PathError::TooLong));
    }
    Ok(path)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

fn str_of(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()
}

/// For messages: no control byte reaches a terminal.
fn printable(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

#[cfg(test)]
mod tests;
