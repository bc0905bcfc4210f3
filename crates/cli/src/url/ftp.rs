//! Files on FTP and GridFTP servers: `ftp://[user[:password]@]host[:port]/path` below the directory in
//! which a login begins, and `ftp://host//path` from the server's root (RFC 1738, curl, wget);
//! `ftps://` is the same with TLS; `gsiftp://host/path` from the root, and `gsiftp://host/~/path` below the user's directory, as
//! globus-url-copy has it.

use std::fmt;

use xdfs_proto::base::{Level, RelPath};

use super::{FROM_HOME, FROM_ROOT, Url, UrlError, Via, decode, parse_host_port, path_of, show_path, split_once};

/// A protocol of FTP servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ftp {
    /// FTP as all servers speak it, readable by whoever is between.
    Plain,
    /// FTP with TLS.
    Secure,
    /// GridFTP, with parallel connections.
    Grid,
}

impl Ftp {
    const ALL: [Self; 3] = [Self::Plain, Self::Secure, Self::Grid];

    /// How its URLs start.
    pub(crate) const fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "ftp://",
            Self::Secure => "ftps://",
            Self::Grid => "gsiftp://",
        }
    }

    const fn port(self) -> u16 {
        match self {
            // TLS is asked for after connecting, so the port is the same.
            Self::Plain | Self::Secure => 21,
            Self::Grid => 2811,
        }
    }
}

impl Url {
    /// How the data of an FTP server are protected on the way.
    pub(crate) fn ftp_level(&self) -> Level {
        if self.via == Via::Ftp(Ftp::Secure) { Level::Private } else { Level::Clear }
    }
}

/// A password from a URL: where it stood, everybody on this machine could read it, but nothing of
/// xdfs shows it again.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UrlPassword(pub(crate) Vec<u8>);

impl fmt::Debug for UrlPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlPassword(..)")
    }
}

/// The protocol that a URL names, and what follows its scheme.
pub(super) fn scheme_of(text: &[u8]) -> Option<(Ftp, &[u8])> {
    Ftp::ALL.into_iter().find_map(|ftp| Some((ftp, text.strip_prefix(ftp.scheme().as_bytes())?)))
}

/// Reads what follows the scheme.
pub(super) fn read(ftp: Ftp, rest: &[u8]) -> Result<Url, UrlError> {
    if rest.contains(&b'#') {
        return Err(UrlError::FtpKey);
    }
    if rest.contains(&b'?') {
        return Err(UrlError::Query);
    }
    let (authority, path) = split_once(rest, b'/').unwrap_or((rest, b""));
    // The last one: an address of electronic mail has one of its own, and some write it as the user.
    let (login, host_port) = match authority.iter().rposition(|&byte| byte == b'@') {
        Some(at) => (Some(&authority[..at]), &authority[at + 1..]),
        None => (None, authority),
    };
    let (user, password) = login.map(parse_login).transpose()?.unzip();
    let (host, port) = parse_host_port(host_port)?;
    let (from_root, path) = match ftp {
        Ftp::Plain | Ftp::Secure => path.strip_prefix(b"/").map_or((false, path), |path| (true, path)),
        Ftp::Grid if path == b"~" => (false, &b""[..]),
        Ftp::Grid => path.strip_prefix(b"~/").map_or((true, path), |path| (false, path)),
    };
    let components = path.split(|&byte| byte == b'/').map(decode).collect::<Result<Vec<_>, _>>()?;
    let last = components.last().map(Vec::as_slice);
    let meant: Vec<&Vec<u8>> = components.iter().filter(|name| !matches!(&name[..], b"" | b".")).collect();
    let path: RelPath = path_of(&meant)?;
    let directory = matches!(last, Some(b"" | b".")) || path.is_root();
    Ok(Url {
        via: Via::Ftp(ftp),
        user,
        password: password.flatten(),
        host,
        port: port.unwrap_or(ftp.port()),
        export: if from_root { FROM_ROOT } else { FROM_HOME }.to_owned(),
        path,
        pattern: None,
        directory,
        contents: last == Some(b"."),
        key: None,
    })
}

fn parse_login(login: &[u8]) -> Result<(String, Option<UrlPassword>), UrlError> {
    let (user, password) = match split_once(login, b':') {
        Some((user, password)) => (user, Some(UrlPassword(decode_word(password)?))),
        None => (login, None),
    };
    let user = String::from_utf8(decode_word(user)?).map_err(|_| UrlError::FtpUser)?;
    if user.is_empty() { Err(UrlError::FtpUser) } else { Ok((user, password)) }
}

/// A user name or a password. Unlike a name in a path it may have a slash, but nothing that would end
/// the command that carries it.
fn decode_word(text: &[u8]) -> Result<Vec<u8>, UrlError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(3).position(|part| part.eq_ignore_ascii_case(b"%2F")) {
        parts.push(decode(&rest[..at])?);
        rest = &rest[at + 3..];
    }
    parts.push(decode(rest)?);
    let word = parts.join(&b'/');
    if word.iter().any(u8::is_ascii_control) { Err(UrlError::FtpUser) } else { Ok(word) }
}

/// The form in which it can be typed again, without the password.
pub(super) fn show(url: &Url, ftp: Ftp, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(ftp.scheme())?;
    if let Some(user) = &url.user {
        for byte in user.bytes() {
            match byte {
                _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => write!(f, "{}", byte as char)?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        f.write_str("@")?;
    }
    write!(f, "{}", url.host)?;
    if url.port != ftp.port() {
        write!(f, ":{}", url.port)?;
    }
    match (ftp, url.export == FROM_ROOT) {
        (Ftp::Plain | Ftp::Secure, true) => f.write_str("/")?,
        (Ftp::Grid, false) => f.write_str("/~")?,
        (Ftp::Plain | Ftp::Secure, false) | (Ftp::Grid, true) => {}
    }
    // A name of its own, not the sign of the user's directory.
    let mut shown = url.path.components();
    if ftp == Ftp::Grid && url.export == FROM_ROOT && shown.next() == Some(b"~") {
        f.write_str("/.")?;
    }
    show_path(url, f)?;
    if url.directory { f.write_str("/") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Url, UrlError> {
        Url::parse(OsStr::new(text))
    }

    #[test]
    fn a_path_begins_where_other_programs_have_it_begin() {
        for (text, export, path, directory) in [
            ("ftp://h/a/b", "home", "a/b", false),
            ("ftp://h//a/b", "root", "a/b", false),
            ("ftp://h", "home", "", true),
            ("ftp://h/", "home", "", true),
            ("ftp://h//", "root", "", true),
            ("ftp://h/a%20b/", "home", "a b", true),
            ("ftp://h/a//b/./c", "home", "a/b/c", false),
            ("ftp://h/~/a", "home", "~/a", false),
            ("ftps://h/a/b", "home", "a/b", false),
            ("ftps://h//a/b", "root", "a/b", false),
            ("gsiftp://h/a", "root", "a", false),
            ("gsiftp://h/", "root", "", true),
            ("gsiftp://h/~/a", "home", "a", false),
            ("gsiftp://h/~", "home", "", true),
            ("gsiftp://h/./~/a", "root", "~/a", false),
        ] {
            let url = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let seen = (url.export.as_str(), url.path.as_bytes().escape_ascii().to_string(), url.directory);
            assert_eq!(seen, (export, path.to_owned(), directory), "{text}");
        }
        assert_eq!((parse("ftp://h/a").unwrap().port, parse("gsiftp://h/a").unwrap().port), (21, 2811));
        assert!(parse("ftp://h/a/.").unwrap().contents);
    }

    #[test]
    fn a_login_is_read_and_its_password_never_shown() {
        let url = parse("ftp://anna%40site:s%2Fec:ret@h:2121/a").unwrap();
        assert_eq!(url.user.as_deref(), Some("anna@site"));
        assert_eq!(url.password, Some(UrlPassword(b"s/ec:ret".to_vec())));
        assert_eq!(url.to_string(), "ftp://anna%40site@h:2121/a");
        assert!(!format!("{url:?}").contains("ret"), "{url:?}");
        assert_eq!(parse("ftp://anna@mail@h/a").unwrap().user.as_deref(), Some("anna@mail"));
        for text in ["ftp://@h/a", "ftp://:x@h/a", "ftp://a%0d%0aDELE@h/a", "ftp://a:b%0a@h/a", "ftp://%ff@h/a"] {
            assert_eq!(parse(text), Err(UrlError::FtpUser), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, fault) in [
            ("ftp:///a", UrlError::HostMissing),
            ("ftp://h/a#b", UrlError::FtpKey),
            ("ftp://h/a?b", UrlError::Query),
            ("ftp://h/a%2Fb", UrlError::EncodedSlash),
            ("ftp://h/a%00", UrlError::EncodedNul),
            ("ftp://h:0/a", UrlError::Port("0".to_owned())),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
        assert!(matches!(parse("ftp://h/../a"), Err(UrlError::Path(_))));
        assert!(matches!(parse("gsiftp://h/a/%2e%2e"), Err(UrlError::Path(_))));
    }

    proptest! {
        #[test]
        fn a_url_is_written_as_it_is_read(
            text in "(ftp|ftps|gsiftp)://([a-z@%20]{1,6}@)?h(:[1-9][0-9]{0,3})?(/|/~/|//)?[a-z~%20./]{0,20}"
        ) {
            if let Ok(url) = parse(&text) {
                let shown = url.to_string();
                let like = Url { contents: false, ..url };
                prop_assert_eq!(parse(&shown), Ok(like), "{}", shown);
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic_or_pass_a_forbidden_component(text in "(ftp|gsiftp)://[a-z@:/%.~0-9#?\\[\\]-]{0,60}") {
            if let Ok(url) = parse(&text) {
                for component in url.path.components() {
                    prop_assert!(!component.is_empty() && component != b"." && component != b"..");
                    prop_assert!(!component.contains(&b'/') && !component.contains(&0));
                }
            }
        }
    }
}
