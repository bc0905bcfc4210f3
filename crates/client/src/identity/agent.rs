//! Keys of an SSH agent: lists them and requests signatures. Uses two messages of the agent's
//! protocol (draft-miller-ssh-agent), over its Unix socket.
//!
//! It must not wait for an agent without a deadline, nor trust it: a signature is verified here
//! before it is used.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::identity::{SIGNATURE_BYTES, Signer, verify};
use xdfs_secure::policy::PublicKey;

/// An agent that takes longer to list its keys is considered stuck.
const LIST_DEADLINE: Duration = Duration::from_secs(5);

/// Signing may prompt a person for confirmation; a server waits no longer than this either.
const SIGN_DEADLINE: Duration = Duration::from_secs(15);

/// Longest message of an agent: OpenSSH's own limit.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Most keys that are examined.
const KEYS_MAX: usize = 1024;

/// Longest comment that is shown, in bytes.
const COMMENT_BYTES_MAX: usize = 200;

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

const KIND: &[u8] = b"ssh-ed25519";

/// A key in an agent.
#[derive(Clone, Debug)]
pub(super) struct AgentKey {
    socket: PathBuf,
    key: PublicKey,
    /// The comment of its owner, escaped.
    pub(super) comment: String,
}

/// The Ed25519 keys of the agent at `socket`, in its order.
pub(super) fn keys(socket: &Path) -> Result<Vec<AgentKey>, Error> {
    let answer = converse(socket, vec![REQUEST_IDENTITIES], LIST_DEADLINE)?;
    keys_of(socket, &answer)
}

/// The keys in an agent's answer.
fn keys_of(socket: &Path, answer: &[u8]) -> Result<Vec<AgentKey>, Error> {
    let mut rest = match answer.split_first() {
        Some((&IDENTITIES_ANSWER, rest)) => rest,
        _ => return Err(broken(socket, "it does not tell its keys")),
    };
    let malformed = || broken(socket, "its answer is malformed");
    let count = take_number(&mut rest).ok_or_else(malformed)?;
    let mut keys = Vec::new();
    for _ in 0..count.min(KEYS_MAX) {
        let blob = take_string(&mut rest).ok_or_else(malformed)?;
        let comment = take_string(&mut rest).ok_or_else(malformed)?;
        if let Some(key) = key_of(blob) {
            let comment = comment.get(..comment.len().min(COMMENT_BYTES_MAX)).unwrap_or_default();
            let comment = comment.escape_ascii().to_string();
            keys.push(AgentKey { socket: socket.to_owned(), key, comment });
        }
    }
    Ok(keys)
}

impl Signer for AgentKey {
    fn public(&self) -> PublicKey {
        self.key
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], xdfs_secure::Error> {
        let refused = xdfs_secure::Error::NoSignature;
        let mut request = vec![SIGN_REQUEST];
        put_string(&mut request, &blob_of(&self.key));
        put_string(&mut request, message);
        // No flags: they select hashes of RSA.
        request.extend([0; 4]);
        let answer = converse(&self.socket, request, SIGN_DEADLINE).map_err(|_| refused)?;
        let signature = signature_of(&answer).ok_or(refused)?;
        if verify(&self.key, message, &signature) { Ok(signature) } else { Err(refused) }
    }
}

/// One request and its answer, within `deadline` in total. A separate thread makes the request,
/// since connecting has no deadline of its own; it ends by its own time limits when nothing waits
/// for it any more.
fn converse(socket: &Path, message: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, Error> {
    let (tell, answered) = sync_channel(1);
    let path = socket.to_owned();
    let asking = std::thread::Builder::new().name("xdfs-agent".into()).spawn(move || {
        let _ = tell.send(exchange(&path, &message, deadline));
    });
    asking.map_err(|error| broken(socket, &error.to_string()))?;
    match answered.recv_timeout(deadline) {
        Ok(answer) => answer.map_err(|error| broken(socket, &error.to_string())),
        Err(_) => Err(broken(socket, &format!("no answer within {deadline:?}"))),
    }
}

fn exchange(socket: &Path, message: &[u8], deadline: Duration) -> std::io::Result<Vec<u8>> {
    let until = Instant::now() + deadline;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_write_timeout(Some(deadline))?;
    let mut frame = Vec::with_capacity(4 + message.len());
    put_string(&mut frame, message);
    stream.write_all(&frame)?;
    let mut length = [0; 4];
    read_until(&mut stream, &mut length, until)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(std::io::Error::other("its answer is too long"));
    }
    let mut answer = vec![0; length];
    read_until(&mut stream, &mut answer, until)?;
    Ok(answer)
}

/// Fills `buffer` until the deadline, however slowly the bytes arrive.
fn read_until(stream: &mut UnixStream, buffer: &mut [u8], until: Instant) -> std::io::Result<()> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn signature_of(answer: &[u8]) -> Option<[u8; SIGNATURE_BYTES]> {
    let (&SIGN_RESPONSE, mut rest) = answer.split_first()? else { return None };
    let mut blob = take_string(&mut rest)?;
    if take_string(&mut blob)? != KIND {
        return None;
    }
    take_string(&mut blob)?.try_into().ok()
}

/// Feeds the parser of an agent's answers: keys are few, comments short and printable, and a
/// signature has its length.
#[cfg(debug_assertions)]
pub fn feed(answer: &[u8]) {
    match keys_of(Path::new("agent"), answer) {
        Ok(keys) => {
            assert!(keys.len() <= KEYS_MAX.min(answer.len()));
            for key in keys {
                assert_eq!(key_of(&blob_of(&key.key)), Some(key.key));
                assert!(key.comment.len() <= 4 * COMMENT_BYTES_MAX && !key.comment.contains(char::is_control));
            }
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
    if let Some(signature) = signature_of(answer) {
        assert!(answer.windows(SIGNATURE_BYTES).any(|part| part == signature));
    }
}

/// An Ed25519 key in SSH's format; `None` for other types.
fn key_of(mut blob: &[u8]) -> Option<PublicKey> {
    if take_string(&mut blob)? != KIND {
        return None;
    }
    let key = take_string(&mut blob)?.try_into().ok()?;
    blob.is_empty().then_some(PublicKey(key))
}

pub(super) fn blob_of(key: &PublicKey) -> Vec<u8> {
    let mut blob = Vec::with_capacity(8 + KIND.len() + key.0.len());
    put_string(&mut blob, KIND);
    put_string(&mut blob, &key.0);
    blob
}

fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    // The bytes sent here are a few hundred.
    to.extend((bytes.len() as u32).to_be_bytes());
    to.extend(bytes);
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*number) as usize)
}

fn take_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_number(rest)?;
    let (string, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(string)
}

fn broken(socket: &Path, because: &str) -> Error {
    let shown = socket.as_os_str().as_encoded_bytes().escape_ascii();
    Error::new(ErrorKind::Resources, format!("the SSH agent at '{shown}' cannot be used: {because}"))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::{Agent, listing};
