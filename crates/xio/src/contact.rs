//! Contact strings: the one parser of what names the other end of a stack. It knows the forms and
//! not what a driver needs of them; it looks nothing up.
//!
//! With a scheme: `scheme://[user[:password]@][<subject>]host[:port][/path]`, where an IPv6 address
//! stands in brackets; or `scheme:/path`, which names no host. Without one, what has a colon is
//! `[host]:port`, and everything else is a path. Where there is a scheme, `%41` stands for `A`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Longest contact string. A path is at most 4096 bytes, each of which may be written as three.
const LENGTH_BYTES_MAX: usize = 16 * 1024;

/// A contact string, taken apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contact {
    text: String,
    scheme: Option<String>,
    user: Option<String>,
    password: Option<String>,
    subject: Option<String>,
    host: Option<String>,
    port: Option<String>,
    path: Option<PathBuf>,
}

/// What is wrong with a contact string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContactError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// Longer than any name can be.
    #[error("it is longer than {LENGTH_BYTES_MAX} bytes")]
    TooLong,
    /// A zero byte, a line end or another control character.
    #[error("it has a control character")]
    Control,
    /// `%` is not followed by two hexadecimal digits, or the bytes are no text where text is needed.
    #[error("'%' needs two hexadecimal digits, and what they stand for must be text")]
    Escape,
    /// A bracket that has no other.
    #[error("a bracket is not closed")]
    Bracket,
    /// Text follows a closing bracket.
    #[error("only a port may follow the bracket of an address")]
    AfterBracket,
    /// A location without a host.
    #[error("the host is missing")]
    NoHost,
    /// More than one colon outside brackets.
    #[error("a host has one colon at most; an IPv6 address stands in brackets")]
    Colons,
    /// A colon that nothing follows.
    #[error("the port is missing after ':'")]
    NoPort,
    /// Neither a number up to 65535 nor the name of a service.
    #[error("the port is neither a number up to 65535 nor the name of a service")]
    Port,
}

impl Contact {
    /// Takes `text` apart.
    pub fn parse(text: &str) -> Result<Self, ContactError> {
        if text.is_empty() {
            return Err(ContactError::Empty);
        }
        if text.len() > LENGTH_BYTES_MAX {
            return Err(ContactError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(ContactError::Control);
        }
        let mut contact = Self {
            text: text.to_owned(),
            scheme: None,
            user: None,
            password: None,
            subject: None,
            host: None,
            port: None,
            path: None,
        };
        match split_scheme(text) {
            Some((scheme, rest)) => {
                contact.scheme = Some(scheme.to_ascii_lowercase());
                match rest.strip_prefix("//") {
                    Some(rest) => contact.read_location_and_path(rest)?,
                    None => contact.path = Some(path(rest)?),
                }
            }
            None if text.contains(':') && !text.contains('/') => {
                contact.read_host_and_port(text, |host| Ok(host.to_owned()))?;
            }
            None => contact.path = Some(PathBuf::from(text)),
        }
        Ok(contact)
    }

    fn read_location_and_path(&mut self, rest: &str) -> Result<(), ContactError> {
        let (location, resource) = split_location(rest)?;
        if let Some(resource) = resource {
            self.path = Some(path(resource)?);
        }
        if location.is_empty() {
            // file:///path
            return if self.path.is_some() { Ok(()) } else { Err(ContactError::NoHost) };
        }
        // The subject may hold any of the marks that follow, so it is cut out first.
        let (before, subject, after) = split_subject(location)?;
        let host = if let Some(subject) = subject {
            self.subject = Some(decode_text(subject)?);
            let Some(authority) = before.strip_suffix('@') else {
                return if before.is_empty() { self.read_named_host(after) } else { Err(ContactError::Bracket) };
            };
            self.read_authority(authority)?;
            after
        } else if let Some((authority, host)) = before.rsplit_once('@') {
            self.read_authority(authority)?;
            host
        } else {
            before
        };
        self.read_named_host(host)
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), ContactError> {
        let (user, password) = authority.split_once(':').map_or((authority, None), |(user, word)| (user, Some(word)));
        self.user = Some(decode_text(user)?);
        self.password = password.map(decode_text).transpose()?;
        Ok(())
    }

    /// A host that must be there.
    fn read_named_host(&mut self, text: &str) -> Result<(), ContactError> {
        self.read_host_and_port(text, decode_text)?;
        if self.host.is_some() { Ok(()) } else { Err(ContactError::NoHost) }
    }

    fn read_host_and_port(
        &mut self,
        text: &str,
        decode: impl Fn(&str) -> Result<String, ContactError>,
    ) -> Result<(), ContactError> {
        let (host, port) = if let Some(inside) = text.strip_prefix('[') {
            let (host, after) = inside.split_once(']').ok_or(ContactError::Bracket)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(ContactError::AfterBracket),
            }
        } else if text.contains(['[', ']']) {
            return Err(ContactError::Bracket);
        } else {
            match text.split_once(':') {
                Some((_, port)) if port.contains(':') => return Err(ContactError::Colons),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        self.host = if host.is_empty() { None } else { Some(decode(host)?) };
        self.port = port.map(checked_port).transpose()?;
        Ok(())
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> Option<&str> {
        self.scheme.as_deref()
    }

    /// Who asks.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password. Whoever shows a contact shows [`Contact::shown`].
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Whom the other end must prove to be.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The host's name or address, without brackets; none where any is meant.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The port, or a service's name.
    pub fn port(&self) -> Option<&str> {
        self.port.as_deref()
    }

    /// The path.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The text without the password, for messages.
    pub fn shown(&self) -> String {
        match (&self.password, self.text.split_once("://")) {
            (Some(_), Some((scheme, rest))) => {
                let user = rest.split_once(':').map_or(rest, |(user, _)| user);
                let after = rest.rsplit_once('@').map_or("", |(_, after)| after);
                format!("{scheme}://{user}:...@{after}")
            }
            _ => self.text.clone(),
        }
    }
}

/// The scheme and what follows its colon. `host:port` has none: a scheme is followed by `/`, except
/// where no port could be meant.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.chars();
    let valid = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.' | '_'));
    (valid && rest.starts_with('/')).then_some((scheme, rest))
}

/// What is before the first `/` outside `<>`, and the path with that `/`.
fn split_location(rest: &str) -> Result<(&str, Option<&str>), ContactError> {
    let mut inside = false;
    for (at, letter) in rest.char_indices() {
        match letter {
            '<' => inside = true,
            '>' => inside = false,
            '/' if !inside => return Ok((&rest[..at], Some(&rest[at..]))),
            _ => {}
        }
    }
    if inside { Err(ContactError::Bracket) } else { Ok((rest, None)) }
}

/// What is before, inside and after `<>`.
fn split_subject(location: &str) -> Result<(&str, Option<&str>, &str), ContactError> {
    let Some((before, rest)) = location.split_once('<') else {
        return if location.contains('>') { Err(ContactError::Bracket) } else { Ok((location, None, "")) };
    };
    let (subject, after) = rest.split_once('>').ok_or(ContactError::Bracket)?;
    if before.contains('>') || subject.contains('<') || after.contains(['<', '>']) {
        return Err(ContactError::Bracket);
    }
    Ok((before, Some(subject), after))
}

fn checked_port(port: &str) -> Result<String, ContactError> {
    if port.is_empty() {
        return Err(ContactError::NoPort);
    }
    let digits = port.bytes().all(|digit| digit.is_ascii_digit());
    let service = port.starts_with(|first: char| first.is_ascii_alphanumeric())
        && port.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_'));
    let valid = if digits { port.len() <= 5 && port.parse::<u16>().is_ok() } else { service };
    if valid { Ok(port.to_owned()) } else { Err(ContactError::Port) }
}

fn path(text: &str) -> Result<PathBuf, ContactError> {
    Ok(PathBuf::from(OsString::from_vec(decode(text)?)))
}

fn decode_text(text: &str) -> Result<String, ContactError> {
    let text = String::from_utf8(decode(text)?).map_err(|_| ContactError::Escape)?;
    if text.chars().any(char::is_control) { Err(ContactError::Control) } else { Ok(text) }
}

/// The bytes that `text` stands for, `%41` being `A`. A zero byte ends no name of the kernel's.
fn decode(text: &str) -> Result<Vec<u8>, ContactError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or(ContactError::Escape);
            (digit()? * 16 + digit()?) as u8
        } else {
            byte
        };
        if byte == 0 {
            return Err(ContactError::Control);
        }
        bytes.push(byte);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheme, user, password, subject, host, port, path; `-` for none.
    fn parts(text: &str) -> [String; 7] {
        let contact = Contact::parse(text).unwrap();
        let shown = |part: Option<&str>| part.unwrap_or("-").to_owned();
        [
            shown(contact.scheme()),
            shown(contact.user()),
            shown(contact.password()),
            shown(contact.subject()),
            shown(contact.host()),
            shown(contact.port()),
            shown(contact.path().and_then(Path::to_str)),
        ]
    }

    #[test]
    fn contact_strings_are_taken_apart() {
        assert_eq!(parts("localhost:5000"), ["-", "-", "-", "-", "localhost", "5000", "-"]);
        assert_eq!(parts(":5000"), ["-", "-", "-", "-", "-", "5000", "-"]);
        assert_eq!(parts("[::1]:ftp"), ["-", "-", "-", "-", "::1", "ftp", "-"]);
        assert_eq!(parts("some/file"), ["-", "-", "-", "-", "-", "-", "some/file"]);
        assert_eq!(parts("/a:b%41"), ["-", "-", "-", "-", "-", "-", "/a:b%41"]);
        assert_eq!(parts("file"), ["-", "-", "-", "-", "-", "-", "file"]);
        assert_eq!(parts("file:/a%20b"), ["file", "-", "-", "-", "-", "-", "/a b"]);
        assert_eq!(parts("FILE:///a"), ["file", "-", "-", "-", "-", "-", "/a"]);
        assert_eq!(parts("tcp://h:1"), ["tcp", "-", "-", "-", "h", "1", "-"]);
        assert_eq!(
            parts("gsiftp://me:a%40b@</O=Grid/CN=host/x:y@z>[fe80::1]:2811//root/f"),
            ["gsiftp", "me", "a@b", "/O=Grid/CN=host/x:y@z", "fe80::1", "2811", "//root/f"]
        );
        assert_eq!(parts("ftp://</CN=x>h/"), ["ftp", "-", "-", "/CN=x", "h", "-", "/"]);
        assert_eq!(parts("ftp://u@h"), ["ftp", "u", "-", "-", "h", "-", "-"]);
    }

    #[test]
    fn bad_contact_strings_are_refused_with_the_reason() {
        let cases = [
            ("", ContactError::Empty),
            ("a\0b", ContactError::Control),
            ("a\nb:1", ContactError::Control),
            ("ftp://%00h/", ContactError::Control),
            ("ftp://%0ah/", ContactError::Control),
            ("file:/%00", ContactError::Control),
            ("ftp://h/%4", ContactError::Escape),
            ("ftp://h/%", ContactError::Escape),
            ("ftp://h/%zz", ContactError::Escape),
            ("ftp://%ff/", ContactError::Escape),
            ("ftp://", ContactError::NoHost),
            ("ftp://:21/a", ContactError::NoHost),
            ("ftp://u@/a", ContactError::NoHost),
            ("ftp://</CN=x>/a", ContactError::NoHost),
            ("ftp://[::1/a", ContactError::Bracket),
            ("ftp://</CN=x/a", ContactError::Bracket),
            ("ftp://x>h/a", ContactError::Bracket),
            ("ftp://x</CN=y>h/a", ContactError::Bracket),
            ("ftp://<a<b>h/", ContactError::Bracket),
            ("a[b]:1", ContactError::Bracket),
            ("[::1]x:1", ContactError::AfterBracket),
            ("::1:5000", ContactError::Colons),
            ("h:", ContactError::NoPort),
            ("h:65536", ContactError::Port),
            ("h:000000000080", ContactError::Port),
            ("h:-1", ContactError::Port),
            ("h:a b", ContactError::Port),
        ];
        for (text, error) in cases {
            assert_eq!(Contact::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(Contact::parse(&"a".repeat(LENGTH_BYTES_MAX + 1)), Err(ContactError::TooLong));
    }

    #[test]
    fn a_password_is_not_shown() {
        let contact = Contact::parse("ftp://me:secret@host:21/file").unwrap();
        assert_eq!(contact.shown(), "ftp://me:...@host:21/file");
        assert_eq!(Contact::parse("tcp://host:21").unwrap().shown(), "tcp://host:21");
    }
}
