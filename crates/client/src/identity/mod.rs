//! The keys that a client can offer, and their order (SEC-20): the chosen one, or else those of the
//! SSH agent, the client's own in its state folder, and `~/.ssh/id_ed25519`.
//!
//! Nothing is signed and no passphrase is requested before a key is about to be used. It must not
//! offer a key to a server that the user did not request to log in to, or write a key anywhere but
//! into the state folder.

mod agent;

#[cfg(debug_assertions)]
pub use agent::feed as feed_agent;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xdfs_io::store::{Folder, Secrecy, read_named};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::Zeroizing;
use xdfs_secure::identity::openssh::{KeyFile, LockedKey, read_private, read_public, write_private, write_public};
use xdfs_secure::identity::{KeyFileError, KeyPair, Signer};
use xdfs_secure::policy::PublicKey;

/// The client's own key in its state folder, and its public half for distribution.
const OWN_KEY: &str = "id_ed25519";
const OWN_KEY_PUBLIC: &str = "id_ed25519.pub";

/// Largest key file; an RSA key of 16384 bits, which gets its own error, has 12 KiB.
const KEY_BYTES_MAX: usize = 16 << 10;

/// Where a client searches for keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// The only key to use: a private key, or a public one whose private half an agent holds.
    pub chosen: Option<PathBuf>,
    /// The agent's socket.
    pub agent: Option<PathBuf>,
    /// The state folder with the client's own key.
    pub state: Option<PathBuf>,
    /// The user's home, for `.ssh/id_ed25519`.
    pub home: Option<PathBuf>,
}

/// A key that can be offered.
pub struct Identity {
    /// Its origin, as shown to the user.
    pub from: String,
    /// The comment of its owner; may be empty.
    pub comment: String,
    key: HeldKey,
}

enum HeldKey {
    Ready(Arc<dyn Signer>),
    Locked(Box<LockedKey>),
}

/// The keys that were found.
#[derive(Debug, Default)]
pub struct Identities {
    /// The keys, in the order in which they are offered.
    pub found: Vec<Identity>,
    /// Keys that were found but cannot be used, as texts.
    pub unusable: Vec<String>,
}

/// Prompts for a passphrase; `None` if nobody can answer.
pub type AskSecret<'a> = &'a dyn Fn(&str) -> Result<Option<Zeroizing<Vec<u8>>>, Error>;

/// How often a wrong passphrase is requested again.
const PASSPHRASE_TRIES: usize = 3;

impl Identity {
    /// A key file, with the comment of its public file if that is of the same key.
    fn of_file(path: &Path, from: String, key: HeldKey) -> Self {
        let mut identity = Self { from, comment: String::new(), key };
        let mut public = path.as_os_str().to_owned();
        public.push(".pub");
        if let Ok(Some(line)) = read_named(Path::new(&public), KEY_BYTES_MAX, Secrecy::Open)
            && let Some(named) = std::str::from_utf8(&line).ok().and_then(|line| read_public(line).ok())
            && named.key == identity.public()
        {
            identity.comment = named.comment;
        }
        identity
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        match &self.key {
            HeldKey::Ready(signer) => signer.public(),
            HeldKey::Locked(locked) => locked.public(),
        }
    }

    /// The key, if no prompt is needed.
    pub fn ready(&self) -> Option<Arc<dyn Signer>> {
        match &self.key {
            HeldKey::Ready(signer) => Some(Arc::clone(signer)),
            HeldKey::Locked(_) => None,
        }
    }

    /// The key, ready to sign; prompts for its passphrase if it has one.
    pub fn signer(&self, ask: AskSecret<'_>) -> Result<Arc<dyn Signer>, Error> {
        let locked = match &self.key {
            HeldKey::Ready(signer) => return Ok(Arc::clone(signer)),
            HeldKey::Locked(locked) => locked,
        };
        let refused = |because: &str| Error::new(ErrorKind::Refused, format!("{}: {because}", self.from));
        for number in 0..PASSPHRASE_TRIES {
            let wrong = if number == 0 { "" } else { "That was not the passphrase. " };
            let Some(passphrase) = ask(&format!("{wrong}Passphrase of {}: ", self.from))? else {
                return Err(refused(
                    "it has a passphrase and there is no terminal to ask for it\nhelp: use an SSH agent",
                ));
            };
            match locked.unlock(&passphrase) {
                Ok(key) => return Ok(Arc::new(key)),
                Err(KeyFileError::Passphrase) => {}
                Err(error) => return Err(refused(&error.to_string())),
            }
        }
        Err(refused(&KeyFileError::Passphrase.to_string()))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({:?} from {})", self.public(), self.from)
    }
}

/// The keys in `places`. Only a chosen key is required to exist.
pub fn identities(places: &Places) -> Result<Identities, Error> {
    let mut identities = Identities::default();
    let in_agent = match &places.agent {
        Some(socket) => agent::keys(socket).unwrap_or_else(|error| {
            identities.unusable.push(error.message);
            Vec::new()
        }),
        None => Vec::new(),
    };
    let of_agent = |key: agent::AgentKey| Identity {
        from: format!("the SSH agent's key '{}'", key.comment),
        comment: key.comment.clone(),
        key: HeldKey::Ready(Arc::new(key)),
    };
    if let Some(path) = &places.chosen {
        let (key, from) = chosen(path)?;
        let held = in_agent.into_iter().find(|held| held.public() == key.public());
        let identity = match (key, held) {
            // The agent needs no passphrase.
            (Chosen::Locked(_) | Chosen::Public(_), Some(held)) => of_agent(held),
            (Chosen::Open(key), _) => Identity::of_file(path, from, HeldKey::Ready(Arc::new(key))),
            (Chosen::Locked(locked), None) => Identity::of_file(path, from, HeldKey::Locked(locked)),
            (Chosen::Public(_), None) => {
                let text = format!("{from}: {}, or an SSH agent that holds it", KeyFileError::Public);
                return Err(Error::new(ErrorKind::NotFound, text));
            }
        };
        identities.found.push(identity);
        return Ok(identities);
    }
    identities.found.extend(in_agent.into_iter().map(of_agent));
    let own = places.state.as_deref().map(own_key);
    let of_ssh = places.home.as_ref().map(|home| home.join(".ssh/id_ed25519"));
    for path in own.into_iter().chain(of_ssh) {
        match from_file(&path) {
            Ok(Some(identity)) if identities.found.iter().any(|known| known.public() == identity.public()) => {}
            Ok(Some(identity)) => identities.found.push(identity),
            Ok(None) => {}
            Err(error) => identities.unusable.push(error.message),
        }
    }
    Ok(identities)
}

/// A file that the user named.
enum Chosen {
    Open(KeyPair),
    Locked(Box<LockedKey>),
    Public(PublicKey),
}

impl Chosen {
    fn public(&self) -> PublicKey {
        match self {
            Self::Open(key) => key.public(),
            Self::Locked(locked) => locked.public(),
            Self::Public(key) => *key,
        }
    }
}

fn chosen(path: &Path) -> Result<(Chosen, String), Error> {
    let shown = shown(path);
    let missing = || Error::new(ErrorKind::NotFound, format!("{shown}: there is no such key file"));
    // Everybody may read a public half; if it turns out to be a private key it is read again, as a
    // secret.
    let bytes = read_named(path, KEY_BYTES_MAX, Secrecy::Open)?.ok_or_else(missing)?;
    let text = Zeroizing::new(bytes);
    if let Some(public) = std::str::from_utf8(&text).ok().and_then(|text| read_public(text).ok()) {
        return Ok((Chosen::Public(public.key), shown));
    }
    match key_file(path, &shown)?.ok_or_else(missing)? {
        KeyFile::Open(key) => Ok((Chosen::Open(key), shown)),
        KeyFile::Locked(locked) => Ok((Chosen::Locked(locked), shown)),
    }
}

fn from_file(path: &Path) -> Result<Option<Identity>, Error> {
    let from = shown(path);
    let Some(file) = key_file(path, &from)? else { return Ok(None) };
    let held = match file {
        KeyFile::Open(key) => HeldKey::Ready(Arc::new(key)),
        KeyFile::Locked(locked) => HeldKey::Locked(locked),
    };
    Ok(Some(Identity::of_file(path, from, held)))
}

fn key_file(path: &Path, shown: &str) -> Result<Option<KeyFile>, Error> {
    let Some(bytes) = read_named(path, KEY_BYTES_MAX, Secrecy::Secret)? else { return Ok(None) };
    let text = Zeroizing::new(bytes);
    let unusable = |error: KeyFileError| Error::new(ErrorKind::Storage, format!("{shown}: {error}"));
    read_private(&text).map(Some).map_err(unusable)
}

/// The file of the client's own key in the state folder `state`.
pub fn own_key(state: &Path) -> PathBuf {
    state.join(OWN_KEY)
}

/// Stores `key` as the client's own in `state`, with its public half beside it; an error if there
/// is one already.
pub fn keep_own(state: &Path, key: &KeyPair, comment: &str) -> Result<(), Error> {
    let folder = Folder::create(state)?;
    let _lock = folder.lock("lock")?;
    let unwritable =
        |error: KeyFileError| Error::new(ErrorKind::Storage, format!("the key cannot be written: {error}"));
    let public = write_public(&key.public(), comment).map_err(unwritable)?;
    folder.create_file(OWN_KEY, write_private(key, comment).map_err(unwritable)?.as_bytes(), 0o600)?;
    match folder.create_file(OWN_KEY_PUBLIC, format!("{public}\n").as_bytes(), 0o644) {
        // Left over from a key that was removed; the private half is what counts.
        Err(error) if error.kind == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn shown(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests;
