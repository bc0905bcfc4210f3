//! `xdfs trust`: which keys are trusted.

use std::ffi::OsStr;
use std::path::Path;

use serde::Serialize;
use xdfs_client::trust::{HostName, KnownHosts, Remembered};
use xdfs_secure::identity::openssh::{NamedKey, read_public};
use xdfs_secure::policy::Fingerprint;

use super::key_files::{is_public_line, public_half, standard_input, unusable};
use crate::args::{TrustCommand, TrustForgetArgs, TrustListArgs, TrustPinArgs};
use crate::exit::{Exit, Failure};
use crate::output::{JsonLines, complain, print};
use crate::text::{printable, printable_path};
use crate::url::parse_server;
use crate::{calendar, state};

/// A known server, as `--json` shows it.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "known_host")]
struct KnownLine {
    host: String,
    host_key: String,
    since: u64,
}

/// Runs the command.
pub(crate) fn run(command: TrustCommand) -> Result<Exit, Failure> {
    match command {
        TrustCommand::List(args) => list(&args),
        TrustCommand::Pin(args) => pin(&args),
        TrustCommand::Forget(args) => forget(&args),
    }
}

fn list(args: &TrustListArgs) -> Result<Exit, Failure> {
    let folder = state::own(args.state.state.as_deref())?;
    let known = KnownHosts::read(&folder).map_err(|error| Failure::local(&error))?;
    if !folder.is_dir() {
        complain(&format!("there is no folder {}: no server is known yet", printable_path(&folder)));
    }
    for (host, Remembered { fingerprint, since }) in known.iter() {
        if args.json {
            let (host, host_key) = (host.to_string(), fingerprint.to_string());
            JsonLines.write(&KnownLine { host, host_key, since: *since })?;
        } else {
            print(&format!("{host}  {fingerprint}  since {} UTC\n", calendar::shown_unsigned(*since)))?;
        }
    }
    Ok(Exit::Done)
}

/// What fingerprints look like.
const FINGERPRINTS: &str = "a fingerprint is written as SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU; 'xdfs key show \
                            --host' prints it on the server";

/// Remembers a key; also used by `xdfs key trust`.
pub(super) fn pin(args: &TrustPinArgs) -> Result<Exit, Failure> {
    let host = host_name(&args.host)?;
    let text = args.key.to_string_lossy();
    let fingerprint = match text.parse::<Fingerprint>() {
        Ok(fingerprint) => fingerprint,
        Err(error) if text.starts_with("SHA256:") => {
            let failure = Failure::new(Exit::Usage, format!("{}: {error}", printable(text.as_bytes())));
            return Err(failure.help(FINGERPRINTS));
        }
        Err(_) => key_of(&args.key, &text)?.key.fingerprint(),
    };
    let mut known =
        KnownHosts::read(&state::own(args.state.state.as_deref())?).map_err(|error| Failure::local(&error))?;
    let before = known.find(&host).copied();
    known.pin(&host, Remembered { fingerprint, since: calendar::now() }).map_err(|error| Failure::local(&error))?;
    let replaced = match before {
        Some(before) if before.fingerprint != fingerprint => format!(", and no longer {}", before.fingerprint),
        _ => String::new(),
    };
    print(&format!("{host} is trusted with the key {fingerprint}{replaced}\n"))?;
    Ok(Exit::Done)
}

/// The key that was named by a file, by standard input, or by its own line: it is no secret.
fn key_of(typed: &OsStr, text: &str) -> Result<NamedKey, Failure> {
    let place = Path::new(typed);
    match typed.as_encoded_bytes() {
        b"-" => read_public(&standard_input()?).map_err(|error| unusable(Path::new("standard input"), &error)),
        _ if is_public_line(place) => read_public(text).map_err(|error| unusable(place, &error)),
        _ => public_half(place).map_err(|failure| match failure.exit {
            Exit::NotFound => {
                let message = format!("{}: this is neither a fingerprint nor a file", printable(text.as_bytes()));
                Failure::new(Exit::NotFound, message).help(FINGERPRINTS)
            }
            _ => failure,
        }),
    }
}

fn forget(args: &TrustForgetArgs) -> Result<Exit, Failure> {
    let host = host_name(&args.host)?;
    let mut known =
        KnownHosts::read(&state::own(args.state.state.as_deref())?).map_err(|error| Failure::local(&error))?;
    match known.forget(&host).map_err(|error| Failure::local(&error))? {
        Some(before) => print(&format!("{host} with the key {} is forgotten\n", before.fingerprint))?,
        None => {
            let option = state::own_option(args.state.state.as_deref());
            let message = format!("{host} is not known\nhelp: 'xdfs trust list{option}' shows who is");
            return Err(Failure::new(Exit::NotFound, message));
        }
    }
    Ok(Exit::Done)
}

fn host_name(typed: &std::ffi::OsStr) -> Result<HostName, Failure> {
    let (host, port) = parse_server(typed).map_err(|fault| {
        let message = format!("{}: {fault}\nhelp: write HOST or HOST:PORT", printable(typed.as_encoded_bytes()));
        Failure::new(Exit::Usage, message)
    })?;
    Ok(HostName::new(&host.to_string(), port))
}
