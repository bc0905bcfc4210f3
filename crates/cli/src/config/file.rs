//! Converts the text of a configuration file to the servers that it names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;
use serde::Deserialize;
use toml::Spanned;

use super::{HostSettings, is_alias, path_of};
use crate::bandwidth;
use crate::protection::Protection;
use crate::stack::ChannelStack;
use crate::text::printable_path;
use crate::url::{SCHEME, SSH_PREFIX, SSH_SCHEME, Url, Via, is_export_name, is_user_name};

/// Channels of a session at most.
const CHANNELS_MAX: u16 = 4096;

/// A word with its position.
type Word = Spanned<String>;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileTable {
    #[serde(default)]
    hosts: BTreeMap<Word, HostTable>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct HostTable {
    address: Word,
    user: Option<Word>,
    export: Option<Word>,
    identity: Option<Word>,
    host_key: Option<Word>,
    channels: Option<Spanned<u16>>,
    protection: Option<Word>,
    bandwidth: Option<Word>,
    stack: Option<Word>,
}

/// The file and its text, for errors.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    /// `FILE:LINE: what is wrong; remedy`.
    fn at(&self, byte: usize, message: &str) -> String {
        format!("{}:{}: {message}", printable_path(self.path), self.line(byte))
    }

    fn line(&self, byte: usize) -> usize {
        1 + self.text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
    }

    fn word(&self, word: &Word, good: bool, remedy: &str) -> Result<(), String> {
        if good {
            return Ok(());
        }
        Err(self.at(word.span().start, &format!("'{}': {remedy}", word.get_ref().escape_debug())))
    }
}

/// The servers of a file.
pub(super) fn parse(path: &Path, text: &str, home: Option<&Path>) -> Result<BTreeMap<String, HostSettings>, String> {
    let file = Text { path, text };
    let table: FileTable = toml::from_str(text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        // Only the number of channels is one.
        let message = match error.message().ends_with("expected u16") {
            true => format!("channels: write a number from 1 to {CHANNELS_MAX}, without quotes"),
            false => match error.message().strip_prefix("unknown field `bwlimit`") {
                Some(_) => {
                    "unknown key 'bwlimit'\nhelp: it is called bandwidth here, as in bandwidth = \"10M\"".to_owned()
                }
                None => format!("{}\nhelp: 'man xdfs-config' lists the keys", error.message()),
            },
        };
        file.at(byte, &message)
    })?;
    let hosts = table.hosts.into_iter().map(|(name, host)| {
        let rule =
            "a server's short name has letters, digits, '.', '_' and '-', and is none of ssh, xdfs, zero, random, null";
        file.word(&name, is_alias(name.get_ref()), rule)?;
        Ok((name.get_ref().clone(), settings(&file, host, home)?))
    });
    hosts.collect()
}

fn settings(file: &Text<'_>, host: HostTable, home: Option<&Path>) -> Result<HostSettings, String> {
    if let Some(user) = &host.user {
        file.word(user, is_user_name(user.get_ref()), "a user name has letters, digits, '.', '_' and '-'")?;
    }
    if let Some(export) = &host.export {
        file.word(export, is_export_name(export.get_ref()), "an export is named by letters, digits, '.', '_' and '-'")?;
    }
    if let Some(identity) = &host.identity {
        let good = !identity.get_ref().is_empty() && !identity.get_ref().contains('\0');
        file.word(identity, good, "this names no file\nhelp: write the path of a private key")?;
    }
    if let Some(channels) = &host.channels
        && !(1..=CHANNELS_MAX).contains(channels.get_ref())
    {
        let text = format!("channels = {}: write a number from 1 to {CHANNELS_MAX}", channels.get_ref());
        return Err(file.at(channels.span().start, &text));
    }
    let protection = host.protection.as_ref().map(|word| {
        let found = Protection::from_str(word.get_ref(), false).ok();
        file.word(word, found.is_some(), "write one of: private, integrity, clear").map(|()| found)
    });
    let limit = |word: &Word| {
        let wrong =
            |error| file.at(word.span().start, &format!("bandwidth = \"{}\": {error}", word.get_ref().escape_debug()));
        bandwidth::parse(word.get_ref()).map_err(wrong)
    };
    if let Some(stack) = &host.stack {
        let checked = match host.address.get_ref().starts_with(SSH_SCHEME) {
            true => Err("over ssh there is no stack: ssh makes the connection".to_owned()),
            false => ChannelStack::parse(stack.get_ref()).map(drop),
        };
        checked.map_err(|error| file.at(stack.span().start, &format!("stack = {error}")))?;
    }
    Ok(HostSettings {
        server: server(file, &host)?,
        key_line: host.host_key.as_ref().map(|key| file.line(key.span().start)),
        export: host.export.map(Spanned::into_inner),
        identity: host.identity.map(|word| path_of(word.get_ref(), file.path, home)),
        channels: host.channels.map(Spanned::into_inner),
        protection: protection.transpose()?.flatten(),
        bandwidth: host.bandwidth.as_ref().map(limit).transpose()?,
        stack: host.stack.map(Spanned::into_inner),
    })
}

/// The server that a table names. Its parts go through the reader of URLs, which is the one judge of
/// them.
fn server(file: &Text<'_>, host: &HostTable) -> Result<Url, String> {
    let address = host.address.get_ref();
    let wrong = |byte: usize, text: &str| file.at(byte, text);
    let (scheme, place) = match address.strip_prefix(SSH_SCHEME) {
        Some(place) => (Via::Ssh, place),
        None => (Via::Port, address.as_str()),
    };
    let start = host.address.span().start;
    if place.contains(['/', '#', '?', '@', '%']) {
        let text = "write HOST, HOST:PORT or ssh://HOST; user, export and host-key have keys of their own";
        return Err(wrong(start, &format!("address = \"{}\": {text}", address.escape_debug())));
    }
    let user = host.user.as_ref().map_or(String::new(), |user| format!("{}@", user.get_ref()));
    let text = match scheme {
        Via::Ssh => format!("{SSH_PREFIX}{user}{place}:"),
        _ => format!("{SCHEME}{user}{place}/"),
    };
    let fault = |fault| wrong(start, &format!("address = \"{}\": {fault}", address.escape_debug()));
    let mut url = Url::parse_listed(OsStr::new(&text)).map_err(fault)?;
    if scheme == Via::Ssh
        && let Some(word) = host.export.as_ref().or(host.host_key.as_ref()).or(host.identity.as_ref())
    {
        let text = "over ssh there are neither exports nor keys of xdfs: ssh has a configuration of its own";
        return Err(wrong(word.span().start, text));
    }
    if scheme == Via::Ssh && (url.path.is_root(), url.export.as_str()) != (true, "home") {
        return Err(wrong(
            start,
            "a port of ssh is set in ssh's own configuration (~/.ssh/config)\nhelp: write ssh://HOST",
        ));
    }
    if let Some(key) = &host.host_key {
        let pinned = Url::parse_listed(OsStr::new(&format!("{url}#{}", key.get_ref())));
        url = pinned.map_err(|_| {
            let text =
                "host-key is the server's fingerprint, SHA256: and 43 base64 digits ('xdfs key show --host' there)";
            wrong(key.span().start, text)
        })?;
    }
    Ok(url)
}
