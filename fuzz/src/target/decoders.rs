//! Every decoder of the wire. What decodes must encode to something that decodes to the same, and never to more bytes
//! than came in: a second form of one message would be a second meaning.

use std::fmt::Debug;
use xdfs_proto::base::{ErrorKind, RelPath};
use xdfs_proto::limits;
use xdfs_proto::negotiate::{self, Policy};
use xdfs_proto::wire::control::Safety;
use xdfs_proto::wire::file::{FileBatch, FileCall, FileCode, FileReply};
use xdfs_proto::wire::handshake::{self, Accept, Join, MessageType, Open};
use xdfs_proto::wire::login::{self, KeyLogin, LoginKind, TokenLogin};
use xdfs_proto::wire::path::{
    Answer, Batch, Code, Failure, ListEntry, REPLY_BYTES, REPLY_CALL_BYTES, Reply, ReplyWriter,
};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, PREFACE_BYTES, ServerPreface};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Control, Event, HEAD_BYTES, Head, Reader, WireError, Writer};

/// Decodes, encodes, decodes again. An error must have words.
fn again<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Option<T> {
    match decode(bytes) {
        Ok(value) => {
            let encoded = encode(&value);
            assert_eq!(decode(&encoded).as_ref(), Ok(&value));
            Some(value)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

pub(super) fn preface(input: &[u8]) {
    let Some(bytes) = input.first_chunk::<PREFACE_BYTES>() else { return };
    let server = again(bytes, |bytes| ServerPreface::decode(sized(bytes)), |preface| preface.encode().to_vec());
    assert!(server.is_none_or(|server| !server.status.text().is_empty()));
    assert_ne!(ClientPreface::of(Continuation::Join), ClientPreface::of(Continuation::Tls));
    let client = again(bytes, |bytes| ClientPreface::decode(sized(bytes)), |preface| preface.encode().to_vec());
    for offered in [&[Continuation::Tls, Continuation::Join][..], &[Continuation::Tls], &[]] {
        let Some(client) = client else { continue };
        let answer = client.answer(offered);
        assert_eq!(ServerPreface::decode(&answer.encode()), Ok(answer));
        assert!(!answer.status.text().is_empty());
    }
}

/// The exact size is the caller's to bring; anything else is a mistake of this harness.
fn sized<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.try_into().expect("the right size")
}

pub(super) fn handshake(input: &[u8]) {
    let Some((head, payload)) = input.split_first_chunk() else { return };
    let Ok((kind, length)) = handshake::read_frame(*head) else { return };
    assert!(length <= xdfs_proto::limits::CONTROL_BYTES_MAX);
    // A driver reads exactly so many bytes.
    let Some(payload) = payload.get(..length) else { return };
    match kind {
        MessageType::Hello => drop(again(payload, handshake::Hello::decode, handshake::Hello::encode)),
        MessageType::Again | MessageType::Challenge | MessageType::Proof => {
            assert_eq!(handshake::frame(kind, payload)[..], input[..4 + length]);
        }
        MessageType::Open => open(payload),
        MessageType::Accept => accept(payload),
        MessageType::Refuse => refuse(payload),
    }
}

pub(super) fn open(input: &[u8]) {
    let Some(open) = again(input, Open::decode, Open::encode) else { return };
    assert!(open.encode().len() <= input.len());
    if let Ok(granted) = negotiate::grant(&open, &Policy::default()) {
        assert!((1..=open.channels).contains(&granted.channels) && (1..=open.pipelines).contains(&granted.pipelines));
        assert!(granted.block.is_power_of_two() && u16::from(granted.pipelines) <= granted.channels);
    }
    let _ = negotiate::confirm(&open.prefaces, [0; 8], [0; 8]);
}

/// The kind, then the credentials that OPEN carries for it.
pub(super) fn login(input: &[u8]) {
    let Some((kind, payload)) = input.split_first() else { return };
    match LoginKind::from_code((*kind).into()) {
        Some(LoginKind::Key) => {
            let Some(login) = again(payload, KeyLogin::decode, KeyLogin::encode) else { return };
            assert!(login.encode().len() <= payload.len());
            // Nobody else's signature covers the same bytes.
            let signed = |user: &[u8]| login::signed(LoginKind::Key, &[1; 32], &[2; 32], &[3; 16], user, &login.key);
            assert_ne!(signed(&login.user), signed(&[&login.user[..], b"a"].concat()));
        }
        Some(LoginKind::Token) => {
            if let Some(login) = again(payload, TokenLogin::decode, TokenLogin::encode) {
                assert_eq!(login.encode(), payload);
            }
        }
        Some(other @ (LoginKind::Anonymous | LoginKind::Password)) => assert_eq!(other.bit(), 1 << *kind),
        None => assert!(usize::from(*kind) >= LoginKind::ALL.len()),
    }
}

pub(super) fn accept(input: &[u8]) {
    if let Some(accept) = again(input, Accept::decode, Accept::encode) {
        assert!(accept.encode().len() <= input.len());
    }
}

pub(super) fn refuse(input: &[u8]) {
    if let Some(error) = again(input, handshake::decode_refusal, handshake::encode_refusal) {
        assert!(!error.message.contains(char::is_control));
        assert!(!error.to_string().is_empty());
    }
}

pub(super) fn join(input: &[u8]) {
    let Some(bytes) = input.first_chunk() else { return };
    let join = Join::decode(bytes);
    assert_eq!(join.encode(), *bytes);
    assert_eq!(join.transcript([1; 8], None).len(), 16 + 34);
}

pub(super) fn head(input: &[u8]) {
    let Some(bytes) = input.first_chunk::<HEAD_BYTES>() else { return };
    if let Some(head) = again(bytes, |bytes| Head::decode(sized(bytes)), |head| head.encode().to_vec()) {
        assert_eq!(head.encode(), *bytes);
    }
}

pub(super) fn control(input: &[u8]) {
    let Some((code, payload)) = input.split_first() else { return };
    let Some(event) = Event::from_code(*code) else { return };
    assert!(!event.name().is_empty());
    let decode = |bytes: &[u8]| Control::decode(event, bytes);
    let control = again(payload, decode, |control| control.as_ref().map_or_else(|| payload.to_vec(), Control::encode));
    if let Some(Some(control)) = control {
        assert_eq!(control.event(), event);
    }
}

pub(super) fn batch(input: &[u8]) {
    match Batch::decode(input) {
        Ok(batch) => {
            let encoded = batch.encode();
            assert!(encoded.len() <= input.len());
            assert_eq!(Batch::decode(&encoded).as_ref(), Ok(&batch));
            assert!((1..=limits::CALLS_MAX).contains(&batch.calls.len()));
            assert_eq!(Batch::head_of(input).map(|head| head.base), Ok(batch.base));
            for call in &batch.calls {
                let known = Code::from_number(call.code());
                assert_eq!(call.changes(), known.is_some_and(Code::changes));
                assert!(known.is_none_or(|code| !code.name().is_empty()));
                assert!(call.path().len() <= input.len() && call.room() <= call.result_bytes_max().unwrap_or(0));
            }
            if let Some(reply) = shortest(&batch) {
                assert!(reply.len() <= batch.room as usize);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What a server says that can do nothing of it, and leaves room for each call behind one that may take all.
fn shortest(batch: &Batch<'_>) -> Option<Vec<u8>> {
    let mut writer = ReplyWriter::new(batch.calls.len(), batch.room as usize)?;
    for (at, call) in batch.calls.iter().enumerate() {
        if call.result_bytes_max().is_none() {
            writer.leave_room(batch.calls[at + 1..].iter());
        }
        assert!(writer.room() >= REPLY_CALL_BYTES && writer.left() == batch.calls.len() - at);
        writer.fail(Failure { kind: ErrorKind::NotTried, errno: 0 });
    }
    Some(writer.finish(if batch.durable { Safety::Durable } else { Safety::Written }))
}

/// The same results where there is less room: what does not fit has failed, and all stay within.
fn within(reply: &Reply<'_>, codes: &[u64], room: usize) {
    let Some(mut writer) = ReplyWriter::new(reply.outcomes.len(), room) else { return };
    for outcome in &reply.outcomes {
        match outcome {
            Ok(Answer::Names(names)) => writer.names(names.clone()),
            Ok(answer) => writer.answer(answer),
            Err(failure) => writer.fail(*failure),
        }
    }
    let written = writer.finish(reply.safety);
    assert!(written.len() <= room, "{} bytes in a room of {room}", written.len());
    let read = Reply::decode(&written, codes).expect("what fits is a reply");
    assert!(read.outcomes.iter().zip(&reply.outcomes).all(|(less, all)| less.is_err() || less.is_ok() == all.is_ok()));
    for outcome in &reply.outcomes {
        let (Ok(Answer::Attributes(attributes)) | Ok(Answer::File { attributes, .. })) = outcome else { continue };
        let entry = ListEntry { name: b"n", attributes: *attributes };
        let mut writer = ReplyWriter::new(1, room).expect("it had room for more");
        let mut page = writer.listing();
        let fits = page.push(&entry);
        assert_eq!(page.entries(), u32::from(fits));
        page.fail(Failure { kind: ErrorKind::Storage, errno: 5 });
        assert!(writer.finish(reply.safety).len() <= REPLY_BYTES + REPLY_CALL_BYTES);
    }
}

pub(super) fn file_batch(input: &[u8]) {
    match FileBatch::decode(input) {
        Ok(batch) => {
            let encoded = batch.encode();
            assert!(encoded.len() <= input.len());
            assert_eq!(FileBatch::decode(&encoded).as_ref(), Ok(&batch));
            assert!((1..=limits::CALLS_MAX).contains(&batch.calls.len()));
            assert_eq!(FileBatch::head_of(input).map(|head| head.handle), Ok(batch.handle));
            for call in &batch.calls {
                assert!(call.result_bytes_max() >= REPLY_CALL_BYTES);
                assert_eq!(FileCode::from_number(call.code()).is_none(), matches!(call, FileCall::Unknown { .. }));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The number of calls, their codes, then the reply to them.
pub(super) fn file_reply(input: &[u8]) {
    let Some((count, rest)) = input.split_first() else { return };
    let Some((codes, payload)) = rest.split_at_checked(usize::from(*count % 16)) else { return };
    let codes: Vec<u64> = codes.iter().map(|code| u64::from(*code)).collect();
    match FileReply::decode(payload, &codes) {
        Ok(reply) => assert_eq!(FileReply::decode(&reply.encode(), &codes).as_ref(), Ok(&reply)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The number of calls, their codes, then the reply to them.
pub(super) fn reply(input: &[u8]) {
    let Some((count, rest)) = input.split_first() else { return };
    let Some((codes, payload)) = rest.split_at_checked(usize::from(*count % 16)) else { return };
    let codes: Vec<u64> = codes.iter().map(|code| u64::from(*code)).collect();
    match Reply::decode(payload, &codes) {
        Ok(reply) => {
            let encoded = reply.encode();
            assert_eq!(Reply::decode(&encoded, &codes).as_ref(), Ok(&reply));
            let least = REPLY_BYTES + codes.len() * REPLY_CALL_BYTES;
            for room in [least, least + encoded.len() / 2, least + encoded.len()] {
                within(&reply, &codes, room);
            }
            for outcome in &reply.outcomes {
                let Ok(Answer::Listing(listing)) = outcome else { continue };
                let leads_out = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.contains(&b'/');
                assert!(!listing.entries.clone().any(|entry| leads_out(entry.name)));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) fn request(input: &[u8]) {
    if let Some(request) = again(input, Request::decode, Request::encode) {
        assert!(request.encode().len() <= input.len());
        path(&request.name);
    }
}

pub(super) fn path(input: &[u8]) {
    match RelPath::parse(input) {
        Ok(path) => {
            assert_eq!(path.as_bytes(), input);
            assert_eq!(path.is_root(), input.is_empty());
            assert_eq!(path.parent().map(|parent| parent.depth() + 1).unwrap_or(0), path.depth());
            assert!(path.name().is_none_or(|name| !matches!(name, b"" | b"." | b"..")));
            assert_eq!(path.components().count(), path.depth());
            let above = path.parent().unwrap_or_default();
            assert_eq!((above.as_bytes(), &path.prefix(above.depth())), (path.above(), &above));
            assert_eq!(above.join(path.name().unwrap_or_default()).as_ref(), Ok(&path));
            assert!(path.is_within(&above) && above.join(b"..").is_err());
            assert!(path.is_root() || !above.is_within(&path));
            assert!(path.to_string().is_ascii() && format!("{path:?}").is_ascii());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) fn integers(input: &[u8]) {
    let mut reader = Reader::new(input);
    let mut writer = Writer::new();
    let mut values = Vec::new();
    while let Ok(value) = reader.integer() {
        writer.integer(value);
        // Every value takes a byte at least, so this is bounded by the input; one in eight is kept.
        if values.len() < input.len() / 8 {
            values.push(value);
        }
    }
    let bytes = writer.finish();
    assert!(bytes.len() <= input.len());
    let mut reader = Reader::new(&bytes);
    values.iter().for_each(|value| assert_eq!(reader.integer().as_ref(), Ok(value)));
}
