//! What a contact names: a server, a login and a file (GXIO-10 to GXIO-16).

use super::certified::Certified;
use crate::command::Login;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use xdfs_xio::{Attributes, Contact, Error, ErrorKind, Result};

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;

/// The kinds of URLs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Scheme {
    /// FTP.
    Ftp,
    /// GridFTP.
    GsiFtp,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::GsiFtp => "gsiftp",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Ftp => 21,
            Self::GsiFtp => 2811,
        }
    }
}

/// A file's name on a server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Name {
    /// From the root.
    Whole(Vec<u8>),
    /// In the directory in which a login begins.
    BelowHome(Vec<u8>),
}

/// A server as somebody sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Account {
    pub(super) scheme: Scheme,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) login: Login,
    /// How a certificate logs in, if one does.
    pub(super) certified: Option<Certified>,
}

/// A file of a server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Target {
    pub(super) account: Account,
    pub(super) name: Name,
    /// The contact for messages, without its password.
    pub(super) shown: String,
}

impl Target {
    /// What a contact names, which has one of these schemes. The host's name is looked up, and the user's certificate read.
    pub(super) fn of(contact: &Contact, schemes: &[Scheme], attributes: &Attributes) -> Result<Self> {
        let shown = contact.shown();
        let wrong = |what: &str| Error::new(ErrorKind::Contact, format!("'{}': {what}", shown.escape_debug()));
        let Some(&scheme) = schemes.iter().find(|scheme| contact.scheme() == Some(scheme.name())) else {
            let known: Vec<_> = schemes.iter().map(|scheme| format!("{}://host/path", scheme.name())).collect();
            return Err(wrong(&format!("a URL is needed, {}", known.join(" or "))));
        };
        let certified = match scheme {
            Scheme::GsiFtp => Certified::of(contact, attributes)?,
            Scheme::Ftp if Certified::is_asked_for(contact, attributes) => {
                return Err(wrong("a subject and the attributes of certificates are for gsiftp://"));
            }
            Scheme::Ftp => None,
        };
        let path = contact.path().map(|path| path.as_os_str().as_bytes()).unwrap_or_default();
        let name = name_of(scheme, path).ok_or_else(|| wrong("it names no file"))?;
        let login = match (contact.user(), contact.password()) {
            (None, _) if certified.is_some() => Login::mapped(),
            (Some(user), None) if certified.is_some() => Login::certified(user.into()),
            (None | Some("anonymous" | "ftp"), None) => Login::anonymous(),
            (None, Some(_)) => return Err(wrong("the user is missing")),
            (Some(user), Some(word)) => Login { user: user.into(), password: word.into() },
            (Some(_), None) => return Err(wrong("the password is missing, as in ftp://user:password@host/path")),
        };
        let host = contact.host().ok_or_else(|| wrong("the host is missing"))?;
        let port = match contact.port() {
            None => scheme.port(),
            Some("ftp") => Scheme::Ftp.port(),
            Some("gsiftp") => Scheme::GsiFtp.port(),
            Some(port) => port.parse().map_err(|_| wrong("the port must be a number, 'ftp' or 'gsiftp'"))?,
        };
        let found = (host, port).to_socket_addrs().map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("the host '{}' has no address: {error}", host.escape_debug()))
        })?;
        let addresses = found.take(ADDRESSES_MAX).collect();
        Ok(Self { account: Account { scheme, addresses, login, certified }, name, shown })
    }
}

/// The name that a URL's path means; none where it ends with `/` and so names a directory.
fn name_of(scheme: Scheme, path: &[u8]) -> Option<Name> {
    let name = match (scheme, path.strip_prefix(b"/")?) {
        (Scheme::Ftp, rest) if rest.starts_with(b"/") => Name::Whole(rest.to_vec()),
        (Scheme::Ftp, rest) => Name::BelowHome(rest.to_vec()),
        (Scheme::GsiFtp, rest) => match rest.strip_prefix(b"~/") {
            Some(rest) => Name::BelowHome(rest.to_vec()),
            None => Name::Whole(path.to_vec()),
        },
    };
    let (Name::Whole(bytes) | Name::BelowHome(bytes)) = &name;
    let is_file = !bytes.is_empty() && !bytes.ends_with(b"/");
    is_file.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<Target> {
        Target::of(&Contact::parse(text)?, &[Scheme::GsiFtp, Scheme::Ftp], &Attributes::default())
    }

    #[test]
    fn a_contact_names_server_login_and_file() {
        let whole = |text: &str| Name::Whole(text.into());
        let below = |text: &str| Name::BelowHome(text.into());
        for (text, address, user, name) in [
            ("ftp://127.0.0.1/a/b", "127.0.0.1:21", "anonymous", below("a/b")),
            ("ftp://127.0.0.1//a/b", "127.0.0.1:21", "anonymous", whole("/a/b")),
            ("gsiftp://127.0.0.1/a%20b", "127.0.0.1:2811", "anonymous", whole("/a b")),
            ("gsiftp://127.0.0.1/~/a", "127.0.0.1:2811", "anonymous", below("a")),
            ("gsiftp://127.0.0.1:ftp/a", "127.0.0.1:21", "anonymous", whole("/a")),
            ("gsiftp://anonymous@127.0.0.1/a", "127.0.0.1:2811", "anonymous", whole("/a")),
            ("ftp://anna:a%40b@127.0.0.1:2121/a", "127.0.0.1:2121", "anna", below("a")),
            ("gsiftp://[::1]/a", "[::1]:2811", "anonymous", whole("/a")),
            ("ftp://[::1]:5000/a", "[::1]:5000", "anonymous", below("a")),
        ] {
            let found = target(text).unwrap();
            assert_eq!(found.account.addresses, [address.parse::<SocketAddr>().unwrap()], "{text}");
            assert_eq!(found.account.login.user, user.as_bytes(), "{text}");
            assert_eq!(found.name, name, "{text}");
        }
        assert_eq!(target("ftp://anna:a%40b@127.0.0.1/a").unwrap().account.login.password, b"a@b");
    }

    #[test]
    fn a_contact_that_names_no_file_is_refused_with_the_reason() {
        for (text, reason) in [
            ("127.0.0.1:21", "a URL is needed"),
            ("http://127.0.0.1/a", "a URL is needed"),
            ("ftp://127.0.0.1", "it names no file"),
            ("ftp://127.0.0.1/", "it names no file"),
            ("ftp://127.0.0.1/a/", "it names no file"),
            ("gsiftp://127.0.0.1/~/", "it names no file"),
            ("ftp://anna@127.0.0.1/a", "the password is missing"),
            ("ftp://127.0.0.1:http/a", "the port must be a number"),
            ("ftp://</O=Grid/CN=host/x>127.0.0.1/a", "are for gsiftp://"),
        ] {
            let error = target(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Contact, "{text}");
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
        let error = target("ftp://anna:secret@127.0.0.1/").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
