//! The inputs from which the corpus was made: the golden frames of `vectors/`, messages that break one rule each, and
//! conversations for the session. `--write-corpus` writes them; what a run finds is added to the corpus by hand.

mod calls;
mod ftp;
mod gsi;
mod kept;
mod texts;
mod xio;

use crate::{conversations, corpus};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::limits;
use xdfs_proto::wire::Writer;
use xdfs_proto::wire::handshake::{MessageType, encode_refusal, frame};
use xdfs_proto::wire::login::{KeyLogin, LoginKind, TokenLogin};

/// Target, name, input.
pub(crate) type Seed = (&'static str, String, Vec<u8>);

/// Every seed.
pub(crate) fn all() -> Vec<Seed> {
    let mut seeds = vectors();
    seeds.extend(broken());
    seeds.extend(paths());
    seeds.extend(calls::all());
    seeds.extend(conversations::all());
    seeds.extend(texts::all());
    seeds.extend(kept::all());
    seeds.extend(ftp::all());
    seeds.extend(gsi::all());
    seeds.extend(xio::all());
    seeds
}

/// The golden frames, in the forms that the targets take.
fn vectors() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for folder in ["wire", "calls", "handshake"] {
        let folder = corpus::home().join("../vectors").join(folder);
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (kind, bytes) = read(&std::fs::read_to_string(&path).unwrap_or_default());
            match kind.split_once(' ').unwrap_or((&kind, "")) {
                ("control", code) => {
                    let code = code.parse().unwrap_or(0);
                    seeds.push(("control", name, [&[code], bytes.as_slice()].concat()));
                }
                ("request", _) => seeds.push(("request", name, bytes)),
                ("batch", _) => seeds.push(("batch", name, bytes)),
                ("file.batch", _) => seeds.push(("file-batch", name, bytes)),
                (kind @ ("reply" | "file.reply"), codes) => {
                    let target = if kind == "reply" { "reply" } else { "file-reply" };
                    let codes: Vec<u8> = codes.split(' ').filter_map(|code| code.parse().ok()).collect();
                    seeds.push((target, name, [&[codes.len() as u8], codes.as_slice(), &bytes].concat()));
                }
                ("preface.client" | "preface.server", _) => seeds.push(("preface", name, bytes)),
                ("head", _) => seeds.push(("head", name, bytes)),
                ("join", _) => seeds.push(("join", name, bytes)),
                ("integers", _) => seeds.push(("integers", name, bytes)),
                ("handshake", _) => {
                    let target = ["open", "accept", "refuse"].into_iter().find(|target| name.starts_with(target));
                    seeds.extend(target.map(|target| (target, name.clone(), bytes[4..].to_vec())));
                    seeds.push(("handshake", name, bytes));
                }
                _ => {}
            }
        }
    }
    seeds
}

/// Kind and bytes of a file of `vectors/`.
fn read(text: &str) -> (String, Vec<u8>) {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let kind = lines.next().and_then(|line| line.strip_prefix("kind = ")).unwrap_or("").to_owned();
    let digits = |line: &str| line.split("  ").next().unwrap_or("").to_owned();
    let hex: String = lines.map(digits).collect();
    let bytes = (0..hex.len() / 2).filter_map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()).collect();
    (kind, bytes)
}

fn written(write: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.finish()
}

/// Messages that break one rule each.
fn broken() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = Vec::new();
    let mut add = |target, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));
    acknowledgements(&mut add);
    grants(&mut add);
    add("control", "bad-channels-kind", control(19, &|w| w.byte(2)));
    add("control", "bad-channels-count", control(19, &|w| w.byte(0).integer(5000)));
    add("control", "bad-channels-zero", control(19, &|w| secret(w, 0, 1)));
    add("control", "bad-channels-over", control(19, &|w| secret(w, 65_535, 4096)));
    for safety in [1, 3] {
        add("control", &format!("committed-{safety}"), control(23, &|w| w.integer(1).byte(safety).integer(0)));
    }
    add("control", "bad-finish-root", control(22, &|w| w.integer(1).integer(0).bytes(&[1; 33])));
    for (name, second) in [("finish-subtrees", 4096), ("bad-finish-overlap", 1024)] {
        let finish = control(22, &|w| {
            w.integer(8192).integer(1).bytes(&[7; 32]).integer(2);
            w.integer(0).integer(2048).raw(&[1; 32]).integer(second).integer(4096).raw(&[2; 32])
        });
        add("control", name, finish);
    }
    add("control", "bad-trailing", control(18, &|w| w.integer(1).byte(1)));
    for code in [1, 4, 24] {
        add("control", &format!("no-control-{code}"), vec![code, 1, 2]);
    }
    add("control", "no-event", vec![200, 1]);
    errors(&mut add);
    handshakes(&mut add);
    add("preface", "not-xdfs", b"GET / HTTP/1.1\r\n"[..8].to_vec());
    add("preface", "status-unknown", b"\x63xdfs\x01\0\0".to_vec());
    add("preface", "versions-crossed", b"\0xdfs\x02\x01\0".to_vec());
    let head = |at: usize, value: u8| {
        let mut bytes = vec![0; 32];
        bytes[at] = value;
        bytes
    };
    for (at, value) in [(0, 0), (1, 3), (28, 0x80), (31, 1)] {
        add("head", &format!("byte-{at}"), head(at, value));
    }
    add("integers", "cut", vec![0xc0, 1, 2]);
    seeds
}

/// A control message: its event, then its payload.
fn control(code: u8, write: &dyn Fn(&mut Writer) -> &mut Writer) -> Vec<u8> {
    let mut bytes = vec![code];
    bytes.extend(written(|writer| write(writer)));
    bytes
}

fn acknowledgements(add: &mut impl FnMut(&'static str, &str, Vec<u8>)) {
    // ACK: safety without meaning, too many ranges, ranges beyond 2^63, ranges that overlap.
    add("control", "bad-ack-safety", control(16, &|w| w.byte(9).integer(0).integer(0).integer(0)));
    add("control", "bad-ack-count", control(16, &|w| w.byte(1).integer(0).integer(0).integer(257)));
    let far = (1 << 62) - 1;
    add(
        "control",
        "bad-ack-far",
        control(16, &|w| {
            w.byte(3).integer(0).integer(0).integer(3);
            (0..3).fold(w, |w, _| w.integer(far).integer(far))
        }),
    );
    add(
        "control",
        "bad-ack-overlap",
        control(16, &|w| w.byte(2).integer(0).integer(0).integer(2).integer(10).integer(5).integer(14).integer(1)),
    );
    add(
        "control",
        "full-ack",
        control(16, &|w| {
            w.byte(1).integer(0).integer(1 << 40).integer(256);
            (0..256).fold(w, |w, index| w.integer(index * 3).integer(1))
        }),
    );
}

fn grants(add: &mut impl FnMut(&'static str, &str, Vec<u8>)) {
    // GRANT: flags, level and block without meaning, and one with a time.
    add("control", "bad-grant-flags", control(17, &|w| w.integer(256)));
    add("control", "bad-grant-level", control(17, &|w| w.integer(0).byte(3)));
    add("control", "bad-grant-block", control(17, &|w| w.integer(0).byte(0).integer(0).integer(0)));
    add(
        "control",
        "grant-time",
        control(17, &|w| {
            w.integer(4).byte(2).integer(1 << 16).integer(0).integer(0).integer(0);
            w.integer(3).integer(7).integer(0)
        }),
    );
}

/// Texts of errors: every kind, cut in the middle of a letter, not text, with control bytes.
fn errors(add: &mut impl FnMut(&'static str, &str, Vec<u8>)) {
    for kind in ErrorKind::ALL {
        add("refuse", &format!("kind-{:02}", *kind as u16), encode_refusal(&Error::new(*kind, kind.text())));
    }
    add("refuse", "kind-later", written(|w| w.integer(9999).byte(1).integer(0).bytes(b"later")));
    add("refuse", "no-words", written(|w| w.integer(1).byte(2).integer(0).integer(0)));
    add("refuse", "control-bytes", written(|w| w.integer(1).byte(0).integer(0).bytes(b"a\x1b[2J\r\n")));
    add("refuse", "not-text", written(|w| w.integer(1).byte(0).integer(0).bytes(b"\xff\xfe")));
    add("refuse", "errno-wide", written(|w| w.integer(1).byte(0).integer(70_000).integer(0)));
    add("refuse", "too-long", written(|w| w.integer(1).byte(0).integer(0).bytes(&[b'x'; 1025])));
    // A control character of two bytes becomes '?', so what comes out is shorter; a message of full length is cut.
    let text = "\u{85}".repeat(512);
    add("refuse", "full-length", written(|w| w.integer(1).byte(0).integer(0).bytes(text.as_bytes())));
}

/// The payload of a CHANNELS from the server.
fn secret(w: &mut Writer, first: u64, count: u64) -> &mut Writer {
    w.byte(1).integer(first).integer(count).raw(&[1; 32]).integer(5)
}

/// The start of an OPEN, up to the credentials.
fn open(w: &mut Writer, channels: u64, pipelines: u64) -> &mut Writer {
    w.raw(&[0; 16]).integer(0).integer(channels).integer(pipelines).integer(0).integer(0).byte(0).integer(0);
    w.raw(&[1; 16]).bytes(&[1, 2]).integer(0)
}

fn handshakes(add: &mut impl FnMut(&'static str, &str, Vec<u8>)) {
    add("open", "no-channel", written(|w| open(w, 0, 1)));
    add("open", "no-pipeline", written(|w| open(w, 1, 0)));
    add("open", "too-many-channels", written(|w| open(w, 70_000, 1)));
    add(
        "open",
        "too-many-options",
        written(|w| {
            open(w, 1, 1);
            w.integer(0).integer(33)
        }),
    );
    add(
        "open",
        "event-unknown",
        written(|w| {
            open(w, 1, 1);
            w.integer(0).integer(0).byte(99).integer(0)
        }),
    );
    let mut refused = |name: &str, level: u8, login: u64, option: Option<u64>, stall: u64| {
        add(
            "open",
            name,
            written(|w| {
                w.raw(&[0; 16]).integer(0).integer(9).integer(9).integer(0).integer(1 << 16).byte(level).integer(stall);
                w.raw(&[1; 16]).bytes(&[2, 7]).integer(login).integer(0).integer(option.is_some().into());
                if let Some(key) = option {
                    w.integer(key).bytes(b"v");
                }
                w.byte(0)
            }),
        );
    };
    refused("level-private", 2, 0, None, 0);
    refused("login", 0, 1, None, 0);
    refused("option-critical", 0, 0, Some(3), 0);
    refused("option", 1, 0, Some(4), 1);
    for (name, suites) in [("suites-none", &[][..]), ("suites-unknown", &[0, 3, 255]), ("suites-too-many", &[1; 17])] {
        let start = |w: &mut Writer| {
            w.raw(&[0; 16]).integer(0).integer(1).integer(1).integer(0).integer(0).byte(2).integer(0).raw(&[1; 16]);
        };
        add(
            "open",
            name,
            written(|w| {
                start(w);
                w.bytes(suites).integer(3).bytes(b"p=tls-exporter,,n=ada,r=0123456789abcdef").integer(0).byte(0)
            }),
        );
    }
    logins(add);
    let accept = |channels: u64, first: u64, count: u64, block: u64| {
        written(|w| {
            w.raw(&[0; 16]).raw(&[1; 16]).integer(0).integer(channels).integer(1).integer(0).integer(block).byte(0);
            w.integer(0).integer(0).byte(1).integer(first).integer(count).raw(&[2; 32]).integer(9).integer(0).integer(0)
        })
    };
    add("accept", "fewer-numbers-than-channels", accept(4, 1, 3, 1 << 20));
    add("accept", "from-channel-2", accept(4, 2, 4, 1 << 20));
    add("accept", "no-block", accept(4, 1, 4, 0));
    add("accept", "odd-block", accept(4, 1, 4, 70_000));
    add("handshake", "unknown-type", vec![9, 0, 0, 0]);
    add("handshake", "too-long", vec![2, 1, 0, 1]);
    add("handshake", "hello", frame(MessageType::Hello, &[5; 33]));
    add("handshake", "challenge", frame(MessageType::Challenge, b"r=ab,s=AAAA,i=600000"));
}

/// Credentials: the kind of login, then what OPEN carries for it.
fn logins(add: &mut impl FnMut(&'static str, &str, Vec<u8>)) {
    let key = KeyLogin { user: b"ada".to_vec(), key: [1; 32], signature: [2; 64] };
    let token = TokenLogin { key: [1; 32], signature: [2; 64] };
    let of = |kind: LoginKind, bytes: &[u8]| [&[kind as u8], bytes].concat();
    add("login", "key", of(LoginKind::Key, &key.encode()));
    add("login", "key-trailing", of(LoginKind::Key, &[&key.encode()[..], &[0]].concat()));
    add("login", "key-nobody", of(LoginKind::Key, &KeyLogin { user: Vec::new(), ..key.clone() }.encode()));
    add("login", "key-not-text", of(LoginKind::Key, &KeyLogin { user: vec![0xff, 0], ..key.clone() }.encode()));
    let long = vec![b'a'; limits::USER_BYTES_MAX + 1];
    add("login", "key-too-long", of(LoginKind::Key, &KeyLogin { user: long, ..key.clone() }.encode()));
    add("login", "key-cut", of(LoginKind::Key, &key.encode()[..50]));
    add("login", "token", of(LoginKind::Token, &token.encode()));
    add("login", "token-trailing", of(LoginKind::Token, &key.encode()));
    add("login", "token-cut", of(LoginKind::Token, &token.encode()[..95]));
    add("login", "kind-later", vec![4, 1, 2]);
}

/// Names, and requests that carry them.
fn paths() -> Vec<Seed> {
    let long = |byte: u8, count: usize| vec![byte; count];
    let deep = |count: usize| vec![b"a".as_slice(); count].join(&b'/');
    let mut seeds: Vec<Seed> = Vec::new();
    for (name, bytes) in [
        ("root", b"".to_vec()),
        ("plain", b"data/run 1/caf\xc3\xa9".to_vec()),
        ("bytes", b"\xff\xfe/\x01\x7f".to_vec()),
        ("leading-slash", b"/a".to_vec()),
        ("trailing-slash", b"a/".to_vec()),
        ("double-slash", b"a//b".to_vec()),
        ("dot", b"a/./b".to_vec()),
        ("dot-dot", b"a/../../etc".to_vec()),
        ("dots", b".../..a/a..".to_vec()),
        ("nul", b"a\0b".to_vec()),
        ("component-longest", long(b'n', 255)),
        ("component-too-long", long(b'n', 256)),
        ("too-long", vec![long(b'n', 250); 131].join(&b'/')),
        ("deepest", deep(1024)),
        ("too-deep", deep(1025)),
    ] {
        seeds.push(("path", name.to_owned(), bytes));
    }
    let request = |flags: u64, offset: u64, block: u64, mode: u64, rest: &[u8]| {
        written(|w| {
            w.integer(flags).bytes(b"e/f").integer(0).raw(&[7; 16]).integer(offset);
            if flags & 2 != 0 {
                w.integer((1 << 62) - 1);
            }
            w.byte(0).integer(block).integer(0).integer(mode).raw(rest)
        })
    };
    for (name, bytes) in [
        ("bad-flags", request(16, 0, 0, 0, &[])),
        ("bad-block", request(0, 0, 70_000, 0, &[])),
        ("bad-block-small", request(0, 0, 1 << 15, 0, &[])),
        ("bad-mode", request(0, 0, 0, 0o10000, &[])),
        ("far", request(2, (1 << 62) - 1, 0, 0o7777, &[])),
        ("bad-time", request(8, 0, 0, 0, &[5, 0xbf, 0xff, 0xff, 0xff])),
        ("name-too-long", written(|w| w.integer(0).bytes(&[b'x'; limits::LABEL_BYTES_MAX + 1]))),
    ] {
        seeds.push(("request", name.to_owned(), bytes));
    }
    seeds
}
