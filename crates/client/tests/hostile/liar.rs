//! B21, the other end: a server that has the right key and grants what was not asked for, or less than the client's floor.
//! The client says so and has not a byte less protected than it wanted.

use super::raw::{RawChannel, head};
use super::support::people::People;
use super::support::serving::{HOST_SEED, host_check};
use super::support::{BLOCK, PATIENCE};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use xdfs_client::{Address, ConnectOptions, Error, ErrorKind, GetOptions, Level, Session, Suite, Target};
use xdfs_engine::opening::{Gate, ServerOpened, ServerOpening, Step};
use xdfs_proto::base::{ChannelId, Extent, SessionId};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::control::{ChannelGrant, Control, Grant, Kind};
use xdfs_proto::wire::handshake::Accept;
use xdfs_secure::handshake::tls::{FAREWELL_BYTES, HostIdentity, ServerIdentity};
use xdfs_secure::identity::KeyPair;
use xdfs_secure::keys::{self, ChannelKeys, Role};

/// What a lying server changes in ACCEPT, and what it says then to the one request.
struct Lie {
    accept: fn(&mut Accept),
    then: fn(&mut RawChannel),
}

/// A client that wants a file of 100 bytes at `level`, and meets this server.
fn meet(level: Level, lie: Lie) -> Result<Vec<u8>, Error> {
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
    let (target, got) = Target::memory();
    let result = Session::connect_and_get(&options, "data/file", target, &GetOptions::default())
        .and_then(|(session, transfer)| {
            let outcome = transfer.wait_for(PATIENCE).expect("an outcome");
            drop(session);
            outcome
        })
        .map(|_| got.take().expect("the bytes"));
    server.join().unwrap();
    result
}

fn serve(listener: &TcpListener, lie: &Lie) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = HostIdentity::new(KeyPair::from_seed(&HOST_SEED).unwrap());
    let gate = Gate { identity: Arc::new(ServerIdentity::new(&host).unwrap()), directory: Arc::new(People(true)) };
    let (mut opening, mut want) = ServerOpening::start(gate, "nobody".into(), [1; 18]);
    let mut welcome = loop {
        let mut bytes = vec![0; want];
        // A client that has seen enough hangs up.
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        match opening.on_bytes(&bytes) {
            Step::Go { send, want: next } => {
                stream.write_all(&send).unwrap();
                want = next;
            }
            Step::Done(ServerOpened::Open { welcome, .. }) => break welcome,
            Step::Done(other) => panic!("{other:?}"),
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
    let keys = ChannelKeys::derive(&secret, &keys::Grant::new(&grant.secret), session, ChannelId(1)).unwrap();
    let mut channel = RawChannel::new(stream, keys.for_role(Role::Server));
    (lie.then)(&mut channel);
    // Until the client has closed.
    while channel.read().is_some() {}
}

fn grant(level: Level) -> Control {
    Control::Grant(Grant {
        level,
        block: BLOCK as u32,
        edge: 0,
        length: Some(100),
        ranges: vec![Extent::new(0, 100).unwrap()],
        kind: Kind::Regular,
        size: Some(100),
        mode: 0o644,
        modified: None,
        version: Vec::new(),
        kept: Vec::new(),
    })
}

/// Grants at one level and sends the file at another.
fn send(channel: &mut RawChannel, granted: Level, sent: Level) {
    channel.control(1, &grant(granted));
    channel.record(head(Event::Download, sent, 1), &[5; 100], |_| {});
    channel.whole(1, 100);
}

/// What a liar makes of an honest ACCEPT.
type Twist = fn(&mut Accept);
/// What it does behind it.
type Deed = fn(&mut RawChannel);

const HONEST: Twist = |_| {};

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
        let result =
            meet(Level::Private, Lie { accept, then: |channel| send(channel, Level::Private, Level::Private) });
        let error = result.expect_err(what);
        let downgrade = what.starts_with("other prefaces");
        assert_eq!(error.kind == ErrorKind::Downgrade, downgrade, "{what}: {error}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn b21_a_server_that_grants_or_sends_below_the_clients_floor_gets_an_error() {
    let levels = [Level::Clear, Level::Integrity, Level::Private];
    // A closure that captures is no function: each pair of levels has its own.
    let cells: [(Level, Level, Deed); 9] = [
        (levels[0], levels[0], |c| send(c, Level::Clear, Level::Clear)),
        (levels[0], levels[1], |c| send(c, Level::Clear, Level::Integrity)),
        (levels[0], levels[2], |c| send(c, Level::Clear, Level::Private)),
        (levels[1], levels[0], |c| send(c, Level::Integrity, Level::Clear)),
        (levels[1], levels[1], |c| send(c, Level::Integrity, Level::Integrity)),
        (levels[1], levels[2], |c| send(c, Level::Integrity, Level::Private)),
        (levels[2], levels[0], |c| send(c, Level::Private, Level::Clear)),
        (levels[2], levels[1], |c| send(c, Level::Private, Level::Integrity)),
        (levels[2], levels[2], |c| send(c, Level::Private, Level::Private)),
    ];
    for floor in levels {
        for (granted, sent, then) in cells {
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
