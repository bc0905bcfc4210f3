//! `xdfs key`: makes, shows and converts keys.
//!
//! A private key never goes to standard output: it stays in files for its owner alone.

use std::path::{Path, PathBuf};

use serde::Serialize;
use xdfs_client::ErrorKind;
use xdfs_client::identity::{Identities, identities, keep_own, own_key};
use xdfs_io::store::{Secrecy, create_named};
use xdfs_secure::identity::openssh::{NamedKey, write_private, write_public};
use xdfs_secure::identity::{KeyFileError, KeyPair, x509};
use xdfs_server::users::StateFolder;

use super::key_files::{places, private_half, public_half, text_of, unusable};
use super::trust;
use crate::args::{KeepArgs, KeyCommand, KeyCreateArgs, KeyExportArgs, KeyImportArgs, KeyShowArgs};
use crate::exit::{Exit, Failure};
use crate::output::{JsonLines, complain, print};
use crate::state;
use crate::text::{printable, printable_path};
use crate::url::parse_server;

/// A key, as `--json` shows it.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "key")]
struct KeyLine {
    public_key: String,
    fingerprint: String,
    from: String,
}

/// Runs the command.
pub(crate) fn run(command: KeyCommand) -> Result<Exit, Failure> {
    match command {
        KeyCommand::Create(args) => create(&args),
        KeyCommand::Show(args) => show(&args),
        KeyCommand::Trust(args) => trust::pin(&args),
        KeyCommand::Import(args) => import(&args),
        KeyCommand::Export(args) => export(&args),
    }
}

fn create(args: &KeyCreateArgs) -> Result<Exit, Failure> {
    let key = KeyPair::generate().map_err(|error| Failure::local(&error.into()))?;
    keep(&key, &args.keep)
}

fn import(args: &KeyImportArgs) -> Result<Exit, Failure> {
    let text = text_of(&args.file, Secrecy::Secret)?;
    if text.contains("-----BEGIN OPENSSH PRIVATE KEY-----") {
        let message = format!(
            "{}: this is an OpenSSH key, and needs no import: --identity FILE and XDFS_IDENTITY use it as it is",
            printable_path(&args.file)
        );
        return Err(Failure::new(Exit::Local, message));
    }
    let key = x509::read_private_pem(&text).map_err(|error| unusable(&args.file, &error))?;
    keep(&key, &args.keep)
}

/// Stores a new key at the requested place, and shows its public half.
fn keep(key: &KeyPair, wanted: &KeepArgs) -> Result<Exit, Failure> {
    let comment = wanted.comment.clone().unwrap_or_else(own_name);
    let from = match wanted.out.as_deref() {
        Some(path) => {
            let unwritable = |error: KeyFileError| unusable(path, &error);
            let private = write_private(key, &comment).map_err(unwritable)?;
            let public = write_public(&key.public(), &comment).map_err(unwritable)?;
            let public_path = with_pub(path);
            create_named(path, private.as_bytes(), 0o600).map_err(|error| Failure::local(&error))?;
            create_named(&public_path, format!("{public}\n").as_bytes(), 0o644)
                .map_err(|error| Failure::local(&error))?;
            path.to_owned()
        }
        None => {
            let folder = state::own(wanted.state.state.as_deref())?;
            keep_own(&folder, key, &comment).map_err(|error| match error.kind {
                ErrorKind::AlreadyExists => {
                    let message = format!(
                        "you have a key already: {}\nhelp: see 'xdfs key show{}', or make another one with --out FILE",
                        printable_path(&own_key(&folder)),
                        state::own_option(wanted.state.state.as_deref())
                    );
                    Failure::new(Exit::Exists, message)
                }
                _ => Failure::local(&error),
            })?;
            own_key(&folder)
        }
    };
    let named = NamedKey { key: key.public(), comment };
    tell(&named, &printable_path(&from), wanted.json)?;
    if !wanted.json {
        let line = write_public(&named.key, &named.comment).unwrap_or_default();
        complain(&format!(
            "this key logs you in where it is known; send the administrator of the server this command:\n  echo '{}' | xdfs \
             user add NAME --key -",
            printable(line.as_bytes())
        ));
    }
    Ok(Exit::Done)
}

fn show(args: &KeyShowArgs) -> Result<Exit, Failure> {
    if let Some(path) = &args.file {
        tell(&public_half(path)?, &printable_path(path), args.json)?;
        return Ok(Exit::Done);
    }
    let state = args.state.state.as_deref();
    if args.host {
        let folder = state::folder(state)?;
        let named =
            NamedKey { key: host_key(&folder, state, "key show --host")?.public(), comment: "xdfs-host".to_owned() };
        let from = format!("the host key in {}", printable_path(&folder));
        if args.json {
            tell(&named, &from, true)?;
            return Ok(Exit::Done);
        }
        // The fingerprint is what is compared, and what was asked for.
        print(&format!("{}\n{}\n", named.key.fingerprint(), public_line(&named, &from)?))?;
        complain(&from);
        return Ok(Exit::Done);
    }
    let Identities { found, unusable } =
        identities(&places(None, state::own(state)?)).map_err(|error| Failure::local(&error))?;
    if args.all {
        unusable.iter().for_each(|reason| complain(reason));
    }
    if found.is_empty() {
        let reasons =
            if args.all { String::new() } else { unusable.iter().map(|reason| format!("; {reason}")).collect() };
        let option = state::own_option(state);
        let message = format!("you have no key yet{reasons}");
        return Err(Failure::new(Exit::NotFound, message).help(format!("make one: xdfs key create{option}")));
    }
    for identity in found.iter().take(if args.all { usize::MAX } else { 1 }) {
        let named = NamedKey { key: identity.public(), comment: identity.comment.clone() };
        tell(&named, &identity.from, args.json)?;
    }
    Ok(Exit::Done)
}

fn export(args: &KeyExportArgs) -> Result<Exit, Failure> {
    let state = args.state.state.as_deref();
    let key = match &args.file {
        Some(path) => private_half(path)?,
        None if args.host => host_key(&state::folder(state)?, state, "key export --host")?,
        None => private_half(&own_key(&state::own(state)?))?,
    };
    let names = args.names.iter().map(|name| certified_name(name)).collect::<Result<Vec<_>, _>>()?;
    let certificate = x509::certificate_pem(&key, &names).map_err(|error| Failure::local(&error.into()))?;
    if let Some(path) = &args.private {
        create_named(path, x509::private_pem(&key).as_bytes(), 0o600).map_err(|error| Failure::local(&error))?;
    }
    match &args.out {
        Some(path) => create_named(path, certificate.as_bytes(), 0o644).map_err(|error| Failure::local(&error))?,
        None => print(&certificate)?,
    }
    Ok(Exit::Done)
}

/// A name for a certificate: a host name, or an address without brackets.
fn certified_name(typed: &str) -> Result<String, Failure> {
    let usage = || {
        let shown = printable(typed.as_bytes());
        Failure::new(
            Exit::Usage,
            format!("--name {shown}: a certificate is for host names and addresses, without a port"),
        )
    };
    if let Ok(address) = typed.parse::<std::net::IpAddr>() {
        return Ok(address.to_string());
    }
    let (host, _) = parse_server(typed.as_ref()).map_err(|_| usage())?;
    if typed.contains(':') { Err(usage()) } else { Ok(host.to_string()) }
}

/// A key for a person: the line to distribute goes to standard output, the rest to standard error.
fn tell(named: &NamedKey, from: &str, json: bool) -> Result<(), Failure> {
    let public_key = public_line(named, from)?;
    let fingerprint = named.key.fingerprint().to_string();
    if json {
        return JsonLines.write(&KeyLine { public_key, fingerprint, from: from.to_owned() });
    }
    print(&format!("{public_key}\n"))?;
    complain(&format!("{fingerprint}, {from}"));
    Ok(())
}

/// The line of a public key, as OpenSSH writes it.
fn public_line(named: &NamedKey, from: &str) -> Result<String, Failure> {
    let line = write_public(&named.key, &named.comment).map_err(|error| unusable(Path::new(from), &error))?;
    Ok(printable(line.as_bytes()))
}

/// The host key of the server whose state is in `folder`, for the command of these words. It is not made
/// here: only a server makes it.
fn host_key(folder: &Path, typed: Option<&Path>, words: &str) -> Result<KeyPair, Failure> {
    let state = StateFolder::open(folder).map_err(|error| Failure::local(&error))?;
    let key = match state {
        Some(state) => state.present_host_key().map_err(|error| Failure::local(&error))?,
        None => None,
    };
    key.ok_or_else(|| {
        let failure = Failure::new(Exit::NotFound, format!("there is no host key in {}", printable_path(folder)));
        let failure = state::of_service(typed, words).into_iter().fold(failure, Failure::help);
        failure.help(format!("'xdfs serve{}' makes one when it starts first", state::option(Some(folder))))
    })
}

fn with_pub(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    PathBuf::from(name)
}

/// `user@machine`, for the comment of a new key.
fn own_name() -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "me".to_owned());
    let machine = rustix::system::uname();
    format!("{user}@{}", machine.nodename().to_string_lossy())
}
