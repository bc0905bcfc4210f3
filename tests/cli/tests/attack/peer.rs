//! A peer that is let in and then says what it likes: blocking sockets, the protocol's encoders, the right keys.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;

use rustix::net::{AddressFamily, SocketType};
use xdfs_engine::opening::{ClientOpened, ClientOpening, ClientStep, SessionRequest};
use xdfs_proto::base::{ChannelId, Level, OperationId};
use xdfs_proto::wire::handshake::Open;
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags, Head};
use xdfs_secure::handshake::tls::{Certificates, FAREWELL_BYTES};
use xdfs_secure::keys::{ChannelKeys, GrantSecret, Role};
use xdfs_secure::login::{Offered, Password};
use xdfs_secure::record::{Limits, Opener, Sealer};
use xdfs_test_cli::Server;

/// Peers are on machines of their own: what this thread does takes nothing of this one from the server and from others.
pub fn leave_the_machine_to_others() {
    rustix::process::nice(10).unwrap();
}

/// The password of every user that the tests add.
pub const PASSWORD: &str = "the same for all";

/// Who a peer is: a visitor, by the last number of the address, 127.0.9.`visitor`, or a user with an address and a name.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    Visitor(u8),
    User(u8),
}

impl Who {
    fn address(self) -> u8 {
        match self {
            Self::Visitor(number) | Self::User(number) => number,
        }
    }

    /// The name at the server, and the credential.
    fn login(self) -> (String, Offered) {
        match self {
            Self::Visitor(_) => (String::new(), Offered::Anonymous),
            Self::User(number) => (user_name(number), Offered::Password(Password::new(PASSWORD.to_owned().into()))),
        }
    }
}

/// The name of a user.
pub fn user_name(number: u8) -> String {
    format!("user{number}")
}

/// Channel 1 of a session of a peer's.
pub struct Peer {
    stream: TcpStream,
    sealer: Sealer,
    opener: Opener,
    operation: u32,
    sent: u64,
}

fn wishes(who: Who) -> SessionRequest {
    let (user, offer) = who.login();
    let open = Open {
        prefaces: [0; 16],
        features: 0,
        channels: 1,
        pipelines: 1,
        window: 0,
        block: 0,
        level: Level::Clear,
        stall_ms: 0,
        label: [0; 16],
        suites: vec![1, 2],
        login: 0,
        credentials: Vec::new(),
        options: Vec::new(),
        first: None,
    };
    SessionRequest {
        open,
        host: "localhost".into(),
        certificates: Certificates::Raw,
        user,
        offers: vec![offer],
        nonce: [7; 18],
    }
}

impl Peer {
    pub fn open(server: &Server, who: Who) -> Self {
        Self::connect(server.address().parse().unwrap(), who).unwrap()
    }

    /// The same, for one who tries again where the server refuses him.
    pub fn connect(address: SocketAddr, who: Who) -> std::io::Result<Self> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 0, 9, who.address()), 0)))?;
        rustix::net::connect(&socket, &address)?;
        let mut stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        let (mut opening, mut step) = ClientOpening::start(wishes(who)).unwrap();
        let opened = loop {
            step = match step {
                ClientStep::Done { send, opened } => {
                    stream.write_all(&send)?;
                    break opened;
                }
                ClientStep::Go { send, want } => {
                    stream.write_all(&send)?;
                    let mut bytes = vec![0; want];
                    stream.read_exact(&mut bytes)?;
                    opening.on_bytes(&bytes).map_err(std::io::Error::other)?
                }
                ClientStep::Judge(_) => opening.on_judged().unwrap(),
                ClientStep::Stretch(wanted) => opening.on_stretched(&wanted.run()).unwrap(),
                ClientStep::Sign { .. } => unreachable!("nobody has a key"),
            };
        };
        let ClientOpened { accept, join_secret, farewell, .. } = *opened;
        let mut last = [0; FAREWELL_BYTES];
        stream.read_exact(&mut last)?;
        farewell.check(&last).unwrap();
        let grant = GrantSecret::new(&accept.grant.secret);
        let keys =
            ChannelKeys::derive(&join_secret, &grant, accept.session, ChannelId(1)).unwrap().for_role(Role::Client);
        let sealer = Sealer::new(keys.seal, Limits::STANDARD).unwrap();
        let opener = Opener::new(keys.open, Limits::STANDARD).unwrap();
        Ok(Self { stream, sealer, opener, operation: 0, sent: 0 })
    }

    /// Opens an operation, at this peer's own pace: whether the server still listens.
    pub fn request(&mut self, event: Event, payload: &[u8]) -> bool {
        self.operation += 1;
        self.send(event, self.operation, Flags::REQUEST, payload)
    }

    /// Says this of the operation that was opened last.
    pub fn within(&mut self, event: Event, payload: &[u8]) -> bool {
        self.send(event, self.operation, Flags::NONE, payload)
    }

    /// Says this of an operation, 0 for the session: whether the server still listens.
    pub fn send(&mut self, event: Event, operation: u32, flags: Flags, payload: &[u8]) -> bool {
        let head = Head {
            event: event as u8,
            level: Level::Private,
            epoch: self.sealer.epoch(),
            operation: OperationId(operation),
            sequence: self.sealer.sequence(),
            offset: 0,
            length: payload.len() as u32,
            flags,
        };
        let mut bytes = head.encode().to_vec();
        bytes.extend_from_slice(payload);
        let tag = self.sealer.seal(head.level, &mut bytes).unwrap();
        bytes.splice(32..32, tag);
        // A channel has so many epochs; who has had them all needs another one.
        let goes_on = event != Event::Rekey || self.sealer.rekey().is_ok();
        self.sent += bytes.len() as u64;
        self.stream.write_all(&bytes).is_ok() && goes_on
    }

    /// Bytes that it has sent since it was let in.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    pub fn download(&mut self, request: &Request) -> bool {
        self.request(Event::Download, &request.encode())
    }

    pub fn upload(&mut self, request: &Request) -> bool {
        self.request(Event::Upload, &request.encode())
    }

    /// Waits for the reply to a batch; none when the server has closed.
    pub fn reply(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 48];
        while self.stream.read_exact(&mut head).is_ok() {
            let (raw, tag) = (head[..32].to_vec(), head[32..].try_into().unwrap());
            let head = Head::decode(raw[..].try_into().unwrap()).unwrap();
            let mut record = raw;
            record.resize(32 + head.length as usize, 0);
            self.stream.read_exact(&mut record[32..]).ok()?;
            self.opener.open(head.level, &mut record, &tag).unwrap();
            if [Event::Path as u8, Event::File as u8].contains(&head.event) {
                return Some(record.split_off(32));
            }
        }
        None
    }

    /// Reads whatever comes until the connection ends.
    pub fn drain(&self) {
        let mut bytes = vec![0; 256 << 10];
        while (&self.stream).read(&mut bytes).is_ok_and(|count| count > 0) {}
    }

    /// Reads whatever comes in a thread of its own, while this one sends.
    pub fn drain_beside(&self) -> JoinHandle<()> {
        let mut stream = self.stream.try_clone().unwrap();
        std::thread::spawn(move || {
            leave_the_machine_to_others();
            let mut bytes = vec![0; 256 << 10];
            while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        })
    }

    /// Ends the connection from another thread.
    pub fn ender(&self) -> impl FnOnce() + Send + use<> {
        let stream = self.stream.try_clone().unwrap();
        move || drop(stream.shutdown(Shutdown::Both))
    }
}
