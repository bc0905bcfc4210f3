//! Logins of both sides against each other.

use super::*;
use crate::identity::password::{ROUNDS, ROUNDS_MIN, verifier as password_verifier};
use crate::identity::{KeyPair, verify};
use crate::policy::{Directory, Method, PasswordVerifier, Principal, Salts, Scope, TokenRecord};
use xdfs_proto::base::RelPath;

const SALTS: Salts = Salts([7; 16]);

/// A handful of users in memory.
struct Users {
    key: PublicKey,
    token: PublicKey,
    password: PasswordVerifier,
    anonymous: bool,
}

fn scope() -> Scope {
    Scope { export: "data".into(), path: RelPath::default(), write: false, until: 1 }
}

impl Directory for Users {
    fn has_key(&self, user: &str, key: &PublicKey) -> bool {
        user == "ada" && *key == self.key
    }

    fn password(&self, user: &str) -> Option<PasswordVerifier> {
        (user == "ada").then(|| self.password.clone())
    }

    fn salts(&self) -> Option<Salts> {
        Some(SALTS)
    }

    fn token(&self, key: &PublicKey) -> Option<TokenRecord> {
        (*key == self.token).then(|| TokenRecord { user: "bob".into(), scope: scope() })
    }

    fn anonymous(&self) -> bool {
        self.anonymous
    }
}

struct World {
    users: Users,
    key: KeyPair,
    token: KeyPair,
    decoy: Decoy,
}

fn world() -> World {
    let key = KeyPair::from_seed(&[1; 32]).unwrap();
    let token = KeyPair::from_seed(&[2; 32]).unwrap();
    let password = password_verifier(b"correct horse", &SALTS.of("ada"), ROUNDS_MIN.try_into().unwrap()).unwrap();
    let users = Users { key: key.public(), token: token.public(), password, anonymous: false };
    World { users, key, token, decoy: Decoy::new(&KeyPair::from_seed(&[3; 32]).unwrap()).unwrap() }
}

fn binding(byte: u8) -> Binding {
    Binding { login: [byte; 32], channel: [byte ^ 0xff; 32], host: Fingerprint([5; 32]), prefaces: [6; 16] }
}

fn password(text: &str) -> Offered {
    Offered::Password(Password::new(text.to_owned().into()))
}

/// Carries a login to its end; the client believes to be on the connection `client`, the server on `server`.
fn log_in(
    world: &World,
    user: &str,
    offers: Vec<Offered>,
    client: &Binding,
    server: &Binding,
) -> Result<Principal, Vec<Method>> {
    let kinds = ServerLogin::kinds(&world.users);
    let mut from = ClientLogin::new(user.to_owned(), offers, [8; NONCE_BYTES]);
    let mut to = ServerLogin::new(server.clone(), "192.0.2.1".into(), [9; NONCE_BYTES]);
    loop {
        let (kind, credentials) = match from.next(kinds, client) {
            LoginStep::Sign { message, .. } => {
                let key = if from.tried().last().unwrap().0 == Method::Key { &world.key } else { &world.token };
                from.on_signature(key.sign(&message).unwrap()).unwrap()
            }
            LoginStep::Login { kind, credentials } => (kind, credentials),
            LoginStep::Exhausted => return Err(from.tried().iter().map(|(method, _)| *method).collect()),
        };
        let mut judgement = to.on_login(kind as u64, &credentials, &world.users, &world.decoy);
        if let LoginDecision::Challenge { message, issued } = judgement {
            let stretched = from.on_challenge(&message).unwrap().run();
            judgement = to.on_proof(*issued, &from.on_stretched(&stretched, client).unwrap(), &world.users);
        }
        match judgement {
            LoginDecision::Accepted { principal, proof } => {
                from.on_accept(&proof).unwrap();
                return Ok(principal);
            }
            LoginDecision::Again { .. } => {}
            LoginDecision::Challenge { .. } | LoginDecision::Refused => {
                return Err(from.tried().iter().map(|(method, _)| *method).collect());
            }
        }
    }
}

#[test]
fn each_kind_of_login_yields_its_principal() {
    let mut world = world();
    let on = binding(1);
    let key = log_in(&world, "ada", vec![Offered::Key(world.key.public())], &on, &on).unwrap();
    assert_eq!((key.user.as_str(), key.method, key.key), ("ada", Method::Key, Some(world.key.public())));
    let token = log_in(&world, "", vec![Offered::Token(world.token.public())], &on, &on).unwrap();
    assert_eq!((token.user.as_str(), token.method, token.scope), ("bob", Method::Token, Some(scope())));
    let by_password = log_in(&world, "ada", vec![password("correct horse")], &on, &on).unwrap();
    assert_eq!((by_password.user.as_str(), by_password.method), ("ada", Method::Password));
    assert!(log_in(&world, "", vec![Offered::Anonymous], &on, &on).is_err());
    world.users.anonymous = true;
    let visitor = log_in(&world, "", vec![Offered::Anonymous], &on, &on).unwrap();
    assert_eq!((visitor.user.as_str(), visitor.method), ("anonymous@192.0.2.1", Method::Anonymous));
}

/// A password with accents, as one keyboard gives it and as another does.
const COMPOSED: &str = "caf\u{e9} crois\u{e9}";
const DECOMPOSED: &str = "cafe\u{301} croise\u{301}";

#[test]
fn a_password_fits_in_whatever_form_it_is_typed() {
    let mut world = world();
    let on = binding(1);
    for (set, typed) in [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED), (DECOMPOSED, DECOMPOSED)] {
        let rounds = ROUNDS_MIN.try_into().unwrap();
        world.users.password = password_verifier(set.as_bytes(), &SALTS.of("ada"), rounds).unwrap();
        assert!(log_in(&world, "ada", vec![password(typed)], &on, &on).is_ok(), "{set:?} {typed:?}");
    }
    let tried = log_in(&world, "ada", vec![password("cafe\u{301} fermé")], &on, &on).unwrap_err();
    assert_eq!(tried.len(), 2, "each form once");
}

#[test]
fn a_verifier_of_a_password_as_it_was_typed_still_lets_in() {
    let mut world = world();
    let on = binding(1);
    // What earlier versions made of the decomposed password, with the salt of ada and 100,000 rounds.
    world.users.password = unprepared_verifier(DECOMPOSED);
    assert!(log_in(&world, "ada", vec![password(DECOMPOSED)], &on, &on).is_ok());
    assert!(log_in(&world, "ada", vec![password(COMPOSED)], &on, &on).is_err());
    world.users.password = unprepared_verifier(COMPOSED);
    assert!(log_in(&world, "ada", vec![password(DECOMPOSED)], &on, &on).is_ok());
}

fn unprepared_verifier(typed: &str) -> PasswordVerifier {
    use aws_lc_rs::{digest, hmac, pbkdf2};
    let (salt, mut salted) = (SALTS.of("ada"), [0; 32]);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS_MIN.try_into().unwrap(), &salt, typed.as_bytes(), &mut salted);
    let half = |label: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salted), label);
    let stored_key = digest::digest(&digest::SHA256, half(b"Client Key").as_ref());
    PasswordVerifier {
        salt: salt.to_vec(),
        iterations: ROUNDS_MIN,
        stored_key: stored_key.as_ref().try_into().unwrap(),
        server_key: half(b"Server Key").as_ref().try_into().unwrap(),
    }
}

#[test]
fn a_login_made_on_another_connection_is_refused() {
    let world = world();
    let (here, there) = (binding(1), binding(2));
    for offer in [
        || Offered::Key(KeyPair::from_seed(&[1; 32]).unwrap().public()),
        || Offered::Token(KeyPair::from_seed(&[2; 32]).unwrap().public()),
        || password("correct horse"),
    ] {
        assert!(log_in(&world, "ada", vec![offer()], &here, &here).is_ok());
        assert!(log_in(&world, "ada", vec![offer()], &here, &there).is_err());
    }
    // The same connection, but another server's key or other prefaces.
    let key = || vec![Offered::Key(world.key.public())];
    let other_host = Binding { host: Fingerprint([6; 32]), ..binding(1) };
    let other_prefaces = Binding { prefaces: [7; 16], ..binding(1) };
    assert!(log_in(&world, "ada", key(), &here, &other_host).is_err());
    assert!(log_in(&world, "ada", key(), &here, &other_prefaces).is_err());
}

#[test]
fn several_offers_are_tried_in_order_and_at_most_six() {
    let world = world();
    let on = binding(1);
    let wrong = |byte| Offered::Key(KeyPair::from_seed(&[byte; 32]).unwrap().public());
    let offers = vec![wrong(40), wrong(41), password("wrong"), Offered::Key(world.key.public())];
    assert_eq!(log_in(&world, "ada", offers, &on, &on).unwrap().method, Method::Key);
    let mut many: Vec<Offered> = (40..46).map(wrong).collect();
    many.push(Offered::Key(world.key.public()));
    assert_eq!(log_in(&world, "ada", many, &on, &on).unwrap_err().len(), usize::from(TRIES_MAX));
}

#[test]
fn a_stranger_cannot_tell_users_from_nobody() {
    let world = world();
    let mut to = ServerLogin::new(binding(1), String::new(), [9; NONCE_BYTES]);
    let mut challenge = |user: &str| {
        let (_, message) = scram::client_first(user, "0123456789abcdef");
        match to.on_login(LoginKind::Password as u64, &message, &world.users, &world.decoy) {
            LoginDecision::Challenge { message, .. } => String::from_utf8(message).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let parts = |text: &str| text.split(',').map(|part| (part[..2].to_owned(), part.len())).collect::<Vec<_>>();
    let salt = |text: &str| text.split(',').nth(1).unwrap().to_owned();
    let (known, nobody, again, other) = (challenge("ada"), challenge("eve"), challenge("eve"), challenge("mallory"));
    assert_eq!(parts(&known), parts(&nobody), "{known} {nobody}");
    assert_eq!(salt(&nobody), salt(&again), "a salt that changed would tell that nobody has it");
    assert_ne!(salt(&nobody), salt(&other));
    // A user has the salt that a user of that name has: who knows how they are made learns nothing either.
    let salts = world.decoy.salts(&world.users).unwrap();
    let made = |user: &str| format!("s={}", base64ct::Base64::encode_string(&salts.of(user)));
    assert_eq!((salt(&known), salt(&nobody)), (made("ada"), made("eve")));
    // And the end is the same: no password fits, and the answer does not differ.
    let on = binding(1);
    let of_known = log_in(&world, "ada", vec![password("wrong")], &on, &on);
    let of_nobody = log_in(&world, "eve", vec![password("wrong")], &on, &on);
    assert_eq!(of_known, of_nobody);
    let wrong_user = log_in(&world, "eve", vec![Offered::Key(world.key.public())], &on, &on);
    assert_eq!(wrong_user, Err(vec![Method::Key]));
}

#[test]
fn a_server_that_does_not_know_the_verifier_is_found_out() {
    let world = world();
    let on = binding(1);
    let kinds = ServerLogin::kinds(&world.users);
    let mut from = ClientLogin::new("ada".into(), vec![password("correct horse")], [8; NONCE_BYTES]);
    assert!(matches!(from.next(kinds, &on), LoginStep::Login { kind: LoginKind::Password, .. }));
    let nonce = base64ct::Base64Unpadded::encode_string(&[8; NONCE_BYTES]);
    let challenge = format!("r={nonce}more,s=AAAAAAAAAAAAAAAAAAAAAA==,i={}", ROUNDS_MIN);
    let stretched = from.on_challenge(challenge.as_bytes()).unwrap().run();
    from.on_stretched(&stretched, &on).unwrap();
    assert!(from.on_accept(b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").is_err());
    // Nor may it skip the challenge, or its own proof.
    let mut from = ClientLogin::new("ada".into(), vec![password("correct horse")], [8; NONCE_BYTES]);
    from.next(kinds, &on);
    assert!(from.on_accept(b"").is_err());
}

#[test]
fn work_that_began_ahead_answers_the_challenge_it_was_made_for_and_no_other() {
    let world = world();
    let on = binding(1);
    let kinds = ServerLogin::kinds(&world.users);
    let salts = Salts([4; 16]);
    let text = |salt: &[u8], rounds| {
        let (nonce, salt) =
            (base64ct::Base64Unpadded::encode_string(&[8; NONCE_BYTES]), base64ct::Base64::encode_string(salt));
        format!("r={nonce}more,s={salt},i={rounds}")
    };
    let start = || {
        let offers = vec![password("wrong"), password("correct horse")];
        let mut from = ClientLogin::new("ada".into(), offers, [8; NONCE_BYTES]);
        assert!(from.ahead(&salts).is_none(), "before it is the password's turn");
        from.next(kinds, &on);
        from
    };
    let mut from = start();
    let ahead = from.ahead(&salts).unwrap().run();
    let wanted = from.on_challenge(text(&salts.of("ada"), ROUNDS).as_bytes()).unwrap();
    assert!(ahead.fits(&wanted));
    let proof = from.on_stretched(&ahead, &on).unwrap();
    let mut slow = start();
    let wanted = slow.on_challenge(text(&salts.of("ada"), ROUNDS).as_bytes()).unwrap();
    assert_eq!(slow.on_stretched(&wanted.run(), &on).unwrap(), proof, "the same as without");
    for challenge in [text(&salts.of("eve"), ROUNDS), text(&salts.of("ada"), ROUNDS_MIN)] {
        let mut from = start();
        assert!(!ahead.fits(&from.on_challenge(challenge.as_bytes()).unwrap()));
        assert!(from.on_stretched(&ahead, &on).is_err());
    }
    // Another password's work is another's.
    let mut from = start();
    from.next(kinds, &on);
    assert!(!ahead.fits(&from.on_challenge(text(&salts.of("ada"), ROUNDS).as_bytes()).unwrap()));
}

#[test]
fn altered_credentials_are_refused_whichever_bit_it_is() {
    let world = world();
    let on = binding(1);
    let message = on.signed(LoginKind::Key, "ada", &world.key.public());
    let signature = world.key.sign(&message).unwrap();
    assert!(verify(&world.key.public(), &message, &signature));
    let login = KeyLogin { user: b"ada".to_vec(), key: world.key.public().0, signature }.encode();
    let judge = |credentials: &[u8]| {
        let mut to = ServerLogin::new(on.clone(), String::new(), [9; NONCE_BYTES]);
        matches!(
            to.on_login(LoginKind::Key as u64, credentials, &world.users, &world.decoy),
            LoginDecision::Accepted { .. }
        )
    };
    assert!(judge(&login));
    for bit in 0..login.len() * 8 {
        let mut altered = login.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(!judge(&altered), "bit {bit}");
    }
    for length in 0..login.len() {
        assert!(!judge(&login[..length]), "{length} bytes");
    }
}

#[test]
fn a_printed_login_shows_no_secret() {
    let offered = format!("{:?}", password("CANARY-PASSWORD"));
    let login = ClientLogin::new("ada".into(), vec![password("CANARY-PASSWORD")], [8; NONCE_BYTES]);
    assert!(!format!("{offered}{login:?}").contains("CANARY"), "{login:?}");
}

use base64ct::Encoding;
use xdfs_proto::wire::login::KeyLogin;

#[test]
fn a_password_that_is_changed_or_taken_away_between_challenge_and_proof_opens_nothing() {
    let on = binding(1);
    let logged_in = |change: fn(&mut Users)| {
        let mut world = world();
        let mut from = ClientLogin::new("ada".into(), vec![password("correct horse")], [8; NONCE_BYTES]);
        let mut to = ServerLogin::new(on.clone(), "192.0.2.1".into(), [9; NONCE_BYTES]);
        let LoginStep::Login { kind, credentials } = from.next(ServerLogin::kinds(&world.users), &on) else {
            panic!("a login")
        };
        let judgement = to.on_login(kind as u64, &credentials, &world.users, &world.decoy);
        let LoginDecision::Challenge { message, issued } = judgement else { panic!("a challenge") };
        let stretched = from.on_challenge(&message).unwrap().run();
        let proof = from.on_stretched(&stretched, &on).unwrap();
        change(&mut world.users);
        matches!(to.on_proof(*issued, &proof, &world.users), LoginDecision::Accepted { .. })
    };
    assert!(logged_in(|_| {}));
    assert!(!logged_in(|users| {
        users.password = password_verifier(b"another", &[7; 16], ROUNDS_MIN.try_into().unwrap()).unwrap();
    }));
    assert!(!logged_in(|users| {
        // The same password, set again: who set it meant the old one to end.
        users.password = password_verifier(b"correct horse", &[8; 16], ROUNDS_MIN.try_into().unwrap()).unwrap();
    }));
}
