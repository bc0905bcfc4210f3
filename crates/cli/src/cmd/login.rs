//! What a client offers when it logs in: keys that need no prompt first, then those that need one.
//!
//! A key is offered if the URL names a user. Without one it logs in with a token if there is one; to a
//! server that is known here, under a name that is assumed, with the keys that need no prompt; and
//! otherwise as a visitor. No server that is not known learns which keys this person has.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use xdfs_client::identity::{Identities, Identity, identities};
use xdfs_client::trust::HostName;
use xdfs_client::{Error, Offer};
use xdfs_io::store::Secrecy;
use xdfs_secure::Zeroizing;
use xdfs_secure::identity::openssh::write_public;
use xdfs_secure::identity::{Signer, read_token};
use xdfs_secure::login::Password;

use super::key_files::{places, text_of, unusable};
use super::user::first_line;
use crate::exit::{Exit, Failure, HELP};
use crate::output::complain;
use crate::plan::LoginPlan;
use crate::text::printable;
use crate::url::Url;
use crate::{ask, state};

/// How often a password is requested: one typing error, and one more. A server delays further
/// tries.
const PASSWORD_TRIES: usize = 3;

/// Secrets that were typed in this command and accepted by a server: after a lost connection there
/// is no second prompt.
#[derive(Debug, Default)]
pub(crate) struct TypedSecrets(RefCell<Vec<(HostName, String, Offer, String)>>);

impl TypedSecrets {
    fn find(&self, host: &HostName, user: &str) -> Option<(Offer, String)> {
        let known = self.0.borrow();
        let found = known.iter().find(|(other, name, ..)| other == host && name == user);
        found.map(|(_, _, offer, from)| (offer.clone(), from.clone()))
    }
}

/// Keys that are offered under an assumed name at most: a server takes six offers of a connection, and
/// the last one is that of a visitor.
const ASSUMED_KEYS_MAX: usize = 5;

/// Who logs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum User {
    /// The user that the URL names.
    Named(String),
    /// Perhaps this one, at a server that is known: if it has none of this name with one of the keys,
    /// a visitor.
    Assumed(String),
    /// The URL names none.
    Nobody,
}

/// The offers to one server for one user.
pub(super) struct Offers {
    user: String,
    /// The option that commands need to find the state folder.
    state_option: String,
    /// Offered first, with the origin of each.
    ready: Vec<(Offer, String)>,
    /// Keys with passphrases, which are requested if nothing else was accepted.
    locked: Vec<Identity>,
    /// How often a password may still be requested if nothing else was accepted.
    passwords: usize,
    /// The public half of the first key that was offered, for the message of a refusal.
    line: Option<String>,
    /// A key was not offered because its passphrase was not available.
    kept_locked: bool,
    /// Nobody was present to type the password.
    nobody: bool,
    /// A program connects for nobody who could answer.
    unattended: bool,
    /// What the server did not accept before the ready offers, as texts.
    refused: Vec<String>,
    /// What could not be used, as texts.
    unusable: Vec<String>,
    /// The ready offer was typed just now.
    typed: bool,
    /// What names a file with a password that is not offered, since the URL names no user.
    useless: Option<&'static str>,
}

impl Offers {
    /// The offers for `user`; without a user a token, or nothing.
    pub(super) fn gather(user: User, plan: &LoginPlan, folder: PathBuf) -> Result<Self, Failure> {
        let mut offers = Self {
            user: String::new(),
            state_option: state::own_option(plan.state.as_deref()),
            ready: Vec::new(),
            locked: Vec::new(),
            passwords: 0,
            line: None,
            kept_locked: false,
            nobody: false,
            unattended: plan.unattended,
            refused: Vec::new(),
            unusable: Vec::new(),
            typed: false,
            useless: None,
        };
        match user {
            User::Named(user) => offers.user = user,
            other => {
                offers.useless = match (&plan.password_file, variable("XDFS_PASSWORD_FILE")) {
                    (Some(_), _) => Some("--password-file"),
                    (None, set) => set.map(|_| "XDFS_PASSWORD_FILE"),
                };
                let (assumed, visitor) = match (token()?, other) {
                    (Some((key, from)), _) => {
                        offers.ready.push((Offer::Token(key), from));
                        return Ok(offers);
                    }
                    (None, User::Assumed(user)) => (Some(user), "as a visitor"),
                    (None, _) => (None, "no login: the URL names no user"),
                };
                if let Some(user) = assumed {
                    offers.assume(user, plan, folder)?;
                }
                offers.ready.push((Offer::Anonymous, visitor.to_owned()));
                return Ok(offers);
            }
        }
        let password_file = plan.password_file.clone().or_else(|| variable("XDFS_PASSWORD_FILE").map(PathBuf::from));
        let places = places(plan.identity.clone(), folder);
        // A named password file is meant to be used; keys are then offered only if one was named,
        // too.
        if password_file.is_none() || places.chosen.is_some() {
            let Identities { found, unusable } = identities(&places).map_err(|error| Failure::local(&error))?;
            offers.unusable = unusable;
            for identity in found {
                match identity.ready() {
                    Some(signer) => {
                        offers.line = offers.line.or_else(|| line_of(&identity));
                        offers.ready.push((Offer::Key(signer), identity.from));
                    }
                    None => offers.locked.push(identity),
                }
            }
        }
        match password_file {
            Some(path) => {
                let password = password(&first_line(&path)?)?;
                offers.ready.push((Offer::Password(Arc::new(password)), format!("the password in {}", shown(&path))));
            }
            None if places.chosen.is_none() => offers.passwords = PASSWORD_TRIES,
            None => {}
        }
        Ok(offers)
    }

    /// Adds the keys that need no prompt, under a name that the user did not type. What cannot be used is
    /// an error only if it was named: the user asked for no login.
    fn assume(&mut self, user: String, plan: &LoginPlan, folder: PathBuf) -> Result<(), Failure> {
        let places = places(plan.identity.clone(), folder);
        let Identities { found, .. } = match identities(&places) {
            Err(error) if places.chosen.is_some() => return Err(Failure::local(&error)),
            Err(_) => return Ok(()),
            Ok(found) => found,
        };
        for identity in found {
            if let Some(signer) = identity.ready()
                && self.ready.len() < ASSUMED_KEYS_MAX
            {
                self.line = self.line.take().or_else(|| line_of(&identity));
                self.ready.push((Offer::Key(signer), format!("{} as '{user}'", identity.from)));
            }
        }
        if !self.ready.is_empty() {
            self.user = user;
        }
        Ok(())
    }

    /// The user who logs in; empty for a token and for visitors.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Puts secrets that were typed for this server before in front.
    pub(super) fn recall(&mut self, typed: &TypedSecrets, host: &HostName) {
        self.ready.splice(0..0, typed.find(host, &self.user));
    }

    /// The server accepted an offer: what was typed is kept for the rest of the command.
    pub(super) fn keep(self, typed: &TypedSecrets, host: &HostName) {
        if let (true, [(offer, from)]) = (self.typed, &self.ready[..]) {
            typed.0.borrow_mut().push((host.clone(), self.user, offer.clone(), from.clone()));
        }
    }

    /// The current offers.
    pub(super) fn now(&self) -> Vec<Offer> {
        self.ready.iter().map(|(offer, _)| offer.clone()).collect()
    }

    /// After a refusal: prompts for one more offer. False if there is none, or nobody to answer.
    pub(super) fn ask_for_more(&mut self, server: &str) -> Result<bool, Error> {
        self.set_aside(server);
        if self.unattended {
            (self.kept_locked, self.nobody) = (!self.locked.is_empty(), self.passwords > 0);
            return Ok(false);
        }
        if !self.locked.is_empty() {
            let identity = self.locked.remove(0);
            let asked = identity.signer(&|question: &str| ask::secret(question));
            match asked {
                Ok(signer) => {
                    self.line = self.line.take().or_else(|| line_of(&identity));
                    self.ready = vec![(Offer::Key(signer), identity.from)];
                    self.typed = true;
                    return Ok(true);
                }
                Err(error) if error.kind == xdfs_client::ErrorKind::Cancelled => return Err(error),
                Err(error) => {
                    self.kept_locked = true;
                    self.unusable.push(error.message);
                }
            }
            return self.ask_for_more(server);
        }
        let Some(left) = self.passwords.checked_sub(1) else { return Ok(false) };
        if std::mem::replace(&mut self.passwords, left) < PASSWORD_TRIES {
            complain("the password was not taken; try again");
        }
        let Some(typed) = self.typed_password(server)? else { return Ok(false) };
        let typed = password(&typed).map_err(|failure| Error::new(xdfs_client::ErrorKind::Refused, failure.message))?;
        self.ready = vec![(Offer::Password(Arc::new(typed)), "the password that was typed".to_owned())];
        self.typed = true;
        Ok(true)
    }

    /// A password that somebody types; an empty line is none, and costs no attempt at the server. `None`
    /// if there is none.
    fn typed_password(&mut self, server: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        for _ in 0..PASSWORD_TRIES {
            match ask::secret(&format!("Password of {} on {server}: ", self.user))? {
                Some(typed) if typed.is_empty() => complain("no password was typed; Ctrl-C ends this"),
                Some(typed) => return Ok(Some(typed)),
                None => {
                    self.nobody = true;
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Remembers the offers that were not accepted, and says so about keys before a person is asked
    /// for something else: they expect their key to be enough.
    fn set_aside(&mut self, server: &str) {
        for (offer, from) in &self.ready {
            let text = offered(offer, from);
            if self.refused.contains(&text) {
                continue;
            }
            if matches!(offer, Offer::Key(_))
                && !self.unattended
                && (self.passwords > 0 || !self.locked.is_empty())
                && ask::is_possible()
            {
                complain(&format!("your {text} was not accepted by {server}"));
            }
            self.refused.push(text);
        }
    }

    /// Whether there was a login attempt.
    pub(super) fn any(&self) -> bool {
        self.ready.iter().any(|(offer, _)| !matches!(offer, Offer::Anonymous))
    }

    /// Why nothing was offered, if a key was not usable and there was nothing else: the refusal of the
    /// server only follows from it.
    pub(super) fn obstacle(&self) -> Option<&str> {
        let nothing = self.kept_locked && self.refused.is_empty() && self.ready.is_empty();
        self.unusable.last().filter(|_| nothing).map(|reason| reason.split(HELP).next().unwrap_or_default())
    }

    /// Adds what was offered and what to do about it, for a user whose login to `url` was refused.
    pub(super) fn describe(&self, mut failure: Failure, url: &Url) -> Failure {
        if let Some(useless) = self.useless {
            let with_user = Url { key: None, user: Some("USER".to_owned()), ..url.clone() };
            failure = failure.help(format!("{useless} needs a user: write {with_user}"));
            if !self.any() {
                return failure;
            }
        }
        if !self.any() && self.user.is_empty() {
            return failure.help("to log in name a user, as in xdfs://anna@HOST/..., or set XDFS_TOKEN_FILE");
        }
        let mut tried = self.refused.clone();
        let ready = self.ready.iter().filter(|(offer, _)| !matches!(offer, Offer::Anonymous));
        tried.extend(ready.map(|(offer, from)| offered(offer, from)));
        let mut seen = std::collections::BTreeSet::new();
        tried.retain(|text| seen.insert(text.clone()));
        for text in tried {
            failure.add_to_cause(&format!("\n  offered: {text}"));
        }
        let first = self.obstacle();
        for reason in self.unusable.iter().filter(|reason| first.is_none_or(|first| !reason.starts_with(first))) {
            failure.add_to_cause(&format!("\n  not usable: {reason}"));
        }
        self.remedies().into_iter().fold(failure, Failure::help)
    }

    /// What to do about refused offers; the line for the server's administrator comes last.
    fn remedies(&self) -> Vec<String> {
        if self.user.is_empty() {
            let text = "it may have run out or been revoked: 'xdfs user list' on the server tells; there 'xdfs user token NAME \
                        --export EXPORT' makes another";
            return vec![text.to_owned()];
        }
        let mut texts = Vec::new();
        // A user who sets it expects it to be used for the login.
        if let Some(name) = ["XDFS_TOKEN", "XDFS_TOKEN_FILE"].into_iter().find(|name| variable(name).is_some()) {
            texts.push(format!("{name} is set, and used only for URLs without a user, as in xdfs://HOST/..."));
        }
        let user = &self.user;
        let password = matches!(&self.ready[..], [(Offer::Password(_), _)]);
        if password {
            texts.push(format!(
                "is it the right password? On the server its administrator sets another with\n  xdfs user password {user}"
            ));
        }
        if self.nobody {
            let text = "there is no terminal to ask for a password: --password-file FILE or XDFS_PASSWORD_FILE names a file with it";
            texts.push(text.to_owned());
        }
        if self.kept_locked {
            let text = "a key with a passphrase logs in from an SSH agent ('ssh-add FILE'), or on a terminal, where it is asked for";
            texts.push(text.to_owned());
        }
        match &self.line {
            None if self.kept_locked || password => {}
            Some(line) => texts.push(format!(
                "on the server its administrator lets this key in with\n  echo '{}' | xdfs user add {user} --key -\n(for a \
                 user who is there already: xdfs user key {user} -)",
                printable(line.as_bytes())
            )),
            None => texts.push(format!(
                "you have no key: make one, and hand the line that it prints to the server's administrator\n  xdfs key create{}",
                self.state_option
            )),
        }
        texts
    }
}

/// An offer and its origin, as a text.
fn offered(offer: &Offer, from: &str) -> String {
    match offer {
        Offer::Key(key) => format!("key {}, {from}", key.public().fingerprint()),
        Offer::Token(key) => format!("token {}, {from}", key.public().fingerprint()),
        Offer::Password(_) | Offer::Anonymous => from.to_owned(),
    }
}

/// A key's line as `xdfs user add` accepts it.
fn line_of(identity: &Identity) -> Option<String> {
    write_public(&identity.public(), &identity.comment).ok()
}

/// A token and its origin.
type Token = (Arc<dyn Signer>, String);

/// The token of the environment: never an argument, which everybody on the machine could read.
fn token() -> Result<Option<Token>, Failure> {
    let (text, from) = match (variable("XDFS_TOKEN"), variable("XDFS_TOKEN_FILE").map(PathBuf::from)) {
        (Some(_), Some(_)) => {
            let message = "XDFS_TOKEN and XDFS_TOKEN_FILE are both set; unset one, since only one token can be meant";
            return Err(Failure::new(Exit::Usage, message));
        }
        (None, None) => return Ok(None),
        (Some(text), None) => {
            let text = text.into_string().map_err(|_| Failure::new(Exit::Usage, "XDFS_TOKEN: this is no token"))?;
            (Zeroizing::new(text), "from XDFS_TOKEN".to_owned())
        }
        (None, Some(path)) => {
            let text = text_of(&path, Secrecy::Secret)?;
            let key = read_token(&text).map_err(|error| unusable(&path, &error))?;
            return Ok(Some((Arc::new(key), format!("from {} (XDFS_TOKEN_FILE)", shown(&path)))));
        }
    };
    let key = read_token(&text).map_err(|error| Failure::new(Exit::Usage, format!("XDFS_TOKEN: {error}")))?;
    Ok(Some((Arc::new(key), from)))
}

fn password(bytes: &[u8]) -> Result<Password, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::new(Exit::Usage, "the password is no UTF-8 text"))?;
    Ok(Password::new(Zeroizing::new(text.to_owned())))
}

pub(super) fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn shown(path: &std::path::Path) -> String {
    crate::text::printable_path(path)
}
