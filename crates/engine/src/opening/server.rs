//! The server's side of any connection.
//!
//! It must not grant anything: it authenticates the client, and the driver decides what the client
//! gets.

use super::{JoinRequest, OpeningStep, joined, next_message, out_of_turn, protocol, unexpected};
use std::sync::Arc;
use xdfs_proto::base::{Error, ErrorKind, SessionId, Suite};
use xdfs_proto::negotiate;
use xdfs_proto::wire::Reader;
use xdfs_proto::wire::handshake::{
    Accept, Hello, JOIN_BYTES, Join, MessageType, Open, Prefaces, encode_refusal, frame,
};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, PREFACE_BYTES, ServerPreface, Status};
use xdfs_secure::handshake::tls::{Farewell, ServerIdentity, ServerStart, Stream};
use xdfs_secure::keys::JoinSecret;
use xdfs_secure::login::{Binding, FailedLogin, IssuedChallenge, LoginDecision, NONCE_BYTES, ServerLogin};
use xdfs_secure::policy::{Directory, Principal};

/// What every opening of a server needs; shared by all of them.
#[derive(Clone)]
pub struct OpeningContext {
    /// The server's identity.
    pub identity: Arc<ServerIdentity>,
    /// The accounts that may log in.
    pub directory: Arc<dyn Directory>,
}

impl std::fmt::Debug for OpeningContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({:?})", self.identity)
    }
}

/// The server's half of the opening of a connection.
#[derive(Debug)]
pub struct ServerOpening {
    gate: OpeningContext,
    /// The client's address, as anonymous users are named.
    visitor: String,
    nonce: [u8; NONCE_BYTES],
    client: [u8; PREFACE_BYTES],
    server: [u8; PREFACE_BYTES],
    /// Failed logins that have not been collected yet.
    failed: Vec<FailedLogin>,
    state: ServerState,
}

/// Large states are boxed: a connection that has sent nothing costs none of them.
#[derive(Debug)]
enum ServerState {
    Preface,
    Hello(Box<ServerStart>),
    Handshake(Box<Stream>),
    Open { stream: Box<Stream>, login: Box<ServerLogin> },
    Proof { stream: Box<Stream>, login: Box<ServerLogin>, issued: Box<IssuedChallenge>, open: Box<Open> },
    Join,
    Done,
}

/// What a connection turned out to be.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum ServerOpened {
    /// An authenticated client requests a session.
    Open { open: Box<Open>, welcome: Box<PendingAccept> },
    /// A channel wants to join a session.
    Join(JoinRequest),
    /// It cannot continue: send these bytes and close.
    Refused { send: Vec<u8>, error: Error },
}

/// A client that has logged in and waits for its grant.
#[derive(Debug)]
pub struct PendingAccept {
    /// The authenticated user.
    pub principal: Principal,
    /// What both sides sent in clear, for ACCEPT.
    pub prefaces: Prefaces,
    /// The server's proof for ACCEPT.
    pub proof: Vec<u8>,
    stream: Box<Stream>,
}

impl PendingAccept {
    /// The secret of the session.
    pub fn join_secret(&self, session: SessionId, suite: Suite) -> Result<JoinSecret, Error> {
        self.stream.join_secret(session, suite)
    }

    /// ACCEPT and the close_notify of TLS: records follow. The client's own close_notify precedes
    /// its first record.
    pub fn accept(mut self, accept: &Accept) -> Result<(Vec<u8>, Farewell), Error> {
        self.stream.send(&frame(MessageType::Accept, &accept.encode()))?;
        let mut send = self.stream.output();
        let (last, farewell) = self.stream.leave()?;
        send.extend(last);
        Ok((send, farewell))
    }

    /// REFUSE, inside TLS.
    pub fn refuse(mut self, error: &Error) -> Vec<u8> {
        refusal(&mut self.stream, error)
    }
}

fn refusal(stream: &mut Stream, error: &Error) -> Vec<u8> {
    // If it does not fit any more, nothing is sent.
    let _ = stream.send(&frame(MessageType::Refuse, &encode_refusal(error)));
    stream.output()
}

impl ServerOpening {
    /// Waits for a client. `visitor` names its address, `nonce` is random.
    pub fn start(gate: OpeningContext, visitor: String, nonce: [u8; NONCE_BYTES]) -> (Self, usize) {
        let none = [0; PREFACE_BYTES];
        let state = ServerState::Preface;
        let failed = Vec::new();
        (Self { gate, visitor, nonce, client: none, server: none, failed, state }, PREFACE_BYTES)
    }

    /// Logins that failed since the last call, whatever became of the connection.
    pub fn take_failed(&mut self) -> Vec<FailedLogin> {
        std::mem::take(&mut self.failed)
    }

    /// What the opening waits for, for the log.
    pub fn phase(&self) -> &'static str {
        match self.state {
            ServerState::Preface => "opening bytes",
            ServerState::Hello(_) | ServerState::Handshake(_) => "handshake",
            ServerState::Open { .. } | ServerState::Proof { .. } => "login",
            ServerState::Join => "JOIN",
            ServerState::Done => "records",
        }
    }

    /// The wanted bytes have arrived. An error is sent to the client in the form that it expects.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> OpeningStep<ServerOpened> {
        // The first output of this state is the first one of all, and behind the server's preface.
        let first = matches!(self.state, ServerState::Hello(_));
        let mut step = match std::mem::replace(&mut self.state, ServerState::Done) {
            ServerState::Preface => self.on_preface(bytes),
            ServerState::Hello(start) => self.on_hello(start, bytes),
            ServerState::Handshake(stream) => self.on_handshake(stream, bytes),
            ServerState::Open { stream, login } => self.on_open(stream, login, bytes),
            ServerState::Proof { stream, login, issued, open } => self.on_proof(stream, login, issued, open, bytes),
            ServerState::Join => self.on_join(bytes),
            ServerState::Done => refused(Vec::new(), out_of_turn()),
        };
        match &mut step {
            OpeningStep::Go { send, .. } if first && !send.is_empty() => drop(send.splice(..0, self.server)),
            // Sent even without other output: the client learns that it has reached an xdfs server.
            OpeningStep::Done(ServerOpened::Refused { send, .. }) if first => drop(send.splice(..0, self.server)),
            _ => {}
        }
        step
    }

    fn on_preface(&mut self, bytes: &[u8]) -> OpeningStep<ServerOpened> {
        let raw: Result<[u8; PREFACE_BYTES], _> = Reader::new(bytes).array();
        let preface = raw.and_then(|raw| {
            self.client = raw;
            ClientPreface::decode(&raw)
        });
        let answer = match &preface {
            Ok(preface) => preface.answer(&[Continuation::Tls, Continuation::Join]),
            Err(_) => ServerPreface { status: Status::NotXdfs, version: 0, start: 0 },
        };
        self.server = answer.encode();
        if answer.status != Status::Available {
            return refused(self.server.to_vec(), Error::new(ErrorKind::Unsupported, answer.status.text()));
        }
        if answer.start == Continuation::Join as u8 {
            // The preface is sent with the answer.
            self.state = ServerState::Join;
            return OpeningStep::Go { send: Vec::new(), want: JOIN_BYTES };
        }
        let start = Box::<ServerStart>::default();
        let want = start.want();
        self.state = ServerState::Hello(start);
        OpeningStep::Go { send: Vec::new(), want }
    }

    fn on_join(&mut self, bytes: &[u8]) -> OpeningStep<ServerOpened> {
        let raw: Result<[u8; JOIN_BYTES], _> = Reader::new(bytes).array();
        match raw {
            Ok(raw) => {
                let request = JoinRequest { join: Join::decode(&raw), client: self.client, server: self.server };
                OpeningStep::Done(ServerOpened::Join(request))
            }
            Err(error) => refused(JoinRequest::refuse(), protocol(error)),
        }
    }

    fn on_hello(&mut self, mut start: Box<ServerStart>, bytes: &[u8]) -> OpeningStep<ServerOpened> {
        match start.on_bytes(bytes, &self.gate.identity) {
            Ok(Some(stream)) => self.greet(Box::new(stream)),
            Ok(None) => {
                let want = start.want();
                self.state = ServerState::Hello(start);
                OpeningStep::Go { send: Vec::new(), want }
            }
            Err((error, alert)) => refused(alert, error),
        }
    }

    /// The server's first message inside TLS is sent with its part of the handshake.
    fn greet(&mut self, mut stream: Box<Stream>) -> OpeningStep<ServerOpened> {
        let prefaces = joined(self.client, self.server);
        let OpeningContext { identity, directory } = &self.gate;
        let said = identity.decoy().salts(&**directory).map_err(Error::from).and_then(|salts| {
            let hello = Hello { prefaces, logins: ServerLogin::kinds(&**directory), salts: salts.0 };
            stream.send(&frame(MessageType::Hello, &hello.encode()))
        });
        match said {
            Ok(()) => {
                let (send, want) = (stream.output(), stream.want());
                self.state = ServerState::Handshake(stream);
                OpeningStep::Go { send, want }
            }
            Err(error) => refused(stream.output(), error),
        }
    }

    fn on_handshake(&mut self, mut stream: Box<Stream>, bytes: &[u8]) -> OpeningStep<ServerOpened> {
        if let Err(error) = stream.on_bytes(bytes) {
            // Only TLS itself has output here: an alert.
            return refused(stream.output(), error);
        }
        let (send, want) = (stream.output(), stream.want());
        if stream.is_handshaking() {
            self.state = ServerState::Handshake(stream);
            return OpeningStep::Go { send, want };
        }
        match self.binding(&stream) {
            Ok(binding) => {
                let login = ServerLogin::new(binding, self.visitor.clone(), self.nonce);
                self.state = ServerState::Open { stream, login: Box::new(login) };
                OpeningStep::Go { send, want }
            }
            Err(error) => refused(send, error),
        }
    }

    fn binding(&self, stream: &Stream) -> Result<Binding, Error> {
        Ok(Binding {
            login: stream.login_binding()?,
            channel: stream.channel_binding()?,
            host: stream.host()?,
            prefaces: joined(self.client, self.server),
        })
    }

    fn on_open(
        &mut self,
        mut stream: Box<Stream>,
        mut login: Box<ServerLogin>,
        bytes: &[u8],
    ) -> OpeningStep<ServerOpened> {
        match self.read_open(&mut stream, bytes) {
            Err(error) => refused(refusal(&mut stream, &error), error),
            Ok(None) => {
                let (send, want) = (stream.output(), stream.want());
                self.state = ServerState::Open { stream, login };
                OpeningStep::Go { send, want }
            }
            Ok(Some(mut open)) => {
                let credentials = std::mem::take(&mut open.credentials);
                let OpeningContext { identity, directory } = &self.gate;
                let judgement = login.on_login(open.login, &credentials, &**directory, identity.decoy());
                self.on_judgement(stream, login, open, judgement)
            }
        }
    }

    fn read_open(&self, stream: &mut Stream, bytes: &[u8]) -> Result<Option<Box<Open>>, Error> {
        stream.on_bytes(bytes)?;
        match next_message(stream)? {
            None => Ok(None),
            Some((MessageType::Open, payload)) => {
                let open = Open::decode(&payload).map_err(protocol)?;
                negotiate::confirm(&open.prefaces, self.client, self.server)?;
                nothing_behind(stream)?;
                Ok(Some(Box::new(open)))
            }
            Some((other, _)) => Err(unexpected(other)),
        }
    }

    fn on_proof(
        &mut self,
        mut stream: Box<Stream>,
        mut login: Box<ServerLogin>,
        issued: Box<IssuedChallenge>,
        open: Box<Open>,
        bytes: &[u8],
    ) -> OpeningStep<ServerOpened> {
        let proof = stream.on_bytes(bytes).and_then(|()| next_message(&mut stream));
        match proof {
            Err(error) => refused(refusal(&mut stream, &error), error),
            Ok(None) => {
                let (send, want) = (stream.output(), stream.want());
                self.state = ServerState::Proof { stream, login, issued, open };
                OpeningStep::Go { send, want }
            }
            Ok(Some((MessageType::Proof, payload))) if stream.received().is_empty() => {
                let judgement = login.on_proof(*issued, &payload, &*self.gate.directory);
                self.on_judgement(stream, login, open, judgement)
            }
            Ok(Some((other, _))) => {
                let error = unexpected(other);
                refused(refusal(&mut stream, &error), error)
            }
        }
    }

    fn on_judgement(
        &mut self,
        mut stream: Box<Stream>,
        mut login: Box<ServerLogin>,
        open: Box<Open>,
        judgement: LoginDecision,
    ) -> OpeningStep<ServerOpened> {
        self.failed.append(&mut login.take_failed());
        let said = match judgement {
            LoginDecision::Accepted { principal, proof } => {
                let prefaces = joined(self.client, self.server);
                let welcome = Box::new(PendingAccept { principal, prefaces, proof, stream });
                return OpeningStep::Done(ServerOpened::Open { open, welcome });
            }
            LoginDecision::Refused => {
                let error = Error::new(ErrorKind::Refused, "the login was refused");
                return refused(refusal(&mut stream, &error), error);
            }
            LoginDecision::Again { left } => stream.send(&frame(MessageType::Again, &[left])),
            LoginDecision::Challenge { message, issued } => {
                let said = stream.send(&frame(MessageType::Challenge, &message));
                let (send, want) = (stream.output(), stream.want());
                self.state = ServerState::Proof { stream, login, issued, open };
                return match said {
                    Ok(()) => OpeningStep::Go { send, want },
                    Err(error) => refused(send, error),
                };
            }
        };
        let (send, want) = (stream.output(), stream.want());
        self.state = ServerState::Open { stream, login };
        match said {
            Ok(()) => OpeningStep::Go { send, want },
            Err(error) => refused(send, error),
        }
    }
}

/// A client must wait for the answer to its message before it sends more.
fn nothing_behind(stream: &mut Stream) -> Result<(), Error> {
    match stream.received().is_empty() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Protocol, "a message that was not asked for")),
    }
}

fn refused(send: Vec<u8>, error: Error) -> OpeningStep<ServerOpened> {
    OpeningStep::Done(ServerOpened::Refused { send, error })
}
