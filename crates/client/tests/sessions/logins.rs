//! Who gets in, by which proof, and who does not; over real connections.

use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, pattern};
use std::sync::Arc;
use xdfs_client::{
    Certificates, ConnectOptions, ErrorKind, Fingerprint, GetOptions, HostCheck, Method, Offer, Password, Pinned,
    Session, Suite, Target,
};
use xdfs_proto::base::RelPath;
use xdfs_secure::identity::password::{ROUNDS_MIN, verifier};
use xdfs_secure::identity::{KeyPair, Signer};
use xdfs_secure::policy::{Directory, PasswordVerifier, PublicKey, Scope, TokenRecord};

/// One user with a key and a password, and one token.
struct Users;

fn key(seed: u8) -> KeyPair {
    KeyPair::from_seed(&[seed; 32]).unwrap()
}

impl Directory for Users {
    fn has_key(&self, user: &str, public: &PublicKey) -> bool {
        user == "ada" && *public == key(1).public()
    }

    fn password(&self, user: &str) -> Option<PasswordVerifier> {
        let rounds = ROUNDS_MIN.try_into().unwrap();
        (user == "ada").then(|| verifier(b"correct horse", &[9; 16], rounds).unwrap())
    }

    fn token(&self, public: &PublicKey) -> Option<TokenRecord> {
        let scope = Scope { export: "data".into(), path: RelPath::default(), write: true, until: u64::MAX };
        (*public == key(2).public()).then(|| TokenRecord { user: "ada".into(), scope })
    }

    fn anonymous(&self) -> bool {
        false
    }
}

fn serving() -> Serving {
    Serving::with(Setup { directory: Arc::new(Users), ..Setup::default() })
}

fn signer(seed: u8) -> Arc<dyn Signer> {
    Arc::new(key(seed))
}

fn password(text: &str) -> Offer {
    Offer::Password(Arc::new(Password::new(text.to_owned().into())))
}

fn options(serving: &Serving, offers: Vec<Offer>) -> ConnectOptions {
    ConnectOptions { user: "ada".into(), offers, deadline: PATIENCE, ..serving.options(2) }
}

#[test]
fn a_key_a_token_and_a_password_open_a_session_and_their_failures_are_told() {
    let serving = serving();
    for (offers, method, by) in [
        (vec![Offer::Key(signer(1))], Method::Key, Some(key(1).public())),
        (vec![Offer::Token(signer(2))], Method::Token, Some(key(2).public())),
        (vec![password("correct horse")], Method::Password, None),
        (vec![Offer::Key(signer(7)), password("wrong one"), Offer::Key(signer(1))], Method::Key, Some(key(1).public())),
    ] {
        let session = Session::connect(&options(&serving, offers)).unwrap();
        assert_eq!((session.facts().method, session.facts().key), (method, by));
        session.close().unwrap();
    }
    for offers in [
        vec![],
        vec![Offer::Anonymous],
        vec![Offer::Key(signer(7)), Offer::Token(signer(8))],
        vec![password("wrong one")],
    ] {
        let error = Session::connect(&options(&serving, offers.clone())).unwrap_err();
        assert_eq!(error.kind, ErrorKind::LoginRefused);
        for offer in offers {
            if let Offer::Key(signer) | Offer::Token(signer) = offer {
                assert!(error.message.contains(&signer.public().fingerprint().to_string()), "{error}");
            }
        }
    }
}

#[test]
fn a_server_with_another_key_learns_nothing_and_serves_nobody() {
    let serving = serving();
    let host_check: Arc<dyn HostCheck> = Arc::new(Pinned(Fingerprint([3; 32])));
    for certificates in [Certificates::Raw, Certificates::X509 { roots: Vec::new() }] {
        let wrong = ConnectOptions {
            host_check: Arc::clone(&host_check),
            certificates: certificates.clone(),
            ..options(&serving, vec![Offer::Key(signer(1))])
        };
        assert_eq!(Session::connect(&wrong).unwrap_err().kind, ErrorKind::Refused);
        // The right pin holds for the key in either form.
        let right = ConnectOptions { certificates, ..options(&serving, vec![Offer::Key(signer(1))]) };
        Session::connect(&right).unwrap().close().unwrap();
    }
}

#[test]
fn a_download_inside_the_opening_arrives_at_every_level_and_with_either_cipher() {
    use xdfs_client::Level;
    let serving = serving();
    let content = pattern(700_000, 4);
    serving.directory.write("file", &content);
    for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
        for level in [Level::Clear, Level::Integrity, Level::Private] {
            let options =
                ConnectOptions { level, suites: Some(vec![suite]), ..options(&serving, vec![Offer::Key(signer(1))]) };
            let (target, got) = Target::memory();
            let (session, transfer) =
                Session::connect_and_get(&options, "data/file", target, &GetOptions::default()).unwrap();
            let report = transfer.wait().unwrap();
            assert_eq!((report.level, session.facts().suite), (level, suite));
            assert!(got.take().is_some_and(|bytes| bytes == content), "{level:?}");
            session.close().unwrap();
        }
    }
}
