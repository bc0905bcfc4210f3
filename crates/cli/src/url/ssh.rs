//! Paths on machines that are reached over ssh: `ssh://[user@]host[:port]/path` from the root, with
//! %XX decoded as in every URL, and `ssh:[user@]host:path` from the home directory (or the root, if
//! the path starts with a slash), with every byte as typed, as in scp.

use std::fmt;

use xdfs_proto::base::RelPath;

use super::{
    PathPattern, SSH_EXPORTS, SSH_PREFIX, SSH_SCHEME, Url, UrlError, Via, decode, parse_host_port, parse_user, path_of,
    show_path, split_once,
};

/// Reads either form; `text` starts with `ssh:`.
pub(super) fn read(text: &[u8]) -> Result<Url, UrlError> {
    let Some(rest) = text.strip_prefix(SSH_SCHEME.as_bytes()) else {
        return read_as_scp(&text[SSH_PREFIX.len()..]);
    };
    if rest.contains(&b'#') {
        return Err(UrlError::SshKey);
    }
    if rest.contains(&b'?') {
        return Err(UrlError::Query);
    }
    let (authority, path) = split_once(rest, b'/').ok_or(UrlError::SshPath)?;
    let components: Result<Vec<_>, _> = path.split(|&byte| byte == b'/').map(decode).collect();
    let pattern = PathPattern::of_encoded(path.split(|&byte| byte == b'/').filter(|name| is_meant(name)));
    Ok(Url { pattern, ..of_parts(authority, true, &components?)? })
}

fn read_as_scp(text: &[u8]) -> Result<Url, UrlError> {
    // An IPv6 address has colons of its own, in brackets. Behind the first colon brackets are of the path.
    let has_address = text.iter().find(|byte| b":[".contains(byte)) == Some(&b'[');
    let end = text.iter().position(|&byte| byte == b']').filter(|_| has_address);
    let bracketed = end.map_or(0, |end| end + 1);
    let (host, path) = split_once(&text[bracketed..], b':').ok_or(UrlError::SshPath)?;
    let authority = &text[..bracketed + host.len()];
    // It begins there anyway; a directory of that name is written './~'.
    let path = if path == b"~" { b"" } else { path.strip_prefix(b"~/").unwrap_or(path) };
    let (from_root, path) = path.strip_prefix(b"/").map_or((false, path), |rest| (true, rest));
    let components: Vec<_> = path.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect();
    let pattern = PathPattern::of_plain(path.split(|&byte| byte == b'/').filter(|name| is_meant(name)));
    Ok(Url { pattern, ..of_parts(authority, from_root, &components)? })
}

/// Empty components and '.' mean nothing in a path of Unix.
fn is_meant(component: &[u8]) -> bool {
    !matches!(component, b"" | b".")
}

fn of_parts(authority: &[u8], from_root: bool, components: &[Vec<u8>]) -> Result<Url, UrlError> {
    let (user, host_port) = match split_once(authority, b'@') {
        Some((user, rest)) => (Some(parse_user(user)?), rest),
        None => (None, authority),
    };
    if user.as_ref().is_some_and(|user| user.starts_with('-')) {
        return Err(UrlError::SshUser);
    }
    let (host, port) = parse_host_port(host_port)?;
    let last = components.last().map(Vec::as_slice);
    let meant: Vec<&Vec<u8>> = components.iter().filter(|name| is_meant(name)).collect();
    if meant.iter().any(|name| *name == b"..") {
        return Err(UrlError::SshUp);
    }
    let path: RelPath = path_of(&meant)?;
    let export = SSH_EXPORTS[usize::from(!from_root)].to_owned();
    let directory = matches!(last, Some(b"" | b".")) || path.is_root();
    let contents = last == Some(b".");
    let port = port.unwrap_or(0);
    let (via, password, pattern, key) = (Via::Ssh, None, None, None);
    Ok(Url { via, user, password, host, port, export, path, pattern, directory, contents, key })
}

/// The form in which it can be typed again, but for bytes of a path behind `ssh:` that are shown escaped. A `?` in a pattern
/// cannot stand behind `ssh://`.
pub(super) fn show(url: &Url, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let from_root = url.export == SSH_EXPORTS[0];
    let as_scp = !from_root || url.pattern.as_ref().is_some_and(PathPattern::has_any_one);
    f.write_str(if as_scp { SSH_PREFIX } else { SSH_SCHEME })?;
    if let Some(user) = &url.user {
        write!(f, "{user}@")?;
    }
    write!(f, "{}", url.host)?;
    if url.port != 0 {
        write!(f, ":{}", url.port)?;
    }
    if as_scp {
        let start = match (from_root, url.path.components().next()) {
            (true, _) => "/",
            // A '~' alone would be the home directory.
            (false, Some(b"~")) => "./",
            (false, _) => "",
        };
        write!(f, ":{start}{}", url.path.as_bytes().escape_ascii())?;
    } else {
        show_path(url, f)?;
    }
    // Behind the colon of the home directory itself it would be the root.
    if url.directory && (from_root || !url.path.is_root()) { f.write_str("/") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Url, UrlError> {
        Url::parse(OsStr::new(text))
    }

    /// Export, path, and whether only a directory will do.
    fn place(text: &str) -> (String, String, bool) {
        let url = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (url.export, url.path.as_bytes().escape_ascii().to_string(), url.directory)
    }

    #[test]
    fn both_forms_name_a_machine_and_a_path_on_it() {
        let at = |export: &str, path: &str, directory| (export.to_owned(), path.to_owned(), directory);
        for (text, expected) in [
            ("ssh://h/a/b", at("root", "a/b", false)),
            ("ssh://h/a%20b/", at("root", "a b", true)),
            ("ssh://h/", at("root", "", true)),
            ("ssh://h//a/./b/.", at("root", "a/b", true)),
            ("ssh:h:a/b", at("home", "a/b", false)),
            ("ssh:h:a%20b #?:c", at("home", "a%20b #?:c", false)),
            ("ssh:h:", at("home", "", true)),
            ("ssh:h:.", at("home", "", true)),
            ("ssh:h:~", at("home", "", true)),
            ("ssh:h:~/a", at("home", "a", false)),
            ("ssh:h:./~/a", at("home", "~/a", false)),
            ("ssh:h:/", at("root", "", true)),
            ("ssh:h:/etc/passwd", at("root", "etc/passwd", false)),
            ("ssh:anna@[::1]:a", at("home", "a", false)),
            ("ssh:h:run[12].txt", at("home", "run[12].txt", false)),
            ("ssh:anna@[::1]:a[b]:c", at("home", "a[b]:c", false)),
        ] {
            assert_eq!(place(text), expected, "{text}");
        }
        for shown in
            ["ssh:h:./~/a", "ssh:h:~a", "ssh:h:", "ssh:h:a/", "ssh://h/", "ssh:h:/a/b?[c]", "ssh://h/a/b%3F[c]"]
        {
            assert_eq!(parse(shown).unwrap().to_string(), shown);
        }
        let url = parse("ssh://anna@h:2222/a").unwrap();
        assert_eq!((url.via, url.user.as_deref(), url.port), (Via::Ssh, Some("anna"), 2222));
        assert_eq!(parse("ssh:anna@h:a").unwrap().port, 0, "ssh's own configuration names it");
        assert!(parse("ssh:h:a/.").unwrap().contents && !parse("ssh:h:a/").unwrap().contents);
    }

    #[test]
    fn what_ssh_would_misread_and_what_cannot_be_meant_is_refused() {
        for (text, fault) in [
            ("ssh://h", UrlError::SshPath),
            ("ssh:h", UrlError::SshPath),
            ("ssh:", UrlError::SshPath),
            ("ssh:h/x", UrlError::SshPath),
            ("ssh:h:../x", UrlError::SshUp),
            ("ssh://h/a/../x", UrlError::SshUp),
            ("ssh://-oProxyCommand=x@h/a", UrlError::User),
            ("ssh:-l@h:a", UrlError::SshUser),
            ("ssh://-h/a", UrlError::Host("-h".to_owned())),
            ("ssh:-h:a", UrlError::Host("-h".to_owned())),
            ("ssh://a:secret@h/x", UrlError::Password),
            ("ssh:@h:x", UrlError::User),
            ("ssh://h/a#b", UrlError::SshKey),
            ("ssh://h/a?b", UrlError::Query),
            ("ssh://h/a%2Fb", UrlError::EncodedSlash),
            ("ssh://h:0/a", UrlError::Port("0".to_owned())),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_path_from_the_root_is_written_as_it_is_read(
            components in prop::collection::vec(prop::collection::vec(1..=255u8, 1..40), 1..6),
            port in 0..=65535u16,
            directory: bool,
        ) {
            let mut path = RelPath::default();
            for component in &components {
                prop_assume!(path.push(component).is_ok());
            }
            let like = parse("ssh://anna@h/x").unwrap();
            let url = Url { port, path, directory, ..like };
            prop_assert_eq!(parse(&url.to_string()).unwrap(), url);
        }

        #[test]
        fn no_text_makes_the_reader_panic_or_pass_a_forbidden_component(text in "ssh:(//)?[a-z@:/%.0-9#?\\[\\]-]{0,60}") {
            if let Ok(url) = parse(&text) {
                let starts_an_option = |text: &str| text.starts_with('-');
                prop_assert!(!starts_an_option(&url.host.to_string()));
                prop_assert!(!url.user.as_deref().is_some_and(starts_an_option));
                for component in url.path.components() {
                    prop_assert!(!component.is_empty() && component != b"." && component != b"..");
                    prop_assert!(!component.contains(&b'/') && !component.contains(&0));
                }
            }
        }
    }
}
