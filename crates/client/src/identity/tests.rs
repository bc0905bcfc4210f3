//! The order in which keys are found, with folders and agents of the tests' own.
#![allow(clippy::disallowed_methods, reason = "the tests make the files that are looked for")]

use super::agent::{Agent, blob_of, listing};
use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// The passphrase is `canary passphrase`.
const LOCKED: &str = include_str!("../../../secure/tests/keys/locked.key");
const LOCKED_PUBLIC: &str = include_str!("../../../secure/tests/keys/locked.pub");

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(place.0.path().join("home/.ssh")).unwrap();
        place
    }

    fn places(&self, agent: Option<&Agent>) -> Places {
        let (state, home) = (Some(self.0.path().join("state")), Some(self.0.path().join("home")));
        Places { chosen: None, agent: agent.map(|agent| agent.socket.clone()), state, home }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }
}

fn key(number: u8) -> KeyPair {
    KeyPair::from_seed(&[number; 32]).unwrap()
}

fn agent_with(keys: &[PublicKey]) -> Agent {
    let blobs: Vec<(Vec<u8>, &[u8])> = keys.iter().map(|key| (blob_of(key), &b"held"[..])).collect();
    Agent::answering(vec![listing(&blobs)])
}

fn found(places: &Places) -> Vec<PublicKey> {
    identities(places).unwrap().found.iter().map(Identity::public).collect()
}

#[test]
fn the_agents_keys_come_first_then_ones_own_then_that_of_ssh_and_none_twice() {
    let place = Place::new();
    assert_eq!(found(&place.places(None)), []);
    keep_own(&place.0.path().join("state"), &key(1), "own").unwrap();
    place.write("home/.ssh/id_ed25519", &write_private(&key(2), "ssh").unwrap());
    assert_eq!(found(&place.places(None)), [key(1).public(), key(2).public()]);
    let agent = agent_with(&[key(3).public(), key(2).public()]);
    assert_eq!(found(&place.places(Some(&agent))), [key(3).public(), key(2).public(), key(1).public()]);
    assert_eq!(keep_own(&place.0.path().join("state"), &key(4), "x").unwrap_err().kind, ErrorKind::AlreadyExists);
}

#[test]
fn a_chosen_key_is_the_only_one_and_has_to_be_there() {
    let place = Place::new();
    keep_own(&place.0.path().join("state"), &key(1), "own").unwrap();
    let path = place.write("chosen", &write_private(&key(2), "c").unwrap());
    let choose = |path: &Path, agent: Option<&Agent>| Places { chosen: Some(path.to_owned()), ..place.places(agent) };
    assert_eq!(found(&choose(&path, None)), [key(2).public()]);
    assert_eq!(identities(&choose(&place.0.path().join("gone"), None)).unwrap_err().kind, ErrorKind::NotFound);
    // A public half stands for the key that the agent holds.
    let public = place.write("chosen.pub", &write_public(&key(2).public(), "c").unwrap());
    assert!(identities(&choose(&public, None)).is_err());
    let agent = agent_with(&[key(3).public(), key(2).public()]);
    let identities = identities(&choose(&public, Some(&agent))).unwrap();
    assert_eq!(identities.found.len(), 1);
    assert!(identities.found[0].from.contains("agent") && identities.found[0].ready().is_some());
}

#[test]
fn a_passphrase_is_asked_for_only_when_the_key_is_used_and_three_times_at_most() {
    let place = Place::new();
    let path = place.write("locked", LOCKED);
    let places = Places { chosen: Some(path.clone()), ..place.places(None) };
    let locked = identities(&places).unwrap().found.remove(0);
    assert!(locked.ready().is_none());
    assert_eq!(locked.public(), read_public(LOCKED_PUBLIC).unwrap().key);
    let asked = std::cell::Cell::new(0);
    let answer = |text: &'static str| {
        let asked = &asked;
        move |question: &str| {
            asked.set(asked.get() + 1);
            assert!(question.contains("locked"), "{question}");
            Ok(Some(Zeroizing::new(text.as_bytes().to_vec())))
        }
    };
    assert!(locked.signer(&answer("wrong")).is_err());
    assert_eq!(asked.replace(0), 3);
    assert_eq!(locked.signer(&answer("canary passphrase")).unwrap().public(), locked.public());
    assert_eq!(asked.get(), 1);
    let nobody = locked.signer(&|_: &str| Ok(None)).err().unwrap();
    assert!(nobody.message.contains("no terminal"), "{nobody}");
    // If the agent holds it, there is no prompt.
    let agent = agent_with(&[locked.public()]);
    let places = Places { agent: Some(agent.socket.clone()), ..places };
    assert!(identities(&places).unwrap().found[0].ready().is_some());
}

#[test]
fn what_cannot_be_used_is_told_and_stops_nothing() {
    let place = Place::new();
    keep_own(&place.0.path().join("state"), &key(1), "own").unwrap();
    place.write("home/.ssh/id_ed25519", "nonsense");
    let places = Places { agent: Some(place.0.path().join("nobody")), ..place.places(None) };
    let identities = identities(&places).unwrap();
    assert_eq!(identities.found.iter().map(Identity::public).collect::<Vec<_>>(), [key(1).public()]);
    assert_eq!(identities.unusable.len(), 2, "{:?}", identities.unusable);
}
