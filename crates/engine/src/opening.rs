//! The opening of a connection on both sides, without input or output: prefaces, the handshake, OPEN and its answer, JOIN.
//!
//! A driver sends what it is given, reads exactly as many bytes as are wanted, and hands them in: nothing is ever read
//! that belongs to the records behind.

use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::negotiate;
use xdfs_proto::wire::handshake::{
    Accept, FRAME_BYTES, JOIN_ANSWER_BYTES, JOIN_BYTES, Join, MessageType, Open, Prefaces, decode_refusal,
    encode_refusal, frame, read_frame,
};
use xdfs_proto::wire::preface::{ClientPreface, PREFACE_BYTES, ServerPreface, Start, Status};
use xdfs_proto::wire::{Reader, WireError};
use xdfs_secure::handshake::{Handshake, NoneHandshake};
use xdfs_secure::join::JoinKey;
use xdfs_secure::keys::{JoinSecret, Role};

/// Bytes of a hello: 32 random ones.
const HELLO_BYTES: usize = 32;

fn protocol(error: WireError) -> Error {
    Error::new(ErrorKind::Protocol, format!("protocol error while opening the session: {error}"))
}

fn unexpected(message: MessageType) -> Error {
    Error::new(ErrorKind::Protocol, format!("protocol error while opening the session: unexpected {message:?}"))
}

fn joined(client: [u8; PREFACE_BYTES], server: [u8; PREFACE_BYTES]) -> Prefaces {
    let mut both = [0; 2 * PREFACE_BYTES];
    both[..PREFACE_BYTES].copy_from_slice(&client);
    both[PREFACE_BYTES..].copy_from_slice(&server);
    both
}

/// What the driver does next.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Step<T> {
    /// Send these bytes (if any), then read `want` bytes.
    Go { send: Vec<u8>, want: usize },
    /// The opening is done.
    Done(T),
}

/// The client's side of channel 1.
#[derive(Debug)]
pub struct ClientOpening {
    open: Open,
    random: [u8; HELLO_BYTES],
    state: ClientState,
}

#[derive(Debug)]
enum ClientState {
    Preface,
    HelloFrame,
    Hello,
    AnswerFrame { handshake: NoneHandshake },
    Answer { handshake: NoneHandshake, message: MessageType },
    Done,
}

/// What a client has after the opening.
#[derive(Debug)]
pub struct ClientOpened {
    /// What was granted.
    pub accept: Accept,
    /// From which every channel's keys come.
    pub join_secret: JoinSecret,
}

impl ClientOpening {
    /// Asks for what `open` says (its prefaces are filled in here). `random` are 32 fresh random bytes.
    pub fn start(open: Open, random: [u8; HELLO_BYTES]) -> (Self, Step<ClientOpened>) {
        let mut send = ClientPreface::of(Start::None).encode().to_vec();
        send.extend(frame(MessageType::Hello, &random));
        (Self { open, random, state: ClientState::Preface }, Step::Go { send, want: PREFACE_BYTES })
    }

    /// The wanted bytes have come.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<Step<ClientOpened>, Error> {
        let silent = |want| Ok(Step::Go { send: Vec::new(), want });
        match std::mem::replace(&mut self.state, ClientState::Done) {
            ClientState::Preface => {
                let server = read_server_preface(bytes)?;
                let client = ClientPreface::of(Start::None).encode();
                self.open.prefaces = joined(client, server);
                self.state = ClientState::HelloFrame;
                silent(FRAME_BYTES)
            }
            ClientState::HelloFrame => {
                let (message, length) = read_message(bytes)?;
                if message != MessageType::Hello || length != HELLO_BYTES {
                    return Err(unexpected(message));
                }
                self.state = ClientState::Hello;
                silent(HELLO_BYTES)
            }
            ClientState::Hello => {
                let server_random = Reader::new(bytes).array().map_err(protocol)?;
                let handshake = NoneHandshake { client_random: self.random, server_random };
                self.state = ClientState::AnswerFrame { handshake };
                Ok(Step::Go { send: frame(MessageType::Open, &self.open.encode()), want: FRAME_BYTES })
            }
            ClientState::AnswerFrame { handshake } => {
                let (message, length) = read_message(bytes)?;
                self.state = ClientState::Answer { handshake, message };
                silent(length)
            }
            ClientState::Answer { handshake, message } => self.on_answer(handshake, message, bytes),
            ClientState::Done => Err(Error::new(ErrorKind::Protocol, "bytes behind the opening")),
        }
    }

    fn on_answer(
        &self,
        handshake: NoneHandshake,
        message: MessageType,
        bytes: &[u8],
    ) -> Result<Step<ClientOpened>, Error> {
        match message {
            MessageType::Refuse => Err(decode_refusal(bytes).unwrap_or_else(protocol)),
            MessageType::Accept => {
                let accept = Accept::decode(bytes).map_err(protocol)?;
                let (client, server) = self.open.prefaces.split_at(PREFACE_BYTES);
                if accept.prefaces[..PREFACE_BYTES] != *client || accept.prefaces[PREFACE_BYTES..] != *server {
                    return Err(Error::new(ErrorKind::Downgrade, "the opening bytes were altered on the way"));
                }
                if accept.channels > self.open.channels || accept.pipelines > self.open.pipelines {
                    return Err(Error::new(ErrorKind::Protocol, "the server granted more than was asked for"));
                }
                let join_secret = handshake.establish(accept.session)?.join_secret;
                Ok(Step::Done(ClientOpened { accept, join_secret }))
            }
            other => Err(unexpected(other)),
        }
    }
}

fn read_message(bytes: &[u8]) -> Result<(MessageType, usize), Error> {
    let head = Reader::new(bytes).array().map_err(protocol)?;
    read_frame(head).map_err(protocol)
}

fn read_server_preface(bytes: &[u8]) -> Result<[u8; PREFACE_BYTES], Error> {
    let raw = Reader::new(bytes).array().map_err(protocol)?;
    let not_xdfs = |_| Error::new(ErrorKind::Protocol, "what answers there is not an xdfs server");
    let preface = ServerPreface::decode(&raw).map_err(not_xdfs)?;
    match preface.status {
        Status::Available => Ok(raw),
        Status::Busy | Status::TooManyOfYou | Status::Penalised => {
            Err(Error::new(ErrorKind::Busy, preface.status.text()))
        }
        Status::JoinRefused => Err(Error::new(ErrorKind::SessionUnknown, preface.status.text())),
        other => Err(Error::new(ErrorKind::Unsupported, other.text())),
    }
}

/// The client's side of channels 2..n.
#[derive(Debug)]
pub struct ClientJoining {
    join: Join,
    key: JoinKey,
    server: Option<[u8; PREFACE_BYTES]>,
}

impl ClientJoining {
    /// Joins with `join` (its MAC is filled in here).
    pub fn start(mut join: Join, key: JoinKey) -> (Self, Step<()>) {
        let client = ClientPreface::of(Start::Join).encode();
        join.mac = key.prove(Role::Client, &join.transcript(client, None));
        let mut send = client.to_vec();
        send.extend(join.encode());
        (Self { join, key, server: None }, Step::Go { send, want: PREFACE_BYTES })
    }

    /// The wanted bytes have come.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<Step<()>, Error> {
        let Some(server) = self.server else {
            self.server = Some(read_server_preface(bytes)?);
            return Ok(Step::Go { send: Vec::new(), want: JOIN_ANSWER_BYTES });
        };
        let mac = Reader::new(bytes).array().map_err(protocol)?;
        let client = ClientPreface::of(Start::Join).encode();
        self.key.verify(Role::Server, &self.join.transcript(client, Some(server)), &mac)?;
        Ok(Step::Done(()))
    }
}

/// The server's side of any connection.
#[derive(Debug)]
pub struct ServerOpening {
    random: [u8; HELLO_BYTES],
    client: [u8; PREFACE_BYTES],
    server: [u8; PREFACE_BYTES],
    state: ServerState,
}

#[derive(Debug)]
enum ServerState {
    Preface,
    HelloFrame,
    Hello,
    OpenFrame { handshake: NoneHandshake },
    Open { handshake: NoneHandshake },
    Join,
    Done,
}

/// What a connection turned out to be.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum ServerOpened {
    /// A client asks for a session.
    Open { open: Box<Open>, handshake: NoneHandshake, prefaces: Prefaces },
    /// A channel wants to join one.
    Join(JoinRequest),
    /// It cannot go on: send these bytes and close.
    Refused { send: Vec<u8>, error: Error },
}

/// A JOIN that waits for the session's judgement.
#[derive(Debug)]
pub struct JoinRequest {
    /// What was said.
    pub join: Join,
    client: [u8; PREFACE_BYTES],
    server: [u8; PREFACE_BYTES],
}

impl JoinRequest {
    /// Whether the channel holds `key`.
    pub fn verify(&self, key: &JoinKey) -> Result<(), Error> {
        Ok(key.verify(Role::Client, &self.join.transcript(self.client, None), &self.join.mac)?)
    }

    /// The answer to a channel that may join.
    pub fn accept(&self, key: &JoinKey) -> Vec<u8> {
        let mut send = self.server.to_vec();
        send.extend(key.prove(Role::Server, &self.join.transcript(self.client, Some(self.server))));
        send
    }

    /// The answer to one that may not. It does not say why: a stranger learns nothing.
    pub fn refuse() -> Vec<u8> {
        ServerPreface { status: Status::JoinRefused, version: 0, start: Start::Join as u8 }.encode().to_vec()
    }
}

impl ServerOpening {
    /// Waits for a client. `random` are 32 fresh random bytes.
    pub fn start(random: [u8; HELLO_BYTES]) -> (Self, usize) {
        let none = [0; PREFACE_BYTES];
        (Self { random, client: none, server: none, state: ServerState::Preface }, PREFACE_BYTES)
    }

    /// What is waited for, in the words of a log.
    pub fn phase(&self) -> &'static str {
        match self.state {
            ServerState::Preface => "opening bytes",
            ServerState::HelloFrame | ServerState::Hello => "handshake",
            ServerState::OpenFrame { .. } | ServerState::Open { .. } => "OPEN",
            ServerState::Join => "JOIN",
            ServerState::Done => "records",
        }
    }

    /// The wanted bytes have come. An error is told to the client where there is a form for it.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Step<ServerOpened> {
        match self.advance(bytes) {
            Ok(step) => step,
            Err(error) => {
                let send = frame(MessageType::Refuse, &encode_refusal(&error));
                Step::Done(ServerOpened::Refused { send, error })
            }
        }
    }

    fn advance(&mut self, bytes: &[u8]) -> Result<Step<ServerOpened>, Error> {
        match std::mem::replace(&mut self.state, ServerState::Done) {
            ServerState::Preface => Ok(self.on_preface(bytes)),
            ServerState::HelloFrame => {
                let (message, length) = read_message(bytes)?;
                if message != MessageType::Hello || length != HELLO_BYTES {
                    return Err(unexpected(message));
                }
                self.state = ServerState::Hello;
                Ok(Step::Go { send: Vec::new(), want: HELLO_BYTES })
            }
            ServerState::Hello => {
                let client_random = Reader::new(bytes).array().map_err(protocol)?;
                let handshake = NoneHandshake { client_random, server_random: self.random };
                self.state = ServerState::OpenFrame { handshake };
                let mut send = self.server.to_vec();
                send.extend(frame(MessageType::Hello, &self.random));
                Ok(Step::Go { send, want: FRAME_BYTES })
            }
            ServerState::OpenFrame { handshake } => {
                let (message, length) = read_message(bytes)?;
                if message != MessageType::Open {
                    return Err(unexpected(message));
                }
                self.state = ServerState::Open { handshake };
                Ok(Step::Go { send: Vec::new(), want: length })
            }
            ServerState::Open { handshake } => {
                let open = Open::decode(bytes).map_err(protocol)?;
                negotiate::confirm(&open.prefaces, self.client, self.server)?;
                let prefaces = joined(self.client, self.server);
                Ok(Step::Done(ServerOpened::Open { open: Box::new(open), handshake, prefaces }))
            }
            ServerState::Join => {
                let raw: [u8; JOIN_BYTES] = Reader::new(bytes).array().map_err(protocol)?;
                let request = JoinRequest { join: Join::decode(&raw), client: self.client, server: self.server };
                Ok(Step::Done(ServerOpened::Join(request)))
            }
            ServerState::Done => Err(Error::new(ErrorKind::Protocol, "bytes behind the opening")),
        }
    }

    fn on_preface(&mut self, bytes: &[u8]) -> Step<ServerOpened> {
        let raw: Result<[u8; PREFACE_BYTES], _> = Reader::new(bytes).array();
        let preface = raw.and_then(|raw| {
            self.client = raw;
            ClientPreface::decode(&raw)
        });
        let answer = match &preface {
            Ok(preface) => preface.answer(&[Start::None, Start::Join]),
            Err(_) => ServerPreface { status: Status::NotXdfs, version: 0, start: 0 },
        };
        self.server = answer.encode();
        if answer.status != Status::Available {
            let error = Error::new(ErrorKind::Unsupported, answer.status.text());
            return Step::Done(ServerOpened::Refused { send: self.server.to_vec(), error });
        }
        if answer.start == Start::Join as u8 {
            self.state = ServerState::Join;
            return Step::Go { send: Vec::new(), want: JOIN_BYTES };
        }
        self.state = ServerState::HelloFrame;
        Step::Go { send: Vec::new(), want: FRAME_BYTES }
    }
}
