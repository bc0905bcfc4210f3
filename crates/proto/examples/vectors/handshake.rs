//! Golden frames of the opening of a connection: prefaces, the messages inside TLS, JOIN.
//!
//! They belong together: the proofs of `join.txt` follow from a join secret of the bytes 0x20 to 0x3f, and from session and
//! grant of `accept.txt`, by the rules of docs/protocol.md.

use super::frame::Frame;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Level, SessionId, Suite};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::{Accept, ExtendedOption, Hello, Join, MessageType, Open, encode_refusal, frame};
use xdfs_proto::wire::login::{KeyLogin, LoginKind};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, ServerPreface, Status};

/// `N` bytes that count up from `start`.
fn pattern<const N: usize>(start: u8) -> [u8; N] {
    std::array::from_fn(|index| start.wrapping_add(index as u8))
}

fn client_preface(path: &'static str, about: &'static str, preface: ClientPreface) -> Frame {
    Frame::new(path, "preface.client", about)
        .byte("service", preface.service)
        .raw("magic", b"xdfs")
        .byte("version_min", preface.version_min)
        .byte("version_max", preface.version_max)
        .byte("start", preface.start)
        .is(&preface.encode())
}

fn server_preface(path: &'static str, about: &'static str, status: Status, version: u8, start: Continuation) -> Frame {
    let preface = ServerPreface { status, version, start: start as u8 };
    Frame::new(path, "preface.server", about)
        .byte("status", status as u8)
        .raw("magic", b"xdfs")
        .byte("version", version)
        .byte("zero", 0)
        .byte("start", start as u8)
        .is(&preface.encode())
}

/// A message of the handshake: its head, with the payload's length already known.
fn message(path: &'static str, about: &'static str, kind: MessageType, payload: &[u8]) -> Frame {
    Frame::new(path, "handshake", about).byte("type", kind as u8).fixed("length", payload.len() as u64, 3)
}

fn prefaces() -> [u8; 16] {
    let client = ClientPreface::of(Continuation::Tls);
    let server = ServerPreface { status: Status::Available, version: 1, start: Continuation::Tls as u8 };
    let mut both = [0; 16];
    both[..8].copy_from_slice(&client.encode());
    both[8..].copy_from_slice(&server.encode());
    both
}

fn open_frame(path: &'static str, about: &'static str, open: &Open) -> Frame {
    let payload = open.encode();
    let mut frame_ = message(path, about, MessageType::Open, &payload)
        .raw("prefaces", &open.prefaces)
        .integer("features", open.features)
        .integer("channels", open.channels.into())
        .integer("pipelines", open.pipelines.into())
        .integer("window", open.window)
        .integer("block", open.block.into())
        .byte("level", open.level as u8)
        .integer("stall_ms", open.stall_ms.into())
        .raw("label", &open.label)
        .bytes("suites", &open.suites)
        .integer("login", open.login)
        .bytes("credentials", &open.credentials);
    frame_ = options(frame_, &open.options);
    frame_ = match &open.first {
        None => frame_.byte("first.event", 0),
        Some((event, request)) => frame_.byte("first.event", *event as u8).bytes("first.request", request),
    };
    frame_.is(&frame(MessageType::Open, &payload))
}

fn options(frame: Frame, options: &[ExtendedOption]) -> Frame {
    let frame = frame.integer("options.count", options.len() as u64);
    options.iter().enumerate().fold(frame, |frame, (index, option)| {
        frame
            .integer(&format!("options[{index}].key"), option.key << 1 | u64::from(option.critical))
            .bytes(&format!("options[{index}].value"), &option.value)
    })
}

fn channel_grant(frame: Frame, grant: &ChannelGrant) -> Frame {
    frame
        .integer("grant.first", grant.first.into())
        .integer("grant.count", grant.count.into())
        .raw("grant.secret", &grant.secret)
        .integer("grant.life_ms", grant.life_ms.into())
}

fn accept() -> Frame {
    let accept = Accept {
        prefaces: prefaces(),
        session: SessionId(pattern(0xf0)),
        features: 0,
        channels: 4,
        pipelines: 1,
        window: 0,
        block: 1 << 20,
        floor: Level::Clear,
        initial_credit: 0,
        stall_ms: 30_000,
        suite: Suite::Aes256Gcm,
        grant: ChannelGrant { first: 1, count: 4, secret: pattern(0x80), life_ms: 15_000 },
        proof: vec![],
        options: vec![],
    };
    let payload = accept.encode();
    let about = "ACCEPT: four channels, one pipeline, blocks of 1 MiB; the secret goes into every channel's keys.";
    let frame_ = message("handshake/accept.txt", about, MessageType::Accept, &payload)
        .raw("prefaces", &accept.prefaces)
        .raw("session", &accept.session.0)
        .integer("features", 0)
        .integer("channels", 4)
        .integer("pipelines", 1)
        .integer("window", 0)
        .integer("block", 1 << 20)
        .byte("floor", Level::Clear as u8)
        .integer("initial_credit", 0)
        .integer("stall_ms", 30_000)
        .byte("suite", Suite::Aes256Gcm as u8);
    options(channel_grant(frame_, &accept.grant).bytes("proof", &[]), &[]).is(&frame(MessageType::Accept, &payload))
}

/// HMAC-SHA256 of role C, and of role S, over the transcripts of `join.txt`; `tests/interop/vectors.py` computes
/// them again from the inputs.
const PROOFS: [[u8; 32]; 2] = [CLIENT_PROOF, SERVER_PROOF];
#[rustfmt::skip]
const CLIENT_PROOF: [u8; 32] = [
    0x94, 0xd0, 0x77, 0xdd, 0x3d, 0x6d, 0xd0, 0x40, 0xe1, 0x05, 0x84, 0xa3, 0xe1, 0x6a, 0x44, 0x13,
    0x48, 0x69, 0xd4, 0x32, 0xc4, 0x0b, 0xcd, 0x56, 0xe7, 0x7c, 0xe5, 0x03, 0xde, 0x2c, 0x6c, 0xbe,
];
#[rustfmt::skip]
const SERVER_PROOF: [u8; 32] = [
    0x95, 0x16, 0x0b, 0x0d, 0x39, 0x9c, 0x19, 0x98, 0xe1, 0x26, 0x8c, 0xaa, 0xb4, 0x97, 0x4a, 0xcd,
    0x2c, 0x3a, 0xa2, 0x88, 0x0f, 0x6f, 0xfa, 0x1f, 0x2a, 0x16, 0x9f, 0xb9, 0x23, 0x9e, 0xea, 0x4b,
];

fn join() -> [Frame; 2] {
    let join = Join { session: SessionId(pattern(0xf0)), channel: ChannelId(2), nonce: pattern(0xc0), mac: PROOFS[0] };
    let asked = Frame::new("handshake/join.txt", "join", "JOIN of channel 2, behind a preface with start 2.")
        .raw("session", &join.session.0)
        .fixed("channel", 2, 2)
        .raw("nonce", &join.nonce)
        .raw("mac", &join.mac)
        .is(&join.encode());
    let answer = Frame::new("handshake/join-answer.txt", "join.answer", "The server's proof, behind its preface.")
        .raw("mac", &PROOFS[1]);
    [asked, answer]
}

/// A server's first bytes, with each status.
fn statuses() -> Vec<Frame> {
    let status = |path, about, status| server_preface(path, about, status, 0, Continuation::Tls);
    vec![
        server_preface(
            "handshake/preface-available.txt",
            "The service is there.",
            Status::Available,
            1,
            Continuation::Tls,
        ),
        server_preface(
            "handshake/preface-joining.txt",
            "The channel may join.",
            Status::Available,
            1,
            Continuation::Join,
        ),
        server_preface("handshake/preface-no-service.txt", "No such service.", Status::NoService, 0, Continuation::Tls),
        server_preface(
            "handshake/preface-no-version.txt",
            "No common version.",
            Status::NoVersion,
            1,
            Continuation::Tls,
        ),
        server_preface("handshake/preface-no-start.txt", "No such start.", Status::NoStart, 1, Continuation::Tls),
        server_preface("handshake/preface-busy.txt", "Too many connections.", Status::Busy, 0, Continuation::Tls),
        server_preface(
            "handshake/preface-refused.txt",
            "The JOIN is wrong.",
            Status::JoinRefused,
            0,
            Continuation::Join,
        ),
        server_preface(
            "handshake/preface-not-xdfs.txt",
            "The bytes were no preface.",
            Status::NotXdfs,
            0,
            Continuation::Tls,
        ),
        status("handshake/preface-too-many.txt", "Too many of this address.", Status::TooManyOfYou),
        server_preface(
            "handshake/preface-penalised.txt",
            "Too many wrong passwords: wait for 15 seconds.",
            Status::Penalised,
            3,
            Continuation::Tls,
        ),
    ]
}

/// Every frame of the folder.
pub(crate) fn frames() -> Vec<Frame> {
    let plain = Open {
        prefaces: prefaces(),
        features: 0,
        channels: 4,
        pipelines: 1,
        window: 0,
        block: 0,
        level: Level::Clear,
        stall_ms: 0,
        label: pattern(0x10),
        suites: vec![1, 2],
        login: 0,
        credentials: vec![],
        options: vec![],
        first: None,
    };
    let full = Open {
        channels: 1000,
        pipelines: 2,
        window: 16 << 20,
        block: 1 << 18,
        level: Level::Integrity,
        stall_ms: 5000,
        login: LoginKind::Key as u64,
        credentials: KeyLogin { user: b"ada".to_vec(), key: pattern(0x30), signature: pattern(0x70) }.encode(),
        options: vec![ExtendedOption { key: 9, critical: false, value: vec![1, 2, 3] }],
        first: Some((Event::Download, super::messages::download_request().encode())),
        ..plain.clone()
    };
    let refusal = encode_refusal(&Error::new(ErrorKind::Busy, "too many sessions"));
    let hello = Hello { prefaces: prefaces(), logins: 0b1111, salts: pattern(0x50) };
    let short = |path, about, kind, payload: &[u8]| {
        message(path, about, kind, payload).raw("payload", payload).is(&frame(kind, payload))
    };
    let mut frames = vec![
        client_preface("handshake/preface-open.txt", "A client opens a session.", ClientPreface::of(Continuation::Tls)),
        client_preface("handshake/preface-join.txt", "A client adds a channel.", ClientPreface::of(Continuation::Join)),
        client_preface(
            "handshake/preface-other-service.txt",
            "A client asks for remote processes, in versions 2 to 3.",
            ClientPreface { service: 1, version_min: 2, version_max: 3, start: 1 },
        ),
        message("handshake/hello.txt", "HELLO: every kind of login.", MessageType::Hello, &hello.encode())
            .raw("prefaces", &hello.prefaces)
            .integer("logins", hello.logins)
            .raw("salts", &hello.salts)
            .is(&frame(MessageType::Hello, &hello.encode())),
        message("handshake/again.txt", "AGAIN: five tries are left.", MessageType::Again, &[5])
            .byte("left", 5)
            .is(&frame(MessageType::Again, &[5])),
        short("handshake/challenge.txt", "CHALLENGE.", MessageType::Challenge, b"r=clientserver,s=AAAA,i=600000"),
        short("handshake/proof.txt", "PROOF.", MessageType::Proof, b"c=AAAA,r=clientserver,p=AAAA"),
        open_frame("handshake/open.txt", "OPEN with four channels and every default.", &plain),
        open_frame("handshake/open-first.txt", "OPEN with wishes, an option and a first operation.", &full),
        accept(),
        message("handshake/refuse.txt", "REFUSE.", MessageType::Refuse, &refusal)
            .integer("code", ErrorKind::Busy as u64)
            .byte("retry", 1)
            .integer("errno", 0)
            .bytes("message", b"too many sessions")
            .is(&frame(MessageType::Refuse, &refusal)),
    ];
    frames.extend(statuses());
    frames.extend(join());
    frames
}
