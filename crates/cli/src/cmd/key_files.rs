//! Files of keys that a command names, and a key at its standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use xdfs_client::identity::Places;
use xdfs_io::store::{Secrecy, read_named};
use xdfs_secure::Zeroizing;
use xdfs_secure::identity::openssh::{KeyFile, NamedKey, read_private, read_public};
use xdfs_secure::identity::{KeyFileError, KeyPair};

use crate::exit::{Exit, Failure};
use crate::text::{printable_path, shell_word};
use crate::{ask, state};

/// Largest file of keys that is read.
const KEY_BYTES_MAX: usize = 64 << 10;

/// The text of a named file.
pub(super) fn text_of(path: &Path, secrecy: Secrecy) -> Result<Zeroizing<String>, Failure> {
    let missing = || {
        let failure = Failure::new(Exit::NotFound, format!("{}: there is no such file", printable_path(path)));
        match is_public_line(path) {
            true => failure.help(format!(
                "this is a public key itself; give it at standard input: echo {} | xdfs user add NAME --key -",
                shell_word(&printable_path(path))
            )),
            false => failure,
        }
    };
    let bytes =
        read_named(path, KEY_BYTES_MAX, secrecy).map_err(|error| Failure::local(&error))?.ok_or_else(missing)?;
    let no_text = || Failure::new(Exit::Local, format!("{}: {}", printable_path(path), KeyFileError::NoKey));
    String::from_utf8(bytes).map(Zeroizing::new).map_err(|_| no_text())
}

/// The text of a key that comes through standard input.
pub(super) fn standard_input() -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::new());
    let read = std::io::stdin().lock().take(KEY_BYTES_MAX as u64).read_to_string(&mut text);
    read.map_err(|error| Failure::new(Exit::of_io(&error), format!("standard input: {error}")))?;
    Ok(text)
}

/// Whether the text of a public key was given as the name of a file.
pub(super) fn is_public_line(path: &Path) -> bool {
    let text = path.to_string_lossy();
    ["ssh-", "ecdsa-", "sk-"].iter().any(|kind| text.starts_with(kind)) && text.contains(" AAAA")
}

/// What is wrong with a file of keys.
pub(super) fn unusable(path: &Path, error: &KeyFileError) -> Failure {
    let failure = Failure::new(Exit::Local, format!("{}: {error}", printable_path(path)));
    match error {
        KeyFileError::NoKey | KeyFileError::Line(_) => {
            failure.help("a key is a line such as 'ssh-ed25519 AAAAC3Nza... anna@laptop', as 'xdfs key show' prints it")
        }
        _ => failure,
    }
}

/// The public half of a private or public key file.
pub(super) fn public_half(path: &Path) -> Result<NamedKey, Failure> {
    let text = text_of(path, Secrecy::Open)?;
    match read_public(&text) {
        Ok(named) => return Ok(named),
        Err(error) if text.contains("ssh-") && !text.contains("PRIVATE KEY") => return Err(unusable(path, &error)),
        Err(_) if !text.contains("PRIVATE KEY") => return Err(unusable(path, &KeyFileError::NoKey)),
        Err(_) => {}
    }
    // Nothing secret of it is shown or stored, but wrong modes of the file are still reported here.
    let text = text_of(path, Secrecy::Secret)?;
    match read_private(text.as_bytes()).map_err(|error| unusable(path, &error))? {
        KeyFile::Open(key) => Ok(NamedKey { key: key.public(), comment: String::new() }),
        KeyFile::Locked(locked) => Ok(NamedKey { key: locked.public(), comment: String::new() }),
    }
}

/// The private half; prompts for its passphrase if it has one.
pub(super) fn private_half(path: &Path) -> Result<KeyPair, Failure> {
    let text = text_of(path, Secrecy::Secret)?;
    let locked = match read_private(text.as_bytes()).map_err(|error| unusable(path, &error))? {
        KeyFile::Open(key) => return Ok(key),
        KeyFile::Locked(locked) => locked,
    };
    let question = format!("Passphrase of {}: ", printable_path(path));
    let passphrase = ask::secret(&question).map_err(|error| Failure::local(&error))?.ok_or_else(|| {
        let message = format!("{}: it has a passphrase and there is no terminal to ask for it", printable_path(path));
        Failure::new(Exit::Local, message)
    })?;
    locked.unlock(&passphrase).map_err(|error| unusable(path, &error))
}

/// Where this user's keys are.
pub(crate) fn places(chosen: Option<PathBuf>, folder: PathBuf) -> Places {
    let agent = std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(PathBuf::from);
    let chosen =
        chosen.or_else(|| std::env::var_os("XDFS_IDENTITY").filter(|path| !path.is_empty()).map(PathBuf::from));
    Places { chosen, agent, state: Some(folder), home: state::home() }
}
