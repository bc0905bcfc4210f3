//! The names that a word may become: of servers that are known here, and of files on them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use xdfs_client::trust::KnownHosts;
use xdfs_client::wire::{FileType, Wanted};

use super::Tell;
use super::place::Place;
use crate::cmd::connect::SessionRequest;
use crate::cmd::remote::{Sessions, wire_name};
use crate::plan::LoginPlan;
use crate::state;
use crate::url::{SCHEME, Url};

/// Names that are told at most: nobody reads more of them.
const NAMES_MAX: usize = 10_000;

/// Tells what `word` may become.
pub(super) fn fitting(word: &[u8], login: LoginPlan, tell: Tell<'_>) -> Option<()> {
    match Place::of(word) {
        Some(place) => on_server(&place, login, tell),
        None => {
            tell(servers(word, &login));
            Some(())
        }
    }
}

/// Tells the names in a directory of a server.
fn on_server(place: &Place<'_>, login: LoginPlan, tell: Tell<'_>) -> Option<()> {
    let typed = OsStr::from_bytes(place.directory);
    let expanded = login.config.expand(typed).ok()?;
    let url = Url::parse_listed(expanded.as_deref().unwrap_or(typed)).ok()?;
    if url.pattern.is_some() || url.is_ftp() {
        return None;
    }
    let mut sessions = Sessions::new(SessionRequest::default(), login);
    let (session, _) = sessions.with(&url).ok()?;
    let mut words = Vec::new();
    for page in &mut session.list(wire_name(&url), Wanted::NOTHING).ok()? {
        for entry in page.ok()?.entries().into_iter().flatten() {
            // A server could tell anything.
            if url.below(entry.name).is_none() {
                continue;
            }
            let is_directory = url.export.is_empty() || entry.attributes.kind == FileType::Directory;
            words.extend(place.word(entry.name, is_directory));
            if words.len() > NAMES_MAX {
                return None;
            }
        }
    }
    words.sort();
    tell(words);
    sessions.close();
    Some(())
}

/// The servers that are known here: of the configuration file by their short names, and as URLs.
fn servers(word: &[u8], login: &LoginPlan) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = login.config.names().map(|name| format!("{name}:").into_bytes()).collect();
    if word.starts_with(SCHEME.as_bytes()) {
        let start = word.iter().rposition(|&byte| byte == b'@').map_or(SCHEME.len(), |at| at + 1);
        let known = state::own(login.state.as_deref()).ok().and_then(|folder| KnownHosts::read(&folder).ok());
        let urls = known.iter().flat_map(KnownHosts::iter).filter_map(|(host, _)| {
            Url::parse_listed(OsStr::new(&format!("{SCHEME}{host}/"))).ok().map(|url| url.to_string())
        });
        words = urls.map(|url| [&word[..start], &url.as_bytes()[SCHEME.len()..]].concat()).collect();
    }
    words.retain(|known| known.starts_with(word));
    words
}
