//! The client's side of a login: one offer after the other until the server takes one.
//!
//! It must not sign: it returns what must be signed, and with which offer.

use core::fmt;
use core::num::NonZeroU32;
use std::collections::VecDeque;

use base64ct::{Base64Unpadded, Encoding};
use xdfs_proto::wire::login::{KeyLogin, LoginKind, TokenLogin};

use super::scram::{Challenged, Expected, ScramClient, client_first};
use super::{Binding, NONCE_BYTES, Password, Stretched, Stretching, TRIES_MAX};
use crate::Error;
use crate::identity::SIGNATURE_BYTES;
use crate::identity::password::ROUNDS;
use crate::policy::{Method, PublicKey, Salts};

/// A credential of the client.
#[derive(Debug)]
pub enum Offered {
    /// A key of the user.
    Key(PublicKey),
    /// A token.
    Token(PublicKey),
    /// The user's password.
    Password(Password),
    /// Nothing: anonymous.
    Anonymous,
}

impl Offered {
    fn kind(&self) -> LoginKind {
        match self {
            Self::Key(_) => LoginKind::Key,
            Self::Token(_) => LoginKind::Token,
            Self::Password(_) => LoginKind::Password,
            Self::Anonymous => LoginKind::Anonymous,
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::Key(_) => Method::Key,
            Self::Token(_) => Method::Token,
            Self::Password(_) => Method::Password,
            Self::Anonymous => Method::Anonymous,
        }
    }

    fn key(&self) -> Option<PublicKey> {
        match self {
            Self::Key(key) | Self::Token(key) => Some(*key),
            Self::Password(_) | Self::Anonymous => None,
        }
    }
}

/// The next action of the driver.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum LoginStep {
    /// Sign `message` with offer number `offer`, then [`ClientLogin::on_signature`].
    Sign { offer: usize, message: Vec<u8> },
    /// Put this into OPEN.
    Login { kind: LoginKind, credentials: Vec<u8> },
    /// Nothing is left to offer.
    Exhausted,
}

/// The client's half of a login: one offer after the other until the server accepts one.
#[derive(Debug)]
pub struct ClientLogin {
    user: String,
    nonce: [u8; NONCE_BYTES],
    offers: VecDeque<(usize, Offered)>,
    tries: u8,
    tried: Vec<(Method, Option<PublicKey>)>,
    state: LoginState,
}

enum LoginState {
    Idle,
    Signing(Offered),
    Scram(ScramClient, usize, Password),
    Challenged(Challenged, usize),
    Proved(Expected),
}

impl fmt::Debug for LoginState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "Idle",
            Self::Signing(_) => "Signing",
            Self::Scram(..) => "Scram",
            Self::Challenged(..) => "Challenged",
            Self::Proved(_) => "Proved",
        })
    }
}

impl ClientLogin {
    /// Offers `offers` in this order; `nonce` is random. A password is offered in the form in which
    /// it counts, and where that is refused as it was typed: servers of earlier versions made their
    /// verifiers of that.
    pub fn new(user: String, offers: Vec<Offered>, nonce: [u8; NONCE_BYTES]) -> Self {
        let count = offers.len();
        let numbered = offers.into_iter().enumerate().flat_map(|(number, offered)| {
            let prepared = match &offered {
                Offered::Password(password) => password.prepared(),
                _ => None,
            };
            match prepared {
                // Its own number: a computation for one form is useless for the other.
                Some(prepared) => vec![(number, Offered::Password(prepared)), (count + number, offered)],
                None => vec![(number, offered)],
            }
        });
        let offers = numbered.collect();
        Self { user, nonce, offers, tries: 0, tried: Vec::new(), state: LoginState::Idle }
    }

    /// The offers so far: for the text of a refusal.
    pub fn tried(&self) -> &[(Method, Option<PublicKey>)] {
        &self.tried
    }

    /// The next offer of a kind that the server takes.
    pub fn next(&mut self, logins: u64, binding: &Binding) -> LoginStep {
        self.state = LoginState::Idle;
        while let Some((offer, offered)) = self.offers.pop_front() {
            if logins & offered.kind().bit() == 0 {
                continue;
            }
            if self.tries == TRIES_MAX {
                return LoginStep::Exhausted;
            }
            self.tries += 1;
            self.tried.push((offered.method(), offered.key()));
            let message = match &offered {
                Offered::Key(key) => binding.signed(LoginKind::Key, &self.user, key),
                Offered::Token(key) => binding.signed(LoginKind::Token, "", key),
                Offered::Anonymous => return LoginStep::Login { kind: LoginKind::Anonymous, credentials: Vec::new() },
                Offered::Password(_) => {
                    let Offered::Password(password) = offered else { continue };
                    let (scram, credentials) = client_first(&self.user, &Base64Unpadded::encode_string(&self.nonce));
                    self.state = LoginState::Scram(scram, offer, password);
                    return LoginStep::Login { kind: LoginKind::Password, credentials };
                }
            };
            self.state = LoginState::Signing(offered);
            return LoginStep::Sign { offer, message };
        }
        LoginStep::Exhausted
    }

    /// The requested signature.
    pub fn on_signature(&mut self, signature: [u8; SIGNATURE_BYTES]) -> Result<(LoginKind, Vec<u8>), Error> {
        match core::mem::replace(&mut self.state, LoginState::Idle) {
            LoginState::Signing(Offered::Key(key)) => {
                let login = KeyLogin { user: self.user.clone().into_bytes(), key: key.0, signature };
                Ok((LoginKind::Key, login.encode()))
            }
            LoginState::Signing(Offered::Token(key)) => {
                Ok((LoginKind::Token, TokenLogin { key: key.0, signature }.encode()))
            }
            _ => Err(Error::BadLogin),
        }
    }

    /// What the challenge will ask for, most likely: while it is on its way the work may begin.
    pub fn ahead(&self, salts: &Salts) -> Option<Stretching> {
        let LoginState::Scram(_, offer, password) = &self.state else { return None };
        let (salt, rounds) = (salts.of(&self.user).to_vec(), NonZeroU32::new(ROUNDS)?);
        Some(Stretching { offer: *offer, password: password.copy(), salt, rounds })
    }

    /// The server's challenge: returns the computation for [`ClientLogin::on_stretched`].
    pub fn on_challenge(&mut self, challenge: &[u8]) -> Result<Stretching, Error> {
        let LoginState::Scram(scram, offer, password) = core::mem::replace(&mut self.state, LoginState::Idle) else {
            return Err(Error::BadLogin);
        };
        let challenged = scram.on_challenge(challenge)?;
        let (salt, rounds) = (challenged.salt.clone(), challenged.rounds);
        self.state = LoginState::Challenged(challenged, offer);
        Ok(Stretching { offer, password, salt, rounds })
    }

    /// What came of that: the proof that answers the challenge.
    pub fn on_stretched(&mut self, stretched: &Stretched, binding: &Binding) -> Result<Vec<u8>, Error> {
        match core::mem::replace(&mut self.state, LoginState::Idle) {
            LoginState::Challenged(challenged, offer)
                if stretched.is_of(offer, &challenged.salt, challenged.rounds) =>
            {
                let (proof, expected) = challenged.answer(&stretched.salted, &binding.channel);
                self.state = LoginState::Proved(expected);
                Ok(proof)
            }
            _ => Err(Error::BadLogin),
        }
    }

    /// The server accepts, with this proof of its own where a password was proved.
    pub fn on_accept(&mut self, proof: &[u8]) -> Result<(), Error> {
        match core::mem::replace(&mut self.state, LoginState::Idle) {
            LoginState::Proved(expected) => expected.check(proof),
            // The server has sent no challenge, so it may not know the password at all.
            LoginState::Scram(..) | LoginState::Challenged(..) | LoginState::Signing(_) => Err(Error::BadLogin),
            LoginState::Idle if proof.is_empty() => Ok(()),
            LoginState::Idle => Err(Error::BadLogin),
        }
    }
}
