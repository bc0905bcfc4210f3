//! What is read besides the wire's messages: logins by password, tokens, key files, known hosts, the configuration. What
//! reads must write to something that reads to the same; nothing may panic, and what is no such text is an error.

use std::num::NonZeroU32;
use std::path::Path;
use xdfs_client::trust::lines;
use xdfs_secure::identity::openssh::{
    KeyFile, read_authorized, read_private, read_public, write_private, write_public,
};
use xdfs_secure::identity::{read_token, write_token};
use xdfs_secure::login::messages::{Challenge, ClientFinal, ClientFirst, server_final};
use xdfs_server::config::Settings;

/// The first byte says which of SCRAM's four messages follows.
pub(super) fn scram(input: &[u8]) {
    let Some((which, message)) = input.split_first() else { return };
    match which % 4 {
        0 => {
            let Some(first) = ClientFirst::read(message) else { return };
            assert!(message.ends_with(first.bare.as_bytes()) && !first.user.is_empty());
            // Names have one form only where they are written by us; whatever the form, it is the same name.
            let again = ClientFirst::write(&first.user, first.nonce);
            let read = ClientFirst::read(again.as_bytes()).map(|read| (read.user, read.nonce.to_owned()));
            // Escapes may make a name too long to be written.
            assert!(read.is_none_or(|read| read == (first.user, first.nonce.to_owned())));
        }
        1 => {
            let Some(challenge) = Challenge::read(message, "nonce") else { return };
            assert!(challenge.nonce.len() > 5 && challenge.rounds >= NonZeroU32::MIN);
            let again = Challenge::write(challenge.nonce, &challenge.salt, challenge.rounds.get());
            assert_eq!(Challenge::read(again.as_bytes(), "nonce"), Some(challenge));
        }
        2 => {
            let Some(last) = ClientFinal::read(message) else { return };
            assert!(message.starts_with(last.without_proof.as_bytes()));
            assert!(last.without_proof.contains(last.nonce) && last.without_proof.contains(last.bound));
        }
        _ => assert!(server_final(message).is_none_or(|proof| proof.len() < message.len())),
    }
}

pub(super) fn token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match read_token(text) {
        Ok(key) => assert_eq!(*write_token(&key), text.trim()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Lines of `authorized_keys`, one public key, and a private key file: each reader gets all of it.
pub(super) fn keys(input: &[u8]) {
    match read_private(input) {
        Ok(KeyFile::Open(key)) => {
            let written = write_private(&key, "again").expect("a key can be written");
            let Ok(KeyFile::Open(again)) = read_private(written.as_bytes()) else { panic!("what we write we read") };
            assert_eq!(again.public(), key.public());
        }
        // What it would cost to unlock is bounded, and asked of nobody here.
        Ok(KeyFile::Locked(locked)) => assert!(!locked.public().fingerprint().to_string().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(named) = read_public(text) {
        let line = write_public(&named.key, &named.comment).expect("a key can be written");
        assert_eq!(read_public(&line).as_ref(), Ok(&named));
        assert!(!named.comment.contains(char::is_control));
    }
    match read_authorized(text) {
        Ok(found) => assert!(found.keys.len() + found.skipped <= text.lines().count()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) fn known_hosts(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match lines::read(&text) {
        Ok(hosts) => assert_eq!(lines::read(&lines::write(&hosts)), Ok(hosts)),
        Err(error) => assert!(error.to_string().contains("line ")),
    }
}

pub(super) fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Settings::parse(Path::new("/etc/xdfs/server.toml"), text) {
        // What was read can be asked about users, whatever it says.
        Ok(settings) => {
            assert_eq!(settings.check_users(|_| true), Ok(()));
            if let Err(error) = settings.check_users(|_| false) {
                assert!(error.to_string().starts_with("/etc/xdfs/server.toml:"));
            }
        }
        Err(error) => assert!(error.to_string().starts_with("/etc/xdfs/server.toml")),
    }
}
