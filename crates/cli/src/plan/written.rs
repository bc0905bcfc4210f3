//! URLs as people write them: what is wrong with one, and how it is repeated.

use crate::text::shell_word;
use crate::url::{SCHEME, SSH_SCHEME};

/// The URL of a server, from one that names no export.
pub(super) fn server_of(url: &str) -> String {
    let (place, key) = url.split_once('#').map_or((url, String::new()), |(place, key)| (place, format!("#{key}")));
    let host = place.strip_prefix(SCHEME).unwrap_or(place).split('/').next().unwrap_or_default();
    shell_word(&format!("{SCHEME}{host}/{key}"))
}

/// What is wrong with a URL whose scheme is nearly one of ours, or another program's for the same, and
/// the URL that was meant.
pub(super) fn other_form(url: &str) -> Option<(&'static str, String)> {
    if let Some(rest) = url.strip_prefix("xdfs:") {
        return Some(("two slashes follow 'xdfs:'", format!("{SCHEME}{}", rest.trim_start_matches('/'))));
    }
    let (scheme, rest) = url.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "sftp" | "scp" => Some(("over ssh, xdfs takes ssh:// URLs", format!("{SSH_SCHEME}{rest}"))),
        "sshftp" => {
            Some(("GridFTP over ssh is not supported; ssh:// needs no server there", format!("{SSH_SCHEME}{rest}")))
        }
        lower @ ("xdfs" | "ssh" | "ftp" | "ftps" | "gsiftp") if lower != scheme => {
            Some(("the scheme is written in lower case", format!("{lower}://{rest}")))
        }
        _ => None,
    }
}

/// A URL as it is repeated in an error. The user may have put a password where other programs
/// expect it: it is removed.
pub(super) fn without_password(url: String) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url };
    match (rest.find(':'), rest.rfind('@')) {
        (Some(from), Some(to)) if from < to => format!("{scheme}://{}:...{}", &rest[..from], &rest[to..]),
        _ => url,
    }
}
