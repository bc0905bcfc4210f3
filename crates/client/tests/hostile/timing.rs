//! B26, the half that is about time: the server's answers to a login take as long for a user who exists as for one who does
//! not. A few logins find a lookup or a derivation that is left out; what takes thousands on a quiet machine, by command:
//! `cargo run -p xtask -- long login-timing`.

use super::raw::{RawTls, wishes};
use super::support::people::People;
use super::support::serving::{Serving, Setup};
use rustix::net::{AddressFamily, SocketType};
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;
use xdfs_client::Address;
use xdfs_proto::wire::handshake::{MessageType, Open, frame};

/// Logins of each kind, unless the environment asks for more.
const TRIES: usize = 120;
/// Logins on one connection: the sixth would end it.
const ON_ONE: usize = 4;
/// Welch's t from which on two means differ.
const DIFFERENT: f64 = 4.5;
/// Microseconds that so few logins on a busy machine may differ by chance, whatever t is.
const COARSE: f64 = 200.0;

/// A connection from an address that has not failed before: who fails too often has to wait, and says so.
fn connect(serving: &Serving, number: usize) -> TcpStream {
    let Address::Tcp(address) = serving.address else { panic!("it speaks TCP") };
    let from = [127, 1 + (number / 60_000) as u8, (number / 250 % 240) as u8, 1 + (number % 250) as u8];
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream
}

/// Microseconds until the challenge, and until the refusal of a proof.
fn login(raw: &mut RawTls, user: &str) -> [f64; 2] {
    let credentials = format!("p=tls-exporter,,n={user},r=0123456789abcdefgh").into_bytes();
    let open = frame(MessageType::Open, &Open { prefaces: raw.prefaces, login: 3, credentials, ..wishes(1) }.encode());
    let started = Instant::now();
    raw.say(&open);
    let (message, challenge) = raw.read().expect("a challenge");
    let challenged = started.elapsed();
    assert_eq!(message, MessageType::Challenge);
    let nonce = String::from_utf8(challenge).unwrap().split(',').next().unwrap().to_owned();
    let proof = format!("c=AAAA,{nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    let proof = frame(MessageType::Proof, proof.as_bytes());
    let started = Instant::now();
    raw.say(&proof);
    assert_eq!(raw.read().expect("an answer").0, MessageType::Again);
    [challenged, started.elapsed()].map(|time| time.as_secs_f64() * 1e6)
}

/// Mean and variance of the mean, of the quicker nine tenths: what is slow is the machine.
fn mean(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    let kept = &times[..times.len() * 9 / 10];
    let count = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / count;
    (mean, kept.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0) / count)
}

/// Names of one length; the second has no password, the third is nobody.
const USERS: [&str; 3] = ["ada", "bob", "eve"];

/// What tells the first of the users from another one, in one measurement.
fn differences() -> BTreeSet<(&'static str, &'static str)> {
    let serving = Serving::with(Setup { directory: Arc::new(People(false)), ..Setup::default() });
    let mut times = USERS.map(|_| [Vec::new(), Vec::new()]);
    let asked = std::env::var("XDFS_LOGIN_TRIES").ok().and_then(|tries| tries.parse().ok());
    let (tries, by_chance) = asked.map_or((TRIES, COARSE), |tries: usize| (tries, 0.0));
    let connections = tries.div_ceil(ON_ONE) * USERS.len();
    for number in 0..connections {
        let mut raw = RawTls::on(connect(&serving, number));
        for turn in 0..ON_ONE {
            // In turns, so that what the machine does meanwhile meets all alike.
            let who = (number + turn) % USERS.len();
            let [challenge, refusal] = login(&mut raw, USERS[who]);
            // The first on a connection pays for what is not warm yet.
            if turn > 0 {
                times[who][0].push(challenge);
                times[who][1].push(refusal);
            }
        }
    }
    let mut found = BTreeSet::new();
    for (part, name) in ["challenge", "refusal"].into_iter().enumerate() {
        let means = times.each_mut().map(|both| mean(&mut both[part]));
        for other in [1, 2] {
            let ((one, spread), (two, spread_two)) = (means[0], means[other]);
            let t = (one - two) / (spread + spread_two).sqrt();
            println!("{name}: {} {one:.1} us, {} {two:.1} us, t = {t:.2}", USERS[0], USERS[other]);
            let same = t.abs() < DIFFERENT || (one - two).abs() < by_chance;
            if !same {
                found.insert((name, USERS[other]));
            }
        }
    }
    found
}

#[test]
fn b26_a_login_of_nobody_takes_as_long_as_one_of_somebody() {
    let mut found = differences();
    // What the machine does meanwhile does not meet the same ones again and again.
    for _ in 0..2 {
        if found.is_empty() {
            break;
        }
        found = &found & &differences();
    }
    assert!(found.is_empty(), "{} is told from others, in three measurements: {found:?}", USERS[0]);
}
