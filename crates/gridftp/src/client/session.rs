//! A session with what its server can do: what servers have in several ways is one call here.

use std::net::SocketAddr;

use super::truncated::not_truncated;
use super::{Client, Error, Settings};
use crate::command::{Command, Login};
use crate::features::{Features, Sha256By};
use crate::listing::{Entry, Kind, Lines, of_mdtm, of_mlst, of_nlst, of_pwd};
use crate::reply::Reply;

/// Most names of a directory of which the server says nothing but the names: each is asked for alone.
const NAMES_MAX: usize = 1_000_000;

/// How a directory was listed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Listed {
    /// With facts: every name is there.
    Whole,
    /// By names alone: the server may have left out those that start with a dot.
    NamesAlone,
}

/// A session whose server's features are known.
#[derive(Debug)]
pub struct Session {
    client: Client,
    features: Features,
    /// The working directory after the login; empty where the server does not say it.
    home: Vec<u8>,
}

impl Session {
    /// Connects, logs in and asks what the server can do.
    ///
    /// # Errors
    /// If nobody answers, or the login is refused.
    pub fn open(address: SocketAddr, login: Login, settings: impl Into<Settings>) -> Result<Self, Error> {
        let mut client = Client::connect(address, login, settings)?;
        let features = answer(client.ask(&Command::Feat))?.map_or_else(Features::default, |reply| Features::of(&reply));
        let home = answer(client.ask(&Command::Pwd))?.and_then(|reply| of_pwd(&reply)).unwrap_or_default();
        Ok(Self { client, features, home })
    }

    /// What the server can do.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The transfers and calls that every server has.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The path of a name in the directory in which the login began.
    pub fn below_home(&self, name: &[u8]) -> Vec<u8> {
        match self.home.strip_suffix(b"/").unwrap_or(&self.home) {
            _ if name.is_empty() && !self.home.is_empty() => self.home.clone(),
            home if self.home.is_empty() => [home, name].concat(),
            home => [home, b"/", name].concat(),
        }
    }

    /// What a path names; `None` for nothing. A server that has no facts is asked for length and time,
    /// and whether it is a directory.
    ///
    /// # Errors
    /// If the session is lost, or an answer cannot be used.
    pub fn look(&mut self, name: &[u8]) -> Result<Option<Entry>, Error> {
        if self.features.facts {
            let reply = found(self.client.ask(&Command::Mlst(name.to_vec())))?;
            let entry = reply.map(|reply| of_mlst(&reply)).transpose()?;
            return Ok(entry.map(|entry| match entry.kind {
                // MLST of a directory may call it so.
                Kind::Itself => Entry { kind: Kind::Directory, ..entry },
                _ => entry,
            }));
        }
        let entry = Entry::unknown(name);
        let size = match self.client.size(name) {
            Err(Error::Refused { .. }) => None,
            size => Some(size?),
        };
        let modified = if size.is_some() { self.modified(name)? } else { None };
        // Some servers say a length of directories too, but none a time.
        if modified.is_none() && answer(self.client.ask(&Command::Cwd(name.to_vec())))?.is_some() {
            return Ok(Some(Entry { kind: Kind::Directory, ..entry }));
        }
        Ok(size.map(|size| Entry { kind: Kind::File, size: Some(size), modified, ..entry }))
    }

    /// Whether many small files can be asked for together, which needs Mode E and facts of names.
    pub fn has_many(&self) -> bool {
        self.features.parallel && self.features.facts && self.client.keeps_channels()
    }

    /// The same as [`Session::look`] for many paths, where the server [has many](Session::has_many); `None` also for a path
    /// of which it says nothing that can be used.
    ///
    /// # Errors
    /// If the session is lost, or a path cannot be sent.
    pub fn look_many(&mut self, names: &[&[u8]]) -> Result<Vec<Option<Entry>>, Error> {
        let commands: Vec<Command> = names.iter().map(|name| Command::Mlst(name.to_vec())).collect();
        let replies = self.client.ask_many(&commands)?;
        Ok(replies.into_iter().map(|reply| reply.ok().and_then(|reply| of_mlst(&reply).ok())).collect())
    }

    /// The same as [`Session::sha256`] for many files; `None` also for one that the server refuses.
    ///
    /// # Errors
    /// If the session is lost, or a name cannot be sent.
    pub fn sha256_many(&mut self, names: &[&[u8]]) -> Result<Vec<Option<String>>, Error> {
        if self.features.sha256 != Some(Sha256By::Cksm) {
            return names.iter().map(|name| self.sha256(name)).collect();
        }
        let commands: Vec<Command> = names.iter().map(|name| Command::Cksm("SHA256", name.to_vec())).collect();
        let replies = self.client.ask_many(&commands)?;
        Ok(replies.into_iter().map(|reply| reply.ok().and_then(|reply| sha256_in(&reply))).collect())
    }

    /// Sets the times of many files, of those for which the server does.
    ///
    /// # Errors
    /// If the session is lost, or a name cannot be sent.
    pub fn set_modified_many(&mut self, times: &[(&[u8], [u8; 14])]) -> Result<(), Error> {
        let command = if self.features.mfmt { Command::Mfmt } else { Command::MdtmSet };
        let commands: Vec<Command> = times.iter().map(|(name, time)| command(*time, name.to_vec())).collect();
        self.client.ask_many(&commands).map(drop)
    }

    /// Renames many files; whether each has its new name.
    ///
    /// # Errors
    /// If the session is lost, or a name cannot be sent.
    pub fn rename_many(&mut self, names: &[(&[u8], &[u8])]) -> Result<Vec<bool>, Error> {
        let both = |(from, to): &(&[u8], &[u8])| [Command::Rnfr(from.to_vec()), Command::Rnto(to.to_vec())];
        let commands: Vec<Command> = names.iter().flat_map(both).collect();
        let replies = self.client.ask_many(&commands)?;
        Ok(replies.chunks(2).map(|pair| pair.iter().all(Result::is_ok)).collect())
    }

    /// Whether [`Session::list_whole`] would tell a listing that somebody between has cut from a whole one: GSI has no
    /// end of data channels, but one of replies. What TLS protects has an end, and what nothing protects is not asked.
    pub fn knows_ends(&self) -> bool {
        !self.client.has_protected_replies() || self.features.facts_by_control
    }

    /// The same as [`Session::list`], for a caller that takes what is not listed for not there.
    ///
    /// # Errors
    /// As [`Session::list`].
    pub fn list_whole(&mut self, name: &[u8], each: &mut dyn FnMut(Entry)) -> Result<Listed, Error> {
        match self.client.has_protected_replies() && self.features.facts_by_control {
            true => self.client.list_by_control(name, each).map(|()| Listed::Whole),
            false => self.list(name, each),
        }
    }

    /// Gives every entry of a directory to `each`.
    ///
    /// # Errors
    /// If the server refuses, lists what is no name of this directory, or says that there are more names than it lists.
    pub fn list(&mut self, name: &[u8], each: &mut dyn FnMut(Entry)) -> Result<Listed, Error> {
        if self.features.facts {
            return self.client.list(name, each).map(|()| Listed::Whole);
        }
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut lines = Lines::default();
        // Without an argument: servers take one for a pattern.
        self.client.ask(&Command::Cwd(name.to_vec()))?;
        let listed = self.client.receive_stream(&Command::Nlst, &mut |bytes| {
            lines.take(bytes, |line| {
                if names.len() == NAMES_MAX {
                    return Err(Error::TooManyNames(NAMES_MAX));
                }
                names.extend(of_nlst(line, name)?.map(<[u8]>::to_vec));
                Ok(())
            })
        });
        match listed {
            Ok(reply) if says_unread(&reply) => {
                return Err(Error::Refused { verb: Command::Nlst.verb(), code: reply.code, reply: reply.shown() });
            }
            Err(Error::Refused { code: 450 | 550, reply, .. }) if says_empty(&reply) => {}
            listed => not_truncated(&listed?)?,
        }
        if !lines.is_whole() {
            return Err(Error::ListingCut);
        }
        for one in names {
            let path = [name.strip_suffix(b"/").unwrap_or(name), b"/", &one].concat();
            let entry = match self.look(&path) {
                // A name with a line break within cannot be asked for.
                Err(Error::Control(crate::control::ControlError::Name(_))) => Some(Entry::unknown(&one)),
                entry => entry?,
            };
            // What has gone meanwhile is not there; what is no file and no directory is listed.
            each(Entry { name: one.clone(), ..entry.unwrap_or_else(|| Entry::unknown(&one)) });
        }
        Ok(Listed::NamesAlone)
    }

    /// A file's time, where the server says it.
    ///
    /// # Errors
    /// If the session is lost, or the answer is no time.
    pub fn modified(&mut self, name: &[u8]) -> Result<Option<[u8; 14]>, Error> {
        let reply = answer(self.client.ask(&Command::Mdtm(name.to_vec())))?;
        Ok(reply.map(|reply| of_mdtm(&reply)).transpose()?)
    }

    /// Sets a file's time; false where the server does not.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn set_modified(&mut self, name: &[u8], time: [u8; 14]) -> Result<bool, Error> {
        let command = if self.features.mfmt { Command::Mfmt } else { Command::MdtmSet };
        Ok(answer(self.client.ask(&command(time, name.to_vec())))?.is_some())
    }

    /// A file's SHA-256 in hexadecimal digits, where the server says it.
    ///
    /// # Errors
    /// If the session is lost, or the answer is no such value.
    pub fn sha256(&mut self, name: &[u8]) -> Result<Option<String>, Error> {
        let command = match self.features.sha256 {
            None => return Ok(None),
            Some(Sha256By::Cksm) => Command::Cksm("SHA256", name.to_vec()),
            Some(Sha256By::Xsha256) => Command::Xsha256(name.to_vec()),
            Some(Sha256By::Hash) => {
                if answer(self.client.ask(&Command::HashOption("SHA-256")))?.is_none() {
                    return Ok(None);
                }
                Command::Hash(name.to_vec())
            }
        };
        let Some(reply) = answer(self.client.ask(&command))? else { return Ok(None) };
        let digits = sha256_in(&reply);
        digits.map(Some).ok_or_else(|| Error::Answer { verb: command.verb(), reply: reply.shown() })
    }

    /// Ends the session in order.
    pub fn quit(self) {
        self.client.quit();
    }
}

/// Whether a refusal to list a directory only says that nothing is in it. Whatever else it says, the
/// directory is not known to be empty.
fn says_empty(reply: &str) -> bool {
    let text = reply.to_ascii_lowercase();
    ["no files", "no such file", "empty"].iter().any(|words| text.contains(words))
}

/// Whether a server says of a list that it has sent that there is none: vsftpd calls it a success when
/// it may not read a directory.
fn says_unread(reply: &Reply) -> bool {
    reply.shown().to_ascii_lowercase().contains("failed to open")
}

/// The first word of a reply that is a SHA-256: HASH says algorithm and range before it and the name
/// behind it, and proftpd a line before.
fn sha256_in(reply: &Reply) -> Option<String> {
    let mut words = reply.lines.iter().flat_map(|line| line.split(u8::is_ascii_whitespace));
    let word = words.find(|word| word.len() == 64 && word.iter().all(u8::is_ascii_hexdigit))?;
    Some(String::from_utf8_lossy(word).to_ascii_lowercase())
}

/// The answer to a command that the server may not know or not want.
fn answer(asked: Result<Reply, Error>) -> Result<Option<Reply>, Error> {
    match asked {
        Ok(reply) => Ok(Some(reply)),
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The answer about a name that may not be there.
fn found(asked: Result<Reply, Error>) -> Result<Option<Reply>, Error> {
    match asked {
        Err(Error::Refused { code: 550, .. }) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_found_in_every_form_of_its_reply() {
        let digits = "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03";
        for text in [digits.to_owned(), format!("SHA-256 0-6 {digits} file"), format!(" {digits} ")] {
            let reply = Reply { code: 213, lines: vec![text.clone().into_bytes()] };
            assert_eq!(sha256_in(&reply), Some(digits.to_ascii_lowercase()), "{text}");
        }
        let lines =
            ["Computing SHA-256 digest", &format!("SHA-256 0-6 {digits} /f")].map(|line| line.as_bytes().to_vec());
        let reply = Reply { code: 213, lines: lines.to_vec() };
        assert_eq!(sha256_in(&reply), Some(digits.to_ascii_lowercase()));
        for text in ["", "ab", &digits[1..], "x"] {
            assert_eq!(sha256_in(&Reply { code: 213, lines: vec![text.as_bytes().to_vec()] }), None, "{text}");
        }
    }
}
