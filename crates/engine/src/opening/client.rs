//! The client's side of channel 1.
//!
//! It must not send anything about the user before the server's key was checked and the prefaces
//! were confirmed.

use super::{joined, next_message, out_of_turn, protocol, read_server_preface, unexpected};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::negotiate;
use xdfs_proto::wire::handshake::{Accept, Hello, MessageType, Open, decode_refusal, frame};
use xdfs_proto::wire::login::LoginKind;
use xdfs_proto::wire::preface::{ClientPreface, Continuation, PREFACE_BYTES};
use xdfs_secure::handshake::Shown;
use xdfs_secure::handshake::tls::{Certificates, ClientTls, Farewell, Stream};
use xdfs_secure::identity::SIGNATURE_BYTES;
use xdfs_secure::identity::password::Salts;
use xdfs_secure::keys::JoinSecret;
use xdfs_secure::login::{Binding, ClientLogin, LoginStep, NONCE_BYTES, Offered, Stretched, Stretching};
use xdfs_secure::policy::{Method, PublicKey};

/// A client's request for a session.
#[derive(Debug)]
pub struct SessionRequest {
    /// The OPEN message; its prefaces and login are filled in here.
    pub open: Open,
    /// Name under which the server is known.
    pub host: String,
    /// The form in which the server's key is requested.
    pub certificates: Certificates,
    /// Name of the user.
    pub user: String,
    /// Login methods to offer, in this order.
    pub offers: Vec<Offered>,
    /// Random.
    pub nonce: [u8; NONCE_BYTES],
}

/// The driver's next step.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum ClientStep {
    /// Send these bytes (if any), then read `want` bytes.
    Go { send: Vec<u8>, want: usize },
    /// Check the server by the key it has shown, then call [`ClientOpening::on_judged`].
    Judge(Shown),
    /// Sign `message` with offer number `offer`, then call [`ClientOpening::on_signature`].
    Sign { offer: usize, message: Vec<u8> },
    /// A challenge arrived: salt and stretch the password, then call
    /// [`ClientOpening::on_stretched`]. A driver that has started
    /// [ahead](ClientOpening::take_ahead) may be done already.
    Stretch(Stretching),
    /// Send these bytes; the opening is complete.
    Done { send: Vec<u8>, opened: Box<ClientOpened> },
}

/// The result of the opening for a client.
#[derive(Debug)]
pub struct ClientOpened {
    /// The grant.
    pub accept: Accept,
    /// The secret from which the keys of all channels are derived.
    pub join_secret: JoinSecret,
    /// What the server has shown.
    pub shown: Shown,
    /// How the client logged in.
    pub method: Method,
    /// The key that it logged in with.
    pub key: Option<PublicKey>,
    /// The server's close_notify of TLS, which precedes its first record.
    pub farewell: Farewell,
}

/// The client's half of the opening of channel 1.
#[derive(Debug)]
pub struct ClientOpening {
    open: Open,
    tls: Option<ClientTls>,
    stream: Option<Stream>,
    login: ClientLogin,
    binding: Option<Binding>,
    shown: Option<Shown>,
    logins: u64,
    salts: Option<Salts>,
    ahead: Option<Stretching>,
    /// Pending output of TLS, which is sent with the next message.
    held: Vec<u8>,
    state: ClientState,
}

/// A record without meaning that old middleboxes expect before a sealed one (RFC 8446, section
/// D.4).
const CHANGE_OF_CIPHERS_BYTES: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientState {
    Preface,
    Handshake,
    Judging,
    Hello,
    Signing,
    Answer,
    Stretching,
    Done,
}

impl ClientOpening {
    /// Starts the opening that `wishes` requests.
    pub fn start(wishes: SessionRequest) -> Result<(Self, ClientStep), Error> {
        let SessionRequest { open, host, certificates, user, offers, nonce } = wishes;
        let (tls, mut stream) = ClientTls::start(&host, &certificates)?;
        let mut send = ClientPreface::of(Continuation::Tls).encode().to_vec();
        send.extend(stream.output());
        let opening = Self {
            open,
            tls: Some(tls),
            stream: Some(stream),
            login: ClientLogin::new(user, offers, nonce),
            binding: None,
            shown: None,
            logins: 0,
            salts: None,
            ahead: None,
            held: Vec::new(),
            state: ClientState::Preface,
        };
        Ok((opening, ClientStep::Go { send, want: PREFACE_BYTES }))
    }

    /// The offers made so far.
    pub fn tried(&self) -> &[(Method, Option<PublicKey>)] {
        self.login.tried()
    }

    fn stream(&mut self) -> Result<&mut Stream, Error> {
        self.stream.as_mut().ok_or_else(out_of_turn)
    }

    /// Sends the pending output of TLS and reads on.
    fn go(&mut self) -> Result<ClientStep, Error> {
        let mut send = std::mem::take(&mut self.held);
        let stream = self.stream()?;
        let want = stream.want();
        send.extend(stream.output());
        Ok(ClientStep::Go { send, want })
    }

    /// Reads on; pending output of TLS is held back, unless the server waits for it.
    fn read_on(&mut self) -> Result<ClientStep, Error> {
        let output = self.stream()?.output();
        self.held.extend(output);
        // More than that in the middle of a handshake is a second hello.
        if self.state == ClientState::Handshake && self.held.len() > CHANGE_OF_CIPHERS_BYTES {
            return self.go();
        }
        Ok(ClientStep::Go { send: Vec::new(), want: self.stream()?.want() })
    }

    /// The wanted bytes have arrived.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<ClientStep, Error> {
        match self.state {
            ClientState::Preface => {
                let server = read_server_preface(bytes)?;
                self.open.prefaces = joined(ClientPreface::of(Continuation::Tls).encode(), server);
                self.state = ClientState::Handshake;
                self.go()
            }
            ClientState::Handshake => {
                let stream = self.stream()?;
                stream.on_bytes(bytes)?;
                if stream.is_handshaking() {
                    return self.read_on();
                }
                let tls = self.tls.take().ok_or_else(out_of_turn)?;
                let stream = self.stream()?;
                let shown = tls.shown(stream)?;
                self.shown = Some(shown.clone());
                self.state = ClientState::Judging;
                Ok(ClientStep::Judge(shown))
            }
            ClientState::Hello | ClientState::Answer => {
                let stream = self.stream()?;
                stream.on_bytes(bytes)?;
                match next_message(stream)? {
                    Some((message, payload)) => self.on_message(message, &payload),
                    None => self.read_on(),
                }
            }
            ClientState::Judging | ClientState::Signing | ClientState::Stretching | ClientState::Done => {
                Err(out_of_turn())
            }
        }
    }

    /// The server is the intended one. (If it is not, the driver drops the opening.)
    pub fn on_judged(&mut self) -> Result<ClientStep, Error> {
        if self.state != ClientState::Judging {
            return Err(out_of_turn());
        }
        let prefaces = self.open.prefaces;
        let stream = self.stream()?;
        let binding = Binding {
            login: stream.login_binding()?,
            channel: stream.channel_binding()?,
            host: stream.host()?,
            prefaces,
        };
        self.binding = Some(binding);
        self.state = ClientState::Hello;
        // The end of the client's handshake is sent with the first OPEN, not before HELLO has
        // confirmed the prefaces.
        self.read_on()
    }

    fn on_message(&mut self, message: MessageType, payload: &[u8]) -> Result<ClientStep, Error> {
        match (self.state, message) {
            (_, MessageType::Refuse) => Err(decode_refusal(payload).unwrap_or_else(protocol)),
            (ClientState::Hello, MessageType::Hello) => {
                let hello = Hello::decode(payload).map_err(protocol)?;
                let (client, server) = halves(&self.open.prefaces);
                negotiate::confirm(&hello.prefaces, client, server)?;
                self.logins = hello.logins;
                self.salts = Some(Salts(hello.salts));
                self.offer_next()
            }
            (ClientState::Answer, MessageType::Again) => self.offer_next(),
            (ClientState::Answer, MessageType::Challenge) => {
                let stretching = self.login.on_challenge(payload)?;
                self.state = ClientState::Stretching;
                Ok(ClientStep::Stretch(stretching))
            }
            (ClientState::Answer, MessageType::Accept) => self.on_accept(payload),
            (_, other) => Err(unexpected(other)),
        }
    }

    /// The requested signature; none if its holder provided none, in which case the next offer is
    /// tried.
    pub fn on_signature(&mut self, signature: Option<[u8; SIGNATURE_BYTES]>) -> Result<ClientStep, Error> {
        if self.state != ClientState::Signing {
            return Err(out_of_turn());
        }
        match signature {
            Some(signature) => {
                let (kind, credentials) = self.login.on_signature(signature)?;
                self.open_with(kind, credentials)
            }
            None => self.offer_next(),
        }
    }

    /// Work that the server's next message will most likely require: it may start while that
    /// message is in flight.
    pub fn take_ahead(&mut self) -> Option<Stretching> {
        self.ahead.take()
    }

    /// The password of the challenge is salted and stretched.
    pub fn on_stretched(&mut self, stretched: &Stretched) -> Result<ClientStep, Error> {
        if self.state != ClientState::Stretching {
            return Err(out_of_turn());
        }
        let binding = self.binding.as_ref().ok_or_else(out_of_turn)?;
        let proof = self.login.on_stretched(stretched, binding)?;
        self.say(MessageType::Proof, &proof)
    }

    fn offer_next(&mut self) -> Result<ClientStep, Error> {
        let binding = self.binding.as_ref().ok_or_else(out_of_turn)?;
        match self.login.next(self.logins, binding) {
            LoginStep::Login { kind, credentials } => {
                self.ahead = self.salts.as_ref().and_then(|salts| self.login.ahead(salts));
                self.open_with(kind, credentials)
            }
            LoginStep::Sign { offer, message } => {
                self.state = ClientState::Signing;
                Ok(ClientStep::Sign { offer, message })
            }
            LoginStep::Exhausted => Err(self.exhausted()),
        }
    }

    fn exhausted(&self) -> Error {
        let name = |(method, key): &(Method, Option<PublicKey>)| match (method, key) {
            (Method::Key, Some(key)) => format!("key {}", key.fingerprint()),
            (Method::Token, Some(key)) => format!("token {}", key.fingerprint()),
            (Method::Password, _) => "a password".to_owned(),
            _ => "nobody's name".to_owned(),
        };
        let tried: Vec<String> = self.tried().iter().map(name).collect();
        let text = match tried.is_empty() {
            true if self.logins & LoginKind::Anonymous.bit() == 0 => {
                "the server lets nobody in without a login, and there is none to offer: no key, token or password"
                    .to_owned()
            }
            true => "there is no login to offer that the server takes".to_owned(),
            false => format!("the server refused the login; offered were: {}", tried.join(", ")),
        };
        Error::new(ErrorKind::LoginRefused, text)
    }

    fn open_with(&mut self, kind: LoginKind, credentials: Vec<u8>) -> Result<ClientStep, Error> {
        (self.open.login, self.open.credentials) = (kind as u64, credentials);
        let payload = self.open.encode();
        self.say(MessageType::Open, &payload)
    }

    fn say(&mut self, message: MessageType, payload: &[u8]) -> Result<ClientStep, Error> {
        self.stream()?.send(&frame(message, payload))?;
        self.state = ClientState::Answer;
        self.go()
    }

    fn on_accept(&mut self, payload: &[u8]) -> Result<ClientStep, Error> {
        let accept = Accept::decode(payload).map_err(protocol)?;
        let (client, server) = halves(&self.open.prefaces);
        negotiate::confirm(&accept.prefaces, client, server)?;
        if accept.channels > self.open.channels || accept.pipelines > self.open.pipelines {
            return Err(Error::new(ErrorKind::Protocol, "the server granted more than was asked for"));
        }
        if !self.open.suites.contains(&(accept.suite as u8)) {
            return Err(Error::new(ErrorKind::Protocol, "the server chose a cipher suite that was not offered"));
        }
        self.login.on_accept(&accept.proof)?;
        self.state = ClientState::Done;
        let stream = self.stream.take().ok_or_else(out_of_turn)?;
        let join_secret = stream.join_secret(accept.session, accept.suite)?;
        let (send, farewell) = stream.leave()?;
        let (method, key) = self.login.tried().last().copied().unwrap_or((Method::Anonymous, None));
        let shown = self.shown.take().ok_or_else(out_of_turn)?;
        let opened = Box::new(ClientOpened { accept, join_secret, shown, method, key, farewell });
        Ok(ClientStep::Done { send, opened })
    }
}

fn halves(prefaces: &[u8; 2 * PREFACE_BYTES]) -> ([u8; PREFACE_BYTES], [u8; PREFACE_BYTES]) {
    let (mut client, mut server) = ([0; PREFACE_BYTES], [0; PREFACE_BYTES]);
    client.copy_from_slice(&prefaces[..PREFACE_BYTES]);
    server.copy_from_slice(&prefaces[PREFACE_BYTES..]);
    (client, server)
}
