//! A server's users: `ada` with a key and a password, `bob` with a key alone, a token of hers, and visitors where wanted.

use std::sync::{Arc, OnceLock};
use xdfs_client::{Offer, Password};
use xdfs_proto::base::RelPath;
use xdfs_secure::identity::password::{ROUNDS, verifier};
use xdfs_secure::identity::{KeyPair, Signer};
use xdfs_secure::policy::{Directory, PasswordVerifier, PublicKey, Salts, Scope, TokenRecord};

/// The users of a test server. The value says whether visitors are allowed.
pub struct People(pub bool);

const SALTS: Salts = Salts([9; 16]);

pub const PASSWORD: &str = "correct horse";

pub fn key(seed: u8) -> KeyPair {
    KeyPair::from_seed(&[seed; 32]).unwrap()
}

pub fn by_key(seed: u8) -> Offer {
    Offer::Key(Arc::new(key(seed)) as Arc<dyn Signer>)
}

pub fn by_token(seed: u8) -> Offer {
    Offer::Token(Arc::new(key(seed)) as Arc<dyn Signer>)
}

pub fn by_password(text: &str) -> Offer {
    Offer::Password(Arc::new(Password::new(text.to_owned().into())))
}

impl Directory for People {
    fn has_key(&self, user: &str, public: &PublicKey) -> bool {
        user == "ada" && *public == key(1).public() || user == "bob" && *public == key(3).public()
    }

    fn password(&self, user: &str) -> Option<PasswordVerifier> {
        static HERS: OnceLock<PasswordVerifier> = OnceLock::new();
        let make = || verifier(PASSWORD.as_bytes(), &SALTS.of("ada"), ROUNDS.try_into().unwrap()).unwrap();
        (user == "ada").then(|| HERS.get_or_init(make).clone())
    }

    fn salts(&self) -> Option<Salts> {
        Some(SALTS)
    }

    fn token(&self, public: &PublicKey) -> Option<TokenRecord> {
        let scope = Scope { export: "data".into(), path: RelPath::default(), write: true, until: u64::MAX };
        (*public == key(2).public()).then(|| TokenRecord { user: "ada".into(), scope })
    }

    fn anonymous(&self) -> bool {
        self.0
    }
}
