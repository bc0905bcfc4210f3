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
use xdfs_secure::keys::JoinSecret;
use xdfs_secure::login::{Binding, ClientLogin, LoginStep, NONCE_BYTES, Offered, Stretched, Stretching};
use xdfs_secure::policy::{Method, PublicKey, Salts};

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
    login: ClientLogin,
    /// Pending output of TLS, which is sent with the next message.
    held: Vec<u8>,
    state: ClientState,
}

/// A record without meaning that old middleboxes expect before a sealed one (RFC 8446, section
/// D.4).
const CHANGE_OF_CIPHERS_BYTES: usize = 6;

/// What comes next.
#[derive(Debug)]
enum ClientState {
    /// The server's preface.
    Preface(ClientTls, Stream),
    /// The rest of the handshake.
    Handshake(ClientTls, Stream),
    /// Whether the server is the intended one.
    Judging(Stream, Shown),
    /// HELLO.
    Hello(Judged),
    /// The signature for an offer.
    Signing(LoggingIn),
    /// The stretched password.
    Stretching(LoggingIn),
    /// The server's answer; what may be stretched before it is here.
    Answer(LoggingIn, Option<Stretching>),
    /// Nothing: it is complete, or has failed.
    Over,
}

/// A server that is the intended one, and what binds a login to it.
#[derive(Debug)]
struct Judged {
    stream: Stream,
    shown: Shown,
    binding: Binding,
}

/// What the server has said about logins.
#[derive(Debug)]
struct LoggingIn {
    server: Judged,
    logins: u64,
    salts: Salts,
}

impl ClientOpening {
    /// Starts the opening that `wishes` requests.
    pub fn start(wishes: SessionRequest) -> Result<(Self, ClientStep), Error> {
        let SessionRequest { open, host, certificates, user, offers, nonce } = wishes;
        let (tls, mut stream) = ClientTls::start(&host, &certificates)?;
        let mut send = ClientPreface::of(Continuation::Tls).encode().to_vec();
        send.extend(stream.output());
        let login = ClientLogin::new(user, offers, nonce);
        let opening = Self { open, login, held: Vec::new(), state: ClientState::Preface(tls, stream) };
        Ok((opening, ClientStep::Go { send, want: PREFACE_BYTES }))
    }

    /// The offers made so far.
    pub fn tried(&self) -> &[(Method, Option<PublicKey>)] {
        self.login.tried()
    }

    /// The state, which whoever takes it replaces unless the opening is over.
    fn take(&mut self) -> ClientState {
        std::mem::replace(&mut self.state, ClientState::Over)
    }

    /// Sends the pending output of TLS and reads on.
    fn go(&mut self, stream: &mut Stream) -> ClientStep {
        let mut send = std::mem::take(&mut self.held);
        let want = stream.want();
        send.extend(stream.output());
        ClientStep::Go { send, want }
    }

    /// Reads on; pending output of TLS is held back.
    fn read_on(&mut self, stream: &mut Stream) -> ClientStep {
        self.held.extend(stream.output());
        ClientStep::Go { send: Vec::new(), want: stream.want() }
    }

    /// The wanted bytes have arrived.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<ClientStep, Error> {
        match self.take() {
            ClientState::Preface(tls, mut stream) => {
                let server = read_server_preface(bytes)?;
                self.open.prefaces = joined(ClientPreface::of(Continuation::Tls).encode(), server);
                let step = self.go(&mut stream);
                self.state = ClientState::Handshake(tls, stream);
                Ok(step)
            }
            ClientState::Handshake(tls, stream) => self.on_handshake(tls, stream, bytes),
            ClientState::Hello(mut server) => {
                server.stream.on_bytes(bytes)?;
                match next_message(&mut server.stream)? {
                    Some((message, payload)) => self.on_hello(server, message, &payload),
                    None => {
                        let step = self.read_on(&mut server.stream);
                        self.state = ClientState::Hello(server);
                        Ok(step)
                    }
                }
            }
            ClientState::Answer(mut login, ahead) => {
                login.server.stream.on_bytes(bytes)?;
                match next_message(&mut login.server.stream)? {
                    Some((message, payload)) => self.on_answer(login, message, &payload),
                    None => {
                        let step = self.read_on(&mut login.server.stream);
                        self.state = ClientState::Answer(login, ahead);
                        Ok(step)
                    }
                }
            }
            ClientState::Judging(..) | ClientState::Signing(_) | ClientState::Stretching(_) | ClientState::Over => {
                Err(out_of_turn())
            }
        }
    }

    fn on_handshake(&mut self, tls: ClientTls, mut stream: Stream, bytes: &[u8]) -> Result<ClientStep, Error> {
        stream.on_bytes(bytes)?;
        if stream.is_handshaking() {
            let step = self.read_on(&mut stream);
            // More than that in the middle of a handshake is a second hello, which the server waits for.
            let waits = self.held.len() > CHANGE_OF_CIPHERS_BYTES;
            let step = if waits { self.go(&mut stream) } else { step };
            self.state = ClientState::Handshake(tls, stream);
            return Ok(step);
        }
        let shown = tls.shown(&mut stream)?;
        self.state = ClientState::Judging(stream, shown.clone());
        Ok(ClientStep::Judge(shown))
    }

    /// The server is the intended one. (If it is not, the driver drops the opening.)
    pub fn on_judged(&mut self) -> Result<ClientStep, Error> {
        let ClientState::Judging(mut stream, shown) = self.take() else { return Err(out_of_turn()) };
        let binding = Binding {
            login: stream.login_binding()?,
            channel: stream.channel_binding()?,
            host: stream.host()?,
            prefaces: self.open.prefaces,
        };
        // The end of the client's handshake is sent with the first OPEN, not before HELLO has
        // confirmed the prefaces.
        let step = self.read_on(&mut stream);
        self.state = ClientState::Hello(Judged { stream, shown, binding });
        Ok(step)
    }

    fn on_hello(&mut self, server: Judged, message: MessageType, payload: &[u8]) -> Result<ClientStep, Error> {
        match message {
            MessageType::Refuse => Err(refusal(payload)),
            MessageType::Hello => {
                let hello = Hello::decode(payload).map_err(protocol)?;
                let (client, own) = halves(&self.open.prefaces);
                negotiate::confirm(&hello.prefaces, client, own)?;
                self.offer_next(LoggingIn { server, logins: hello.logins, salts: Salts(hello.salts) })
            }
            other => Err(unexpected(other)),
        }
    }

    fn on_answer(&mut self, login: LoggingIn, message: MessageType, payload: &[u8]) -> Result<ClientStep, Error> {
        match message {
            MessageType::Refuse => Err(refusal(payload)),
            MessageType::Again => self.offer_next(login),
            MessageType::Challenge => {
                let stretching = self.login.on_challenge(payload)?;
                self.state = ClientState::Stretching(login);
                Ok(ClientStep::Stretch(stretching))
            }
            MessageType::Accept => self.on_accept(login.server, payload),
            other => Err(unexpected(other)),
        }
    }

    /// The requested signature; none if its holder provided none, in which case the next offer is
    /// tried.
    pub fn on_signature(&mut self, signature: Option<[u8; SIGNATURE_BYTES]>) -> Result<ClientStep, Error> {
        let ClientState::Signing(login) = self.take() else { return Err(out_of_turn()) };
        match signature {
            Some(signature) => {
                let (kind, credentials) = self.login.on_signature(signature)?;
                self.open_with(login, kind, credentials, None)
            }
            None => self.offer_next(login),
        }
    }

    /// Work that the server's next message will most likely require: it may start while that
    /// message is in flight.
    pub fn take_ahead(&mut self) -> Option<Stretching> {
        match &mut self.state {
            ClientState::Answer(_, ahead) => ahead.take(),
            _ => None,
        }
    }

    /// The password of the challenge is salted and stretched.
    pub fn on_stretched(&mut self, stretched: &Stretched) -> Result<ClientStep, Error> {
        let ClientState::Stretching(login) = self.take() else { return Err(out_of_turn()) };
        let proof = self.login.on_stretched(stretched, &login.server.binding)?;
        self.say(login, MessageType::Proof, &proof, None)
    }

    fn offer_next(&mut self, login: LoggingIn) -> Result<ClientStep, Error> {
        match self.login.next(login.logins, &login.server.binding) {
            LoginStep::Login { kind, credentials } => {
                let ahead = self.login.ahead(&login.salts);
                self.open_with(login, kind, credentials, ahead)
            }
            LoginStep::Sign { offer, message } => {
                self.state = ClientState::Signing(login);
                Ok(ClientStep::Sign { offer, message })
            }
            LoginStep::Exhausted => Err(self.exhausted(login.logins)),
        }
    }

    fn exhausted(&self, logins: u64) -> Error {
        let name = |(method, key): &(Method, Option<PublicKey>)| match (method, key) {
            (Method::Key, Some(key)) => format!("key {}", key.fingerprint()),
            (Method::Token, Some(key)) => format!("token {}", key.fingerprint()),
            (Method::Password, _) => "a password".to_owned(),
            _ => "nobody's name".to_owned(),
        };
        let tried: Vec<String> = self.tried().iter().map(name).collect();
        let text = match tried.is_empty() {
            true if logins & LoginKind::Anonymous.bit() == 0 => {
                "the server lets nobody in without a login, and there is none to offer: no key, token or password"
                    .to_owned()
            }
            true => "there is no login to offer that the server takes".to_owned(),
            false => format!("the server refused the login; offered were: {}", tried.join(", ")),
        };
        Error::new(ErrorKind::LoginRefused, text)
    }

    fn open_with(
        &mut self,
        login: LoggingIn,
        kind: LoginKind,
        credentials: Vec<u8>,
        ahead: Option<Stretching>,
    ) -> Result<ClientStep, Error> {
        (self.open.login, self.open.credentials) = (kind as u64, credentials);
        let payload = self.open.encode();
        self.say(login, MessageType::Open, &payload, ahead)
    }

    fn say(
        &mut self,
        mut login: LoggingIn,
        message: MessageType,
        payload: &[u8],
        ahead: Option<Stretching>,
    ) -> Result<ClientStep, Error> {
        login.server.stream.send(&frame(message, payload))?;
        let step = self.go(&mut login.server.stream);
        self.state = ClientState::Answer(login, ahead);
        Ok(step)
    }

    fn on_accept(&mut self, server: Judged, payload: &[u8]) -> Result<ClientStep, Error> {
        let accept = Accept::decode(payload).map_err(protocol)?;
        let (client, own) = halves(&self.open.prefaces);
        negotiate::confirm(&accept.prefaces, client, own)?;
        if accept.channels > self.open.channels || accept.pipelines > self.open.pipelines {
            return Err(Error::new(ErrorKind::Protocol, "the server granted more than was asked for"));
        }
        if !self.open.suites.contains(&(accept.suite as u8)) {
            return Err(Error::new(ErrorKind::Protocol, "the server chose a cipher suite that was not offered"));
        }
        self.login.on_accept(&accept.proof)?;
        let Judged { stream, shown, .. } = server;
        let join_secret = stream.join_secret(accept.session, accept.suite)?;
        let (send, farewell) = stream.leave()?;
        let (method, key) = self.login.tried().last().copied().unwrap_or((Method::Anonymous, None));
        let opened = Box::new(ClientOpened { accept, join_secret, shown, method, key, farewell });
        Ok(ClientStep::Done { send, opened })
    }
}

fn refusal(payload: &[u8]) -> Error {
    decode_refusal(payload).unwrap_or_else(protocol)
}

fn halves(prefaces: &[u8; 2 * PREFACE_BYTES]) -> ([u8; PREFACE_BYTES], [u8; PREFACE_BYTES]) {
    let (mut client, mut server) = ([0; PREFACE_BYTES], [0; PREFACE_BYTES]);
    client.copy_from_slice(&prefaces[..PREFACE_BYTES]);
    server.copy_from_slice(&prefaces[PREFACE_BYTES..]);
    (client, server)
}
