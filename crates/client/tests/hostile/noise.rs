//! B29: whatever is said inside TLS, a server refuses it, or takes it for what it says, and goes on for the others.

use super::raw::{Beside, RawTls, connect_from, wishes};
use super::support::pattern;
use super::support::serving::{Serving, Setup};
use std::net::Shutdown;
use std::time::Duration;
use xdfs_proto::wire::handshake::{MessageType, Open, frame};
use xdfs_server::ServerLimits;

/// Messages for each seed.
const ROUNDS: u64 = 200;

/// An OPEN, with noise where the seed says: bits, a piece that is missing, a piece that is new, or nothing but noise.
fn message(prefaces: [u8; 16], seed: u64) -> Vec<u8> {
    let noise = pattern(96, seed);
    let credentials = match seed % 3 {
        0 => Vec::new(),
        1 => b"p=tls-exporter,,n=ada,r=0123456789abcdefgh".to_vec(),
        _ => noise[..64].to_vec(),
    };
    let open = Open { prefaces, login: seed % 5, credentials, ..wishes(1) };
    let mut payload = open.encode();
    // The prefaces are judged first: behind them is what is asked of the decoder here.
    let place = |byte: u8| 16 + usize::from(byte) % (payload.len() - 16);
    let (one, other) = (place(noise[0]), place(noise[1]));
    match seed % 4 {
        0 => payload[one] ^= noise[2] | 1,
        1 => drop(payload.drain(one.min(other)..one.max(other))),
        2 => drop(payload.splice(one..one, noise[8..40].iter().copied())),
        _ => payload.truncate(16),
    }
    if seed % 4 == 3 {
        payload.extend(&noise[3..]);
    }
    let mut whole = frame(MessageType::Open, &payload);
    if seed.is_multiple_of(16) {
        // A type or a length that is another.
        whole[usize::from(noise[4]) % 4] ^= noise[5] | 1;
    }
    whole
}

#[test]
fn b29_noise_inside_tls_ends_and_leaves_nothing() {
    let limits = ServerLimits { opening: Duration::from_secs(2), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let mut beside = Beside::start(&serving);
    let mut answers = std::collections::BTreeSet::new();
    for seed in 0..ROUNDS {
        let mut raw = RawTls::on(connect_from(&serving, 1 + seed as u8));
        let bytes = message(raw.prefaces, seed);
        raw.say(&bytes);
        // A length that grew is not waited for.
        let _ = raw.stream.shutdown(Shutdown::Write);
        answers.extend(raw.read().map(|(message, _)| message as u8));
        if seed % 50 == 0 {
            beside.go_on();
        }
    }
    assert!(answers.contains(&(MessageType::Refuse as u8)) && answers.len() > 1, "{answers:?}");
    beside.finish();
}
