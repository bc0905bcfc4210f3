//! A peer that can say anything: blocking sockets, the protocol's encoders, and the right keys.

use super::support::serving::Serving;
use super::support::{BLOCK, PATIENCE, assert_same, finish, pattern, pipe_payload};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use xdfs_client::{Address, Error, Level, PutOptions, Session, Transfer};
use xdfs_engine::opening::{ClientJoining, ClientOpened, ClientOpening, ClientStep, OpeningStep, SessionRequest};
use xdfs_proto::base::{ChannelId, OperationId, SessionId, TransferId};
use xdfs_proto::wire::control::{ChannelGrant, Control, Finish};
use xdfs_proto::wire::handshake::{FRAME_BYTES, Hello, Join, MessageType, Open, decode_refusal, read_frame};
use xdfs_proto::wire::path::{Batch, Call, Wanted};
use xdfs_proto::wire::preface::{ClientPreface, Continuation};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags, Head};
use xdfs_secure::handshake::tls::{Certificates, ClientTls, FAREWELL_BYTES, Stream};
use xdfs_secure::keys::{ChannelKeys, GrantSecret, JoinSecret, Role, RoleKeys};
use xdfs_secure::login::Offered;
use xdfs_secure::record::{Limits, Opener, Sealer};

/// A connection to the server.
pub fn connect(serving: &Serving) -> TcpStream {
    let Address::Tcp(address) = serving.address else { panic!("the raw peer speaks TCP") };
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection from an address of this machine's that is not the usual one: who fails too often has to wait, by address.
pub fn connect_from(serving: &Serving, number: u8) -> TcpStream {
    let Address::Tcp(address) = serving.address else { panic!("the raw peer speaks TCP") };
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 3, number], 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the server closes.
#[track_caller]
pub fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // A server that closes with bytes of ours unread resets.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server neither answered nor closed: {error}"),
    }
    bytes
}

pub fn wishes(channels: u16) -> Open {
    Open {
        prefaces: [0; 16],
        features: 0,
        channels,
        pipelines: 1,
        window: 0,
        block: BLOCK as u32,
        level: Level::Clear,
        stall_ms: 0,
        label: [9; 16],
        suites: vec![1, 2],
        login: 0,
        credentials: Vec::new(),
        options: Vec::new(),
        first: None,
    }
}

/// A session whose first channel is up.
pub struct RawSession {
    pub id: SessionId,
    pub grant: ChannelGrant,
    secret: JoinSecret,
}

pub fn open(serving: &Serving, wishes: Open) -> Result<(RawSession, RawChannel), Error> {
    open_as(serving, wishes, vec![Offered::Anonymous])
}

/// The same with these logins, for which no signature is given.
pub fn open_as(serving: &Serving, wishes: Open, offers: Vec<Offered>) -> Result<(RawSession, RawChannel), Error> {
    let (mut stream, farewell, opened) = accepted(serving, wishes, offers)?;
    stream.write_all(&farewell).unwrap();
    let ClientOpened { accept, join_secret, farewell, .. } = *opened;
    let mut last = [0; FAREWELL_BYTES];
    stream.read_exact(&mut last).unwrap();
    farewell.check(&last)?;
    let session = RawSession { id: accept.session, grant: accept.grant, secret: join_secret };
    let keys = session.keys(1);
    Ok((session, RawChannel::new(stream, keys)))
}

/// A connection that was accepted as a session of nobody's, and what the client has still to say to leave TLS.
pub fn accepted_in_tls(serving: &Serving) -> (TcpStream, Vec<u8>) {
    let (stream, farewell, _) = accepted(serving, wishes(1), vec![Offered::Anonymous]).unwrap();
    (stream, farewell)
}

fn accepted(
    serving: &Serving,
    wishes: Open,
    offers: Vec<Offered>,
) -> Result<(TcpStream, Vec<u8>, Box<ClientOpened>), Error> {
    let mut stream = connect(serving);
    let wishes = SessionRequest {
        open: wishes,
        host: "localhost".into(),
        certificates: Certificates::Raw,
        user: "ada".into(),
        offers,
        nonce: [7; 18],
    };
    let (mut opening, mut step) = ClientOpening::start(wishes).unwrap();
    loop {
        step = match step {
            ClientStep::Done { send, opened } => return Ok((stream, send, opened)),
            ClientStep::Go { send, want } => {
                stream.write_all(&send).unwrap();
                let mut bytes = vec![0; want];
                if let Err(error) = stream.read_exact(&mut bytes) {
                    return Err(Error::new(xdfs_client::ErrorKind::ConnectionLost, error.to_string()));
                }
                opening.on_bytes(&bytes)?
            }
            ClientStep::Judge(_) => opening.on_judged()?,
            ClientStep::Sign { .. } => opening.on_signature(None)?,
            ClientStep::Stretch(stretching) => opening.on_stretched(&stretching.run())?,
        };
    }
}

/// A connection on which TLS is done and the server has said HELLO; the client has said nothing yet.
pub struct RawTls {
    pub stream: TcpStream,
    tls: Stream,
    /// Both sides' first bytes, as they were.
    pub prefaces: [u8; 16],
}

impl RawTls {
    pub fn start(serving: &Serving) -> Self {
        Self::on(connect(serving))
    }

    /// The same on this connection.
    pub fn on(mut stream: TcpStream) -> Self {
        let client = ClientPreface::of(Continuation::Tls).encode();
        let (_, mut tls) = ClientTls::start("localhost", &Certificates::Raw).unwrap();
        stream.write_all(&[&client[..], &tls.output()].concat()).unwrap();
        let mut prefaces = [0; 16];
        prefaces[..8].copy_from_slice(&client);
        stream.read_exact(&mut prefaces[8..]).unwrap();
        let mut raw = Self { stream, tls, prefaces };
        let (message, payload) = raw.read().expect("HELLO");
        assert_eq!(message, MessageType::Hello);
        assert_eq!(Hello::decode(&payload).unwrap().prefaces, prefaces);
        raw
    }

    /// Says this inside TLS.
    pub fn say(&mut self, bytes: &[u8]) {
        self.tls.send(bytes).unwrap();
        let bytes = self.tls.output();
        // The server may have closed already.
        let _ = self.stream.write_all(&bytes);
    }

    /// The same as bytes on the wire, not sent.
    pub fn sealed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.tls.send(bytes).unwrap();
        self.tls.output()
    }

    /// The next message; none when the server has closed.
    pub fn read(&mut self) -> Option<(MessageType, Vec<u8>)> {
        loop {
            let received = self.tls.received();
            if let Some(head) = received.first_chunk::<FRAME_BYTES>() {
                let (message, length) = read_frame(*head).unwrap();
                if received.len() >= FRAME_BYTES + length {
                    let payload = received[FRAME_BYTES..FRAME_BYTES + length].to_vec();
                    received.drain(..FRAME_BYTES + length);
                    return Some((message, payload));
                }
            }
            let mut bytes = vec![0; self.tls.want()];
            self.stream.read_exact(&mut bytes).ok()?;
            self.tls.on_bytes(&bytes).unwrap();
        }
    }

    /// Says this; the server's REFUSE, which is its last word.
    #[track_caller]
    pub fn refused(&mut self, bytes: &[u8]) -> Error {
        self.say(bytes);
        let (message, payload) = self.read().expect("an answer");
        assert_eq!(message, MessageType::Refuse);
        assert!(read_to_end(&mut self.stream).is_empty());
        decode_refusal(&payload).unwrap()
    }
}

impl RawSession {
    pub fn keys(&self, channel: u16) -> RoleKeys {
        let grant = GrantSecret::new(&self.grant.secret);
        ChannelKeys::derive(&self.secret, &grant, self.id, ChannelId(channel)).unwrap().for_role(Role::Client)
    }

    /// The bytes of a JOIN, as `change` leaves them.
    pub fn join_bytes(&self, channel: u16) -> (ClientJoining, Vec<u8>) {
        let join = Join { session: self.id, channel: ChannelId(channel), nonce: [3; 16], mac: [0; 32] };
        let (joining, step) = ClientJoining::start(join, self.keys(channel).join);
        let OpeningStep::Go { send, .. } = step else { panic!("a JOIN is sent first") };
        (joining, send)
    }

    /// A JOIN that names what it likes, proved with the secret of this session and a grant, in this role.
    pub fn forged(&self, id: SessionId, channel: u16, grant: &ChannelGrant, role: Role) -> Vec<u8> {
        let keys = ChannelKeys::derive(&self.secret, &GrantSecret::new(&grant.secret), id, ChannelId(channel)).unwrap();
        let client = ClientPreface::of(Continuation::Join).encode();
        let mut join = Join { session: id, channel: ChannelId(channel), nonce: [3; 16], mac: [0; 32] };
        join.mac = keys.join.prove(role, &join.transcript(client, None));
        [&client[..], &join.encode()].concat()
    }

    /// Joins a channel.
    pub fn join(&self, serving: &Serving, channel: u16) -> Result<RawChannel, Error> {
        let (mut joining, send) = self.join_bytes(channel);
        let mut stream = connect(serving);
        stream.write_all(&send).unwrap();
        let mut preface = [0; 8];
        stream.read_exact(&mut preface).unwrap();
        let OpeningStep::Go { want, .. } = joining.on_bytes(&preface)? else { panic!("the proof follows") };
        let mut proof = vec![0; want];
        stream.read_exact(&mut proof).unwrap();
        joining.on_bytes(&proof)?;
        Ok(RawChannel::new(stream, self.keys(channel)))
    }
}

/// One channel that speaks records.
pub struct RawChannel {
    pub stream: TcpStream,
    sealer: Sealer,
    opener: Opener,
}

/// A head at the given level; the sequence is filled in when it is sent.
pub fn head(event: Event, level: Level, operation: u32) -> Head {
    Head {
        event: event as u8,
        level,
        epoch: 0,
        operation: OperationId(operation),
        sequence: 0,
        offset: 0,
        length: 0,
        flags: Flags::NONE,
    }
}

impl RawChannel {
    pub fn new(stream: TcpStream, keys: RoleKeys) -> Self {
        let sealer = Sealer::new(keys.seal, Limits::STANDARD).unwrap();
        let opener = Opener::new(keys.open, Limits::STANDARD).unwrap();
        Self { stream, sealer, opener }
    }

    /// Sends a record as `head` says, with the right sequence, length and tag, and then what `change` makes of its bytes.
    pub fn record(&mut self, mut head: Head, payload: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
        head.sequence = self.sealer.sequence();
        head.length = payload.len() as u32;
        self.exactly(head, payload, change);
    }

    /// Sequence number of the next record.
    pub fn sequence(&self) -> u64 {
        self.sealer.sequence()
    }

    /// Announces the next epoch and begins it.
    pub fn rekey(&mut self) {
        self.control(0, &Control::Rekey);
        self.next_key();
    }

    /// Seals with the next key from now on.
    pub fn next_key(&mut self) {
        self.sealer.rekey().unwrap();
    }

    /// Sends a record whose head is exactly this one, sealed.
    pub fn exactly(&mut self, head: Head, payload: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = head.encode().to_vec();
        bytes.extend_from_slice(payload);
        let tag = self.sealer.seal(head.level, &mut bytes).unwrap();
        bytes.splice(32..32, tag);
        change(&mut bytes);
        // The server may have closed already.
        let _ = self.stream.write_all(&bytes);
    }

    pub fn control(&mut self, operation: u32, control: &Control) {
        self.record(head(control.event(), Level::Private, operation), &control.encode(), |_| {});
    }

    pub fn request(&mut self, upload: bool, operation: u32, request: &Request) {
        let event = if upload { Event::Upload } else { Event::Download };
        let head = Head { flags: Flags::REQUEST, ..head(event, Level::Private, operation) };
        self.record(head, &request.encode(), |_| {});
    }

    pub fn block(&mut self, event: Event, operation: u32, offset: u64, payload: &[u8]) {
        self.record(Head { offset, ..head(event, Level::Clear, operation) }, payload, |_| {});
    }

    /// The number of the next record that is sent here.
    pub fn next_sequence(&self) -> u64 {
        self.sealer.sequence()
    }

    /// The next record as it came, and not looked into: no other can be read behind it.
    pub fn read_sealed(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        self.stream.read_exact(&mut bytes).unwrap();
        let head = Head::decode(bytes[..32].try_into().unwrap()).unwrap();
        bytes.resize(48 + head.length as usize, 0);
        self.stream.read_exact(&mut bytes[48..]).unwrap();
        bytes
    }

    /// The next record; none when the server has closed.
    pub fn read(&mut self) -> Option<(Head, Vec<u8>)> {
        let mut raw = [0; 48];
        self.stream.read_exact(&mut raw).ok()?;
        let head = Head::decode(raw[..32].try_into().unwrap()).unwrap();
        let mut headed = raw[..32].to_vec();
        headed.resize(32 + head.length as usize, 0);
        self.stream.read_exact(&mut headed[32..]).ok()?;
        self.opener.open(head.level, &mut headed, raw[32..].try_into().unwrap()).unwrap();
        Some((head, headed.split_off(32)))
    }

    /// Reads on until a message of which `found` says something.
    #[track_caller]
    pub fn until<R>(&mut self, what: &str, mut found: impl FnMut(&Head, Control) -> Option<R>) -> R {
        while let Some((head, payload)) = self.read() {
            let event = Event::from_code(head.event).unwrap();
            let control = if head.length as usize > 4096 { None } else { Control::decode(event, &payload).unwrap() };
            if let Some(result) = control.and_then(|control| found(&head, control)) {
                return result;
            }
        }
        panic!("the server closed before it said: {what}");
    }

    /// Opens an upload of `length` bytes and waits for its GRANT.
    pub fn upload(&mut self, operation: u32, name: &str, length: Option<u64>) {
        self.upload_at(operation, name, length, Level::Clear);
    }

    /// The same with blocks at `level` at least.
    pub fn upload_at(&mut self, operation: u32, name: &str, length: Option<u64>, level: Level) {
        // Each upload is a transfer of its own, as a client's are: what an earlier one left is not in its way.
        static TRANSFERS: AtomicU64 = AtomicU64::new(1);
        let mut transfer = [0; 16];
        transfer[8..].copy_from_slice(&TRANSFERS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let transfer = TransferId(transfer);
        let request = Request { name: name.into(), length, level, mode: 0o644, transfer, ..Request::default() };
        self.request(true, operation, &request);
        self.until("GRANT", |_, control| matches!(control, Control::Grant(_)).then_some(()));
    }

    /// Sends a batch of calls.
    pub fn batch(&mut self, operation: u32, batch: &Batch<'_>) {
        let head = Head { flags: Flags::REQUEST, ..head(Event::Path, Level::Private, operation) };
        self.record(head, &batch.encode(), |_| {});
    }

    /// Reads a file of `data` by a call, and waits for the answer: whether that is a reply.
    #[track_caller]
    pub fn fetch(&mut self, operation: u32, name: &str, most: u32) -> bool {
        let call = Call::Get { path: name.as_bytes(), wanted: Wanted::NOTHING, most };
        self.batch(operation, &Batch { room: most + 1000, base: b"data", calls: vec![call], ..Batch::default() });
        self.answered(operation)
    }

    /// Waits for the reply to a batch, or for its EXCEPTION; whether it is a reply.
    #[track_caller]
    pub fn answered(&mut self, operation: u32) -> bool {
        while let Some((head, _)) = self.read() {
            let event = Event::from_code(head.event).filter(|_| head.operation == OperationId(operation));
            if let Some(event @ (Event::Path | Event::Exception)) = event {
                return event == Event::Path;
            }
        }
        panic!("the server closed before it answered operation {operation}");
    }

    /// Says that an upload is whole.
    pub fn whole(&mut self, operation: u32, length: u64) {
        self.control(operation, &Control::Finish(Finish { length, ..Finish::default() }));
        self.control(operation, &Control::EndOfRange { blocks: 1 });
    }

    /// Waits until the server has the whole file.
    #[track_caller]
    pub fn committed(&mut self) {
        self.until("COMMITTED", |_, control| matches!(control, Control::Committed { .. }).then_some(()));
    }

    /// Asks for an answer and waits for it: the channel is up, and everything before was processed.
    #[track_caller]
    pub fn ping(&mut self) {
        assert!(self.ask(), "the server closed before it answered");
    }

    /// The same; false when the server has closed.
    pub fn ask(&mut self) -> bool {
        let head = Head { flags: Flags::ASK, ..head(Event::Nothing, Level::Private, 0) };
        self.record(head, &[], |_| {});
        while let Some((head, _)) = self.read() {
            if head.event == Event::Nothing as u8 {
                return true;
            }
        }
        false
    }
}

/// Somebody else's upload that is under way all the time.
pub struct Beside<'a> {
    serving: &'a Serving,
    session: Session,
    transfer: Transfer,
    writer: std::io::PipeWriter,
    sent: usize,
}

impl<'a> Beside<'a> {
    pub fn start(serving: &'a Serving) -> Self {
        let session = serving.connect(2);
        let (payload, writer) = pipe_payload(None);
        let transfer = session.put(payload, "data/beside", &PutOptions::default()).unwrap();
        let mut beside = Self { serving, session, transfer, writer, sent: 0 };
        beside.go_on();
        beside
    }

    /// A few blocks more go through while others misbehave.
    pub fn go_on(&mut self) {
        self.writer.write_all(&pattern(3 * BLOCK, self.sent as u64)).unwrap();
        self.sent += 3 * BLOCK;
    }

    /// It arrives whole, and of all the others nothing is left.
    pub fn finish(mut self) {
        self.go_on();
        // Its own session, at most one thread, and no connection that is opening.
        self.serving.wait_for_status("only the good session is left", |[sessions, opening, threads]| {
            sessions == 1 && opening == 0 && threads <= 1
        });
        drop(self.writer);
        finish(&self.transfer).unwrap();
        let expected: Vec<u8> =
            (0..self.sent).step_by(3 * BLOCK).flat_map(|at| pattern(3 * BLOCK, at as u64)).collect();
        assert_same(&self.serving.directory.read("beside"), &expected);
        self.session.close().unwrap();
        self.serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
        self.serving.directory.wait_for_names(&["beside"]);
    }
}

/// A deadline that no honest wait in these tests needs.
pub const SOON: Duration = Duration::from_secs(20);
