//! Golden frames of the opening of a connection: prefaces, the `none` handshake, JOIN.
//!
//! They belong together: the random values are those of `vectors/record/none.txt`, and the proofs of `join.txt` follow
//! from them, from the session and from the grant of `accept.txt` by the rules of docs/protocol.md.

use super::frame::Frame;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Level, SessionId};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::{Accept, ExtendedOption, Join, MessageType, Open, encode_refusal, frame};
use xdfs_proto::wire::preface::{ClientPreface, ServerPreface, Start, Status};

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

fn server_preface(path: &'static str, about: &'static str, status: Status, version: u8, start: Start) -> Frame {
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
    let client = ClientPreface::of(Start::None);
    let server = ServerPreface { status: Status::Available, version: 1, start: Start::None as u8 };
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
        grant: ChannelGrant { first: 1, count: 4, secret: pattern(0x80), life_ms: 15_000 },
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
        .integer("stall_ms", 30_000);
    options(channel_grant(frame_, &accept.grant), &[]).is(&frame(MessageType::Accept, &payload))
}

/// HMAC-SHA256 of role C, and of role S, over the transcripts of `join.txt`; `tests/interop/minimal.py vectors` computes
/// them again from the inputs.
const PROOFS: [[u8; 32]; 2] = [CLIENT_PROOF, SERVER_PROOF];
#[rustfmt::skip]
const CLIENT_PROOF: [u8; 32] = [
    0x2d, 0x84, 0x76, 0x10, 0x1e, 0x14, 0x33, 0xfa, 0x5f, 0xa3, 0x88, 0xd6, 0x4f, 0x39, 0xc3, 0x28,
    0x05, 0x26, 0x58, 0x03, 0x57, 0xfd, 0xf3, 0x7f, 0xb8, 0xa9, 0xf5, 0x0f, 0x98, 0xb3, 0xca, 0xda,
];
#[rustfmt::skip]
const SERVER_PROOF: [u8; 32] = [
    0x54, 0xa5, 0xe4, 0xc2, 0x11, 0x3c, 0xd5, 0x42, 0x94, 0xec, 0x98, 0x7b, 0xd1, 0x15, 0x09, 0x8c,
    0xc6, 0x80, 0xf1, 0x4e, 0x5a, 0x7d, 0xb7, 0x26, 0x2b, 0x44, 0xfd, 0xcc, 0x25, 0xda, 0xe2, 0x24,
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
        options: vec![ExtendedOption { key: 9, critical: false, value: vec![1, 2, 3] }],
        first: Some((Event::Download, super::messages::download_request().encode())),
        ..plain.clone()
    };
    let refusal = encode_refusal(&Error::new(ErrorKind::Busy, "too many sessions"));
    let hello = |path, about, random: [u8; 32]| {
        message(path, about, MessageType::Hello, &random).raw("random", &random).is(&frame(MessageType::Hello, &random))
    };
    let mut frames = vec![
        client_preface("handshake/preface-open.txt", "A client opens a session.", ClientPreface::of(Start::None)),
        client_preface("handshake/preface-join.txt", "A client adds a channel.", ClientPreface::of(Start::Join)),
        client_preface(
            "handshake/preface-other-service.txt",
            "A client asks for remote processes, in versions 2 to 3, with TLS.",
            ClientPreface { service: 1, version_min: 2, version_max: 3, start: 1 },
        ),
        server_preface("handshake/preface-available.txt", "The service is there.", Status::Available, 1, Start::None),
        server_preface("handshake/preface-joining.txt", "The channel may join.", Status::Available, 1, Start::Join),
        server_preface("handshake/preface-no-service.txt", "No such service.", Status::NoService, 0, Start::None),
        server_preface("handshake/preface-no-version.txt", "No common version.", Status::NoVersion, 1, Start::None),
        server_preface("handshake/preface-no-start.txt", "No TLS here.", Status::NoStart, 1, Start::Tls),
        server_preface("handshake/preface-busy.txt", "Too many connections.", Status::Busy, 0, Start::None),
        server_preface(
            "handshake/preface-too-many.txt",
            "Too many connections of one address.",
            Status::TooManyOfYou,
            0,
            Start::None,
        ),
        server_preface("handshake/preface-penalised.txt", "Too many failed logins.", Status::Penalised, 0, Start::None),
        server_preface("handshake/preface-refused.txt", "The JOIN is wrong.", Status::JoinRefused, 0, Start::Join),
        server_preface("handshake/preface-not-xdfs.txt", "The bytes were no preface.", Status::NotXdfs, 0, Start::None),
        hello("handshake/hello-client.txt", "HELLO of the client.", pattern(0x40)),
        hello("handshake/hello-server.txt", "HELLO of the server.", pattern(0x60)),
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
    frames.extend(join());
    frames
}
