//! The server's side of a login.
//!
//! It must not state why a login is refused, and does the same work for existing and unknown users.

use core::fmt;

use base64ct::{Base64Unpadded, Encoding};
use xdfs_proto::wire::login::{KeyLogin, LoginKind, TokenLogin};

use super::messages::ClientFirst;
use super::scram::ScramServer;
use super::{Binding, NONCE_BYTES, TRIES_MAX};
use crate::Error;
use crate::identity::password::ROUNDS;
use crate::identity::{KeyPair, verify};
use crate::policy::{Directory, Method, PasswordVerifier, Principal, PublicKey, SALT_BYTES, Salts};
use crate::secret::{Secret, expand, extract};

/// Makes up the same verifier for the same name every time, from the server's own key, so that a
/// stranger cannot tell a user that does not exist. The salt is the one that a user of that name
/// would have.
pub struct Decoy(Secret<32>);

impl Decoy {
    /// The decoy of the server with this key.
    pub(crate) fn new(key: &KeyPair) -> Result<Self, Error> {
        Ok(Self(extract(b"xdfs made-up verifiers", key.seed())?))
    }

    /// How the salts of this server's users are made: as its directory says, and made up for one
    /// without passwords.
    pub fn salts(&self, directory: &dyn Directory) -> Result<Salts, Error> {
        match directory.salts() {
            Some(salts) => Ok(salts),
            None => Ok(Salts(*expand::<SALT_BYTES>(&self.0, &[b"salts"])?.bytes())),
        }
    }

    /// A verifier that no password fits.
    pub fn verifier(&self, user: &str, salts: &Salts) -> Result<PasswordVerifier, Error> {
        let part = |label: &[u8]| expand::<32>(&self.0, &[label, user.as_bytes()]);
        Ok(PasswordVerifier {
            salt: salts.of(user).to_vec(),
            iterations: ROUNDS,
            stored_key: *part(b"stored:")?.bytes(),
            server_key: *part(b"server:")?.bytes(),
        })
    }
}

impl fmt::Debug for Decoy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoy(..)")
    }
}

/// The result of a login.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum LoginDecision {
    /// It is this one; `proof` is for ACCEPT.
    Accepted { principal: Principal, proof: Vec<u8> },
    /// A password login continues with this message; its proof is judged against `issued`.
    Challenge { message: Vec<u8>, issued: Box<IssuedChallenge> },
    /// Refused; another may be tried.
    Again { left: u8 },
    /// Refused, and that was the last attempt.
    Refused,
}

/// A login that failed, for the server only: the reason is never sent to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedLogin {
    /// The claimed user; empty for a token or an anonymous login.
    pub user: String,
    /// How; none for a kind that is not known.
    pub method: Option<Method>,
    /// The key that was offered.
    pub key: Option<PublicKey>,
    /// Why it failed.
    pub cause: &'static str,
}

const MALFORMED: &str = "its message breaks the form of a login";
const BAD_SIGNATURE: &str = "the signature is not of this key and this connection";
const REVOKED: &str = "the user is revoked; 'xdfs user restore NAME' lets them in again";

fn failed(method: Option<Method>, cause: &'static str) -> FailedLogin {
    FailedLogin { user: String::new(), method, key: None, cause }
}

/// The server's half of a login.
pub struct ServerLogin {
    binding: Binding,
    /// The client's address, which names a visitor.
    peer: String,
    nonce: [u8; NONCE_BYTES],
    failed: u8,
    /// Failed logins that were not yet reported to the caller.
    untold: Vec<FailedLogin>,
}

/// A password login that waits for its proof, for [`ServerLogin::on_proof`].
pub struct IssuedChallenge {
    /// The claimed user.
    user: String,
    /// What it was challenged with; none for a made-up one.
    verifier: Option<PasswordVerifier>,
    scram: ScramServer,
}

impl fmt::Debug for IssuedChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IssuedChallenge(..)")
    }
}

impl fmt::Debug for ServerLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerLogin({} failed)", self.failed)
    }
}

impl ServerLogin {
    /// Waits for logins on the connection of `binding`; `nonce` is random.
    pub fn new(binding: Binding, peer: String, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { binding, peer, nonce, failed: 0, untold: Vec::new() }
    }

    /// Logins on this connection that failed since the last call.
    pub fn take_failed(&mut self) -> Vec<FailedLogin> {
        std::mem::take(&mut self.untold)
    }

    /// The kinds that a server with this directory takes, for HELLO.
    pub fn kinds(directory: &dyn Directory) -> u64 {
        let always = LoginKind::Key.bit() | LoginKind::Token.bit() | LoginKind::Password.bit();
        if directory.anonymous() { always | LoginKind::Anonymous.bit() } else { always }
    }

    /// A login arrived with OPEN.
    pub fn on_login(
        &mut self,
        kind: u64,
        credentials: &[u8],
        directory: &dyn Directory,
        decoy: &Decoy,
    ) -> LoginDecision {
        let judged = match LoginKind::from_code(kind) {
            Some(LoginKind::Anonymous) => self.on_anonymous(credentials, directory),
            Some(LoginKind::Key) => self.on_key(credentials, directory),
            Some(LoginKind::Token) => self.on_token(credentials, directory),
            Some(LoginKind::Password) => match self.on_first(credentials, directory, decoy) {
                Some((message, issued)) => return LoginDecision::Challenge { message, issued: Box::new(issued) },
                None => Err(failed(Some(Method::Password), MALFORMED)),
            },
            None => Err(failed(None, "a kind of login that is not known here")),
        };
        match judged {
            Ok(principal) => LoginDecision::Accepted { principal, proof: Vec::new() },
            Err(failed) => self.fail(failed),
        }
    }

    /// The proof that answers the challenge `issued` has come. A password that was changed or taken
    /// away since the challenge is none.
    pub fn on_proof(
        &mut self,
        issued: IssuedChallenge,
        client_final: &[u8],
        directory: &dyn Directory,
    ) -> LoginDecision {
        let IssuedChallenge { user, verifier, scram } = issued;
        // Looked up for unknown users too: timing must not distinguish them.
        let holds = directory.password(&user) == verifier && verifier.is_some();
        match scram.judge(client_final, &self.binding.channel).filter(|_| holds) {
            Some(proof) => {
                let principal = Principal { user, method: Method::Password, key: None, scope: None };
                LoginDecision::Accepted { principal, proof }
            }
            None => {
                let cause = match verifier {
                    Some(_) => "wrong password",
                    None if directory.is_revoked(&user) => REVOKED,
                    None => "nobody of this name has a password",
                };
                self.fail(FailedLogin { user, ..failed(Some(Method::Password), cause) })
            }
        }
    }

    fn fail(&mut self, failed: FailedLogin) -> LoginDecision {
        self.failed += 1;
        self.untold.push(failed);
        match TRIES_MAX.saturating_sub(self.failed) {
            0 => LoginDecision::Refused,
            left => LoginDecision::Again { left },
        }
    }

    fn on_anonymous(&self, credentials: &[u8], directory: &dyn Directory) -> Result<Principal, FailedLogin> {
        let method = Method::Anonymous;
        if !directory.anonymous() || !credentials.is_empty() {
            return Err(failed(Some(method), "visitors are not let in"));
        }
        Ok(Principal { user: format!("anonymous@{}", self.peer), method, key: None, scope: None })
    }

    fn on_key(&self, credentials: &[u8], directory: &dyn Directory) -> Result<Principal, FailedLogin> {
        let method = Method::Key;
        let malformed = || failed(Some(method), MALFORMED);
        let login = KeyLogin::decode(credentials).map_err(|_| malformed())?;
        let user = String::from_utf8(login.user).map_err(|_| malformed())?;
        let key = PublicKey(login.key);
        let known = directory.has_key(&user, &key);
        // Always verified: timing must not reveal whether the key is known.
        let right = verify(&key, &self.binding.signed(LoginKind::Key, &user, &key), &login.signature);
        if known & right {
            return Ok(Principal { user, method, key: Some(key), scope: None });
        }
        let cause = match known {
            true => BAD_SIGNATURE,
            false if directory.is_revoked(&user) => REVOKED,
            false => "the key lets in nobody of this name",
        };
        Err(FailedLogin { user, key: Some(key), ..failed(Some(method), cause) })
    }

    fn on_token(&self, credentials: &[u8], directory: &dyn Directory) -> Result<Principal, FailedLogin> {
        let method = Method::Token;
        let login = TokenLogin::decode(credentials).map_err(|_| failed(Some(method), MALFORMED))?;
        let key = PublicKey(login.key);
        let known = directory.token(&key);
        let right = verify(&key, &self.binding.signed(LoginKind::Token, "", &key), &login.signature);
        let Some(token) = known else {
            let cause = "no token of this server's, or it has run out or was revoked";
            return Err(FailedLogin { key: Some(key), ..failed(Some(method), cause) });
        };
        if !right {
            return Err(FailedLogin { user: token.user, key: Some(key), ..failed(Some(method), BAD_SIGNATURE) });
        }
        Ok(Principal { user: token.user, method, key: Some(key), scope: Some(token.scope) })
    }

    fn on_first(
        &mut self,
        credentials: &[u8],
        directory: &dyn Directory,
        decoy: &Decoy,
    ) -> Option<(Vec<u8>, IssuedChallenge)> {
        let ClientFirst { user, bare, nonce: client_nonce } = ClientFirst::read(credentials)?;
        let made_up = decoy.verifier(&user, &decoy.salts(directory).ok()?).ok()?;
        let verifier = directory.password(&user);
        let nonce = Base64Unpadded::encode_string(&self.nonce);
        let (scram, message) =
            ScramServer::first(bare.to_owned(), client_nonce, &nonce, verifier.clone().unwrap_or(made_up));
        // A second try on the same connection must not be answerable with the first one's proof.
        let used = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.nonce);
        self.nonce.copy_from_slice(&used.as_ref()[..NONCE_BYTES]);
        Some((message, IssuedChallenge { user, verifier, scram }))
    }
}
