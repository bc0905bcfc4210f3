//! Round trips to the first byte of a file at the client, counted: what the client would say in a further turn is held
//! back, and the byte arrives all the same. Through a relay with a delay the time is told too.

use super::raw::{connect, wishes};
use super::support::middle::Middle;
use super::support::people::{PASSWORD, People, by_key, by_password, by_token};
use super::support::serving::{Serving, Setup};
use super::support::{finish, pipe_target};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_client::{Certificates, GetOptions, Offer, Session};
use xdfs_engine::opening::{ClientOpening, ClientStep, SessionRequest};
use xdfs_secure::handshake::tls::FAREWELL_BYTES;
use xdfs_secure::identity::password::{ROUNDS, verifier};
use xdfs_secure::login::Offered;

/// Each login, and the turns that the client has until the first byte is there. With that of TCP's own handshake they are
/// as many round trips as the protocol promises: 3, and 4 with a password.
fn logins() -> [(&'static str, Offer, usize); 4] {
    [
        ("key", by_key(1), 2),
        ("token", by_token(2), 2),
        ("anonymous", Offer::Anonymous, 2),
        ("password", by_password(PASSWORD), 3),
    ]
}

fn serving() -> Serving {
    let serving = Serving::with(Setup { directory: Arc::new(People(true)), ..Setup::default() });
    serving.directory.write("file", &[7; 1000]);
    serving
}

/// Time from the connect to the first byte.
fn first_byte(serving: &Serving, middle: &Middle, offer: Offer, turns: usize) -> Duration {
    let options = serving.ada(middle, offer, 1);
    middle.allow(turns);
    let line = middle.connections();
    let (target, mut reader) = pipe_target();
    let started = Instant::now();
    let (session, transfer) = Session::connect_and_get(&options, "data/file", target, &GetOptions::default()).unwrap();
    let mut first = [0];
    reader.read_exact(&mut first).unwrap();
    let took = started.elapsed();
    assert_eq!((first, middle.turns_passed(line)), ([7], turns));
    middle.allow(usize::MAX);
    let rest = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
    finish(&transfer).unwrap();
    assert_eq!(rest.join().unwrap().unwrap(), 999);
    session.close().unwrap();
    took
}

#[test]
fn the_first_byte_takes_three_round_trips_and_four_with_a_password() {
    let serving = serving();
    let middle = Middle::before(&serving.address);
    for (_, offer, turns) in logins() {
        first_byte(&serving, &middle, offer, turns);
    }
}

/// Every piece that is sent by itself wakes the other end once more.
#[test]
fn a_login_leaves_in_three_pieces_its_hello_the_login_and_the_end_of_tls() {
    let serving = serving();
    let mut stream = connect(&serving);
    let wishes = SessionRequest {
        open: wishes(1),
        host: "localhost".into(),
        certificates: Certificates::Raw,
        user: String::new(),
        offers: vec![Offered::Anonymous],
        nonce: [7; 18],
    };
    let (mut opening, mut step) = ClientOpening::start(wishes).unwrap();
    let mut pieces = 0;
    loop {
        step = match step {
            ClientStep::Go { send, want } => {
                pieces += usize::from(!send.is_empty());
                stream.write_all(&send).unwrap();
                let mut bytes = vec![0; want];
                stream.read_exact(&mut bytes).unwrap();
                opening.on_bytes(&bytes).unwrap()
            }
            ClientStep::Judge(_) => opening.on_judged().unwrap(),
            ClientStep::Done { send, .. } => {
                assert_eq!((pieces, send.len()), (2, FAREWELL_BYTES));
                return;
            }
            other => panic!("{other:?}"),
        };
    }
}

/// Attempts at being in time.
const TRIES: usize = 10;

#[test]
fn through_a_relay_of_50_ms_each_way_the_first_byte_is_there_in_time() {
    let serving = serving();
    let middle = Middle::delaying(&serving.address, Duration::from_millis(50));
    for (name, offer, turns) in logins() {
        let delays = Duration::from_millis(turns as u64 * 100);
        // One that is in time is enough: on a machine that does other things too several may be late.
        let in_time = (0..TRIES).any(|_| {
            let stretching = stretching();
            let took = first_byte(&serving, &middle, offer.clone(), turns);
            println!("{name}: first byte after {took:?}; stretching a password takes {stretching:?}");
            assert!(took >= delays, "{name}: the relay did not delay: {took:?}");
            // A password is stretched beside the round trip of the challenge, and what is longer counts.
            let longer = stretching.saturating_sub(Duration::from_millis(100));
            let work = if name == "password" { longer } else { Duration::ZERO };
            // One more turn would be 100 ms. How much less it is than this says `xdfs-bench login`, on a machine that does
            // nothing else.
            took <= delays + Duration::from_millis(80) + work
        });
        assert!(in_time, "{name}: late in {TRIES} attempts");
    }
}

/// How long the client's own work for a password takes now.
fn stretching() -> Duration {
    let started = Instant::now();
    verifier(b"another one", &[1; 16], ROUNDS.try_into().unwrap()).unwrap();
    started.elapsed()
}
