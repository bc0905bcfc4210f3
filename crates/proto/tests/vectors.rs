//! The golden frames of `vectors/wire`, `vectors/calls` and `vectors/handshake`: each decodes, encodes to the same bytes, and is refused
//! when it is cut or followed by something.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test of files of the tree")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use xdfs_proto::wire::codec::{Reader, WireError, Writer};
use xdfs_proto::wire::file::{FileBatch, FileCode, FileReply};
use xdfs_proto::wire::handshake::{self, Accept, Hello, Join, MessageType, Open};
use xdfs_proto::wire::path::{Batch, Code, Reply};
use xdfs_proto::wire::preface::{ClientPreface, ServerPreface, Status};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Control, Event, Head};

struct Vector {
    kind: String,
    bytes: Vec<u8>,
}

fn vectors() -> BTreeMap<String, Vector> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let mut vectors = BTreeMap::new();
    for folder in ["wire", "calls", "handshake"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_stem().unwrap().display());
            vectors.insert(name, read(&std::fs::read_to_string(path).unwrap()));
        }
    }
    vectors
}

fn read(text: &str) -> Vector {
    let (mut kind, mut bytes) = (String::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("kind = ") {
            Some(found) => kind = found.to_owned(),
            None => {
                let hex = line.split("  ").next().unwrap();
                bytes.extend((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()));
            }
        }
    }
    Vector { kind, bytes }
}

/// Decodes and encodes again. Forms of fixed size give `Truncated` for another size, as a reader of the wire would.
fn again(kind: &str, bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], WireError> {
        bytes.try_into().map_err(|_| WireError::Truncated)
    }
    let event = |code: &str| Event::from_code(code.parse().unwrap()).unwrap();
    match kind.split_once(' ') {
        Some(("control", code)) => Ok(Control::decode(event(code), bytes)?.expect("a control event").encode()),
        Some(("request", _)) => Ok(Request::decode(bytes)?.encode()),
        Some(("reply", codes)) => Ok(Reply::decode(bytes, &numbers(codes))?.encode()),
        Some(("file.reply", codes)) => Ok(FileReply::decode(bytes, &numbers(codes))?.encode()),
        _ => match kind {
            "preface.client" => Ok(ClientPreface::decode(sized(bytes)?)?.encode().to_vec()),
            "preface.server" => Ok(ServerPreface::decode(sized(bytes)?)?.encode().to_vec()),
            "head" => Ok(Head::decode(sized(bytes)?)?.encode().to_vec()),
            "join" => Ok(Join::decode(sized(bytes)?).encode().to_vec()),
            "join.answer" => Ok(sized::<{ handshake::JOIN_ANSWER_BYTES }>(bytes)?.to_vec()),
            "integers" => integers(bytes),
            "file.batch" => Ok(FileBatch::decode(bytes)?.encode()),
            "batch" => Ok(Batch::decode(bytes)?.encode()),
            "handshake" => message(bytes),
            other => panic!("unknown kind {other}"),
        },
    }
}

fn numbers(codes: &str) -> Vec<u64> {
    codes.split(' ').map(|code| code.parse().unwrap()).collect()
}

fn integers(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let (mut reader, mut writer) = (Reader::new(bytes), Writer::new());
    while reader.clone().end().is_err() {
        writer.integer(reader.integer()?);
    }
    Ok(writer.finish())
}

fn message(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let (head, payload) = bytes.split_first_chunk().ok_or(WireError::Truncated)?;
    let (kind, length) = handshake::read_frame(*head)?;
    if payload.len() != length {
        return Err(WireError::Truncated);
    }
    let payload = match kind {
        MessageType::Hello => Hello::decode(payload)?.encode(),
        MessageType::Open => Open::decode(payload)?.encode(),
        MessageType::Accept => Accept::decode(payload)?.encode(),
        MessageType::Refuse => handshake::encode_refusal(&handshake::decode_refusal(payload)?),
        MessageType::Again => match payload {
            [left] => vec![*left],
            _ => return Err(WireError::Trailing),
        },
        // Text whose fields the security layer knows.
        MessageType::Challenge | MessageType::Proof => payload.to_vec(),
    };
    Ok(handshake::frame(kind, &payload))
}

#[test]
fn every_vector_decodes_and_encodes_to_the_same_bytes() {
    for (name, vector) in vectors() {
        assert_eq!(again(&vector.kind, &vector.bytes), Ok(vector.bytes), "{name}");
    }
}

#[test]
fn a_vector_that_is_cut_or_followed_by_a_byte_is_refused() {
    for (name, Vector { kind, bytes }) in vectors() {
        if kind == "integers" {
            continue;
        }
        for cut in 0..bytes.len() {
            assert!(again(&kind, &bytes[..cut]).is_err(), "{name} cut to {cut} bytes");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(again(&kind, &longer).is_err(), "{name} with a byte behind it");
        let text =
            [MessageType::Challenge, MessageType::Proof].iter().any(|text| bytes.first() == Some(&(*text as u8)));
        if kind == "handshake" && !text {
            // The same inside the payload, whose length is then right.
            let mut inside = longer.clone();
            inside[3] += 1;
            assert!(again(&kind, &inside).is_err(), "{name} with a byte more inside");
        }
    }
}

#[test]
fn every_message_of_the_protocol_has_a_vector() {
    let vectors = vectors();
    let kinds: BTreeSet<&str> = vectors.values().map(|vector| vector.kind.as_str()).collect();
    for event in Event::ALL {
        let code = *event as u8;
        let carries = Control::decode(*event, &[]) != Ok(None);
        assert!(!carries || kinds.contains(format!("control {code}").as_str()), "{}", event.name());
    }
    for kind in
        ["request 2", "request 3", "head", "join", "join.answer", "preface.client", "preface.server", "integers"]
    {
        assert!(kinds.contains(kind), "{kind}");
    }
    let calls = vectors.values().filter(|vector| vector.kind == "batch");
    let calls: BTreeSet<u64> =
        calls.flat_map(|vector| Batch::decode(&vector.bytes).unwrap().calls).map(|call| call.code()).collect();
    assert_eq!(calls, Code::ALL.iter().map(|code| *code as u64).collect());
    let files = vectors.values().filter(|vector| vector.kind == "file.batch");
    let files: BTreeSet<u64> = files.flat_map(|vector| FileBatch::decode(&vector.bytes).unwrap().codes()).collect();
    assert_eq!(files, FileCode::ALL.iter().map(|code| *code as u64).collect());
    let first = |kind: &str| -> BTreeSet<u8> {
        vectors.values().filter(|vector| vector.kind == kind).map(|vector| vector.bytes[0]).collect()
    };
    assert_eq!(first("handshake"), MessageType::ALL.into_iter().map(|message| message as u8).collect());
    assert_eq!(first("preface.server"), Status::ALL.into_iter().map(|status| status as u8).collect());
}
