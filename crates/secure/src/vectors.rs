//! The vectors of `vectors/record`: computed here from fixed inputs, compared with the files, and recomputed from the
//! inputs that stand in the files.
//!
//! `XDFS_WRITE_VECTORS=1 cargo test -p xdfs-secure vectors` writes the files anew. It must not write them in any other
//! run: a vector that changes is a change of the wire.
#![allow(clippy::disallowed_methods, reason = "reads and writes the repository's vectors, in tests alone")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use xdfs_proto::base::{ChannelId, Level, SessionId, Suite};

use crate::keys::{ChannelKeys, DirectionKeys, GrantSecret, JoinSecret, Role};
use crate::record::{HEAD_BYTES, Limits, Opener, Sealer};
use crate::secret::Secret;

/// Fields of one file, in the order in which they are written.
type Fields = Vec<(&'static str, String)>;

/// A record vector's inputs besides the secrets.
struct Case {
    name: &'static str,
    suite: Suite,
    channel: u16,
    role: Role,
    level: Level,
    epoch: u16,
    sequence: u64,
    payload_bytes: usize,
}

/// Each level at the start, at the first epoch after a rekey and, once, far on: 0x12345678 shows the byte order and the
/// place of the sequence in the nonce. Payloads: empty, within a cipher block, and across many with a rest. The other suite
/// once at each level: from the same secrets it has other keys.
#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "clear", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Clear, epoch: 0, sequence: 0, payload_bytes: 5 },
    Case { name: "integrity", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Integrity, epoch: 0, sequence: 1, payload_bytes: 300 },
    Case { name: "private", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Private, epoch: 0, sequence: 2, payload_bytes: 300 },
    Case { name: "private-empty", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Private, epoch: 0, sequence: 3, payload_bytes: 0 },
    Case { name: "private-far", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Private, epoch: 0, sequence: 0x1234_5678, payload_bytes: 17 },
    Case { name: "private-server", suite: Suite::Aes256Gcm, channel: 1, role: Role::Server, level: Level::Private, epoch: 0, sequence: 0, payload_bytes: 17 },
    Case { name: "integrity-channel", suite: Suite::Aes256Gcm, channel: 1023, role: Role::Client, level: Level::Integrity, epoch: 0, sequence: 0, payload_bytes: 17 },
    Case { name: "clear-epoch", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Clear, epoch: 1, sequence: 0, payload_bytes: 5 },
    Case { name: "integrity-epoch", suite: Suite::Aes256Gcm, channel: 1, role: Role::Client, level: Level::Integrity, epoch: 1, sequence: 1, payload_bytes: 300 },
    Case { name: "private-epoch", suite: Suite::Aes256Gcm, channel: 1, role: Role::Server, level: Level::Private, epoch: 1, sequence: 2, payload_bytes: 300 },
    Case { name: "chacha20-clear", suite: Suite::ChaCha20Poly1305, channel: 1, role: Role::Client, level: Level::Clear, epoch: 0, sequence: 0, payload_bytes: 5 },
    Case { name: "chacha20-integrity", suite: Suite::ChaCha20Poly1305, channel: 1, role: Role::Server, level: Level::Integrity, epoch: 0, sequence: 1, payload_bytes: 300 },
    Case { name: "chacha20-private-epoch", suite: Suite::ChaCha20Poly1305, channel: 1, role: Role::Client, level: Level::Private, epoch: 1, sequence: 2, payload_bytes: 300 },
];

/// What every failure of a test here is reported as.
type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[test]
fn vectors_are_fresh() -> TestResult {
    let folder = folder();
    let mut expected = BTreeMap::new();
    for case in CASES {
        expected.insert(format!("record-{}.txt", case.name), render(&record(case)?));
    }
    expected.insert("join.txt".to_owned(), render(&join(b"any bytes that both ends have seen")?));
    if std::env::var_os("XDFS_WRITE_VECTORS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(&folder)?;
        for (name, text) in &expected {
            std::fs::write(folder.join(name), text)?;
        }
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder)? {
        let entry = entry?;
        found.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read_to_string(entry.path())?);
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, text) in &expected {
        assert_eq!(&found[name], text, "{name}");
    }
    Ok(())
}

#[test]
fn every_record_of_the_vectors_opens_to_its_payload() -> TestResult {
    for case in CASES {
        let fields = read(&format!("record-{}.txt", case.name))?;
        let bytes = |name: &str| unhex(&fields[name]);
        let suite = Suite::from_code(fields["suite"].parse()?).ok_or("suite")?;
        let secret = JoinSecret::from_secret(Secret::copied(bytes("join_secret")?.as_slice().try_into()?), suite);
        let grant = GrantSecret::new(bytes("grant")?.as_slice().try_into()?);
        let session = SessionId(bytes("session")?.as_slice().try_into()?);
        let keys = ChannelKeys::derive(&secret, &grant, session, ChannelId(fields["channel"].parse()?))?;
        let role = if fields["direction"] == "0" { Role::Client } else { Role::Server };
        let mut opener = Opener::new(keys.for_role(role.peer()).open, Limits::STANDARD)?;
        for _ in 0..fields["epoch"].parse()? {
            opener.rekey()?;
        }
        let mut opener = opener.at_sequence(fields["sequence"].parse()?);
        let level = Level::from_code(fields["level"].parse()?).ok_or("level")?;
        let mut headed = [bytes("head")?, bytes("sealed")?].concat();
        opener.open(level, &mut headed, bytes("tag")?.as_slice().try_into()?)?;
        assert_eq!(headed[HEAD_BYTES..], bytes("payload")?, "{}", case.name);
    }
    Ok(())
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/record")
}

/// `N` bytes that count up from `start`.
fn pattern<const N: usize>(start: u8) -> [u8; N] {
    std::array::from_fn(|index| start.wrapping_add(index as u8))
}

fn channel_inputs(channel: u16, suite: Suite) -> TestResult<(ChannelKeys, Fields)> {
    let (secret, grant, session) = (pattern::<32>(0x00), pattern::<32>(0x80), pattern::<16>(0xf0));
    let shared = JoinSecret::from_secret(Secret::copied(&secret), suite);
    let keys = ChannelKeys::derive(&shared, &GrantSecret::new(&grant), SessionId(session), ChannelId(channel))?;
    let fields = vec![
        ("join_secret", hex(&secret)),
        ("grant", hex(&grant)),
        ("session", hex(&session)),
        ("channel", channel.to_string()),
    ];
    Ok((keys, fields))
}

fn record(case: &Case) -> TestResult<Fields> {
    let (keys, mut fields) = channel_inputs(case.channel, case.suite)?;
    let mut sealer = Sealer::new(keys.for_role(case.role).seal, Limits::STANDARD)?;
    for _ in 0..case.epoch {
        sealer.rekey()?;
    }
    let mut sealer = sealer.at_sequence(case.sequence);
    let (key, iv) = shown(sealer.keys());
    let head = pattern::<HEAD_BYTES>(0xa0);
    let payload: Vec<u8> = (0..case.payload_bytes).map(|index| (index % 251) as u8).collect();
    let mut headed = [head.as_slice(), &payload].concat();
    let tag = sealer.seal(case.level, &mut headed)?;
    fields.extend([
        ("suite", (case.suite as u8).to_string()),
        ("direction", u8::from(case.role == Role::Server).to_string()),
        ("level", (case.level as u8).to_string()),
        ("epoch", case.epoch.to_string()),
        ("sequence", case.sequence.to_string()),
        ("head", hex(&head)),
        ("payload", hex(&payload)),
        ("key", key),
        ("iv", iv),
        ("sealed", hex(&headed[HEAD_BYTES..])),
        ("tag", hex(&tag)),
    ]);
    Ok(fields)
}

fn join(transcript: &[u8]) -> TestResult<Fields> {
    let (keys, mut fields) = channel_inputs(2, Suite::Aes256Gcm)?;
    fields.extend([
        ("transcript", hex(transcript)),
        ("join_key", hex(keys.join.bytes())),
        ("client_proof", hex(&keys.join.prove(Role::Client, transcript))),
        ("server_proof", hex(&keys.join.prove(Role::Server, transcript))),
    ]);
    Ok(fields)
}

fn shown(keys: &DirectionKeys) -> (String, String) {
    (hex(keys.key()), hex(keys.iv()))
}

fn render(fields: &Fields) -> String {
    fields.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{name} = {value}").trim_end());
        text
    })
}

fn read(name: &str) -> TestResult<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(folder().join(name))?;
    let field = |line: &str| line.split_once(" =").map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Ok(text.lines().filter_map(field).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> TestResult<Vec<u8>> {
    let digits = |at| Ok(u8::from_str_radix(text.get(at..at + 2).ok_or("odd number of digits")?, 16)?);
    (0..text.len()).step_by(2).map(digits).collect()
}
