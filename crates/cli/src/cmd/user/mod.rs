//! `xdfs user`: who may log in to the server whose state is here. Each command makes one atomic
//! change to the file; a running server picks it up.

mod list;
mod token;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::Secrecy;
use xdfs_secure::Zeroizing;
use xdfs_secure::identity::openssh::{NamedKey, read_authorized, read_public};
use xdfs_secure::identity::{KeyFileError, password};
use xdfs_secure::policy::{Fingerprint, PasswordVerifier};
use xdfs_server::users::{Account, StateFolder, check_name};

use super::key_files::{standard_input, text_of, unusable};
use crate::args::{
    StateArgs, UserAddArgs, UserCommand, UserKeyArgs, UserPasswordArgs, UserRestoreArgs, UserRevokeArgs,
};
use crate::exit::{Exit, Failure, HELP};
use crate::output::{complain, print};
use crate::text::printable;
use crate::{ask, calendar, state};

/// Runs the command.
pub(crate) fn run(command: UserCommand) -> Result<Exit, Failure> {
    match command {
        UserCommand::Add(args) => add(&args),
        UserCommand::Key(args) => add_keys(&args),
        UserCommand::Password(args) => set_password(&args),
        UserCommand::Token(args) => token::run(&args),
        UserCommand::List(args) => list::run(&args),
        UserCommand::Revoke(args) => revoke(&args),
        UserCommand::Restore(args) => restore(&args),
    }
}

fn add(args: &UserAddArgs) -> Result<Exit, Failure> {
    check_name(&args.name).map_err(|error| Failure::new(Exit::Usage, error.message))?;
    let mut account = Account::default();
    for key in read_keys(&args.keys)? {
        account.add_key(key);
    }
    let password = match args.password || args.password_file.is_some() {
        true => Some(new_password(&args.name, args.password_file.as_deref())?),
        false => None,
    };
    let (state, is_used) = open_telling(&args.state)?;
    account.password = password.map(|password| verifier(&state, &args.name, &password)).transpose()?;
    let ways = ways(&account);
    state.edit(|accounts| accounts.add(&args.name, account)).map_err(|error| match error.kind {
        ErrorKind::AlreadyExists => {
            let message = format!(
                "there is a user {0} already\nhelp: {1}, or let them in again with 'xdfs user restore {0}{2}'",
                args.name,
                how_to_let_in(&args.name, &args.state),
                state::option(args.state.state.as_deref())
            );
            Failure::new(Exit::Exists, message)
        }
        _ => Failure::local(&error),
    })?;
    if ways.is_empty() {
        complain(&format!("nothing logs {} in yet{HELP}{}", args.name, how_to_let_in(&args.name, &args.state)));
    }
    let ways = if ways.is_empty() { "nothing".to_owned() } else { ways.join(" and ") };
    print(&format!("user {} is added with {ways}\n", args.name))?;
    if !is_used {
        complain(&format!(
            "note: no server has used {} yet{HELP}if your server runs as another user or with another --state, add the user there",
            state.shown()
        ));
    }
    Ok(Exit::Done)
}

/// How to give an existing user a login, as a text.
fn how_to_let_in(name: &str, state: &StateArgs) -> String {
    let option = state::option(state.state.as_deref());
    format!(
        "give a key with 'xdfs user key {name} FILE.pub{option}', a password with 'xdfs user password {name}{option}', or a \
         token with 'xdfs user token {name} --export EXPORT{option}'"
    )
}

/// The login methods of an account, as texts.
fn ways(account: &Account) -> Vec<String> {
    let mut ways = Vec::new();
    match account.keys.len() {
        0 => {}
        1 => ways.push("1 key".to_owned()),
        count => ways.push(format!("{count} keys")),
    }
    if account.password.is_some() {
        ways.push("a password".to_owned());
    }
    ways
}

fn add_keys(args: &UserKeyArgs) -> Result<Exit, Failure> {
    let keys = read_keys(&args.keys)?;
    let (new, revoked) = edit(&args.state, &args.name, |account| {
        Ok((keys.into_iter().filter(|key| account.add_key(key.clone())).count(), account.revoked))
    })?;
    print(&format!("user {} has {new} new key(s)\n", args.name))?;
    tell_if_revoked(&args.name, revoked, &args.state);
    Ok(Exit::Done)
}

fn set_password(args: &UserPasswordArgs) -> Result<Exit, Failure> {
    // Before a password is typed for a name that does not exist.
    edit_nothing(&args.state, &args.name)?;
    let password = new_password(&args.name, args.password_file.as_deref())?;
    let verifier = verifier(&open(&args.state)?, &args.name, &password)?;
    let revoked = edit(&args.state, &args.name, |account| {
        account.password = Some(verifier);
        Ok(account.revoked)
    })?;
    print(&format!("user {} has a new password\n", args.name))?;
    tell_if_revoked(&args.name, revoked, &args.state);
    Ok(Exit::Done)
}

/// A new login method of a revoked user is stored, but admits nobody.
fn tell_if_revoked(name: &str, revoked: bool, state: &StateArgs) {
    if revoked {
        let option = state::option(state.state.as_deref());
        complain(&format!(
            "user {name} is revoked and still cannot log in{HELP}'xdfs user restore {name}{option}' changes that"
        ));
    }
}

fn revoke(args: &UserRevokeArgs) -> Result<Exit, Failure> {
    let fingerprint = match &args.key {
        Some(text) => Some(
            text.parse::<Fingerprint>()
                .map_err(|error| Failure::new(Exit::Usage, format!("--key {}: {error}", printable(text.as_bytes()))))?,
        ),
        None => None,
    };
    let missing = |what: &str| Error::new(ErrorKind::NotFound, format!("user {} has no {what}", args.name));
    let what = edit(&args.state, &args.name, |account| match fingerprint {
        Some(fingerprint) if account.remove(&fingerprint) => Ok(format!("the key or token {fingerprint} of user")),
        Some(fingerprint) => Err(missing(&format!("key or token {fingerprint}"))),
        None if args.password => {
            account.password.take().map(|_| "the password of user".to_owned()).ok_or_else(|| missing("password"))
        }
        None if std::mem::replace(&mut account.revoked, true) => Ok(String::new()),
        None => Ok("user".to_owned()),
    })?;
    match what.as_str() {
        "" => print(&format!("user {} was revoked already; nothing is changed\n", args.name))?,
        what => print(&format!("{what} {} is revoked\n", args.name))?,
    }
    Ok(Exit::Done)
}

fn restore(args: &UserRestoreArgs) -> Result<Exit, Failure> {
    let now = calendar::now();
    let (revoked, none) = edit(&args.state, &args.name, |account| {
        let open = account.tokens.iter().any(|token| now < token.scope.until);
        Ok((std::mem::take(&mut account.revoked), ways(account).is_empty() && !open))
    })?;
    let name = &args.name;
    match (revoked, none) {
        (true, false) => print(&format!("user {name} may log in again\n"))?,
        (true, true) => print(&format!("user {name} is not revoked any more\n"))?,
        (false, _) => print(&format!("user {name} was not revoked; nothing is changed\n"))?,
    }
    if none {
        complain(&format!(
            "nothing logs {name} in: there is no key and no password{HELP}{}",
            how_to_let_in(name, &args.state)
        ));
    }
    Ok(Exit::Done)
}

/// The state of the local server, made if missing: users may be added before the first start.
fn open(args: &StateArgs) -> Result<StateFolder, Failure> {
    StateFolder::create(&state::folder(args.state.as_deref())?).map_err(|error| Failure::local(&error))
}

/// The same, and whether a server was started with it before, as far as this user can see.
fn open_telling(args: &StateArgs) -> Result<(StateFolder, bool), Failure> {
    let state = open(args)?;
    let is_used = !matches!(state.present_host_key(), Ok(None));
    Ok((state, is_used))
}

/// Changes one existing account.
fn edit<T>(args: &StateArgs, name: &str, change: impl FnOnce(&mut Account) -> Result<T, Error>) -> Result<T, Failure> {
    let state = open(args)?;
    state.edit(|accounts| change(accounts.named(name)?)).map_err(|error| match error.kind {
        ErrorKind::NotFound => {
            let option = state::option(args.state.as_deref());
            let message = format!(
                "{} (state: {}){HELP}'xdfs user list{option}' shows who is there",
                error.message,
                state.shown()
            );
            Failure::new(Exit::NotFound, message)
        }
        _ => Failure::local(&error),
    })
}

/// Fails if there is no such account.
fn edit_nothing(args: &StateArgs, name: &str) -> Result<(), Failure> {
    edit(args, name, |_| Ok(()))
}

/// The keys of named files: public key files, or several keys as in `authorized_keys`.
fn read_keys(paths: &[PathBuf]) -> Result<Vec<NamedKey>, Failure> {
    let mut keys = Vec::new();
    for path in paths {
        let text = if path.as_os_str() == "-" { standard_input()? } else { text_of(path, Secrecy::Open)? };
        // For one line its own error is the most precise; several are a list.
        match read_public(&text) {
            Ok(key) => keys.push(key),
            Err(error @ (KeyFileError::Private | KeyFileError::Kind(_))) => return Err(unusable(path, &error)),
            Err(_) => {
                let found = read_authorized(&text).map_err(|error| unusable(path, &error))?;
                if found.keys.is_empty() {
                    let error = match found.skipped {
                        0 => KeyFileError::NoKey,
                        _ => KeyFileError::Kind("of another kind".to_owned()),
                    };
                    return Err(unusable(path, &error));
                }
                if found.skipped > 0 {
                    complain(&format!(
                        "{}: {} key(s) of other kinds than ssh-ed25519 are left out",
                        printable(path.as_os_str().as_encoded_bytes()),
                        found.skipped
                    ));
                }
                keys.extend(found.keys);
            }
        }
    }
    Ok(keys)
}

/// A new password, from a file or a prompt.
fn new_password(user: &str, file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let check = |typed: &[u8]| password::check(typed).map_err(|error| Failure::new(Exit::Usage, error.to_string()));
    let Some(path) = file else { return ask::new_password(user, &check) };
    let password = first_line(path)?;
    check(&password)?;
    Ok(password)
}

/// The verifier that the server stores for it.
fn verifier(state: &StateFolder, user: &str, password: &[u8]) -> Result<PasswordVerifier, Failure> {
    let salt = state.salts().map_err(|error| Failure::local(&error))?.of(user);
    let rounds = NonZeroU32::new(password::ROUNDS).unwrap_or(NonZeroU32::MIN);
    password::verifier(password, &salt, rounds).map_err(|error| Failure::local(&error.into()))
}

/// The first line of a file that no other user may read.
pub(crate) fn first_line(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let text = text_of(path, Secrecy::Secret)?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().as_bytes().to_vec()))
}
