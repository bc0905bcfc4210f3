//! B20 and B21, the other end: a server that has the right key and grants what was not asked for, or less than the client's
//! floor, and records that reach the client otherwise than they were sealed. The client says so, has not a byte less
//! protected than it wanted, and takes nothing for what it was not.

use super::raw::{RawChannel, head};
use super::support::people::People;
use super::support::serving::{HOST_SEED, host_check};
use super::support::{BLOCK, PATIENCE};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use xdfs_client::{Address, ConnectOptions, Error, ErrorKind, GetOptions, Level, Session, Suite, Target, Verify};
use xdfs_engine::opening::{OpeningContext, OpeningStep, ServerOpened, ServerOpening};
use xdfs_proto::base::{ChannelId, Extent, SessionId};
use xdfs_proto::wire::control::{ChannelGrant, Control, Grant};
use xdfs_proto::wire::handshake::Accept;
use xdfs_proto::wire::{Event, Head};
use xdfs_secure::handshake::tls::{FAREWELL_BYTES, HostIdentity, ServerIdentity};
use xdfs_secure::identity::KeyPair;
use xdfs_secure::keys::{self, ChannelKeys, Role};

/// A liar has no hash of what it did not read.
const UNHASHED: GetOptions = GetOptions {
    offset: 0,
    length: None,
    label: Vec::new(),
    durable: false,
    resume: false,
    verify: Verify::None,
    owner_follows: false,
};

/// What a lying server changes in ACCEPT, and what it says then to the one request.
pub struct Lie {
    pub accept: fn(&mut Accept),
    pub then: Box<Deed>,
}

/// A client that wants a file of 100 bytes at `level`, and meets this server.
fn meet(level: Level, lie: Lie) -> Result<Vec<u8>, Error> {
    with_liar(level, lie, |options| {
        let (target, got) = Target::memory();
        Session::connect_and_get(options, "data/file", target, &UNHASHED)
            .and_then(|(session, transfer)| {
                let outcome = transfer.wait_for(PATIENCE).expect("an outcome");
                drop(session);
                outcome
            })
            .map(|_| got.take().expect("the bytes"))
    })
}

/// What a client makes of this server, to which it connects by the options that it is given.
pub fn with_liar<T>(level: Level, lie: Lie, client: impl FnOnce(&ConnectOptions) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let server = std::thread::spawn(move || serve(&listener, &lie));
    let options = ConnectOptions {
        host_check: host_check(),
        suites: Some(vec![Suite::Aes256Gcm]),
        channels: 2,
        level,
        block: Some(BLOCK as u32),
        deadline: PATIENCE,
        ..ConnectOptions::to(address)
    };
    let result = client(&options);
    server.join().unwrap();
    result
}

fn serve(listener: &TcpListener, lie: &Lie) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = HostIdentity::new(KeyPair::from_seed(&HOST_SEED).unwrap());
    let gate =
        OpeningContext { identity: Arc::new(ServerIdentity::new(&host).unwrap()), directory: Arc::new(People(true)) };
    let (mut opening, mut want) = ServerOpening::start(gate, "nobody".into(), [1; 18]);
    let mut welcome = loop {
        let mut bytes = vec![0; want];
        // A client that has seen enough hangs up.
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        match opening.on_bytes(&bytes) {
            OpeningStep::Go { send, want: next } => {
                stream.write_all(&send).unwrap();
                want = next;
            }
            OpeningStep::Done(ServerOpened::Open { welcome, .. }) => break welcome,
            OpeningStep::Done(other) => panic!("{other:?}"),
        }
    };
    let session = SessionId([4; 16]);
    let grant = ChannelGrant { first: 1, count: 2, secret: [8; 32], life_ms: 15_000 };
    let mut accept = Accept {
        prefaces: welcome.prefaces,
        session,
        features: 0,
        channels: 1,
        pipelines: 1,
        window: 0,
        block: BLOCK as u32,
        floor: Level::Clear,
        initial_credit: 0,
        stall_ms: 30_000,
        suite: Suite::Aes256Gcm,
        grant: grant.clone(),
        proof: std::mem::take(&mut welcome.proof),
        options: Vec::new(),
    };
    (lie.accept)(&mut accept);
    let secret = welcome.join_secret(session, Suite::Aes256Gcm).unwrap();
    let (send, _) = welcome.accept(&accept).unwrap();
    let _ = stream.write_all(&send);
    // The client's leave, unless it went.
    if stream.read_exact(&mut [0; FAREWELL_BYTES]).is_err() {
        return;
    }
    let keys = ChannelKeys::derive(&secret, &keys::GrantSecret::new(&grant.secret), session, ChannelId(1)).unwrap();
    let mut channel = RawChannel::new(stream, keys.for_role(Role::Server));
    (lie.then)(&mut channel);
    // Until the client has closed. What it says is not opened: behind a record that was looked at as it came none can be.
    let _ = channel.stream.read_to_end(&mut Vec::new());
}

fn grant(level: Level) -> Control {
    Control::Grant(Grant {
        level,
        block: BLOCK as u32,
        length: Some(100),
        ranges: vec![Extent::new(0, 100).unwrap()],
        size: Some(100),
        mode: 0o644,
        ..Grant::default()
    })
}

/// Grants at one level and sends the file at another.
fn send(channel: &mut RawChannel, granted: Level, sent: Level) {
    channel.control(1, &grant(granted));
    channel.record(head(Event::Download, sent, 1), &[5; 100], |_| {});
    channel.whole(1, 100);
}

/// What a liar makes of an honest ACCEPT.
pub type Twist = fn(&mut Accept);
/// What it does behind it.
pub type Deed = dyn Fn(&mut RawChannel) + Send;

pub const HONEST: Twist = |_| {};

#[test]
fn b21_a_server_that_grants_what_was_not_asked_for_is_left() {
    let lies: [(&str, Twist); 7] = [
        ("another suite", |accept| accept.suite = Suite::ChaCha20Poly1305),
        ("more channels", |accept| (accept.channels, accept.grant.count) = (3, 3)),
        ("more pipelines", |accept| accept.pipelines = 2),
        ("other prefaces of the client", |accept| accept.prefaces[5] = 0),
        ("other prefaces of the server", |accept| accept.prefaces[13] = 0),
        ("no channel", |accept| accept.channels = 0),
        ("a proof that was not asked for", |accept| accept.proof = b"v=AAAA".to_vec()),
    ];
    for (what, accept) in lies {
        let result = meet(Level::Private, Lie { accept, then: Box::new(|c| send(c, Level::Private, Level::Private)) });
        let error = result.expect_err(what);
        let downgrade = what.starts_with("other prefaces");
        assert_eq!(error.kind == ErrorKind::Downgrade, downgrade, "{what}: {error}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn b21_a_server_that_grants_or_sends_below_the_clients_floor_gets_an_error() {
    let levels = [Level::Clear, Level::Integrity, Level::Private];
    for floor in levels {
        for (granted, sent) in levels.into_iter().flat_map(|granted| levels.map(|sent| (granted, sent))) {
            let then = Box::new(move |channel: &mut RawChannel| send(channel, granted, sent));
            let result = meet(floor, Lie { accept: HONEST, then });
            let cell = format!("floor {floor:?}, granted {granted:?}, sent at {sent:?}: {result:?}");
            if granted < floor || sent < granted {
                let error = result.expect_err(&cell);
                assert!(error.message.contains("below what was granted"), "{cell}");
            } else {
                assert_eq!(result.expect(&cell), [5; 100]);
            }
        }
    }
}

/// How long a server may stay silent is the client's business: a server grants at most what was asked for.
#[test]
fn a_server_that_allows_itself_a_month_of_silence_is_left_when_the_client_asked_to() {
    let lie = Lie {
        accept: |accept| accept.stall_ms = u32::MAX,
        // It reads what comes, and says nothing.
        then: Box::new(|_| {}),
    };
    let error = with_liar(Level::Private, lie, |options| {
        let options = ConnectOptions { stall: Some(Duration::from_millis(300)), ..options.clone() };
        let (target, _) = Target::memory();
        let (_session, transfer) = Session::connect_and_get(&options, "data/file", target, &UNHASHED)?;
        transfer.wait_for(PATIENCE).expect("an outcome")
    });
    assert_eq!(error.expect_err("it said nothing").kind, ErrorKind::ConnectionLost);
}

/// A block of the file, at a level.
fn block(level: Level) -> Head {
    head(Event::Download, level, 1)
}

/// Grants, lets `spoil` send the block, and ends as if it had been sent well.
fn spoiled(level: Level, spoil: impl Fn(&mut RawChannel) + Send + 'static) -> Result<Vec<u8>, Error> {
    let then = Box::new(move |channel: &mut RawChannel| {
        channel.control(1, &grant(level));
        spoil(channel);
        channel.whole(1, 100);
        // Where the length grew there is nothing to wait for.
        let _ = channel.stream.shutdown(std::net::Shutdown::Write);
    });
    meet(level, Lie { accept: HONEST, then })
}

#[test]
fn b20_a_bit_that_flips_at_any_byte_on_its_way_to_a_client_is_found_at_every_level() {
    for level in [Level::Clear, Level::Integrity, Level::Private] {
        let honest = spoiled(level, move |c| c.record(block(level), &[5; 100], |_| {}));
        assert_eq!(honest.expect("nothing is wrong with this one"), [5; 100]);
        // At `clear` the payload is protected by nothing: that is what the level means, and what its name says.
        let end = if level == Level::Clear { 48 } else { 148 };
        for byte in 0..end {
            let result =
                spoiled(level, move |c| c.record(block(level), &[5; 100], |bytes| bytes[byte] ^= 1 << (byte % 8)));
            assert!(result.is_err(), "{level:?}: byte {byte} was altered and taken: {result:?}");
        }
    }
}

/// What is done to the block of a download, at a level.
type Spoil = (&'static str, fn(&mut RawChannel, Level));

const SPOILS: &[Spoil] = &[
    ("repeated", |c, level| {
        let mut record = Vec::new();
        c.record(block(level), &[5; 100], |bytes| record.clone_from(bytes));
        let _ = c.stream.write_all(&record);
    }),
    ("behind a record that was cut out", |c, level| {
        c.record(head(Event::Nothing, Level::Private, 0), &[], Vec::clear);
        c.record(block(level), &[5; 100], |_| {});
    }),
    ("in front of a record that was before it", |c, level| {
        let mut first = Vec::new();
        c.record(head(Event::Nothing, Level::Private, 0), &[], |bytes| first = std::mem::take(bytes));
        c.record(block(level), &[5; 100], |_| {});
        let _ = c.stream.write_all(&first);
    }),
    ("at another offset", |c, level| c.record(block(level), &[5; 100], |bytes| bytes[23] ^= 1)),
    ("of another operation", |c, level| c.record(block(level), &[5; 100], |bytes| bytes[7] ^= 2)),
    ("at another level", |c, level| {
        let other = if level == Level::Private { Level::Integrity } else { Level::Private };
        c.record(block(level), &[5; 100], |bytes| bytes[1] = other as u8);
    }),
    ("of the next epoch", |c, level| c.record(Head { epoch: 1, ..block(level) }, &[5; 100], |_| {})),
    ("under the next key, which was not announced", |c, level| {
        let sequence = c.sequence();
        c.next_key();
        c.exactly(Head { sequence, length: 100, ..block(level) }, &[5; 100], |_| {});
    }),
    ("what the client said itself", |c, _| {
        let back = c.read_sealed();
        let _ = c.stream.write_all(&back);
    }),
];

#[test]
fn b20_a_record_that_reaches_a_client_elsewhere_than_it_was_sent_is_never_taken() {
    for level in [Level::Clear, Level::Integrity, Level::Private] {
        for (what, spoil) in SPOILS {
            let result = spoiled(level, move |c| spoil(c, level));
            assert!(result.is_err(), "{level:?}, {what}: {result:?}");
        }
    }
}
