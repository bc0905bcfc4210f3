//! Accounts in a real folder: the file and its errors, changes under a running server, the host
//! key.
#![allow(clippy::disallowed_methods, reason = "the tests look at the files that the state made")]

use super::*;
use std::num::NonZeroU32;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use tempfile::TempDir;
use xdfs_proto::base::RelPath;
use xdfs_secure::identity::openssh::NamedKey;
use xdfs_secure::identity::password;
use xdfs_secure::policy::{Directory, Method, Principal, PublicKey, Scope};

/// Later than the clock of any machine that runs the tests.
const LATER: u64 = 1 << 40;

/// A state folder of the test's own, removed with this value.
struct Place(TempDir);

impl Place {
    fn new() -> (Self, StateFolder) {
        let place = Self(tempfile::tempdir().unwrap());
        let state = StateFolder::create(&place.folder()).unwrap();
        (place, state)
    }

    /// The folder, which the call makes: its rights are part of what is tested.
    fn folder(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
        std::fs::set_permissions(self.file(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
}

fn key(number: u8) -> PublicKey {
    KeyPair::from_seed(&[number; 32]).unwrap().public()
}

fn named(number: u8) -> NamedKey {
    NamedKey { key: key(number), comment: format!("anna@{number}") }
}

fn scope(path: &[u8]) -> Scope {
    Scope { export: "data".into(), path: RelPath::parse(path).unwrap(), write: true, until: LATER }
}

fn verifier(text: &[u8]) -> xdfs_secure::policy::PasswordVerifier {
    password::verifier(text, &[9; 16], NonZeroU32::new(password::ROUNDS_MIN).unwrap()).unwrap()
}

fn anna() -> Account {
    Account {
        keys: vec![named(1), named(2)],
        password: Some(verifier(b"correct horse")),
        tokens: vec![AccountToken { key: key(3), scope: scope(b"run 7/\xff%") }],
        ..Account::default()
    }
}

#[test]
fn salts_are_drawn_with_the_first_password_and_stay() {
    let (place, state) = Place::new();
    state.edit(|accounts| accounts.add("anna", anna())).unwrap();
    let live = state.live(false).unwrap();
    assert_eq!(live.salts(), None, "nobody had a password made here");
    let salts = state.salts().unwrap();
    assert_eq!(state.salts().unwrap(), salts);
    live.refresh().unwrap().expect("a change");
    assert_eq!(live.salts(), Some(salts));
    assert_ne!(Place::new().1.salts().unwrap(), salts, "another server's are others");
    let text = std::fs::read_to_string(place.file(FILE)).unwrap();
    for wrong in ["", "AAAA", "!"] {
        let line = text.lines().find(|line| line.starts_with("salts")).unwrap();
        place.write(FILE, &text.replace(line, &format!("salts = \"{wrong}\"")));
        assert!(state.accounts().unwrap_err().message.contains("salts"), "{wrong}");
    }
}

fn principal(method: Method, number: Option<u8>) -> Principal {
    let scope = (method == Method::Token).then(|| scope(b"run 7/\xff%"));
    Principal { user: "anna".into(), method, key: number.map(key), scope }
}

#[test]
fn accounts_read_back_as_they_were_written() {
    let (place, state) = Place::new();
    assert_eq!(state.accounts().unwrap(), Accounts::default());
    state.edit(|accounts| accounts.add("anna", anna())).unwrap();
    state.edit(|accounts| accounts.add("b-1._x", Account::default())).unwrap();
    let accounts = state.accounts().unwrap();
    assert_eq!(accounts.find("anna"), Some(&anna()));
    assert_eq!(accounts.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["anna", "b-1._x"]);
    assert_eq!(std::fs::metadata(place.file(FILE)).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(place.folder()).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn a_change_that_breaks_a_rule_changes_nothing() {
    let (_place, state) = Place::new();
    state.edit(|accounts| accounts.add("anna", anna())).unwrap();
    let before = state.accounts().unwrap();
    for name in ["", "anna/b", "-x", ".x", "a b", "Anonymous", "a@b", "\u{e4}", &"x".repeat(65)] {
        assert!(state.edit(|accounts| accounts.add(name, Account::default())).is_err(), "'{name}'");
    }
    let taken = state.edit(|accounts| accounts.add("anna", Account::default())).unwrap_err();
    assert_eq!(taken.kind, ErrorKind::AlreadyExists);
    let second = Account { tokens: anna().tokens, ..Account::default() };
    assert!(state.edit(|accounts| accounts.add("bert", second)).unwrap_err().message.contains("given twice"));
    let many = Account { keys: (0..65).map(named).collect(), ..Account::default() };
    assert_eq!(state.edit(|accounts| accounts.add("bert", many)).unwrap_err().kind, ErrorKind::LimitExceeded);
    assert_eq!(state.accounts().unwrap(), before);
}

#[test]
fn a_file_with_a_fault_is_refused_and_its_line_is_not_repeated() {
    let (place, state) = Place::new();
    for (text, part) in [
        ("version = 2\n", "version 2"),
        ("", "version"),
        ("version = 1\n[user.anna]\nkeys = [\"canary\"]\n", "anna"),
        ("version = 1\n[user.anna]\nrights = \"canary\"\n", "line 3"),
        ("version = 1\n[user.anna]\npassword = \"canary\"\n", "password"),
        ("version = 1\n[user.\"a b\"]\nkeys = []\n", "a b"),
        ("version = 1\n[user.anna]\nkeys = [\"canary\n", "line 3"),
        ("version = 1\n[[user.anna.token]]\nkey = \"canary\"\n", "line"),
        ("version = 1\n[user.anna]\nrevoked = \"canary\"\n", "line 3"),
        ("canary", "line 1"),
    ] {
        place.write(FILE, text);
        let error = state.accounts().unwrap_err();
        assert!(error.message.contains(part), "'{part}' in {error}");
        assert!(!error.message.contains("canary"), "{error}");
        assert!(state.edit(|accounts| accounts.add("bert", Account::default())).is_err(), "{text}");
        assert_eq!(std::fs::read_to_string(place.file(FILE)).unwrap(), text);
    }
    place.write(FILE, "version = 1\n");
    std::fs::set_permissions(place.file(FILE), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(state.accounts().unwrap_err().message.contains("chmod"));
}

#[test]
fn a_running_server_sees_a_change_when_it_looks() {
    let (place, state) = Place::new();
    let live = state.live(false).unwrap();
    assert!(live.refresh().unwrap().is_none());
    assert!(!live.has_key("anna", &key(1)));
    state.edit(|accounts| accounts.add("anna", anna())).unwrap();
    assert!(live.refresh().unwrap().is_some());
    assert!(live.has_key("anna", &key(1)) && live.has_key("anna", &key(2)));
    assert!(!live.has_key("anna", &key(3)) && !live.has_key("bert", &key(1)) && !live.has_key("", &key(1)));
    assert_eq!(live.password("anna"), Some(verifier(b"correct horse")));
    assert_eq!(live.password("bert"), None);
    assert_eq!(live.token(&key(3)).unwrap().user, "anna");
    assert!(live.token(&key(1)).is_none());
    assert!(live.refresh().unwrap().is_none());
    // Broken by hand: the previous accounts stay, and the error is reported once.
    place.write(FILE, "broken");
    assert!(live.refresh().is_err());
    assert!(live.refresh().unwrap().is_none());
    assert!(live.has_key("anna", &key(1)));
    // Temporarily unreadable, with the file unchanged: the next refresh reads it.
    place.write(FILE, "version = 1\n");
    let aside = place.file("aside");
    std::fs::rename(place.file(FILE), &aside).unwrap();
    std::fs::create_dir(place.file(FILE)).unwrap();
    assert!(live.refresh().is_err());
    assert!(live.refresh().unwrap().is_none() && live.has_key("anna", &key(1)));
    std::fs::remove_dir(place.file(FILE)).unwrap();
    std::fs::rename(&aside, place.file(FILE)).unwrap();
    assert!(live.refresh().unwrap().is_some());
    assert!(!live.has_key("anna", &key(1)));
    state.edit(|accounts| accounts.add("anna", anna())).unwrap();
    assert!(live.refresh().unwrap().is_some() && live.has_key("anna", &key(1)));
    // The file is gone: nobody may log in.
    std::fs::remove_file(place.file(FILE)).unwrap();
    assert!(live.refresh().unwrap().is_some());
    assert!(!live.has_key("anna", &key(1)));
}

#[test]
fn a_change_ends_the_sessions_that_it_would_not_let_in() {
    let sessions = [
        principal(Method::Key, Some(1)),
        principal(Method::Key, Some(2)),
        principal(Method::Password, None),
        principal(Method::Token, Some(3)),
        principal(Method::Anonymous, None),
    ];
    type Edit = fn(&mut Account);
    let edits: [(Edit, [bool; 5]); 7] = [
        (|anna| anna.revoked = true, [true, true, true, true, false]),
        (|anna| assert!(anna.remove(&key(1).fingerprint())), [true, false, false, false, false]),
        (|anna| assert!(anna.remove(&key(3).fingerprint())), [false, false, false, true, false]),
        (|anna| anna.password = Some(verifier(b"another one")), [false, false, true, false, false]),
        (|anna| anna.password = None, [false, false, true, false, false]),
        (|anna| anna.tokens[0].scope.write = false, [false, false, false, true, false]),
        (|anna| assert!(anna.add_key(named(4))), [false; 5]),
    ];
    for (number, (edit, ended)) in edits.into_iter().enumerate() {
        let (_place, state) = Place::new();
        state.edit(|accounts| accounts.add("anna", anna())).unwrap();
        let live = state.live(true).unwrap();
        assert!(sessions.iter().all(|session| admits(&live, session)));
        state
            .edit(|accounts| {
                edit(accounts.named("anna")?);
                Ok(())
            })
            .unwrap();
        let change = live.refresh().unwrap().unwrap();
        assert_eq!(sessions.each_ref().map(|session| change.ends(session)), ended, "edit {number}");
    }
}

#[test]
fn a_token_that_ran_out_and_a_revoked_user_log_nobody_in() {
    let (_place, state) = Place::new();
    let mut old = anna();
    old.tokens[0].scope.until = 1_600_000_000;
    state.edit(|accounts| accounts.add("anna", old)).unwrap();
    state
        .edit(|accounts| accounts.add("bert", Account { revoked: true, keys: vec![named(5)], ..anna_without_tokens() }))
        .unwrap();
    let live = state.live(false).unwrap();
    assert!(live.token(&key(3)).is_none() && !admits(&live, &principal(Method::Token, Some(3))));
    assert!(!live.has_key("bert", &key(5)) && live.password("bert").is_none());
    assert!(!admits(&live, &principal(Method::Anonymous, None)));
}

fn anna_without_tokens() -> Account {
    Account { tokens: Vec::new(), ..anna() }
}

#[test]
fn the_host_key_is_made_once_and_a_bad_one_is_refused() {
    let (place, state) = Place::new();
    let first = state.host_key().unwrap();
    assert_eq!(state.host_key().unwrap().public(), first.public());
    assert_eq!(std::fs::metadata(place.file(HOST_KEY)).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(place.file(HOST_KEY_PUBLIC)).unwrap().mode() & 0o7777, 0o644);
    std::fs::set_permissions(place.file(HOST_KEY), PermissionsExt::from_mode(0o640)).unwrap();
    assert!(state.host_key().unwrap_err().message.contains("0640"));
    let text = std::fs::read_to_string(place.file(HOST_KEY)).unwrap();
    for damaged in [&text[..text.len() / 2], "", "hello"] {
        place.write(HOST_KEY, damaged);
        // Never replaced by a new one: every client would see an unknown server.
        assert!(state.host_key().is_err());
        assert_eq!(std::fs::read_to_string(place.file(HOST_KEY)).unwrap(), damaged);
    }
}

#[test]
fn the_key_of_journals_is_made_once_and_a_bad_one_is_refused() {
    let (place, state) = Place::new();
    state.journal_key().unwrap();
    let made = std::fs::read(place.file(JOURNAL_KEY)).unwrap();
    assert_eq!(std::fs::metadata(place.file(JOURNAL_KEY)).unwrap().mode() & 0o7777, 0o600);
    let again = StateFolder::create(&place.folder()).unwrap();
    again.journal_key().unwrap();
    assert_eq!(std::fs::read(place.file(JOURNAL_KEY)).unwrap(), made);
    std::fs::set_permissions(place.file(JOURNAL_KEY), PermissionsExt::from_mode(0o640)).unwrap();
    assert!(state.journal_key().unwrap_err().message.contains("0640"));
    place.write(JOURNAL_KEY, "short");
    assert!(state.journal_key().unwrap_err().message.contains("5 bytes instead of 32"));
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let (_place, state) = Place::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let state = state.clone();
            scope.spawn(move || {
                for number in 0..5 {
                    let name = format!("user-{writer}-{number}");
                    state.edit(|accounts| accounts.add(&name, Account::default())).unwrap();
                }
            });
        }
    });
    assert_eq!(state.accounts().unwrap().iter().count(), 20);
}

#[test]
fn root_gives_a_service_what_it_makes_and_nothing_that_it_finds() {
    if !xdfs_test_needs::root("nobody else gives files away") {
        return;
    }
    const SERVICE: u32 = 4711;
    let (place, _) = Place::new();
    std::os::unix::fs::chown(place.folder(), Some(SERVICE), Some(SERVICE)).unwrap();
    // A hard link to a file of root's, placed there by a user who may write into the folder.
    place.write("victim", "root's own");
    std::fs::hard_link(place.file("victim"), place.file("lock")).unwrap();
    let state = StateFolder::open(&place.folder()).unwrap().unwrap();
    state.edit(|accounts| accounts.add("anna", anna())).unwrap();
    assert_eq!(place.file("victim").metadata().unwrap().uid(), 0);
    assert_eq!(place.file(FILE).metadata().unwrap().uid(), SERVICE);
    std::fs::remove_file(place.file("lock")).unwrap();
    state.edit(|accounts| accounts.add("bert", Account::default())).unwrap();
    assert_eq!(place.file("lock").metadata().unwrap().uid(), SERVICE);
}
