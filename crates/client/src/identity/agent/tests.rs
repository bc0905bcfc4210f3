//! Well-behaved and misbehaving agents, on sockets of the tests' own.

use super::*;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;
use xdfs_secure::identity::KeyPair;

/// A socket whose agent gives the prepared answers, one connection after the other.
pub(in crate::identity) struct Agent {
    pub(in crate::identity) socket: PathBuf,
    _directory: TempDir,
}

impl Agent {
    pub(in crate::identity) fn answering(mut answers: Vec<Vec<u8>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let agent = Self { socket: directory.path().join("agent"), _directory: directory };
        let listener = UnixListener::bind(&agent.socket).unwrap();
        std::thread::spawn(move || {
            while !answers.is_empty() {
                let (mut stream, _) = listener.accept().unwrap();
                let mut length = [0; 4];
                stream.read_exact(&mut length).unwrap();
                let mut message = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut message).unwrap();
                // The client may have disconnected: it does not read an answer that is too long.
                let _ = stream.write_all(&answers.remove(0));
            }
        });
        agent
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_string(&mut frame, message);
    frame
}

pub(in crate::identity) fn listing(blobs: &[(Vec<u8>, &[u8])]) -> Vec<u8> {
    let mut message = vec![IDENTITIES_ANSWER];
    message.extend((blobs.len() as u32).to_be_bytes());
    for (blob, comment) in blobs {
        put_string(&mut message, blob);
        put_string(&mut message, comment);
    }
    framed(&message)
}

fn signed(kind: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    put_string(&mut blob, kind);
    put_string(&mut blob, signature);
    let mut message = vec![SIGN_RESPONSE];
    put_string(&mut message, &blob);
    framed(&message)
}

#[test]
fn an_agent_tells_its_ed25519_keys_and_signs_with_them() {
    let key = KeyPair::generate().unwrap();
    let mut rsa = Vec::new();
    put_string(&mut rsa, b"ssh-rsa");
    put_string(&mut rsa, &[1; 300]);
    let list = listing(&[(rsa, b"old"), (blob_of(&key.public()), b"anna\x1b")]);
    let agent = Agent::answering(vec![list, signed(KIND, &key.sign(b"message").unwrap())]);
    let keys = keys(&agent.socket).unwrap();
    assert_eq!(keys.iter().map(AgentKey::public).collect::<Vec<_>>(), [key.public()]);
    assert_eq!(keys[0].comment, "anna\\x1b");
    assert!(verify(&key.public(), b"message", &keys[0].sign(b"message").unwrap()));
}

#[test]
fn a_signature_that_is_not_the_keys_is_refused() {
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let answers = [
        signed(KIND, &other.sign(b"message").unwrap()),
        signed(b"ssh-rsa", &key.sign(b"message").unwrap()),
        signed(KIND, &[1; 63]),
        framed(&[5]),
        framed(&[]),
        Vec::new(),
    ];
    let agent = Agent::answering([vec![listing(&[(blob_of(&key.public()), b"")])], answers.to_vec()].concat());
    let keys = keys(&agent.socket).unwrap();
    for _ in answers {
        assert_eq!(keys[0].sign(b"message"), Err(xdfs_secure::Error::NoSignature));
    }
}

#[test]
fn an_agent_that_lies_about_lengths_is_refused() {
    let answers = [
        vec![0xff; 4],
        framed(&[IDENTITIES_ANSWER, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
        framed(&[IDENTITIES_ANSWER, 0, 0]),
        framed(&[5]),
        framed(&[IDENTITIES_ANSWER])[..4].to_vec(),
    ];
    let agent = Agent::answering(answers.to_vec());
    for answer in answers {
        assert_eq!(keys(&agent.socket).unwrap_err().kind, ErrorKind::Resources, "{answer:?}");
    }
    assert!(keys(Path::new("/nonexistent/socket")).unwrap_err().message.contains("/nonexistent/socket"));
}
