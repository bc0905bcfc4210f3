//! B26, the half that is not about time: what comes back does not tell whether a user exists.

use super::raw::{RawTls, wishes};
use super::support::middle::{Middle, borders};
use super::support::people::{People, by_key, by_password, by_token};
use super::support::serving::{Serving, Setup};
use std::sync::Arc;
use xdfs_client::{ConnectOptions, ErrorKind, Offer, Session};
use xdfs_proto::wire::handshake::{MessageType, Open, frame};
use xdfs_proto::wire::login::LoginKind;
use xdfs_proto::wire::preface::Status;
use xdfs_secure::policy::Method;
use xdfs_server::LogEvent;

/// What a failed login shows: the client's error, whose turn it was, and the length of every TLS record.
/// Each time on a server of its own: who fails too often is told that, whoever he says to be.
fn shown(user: &str, offer: Offer) -> (String, Vec<(usize, usize)>, [Vec<usize>; 2]) {
    let serving = Serving::with(Setup { directory: Arc::new(People(false)), ..Setup::default() });
    let middle = Middle::before(&serving.address);
    let options = ConnectOptions {
        address: middle.address.clone(),
        user: user.into(),
        offers: vec![offer],
        deadline: super::support::PATIENCE,
        ..serving.options(1)
    };
    let error = Session::connect(&options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LoginRefused, "{error}");
    let seen = middle.seen(0);
    (error.to_string(), seen.turns.clone(), seen.bytes.each_ref().map(|bytes| borders(bytes).0))
}

#[test]
fn passwords_that_were_guessed_count_even_where_the_connection_gets_in_at_last() {
    let serving = Serving::with(Setup { directory: Arc::new(People(true)), ..Setup::default() });
    let options = |offers| ConnectOptions {
        user: "ada".into(),
        offers,
        deadline: super::support::PATIENCE,
        ..serving.options(1)
    };
    // Keys that are not the right ones are what agents offer: nothing is counted.
    for _ in 0..4 {
        Session::connect(&options(vec![by_key(76), by_key(77), by_key(1)])).unwrap().close().unwrap();
    }
    let guess = || options(vec![by_password("letmein"), by_password("123456"), Offer::Anonymous]);
    for _ in 0..2 {
        Session::connect(&guess()).unwrap().close().unwrap();
        serving.heard("the guesses", |event| match event {
            LogEvent::LoginFailed { user, method: Some(Method::Password), error, .. } => {
                (user == "ada" && error == "wrong password").then_some(())
            }
            _ => None,
        });
        assert_eq!(serving.count(|event| matches!(event, LogEvent::LoginFailed { .. })), 2);
        serving.forget();
    }
    let told = Session::connect(&guess()).unwrap_err();
    assert_eq!(told.kind, ErrorKind::Busy, "{told}");
    assert!(told.message.contains(Status::Penalised.text()), "{told}");
}

#[test]
fn unknown_keys_lock_nobody_out_who_is_behind_the_same_address() {
    let serving = Serving::with(Setup { directory: Arc::new(People(false)), ..Setup::default() });
    let options = |offers| ConnectOptions {
        user: "ada".into(),
        offers,
        deadline: super::support::PATIENCE,
        ..serving.options(1)
    };
    for round in 0..6 {
        let refused = Session::connect(&options(vec![by_key(76), by_token(78)])).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::LoginRefused, "{round}: {refused}");
    }
    Session::connect(&options(vec![by_key(1)])).unwrap().close().unwrap();
    // Passwords can be guessed.
    for round in 0..4 {
        let refused = Session::connect(&options(vec![by_password("letmein")])).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::LoginRefused, "{round}: {refused}");
    }
    let told = Session::connect(&options(vec![by_password("letmein")])).unwrap_err();
    assert_eq!(told.kind, ErrorKind::Busy, "{told}");
    let (text, when) = told.message.split_once("; try again in ").unwrap();
    assert_eq!(text, Status::Penalised.text());
    assert!(matches!(when, "20 s" | "15 s" | "10 s" | "5 s"), "{when}");
}

#[test]
fn guesses_before_a_message_out_of_turn_count() {
    let serving = Serving::with(Setup { directory: Arc::new(People(true)), ..Setup::default() });
    for round in 0..4 {
        let mut raw = RawTls::start(&serving);
        let guess =
            Open { prefaces: raw.prefaces, login: LoginKind::Password as u64, credentials: vec![0; 96], ..wishes(1) };
        raw.say(&frame(MessageType::Open, &guess.encode()));
        assert_eq!(raw.read().unwrap(), (MessageType::Again, vec![5]), "round {round}");
        assert_eq!(raw.refused(&frame(MessageType::Accept, b"x")).kind, ErrorKind::Protocol);
    }
    let told = Session::connect(&serving.options(1)).unwrap_err();
    assert!(told.message.contains(Status::Penalised.text()), "{told}");
}

#[test]
fn b26_an_unknown_user_one_without_a_password_and_a_wrong_password_look_alike() {
    let wrong = || by_password("no such password");
    let known = shown("ada", wrong());
    // Preface and hello; OPEN; proof: three turns each, and as many answers.
    assert_eq!(known.1.len(), 6, "{:?}", known.1);
    assert_eq!(shown("bob", wrong()), known, "a user without a password");
    assert_eq!(shown("eve", wrong()), known, "a user that is not there");

    let foreign = shown("ada", by_key(77));
    assert_eq!(foreign.1.len(), 4, "{:?}", foreign.1);
    assert_eq!(shown("eve", by_key(77)), foreign);
    // A key that is somebody else's is worth no more than one that is nobody's.
    let somebodys = shown("bob", by_key(1));
    assert_eq!((somebodys.1, somebodys.2), (foreign.1.clone(), foreign.2.clone()));
    shown("", by_token(78));
}
