//! What is read from the machine and its programs rather than from a peer, and URLs: journals of interrupted transfers, an SSH
//! agent's answers, certificates, the file of users. Where the reader is no public interface its crate judges it.

#[allow(dead_code, reason = "the command's own module, of which URLs alone are fed")]
#[path = "../../../crates/cli/src/url/mod.rs"]
mod url;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub(super) fn journal(input: &[u8]) {
    xdfs_io::store::local::feed_journal(input);
}

pub(super) fn agent(input: &[u8]) {
    xdfs_client::identity::feed_agent(input);
}

pub(super) fn certificate(input: &[u8]) {
    xdfs_secure::handshake::tls::feed_certificate(input);
}

pub(super) fn users(input: &[u8]) {
    xdfs_server::users::feed_users(input);
}

/// A URL that parses is written as one that parses to the same; everything else is an error with words.
pub(super) fn urls(input: &[u8]) {
    let text = OsStr::from_bytes(input);
    for parsed in [url::Url::parse(text), url::Url::parse_listed(text)] {
        match parsed {
            // Behind `ssh:` a path has its own bytes, and those that cannot be seen are shown escaped, which is for people.
            Ok(parsed) if is_shown_as_scp(&parsed) && is_escaped(parsed.path.as_bytes()) => {}
            Ok(parsed) => {
                let again = url::Url::parse_listed(OsStr::new(&parsed.to_string()));
                // A password is not shown again, and of a directory not that its contents were meant.
                let mut shown = url::Url { password: None, contents: false, ..parsed };
                if let (Some(_), Ok(again)) = (&shown.pattern, &again) {
                    assert_eq!(patterns(again), patterns(&shown));
                    // The path has it as it was typed, with or without backslashes.
                    shown.path.clone_from(&again.path);
                    shown.pattern.clone_from(&again.pattern);
                }
                assert_eq!(again.as_ref(), Ok(&shown));
            }
            Err(error) => assert!(!error.to_string().is_empty() && !error.example().is_empty()),
        }
    }
    if let Err(error) = url::parse_server(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// The components that are patterns, and where they stand; one whose marks all have backslashes is a name.
fn patterns(url: &url::Url) -> Vec<(usize, &[u8])> {
    let components = url.pattern.iter().flat_map(url::PathPattern::components).enumerate();
    components.filter_map(|(at, pattern)| Some((at, pattern.filter(|pattern| has_mark(pattern))?))).collect()
}

fn is_shown_as_scp(url: &url::Url) -> bool {
    let shown = url.to_string();
    shown.starts_with("ssh:") && !shown.starts_with("ssh://")
}

fn is_escaped(path: &[u8]) -> bool {
    path.escape_ascii().to_string().as_bytes() != path
}

/// Whether `*` or `[` stands in a pattern without a backslash before it.
fn has_mark(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'*' | b'[' => return true,
            _ => {}
        }
    }
    false
}
