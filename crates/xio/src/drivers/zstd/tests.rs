//! What `zstd` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes and looks at compressed files")]

use super::flow::ZstdFlow;
use crate::drivers::flood::Flood;
use crate::drivers::queues::FILLS_PER_CALL;
use crate::{ErrorKind, Flow, Handle, Options, ReadInfo, Server, Stack, Timeouts, WriteInfo};
use std::io::{self, IoSliceMut};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const MUCH: usize = 3_000_000;

fn options() -> Options {
    let timeouts =
        Timeouts { open: Some(PATIENCE), read: Some(PATIENCE), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

fn pair(text: &str) -> (Handle, Handle) {
    let stack = Stack::new().push_all(text).unwrap();
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
    let client = Handle::open(&stack, &contact, &options()).unwrap();
    (client, accepting.join().unwrap())
}

/// Half of it compresses, half does not.
fn content() -> Vec<u8> {
    (0..MUCH as u32)
        .map(|at| if at / 1000 % 2 == 0 { 7 } else { (at.wrapping_mul(2_654_435_761) >> 13) as u8 })
        .collect()
}

fn file(attributes: &str, path: &Path) -> Handle {
    let stack = Stack::new().push("file", attributes).unwrap().push("zstd", "").unwrap();
    Handle::open(&stack, path.to_str().unwrap(), &options()).unwrap()
}

fn read_all(handle: &Handle, piece: usize) -> crate::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; piece]);
    loop {
        let read = handle.read(&mut buffer, piece)?;
        all.extend_from_slice(&buffer[..read.bytes]);
        if read.info.end {
            return Ok(all);
        }
    }
}

#[test]
fn what_was_written_can_be_read_at_once_and_in_both_directions() {
    for text in ["tcp,zstd", "tcp,zstd=19", "tcp,noop,zstd=1,noop,zstd"] {
        let (client, server) = pair(text);
        let mut back = [0; 4];
        for word in [b"ping", b"pong", b"wait"] {
            client.write(word).unwrap();
            server.read(&mut back, 4).unwrap();
            assert_eq!(&back, word, "{text}: although the frame goes on");
        }
        let (tell, told) = sync_channel(4);
        for handle in [&client, &server] {
            let tell = tell.clone();
            let done = move |_: &Handle, done: crate::Completed| tell.send(done.result.unwrap().bytes).unwrap();
            handle.register_write(content(), WriteInfo::default(), done).unwrap();
        }
        let (tell, reads) = sync_channel(1);
        server.register_read(vec![0; MUCH], MUCH, move |_, done| tell.send(done).unwrap()).unwrap();
        let mut bytes = vec![0; MUCH];
        client.read(&mut bytes, MUCH).unwrap();
        assert!(bytes == content(), "{text}");
        assert!(reads.recv_timeout(PATIENCE).unwrap().buffers.into_one() == content(), "{text}");
        assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(MUCH), Ok(MUCH)]);
        client.control(Some("zstd"), "finish_sending", None).unwrap();
        assert!(server.read(&mut back, 1).unwrap().info.end);
        server.write(b"last").unwrap();
        server.close().unwrap();
        assert_eq!(read_all(&client, 3).unwrap(), b"last");
    }
}

#[test]
fn files_are_those_of_the_program_zstd() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, plain) = (directory.path().join("ours.zst"), directory.path().join("plain"));
    let zstd = |arguments: &[&str]| {
        let status = Command::new("zstd").args(["-q", "-f"]).args(arguments).status();
        assert!(status.expect("zstd is installed: `cargo run -p xtask -- setup` does that").success());
    };
    let writing = file("create", &ours);
    for piece in content().chunks(333_333) {
        writing.write(piece).unwrap();
    }
    writing.close().unwrap();
    assert!(ours.metadata().unwrap().len() < MUCH as u64 * 2 / 3);
    zstd(&["-d", ours.to_str().unwrap(), "-o", plain.to_str().unwrap()]);
    assert!(std::fs::read(&plain).unwrap() == content());
    for level in ["-1", "-19"] {
        let theirs = directory.path().join("theirs.zst");
        zstd(&[level, plain.to_str().unwrap(), "-o", theirs.to_str().unwrap()]);
        // Two frames behind each other are one content, as the program has it.
        let twice = std::fs::read(&theirs).unwrap().repeat(2);
        std::fs::write(&theirs, &twice).unwrap();
        let reading = file("read", &theirs);
        assert!(read_all(&reading, 77_777).unwrap() == content().repeat(2));
        reading.close().unwrap();
        assert!(std::fs::read(&theirs).unwrap() == twice, "a close ends no frame that was not begun");
    }
}

#[test]
fn a_stream_that_is_cut_or_damaged_is_an_error_and_a_bomb_takes_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let writing = file("create", &path);
    writing.write(&content()).unwrap();
    writing.close().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let failed = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = read_all(&file("read", &path), 100_000).unwrap_err();
        assert_eq!(error.driver(), Some("zstd"), "{error}");
        error.kind()
    };
    for length in [1, 5, 100, whole.len() / 2, whole.len() - 1] {
        assert_eq!(failed(&whole[..length]), ErrorKind::Lost, "cut after {length}");
    }
    for at in [0, 6, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        let kind = failed(&damaged);
        assert!(matches!(kind, ErrorKind::Protocol | ErrorKind::Lost), "damaged at {at}: {kind:?}");
    }
    assert_eq!(failed(&[&whole[..], b"and more"].concat()), ErrorKind::Protocol);
    // A frame that wants 2 GiB of history: magic number, no size, window descriptor.
    assert_eq!(failed(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0, 0, 0, 0, 0]), ErrorKind::Protocol);
    std::fs::write(&path, b"").unwrap();
    assert_eq!(read_all(&file("read", &path), 10).unwrap(), b"");
    for level in ["0", "20", "fast"] {
        assert_eq!(
            Stack::new()
                .push_all(&format!("tcp,zstd={level}"))
                .and_then(|stack| { Handle::open(&stack, "127.0.0.1:9", &options()) })
                .unwrap_err()
                .kind(),
            ErrorKind::Usage,
            "{level}"
        );
    }
}

#[test]
fn empty_blocks_without_an_end_let_others_have_their_turn() {
    // The head of a frame with the smallest history, and blocks of no bytes.
    let (flood, calls) = Flood::new(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0], &[0, 0, 0]);
    let mut flow = ZstdFlow::new(Box::new(flood), 3).unwrap();
    let mut bytes = [0; 10];
    let mut receive = || flow.receive(&mut [IoSliceMut::new(&mut bytes)], &mut ReadInfo::default());
    assert_eq!(receive().unwrap_err().kind(), io::ErrorKind::Interrupted);
    assert!(calls.load(Ordering::Relaxed) <= FILLS_PER_CALL);
}

/// Has the beginning of a frame, and then nothing for ever.
struct Begins(Vec<u8>);

impl Flow for Begins {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        let bytes = std::mem::take(&mut self.0);
        into[0][..bytes.len()].copy_from_slice(&bytes);
        if bytes.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(bytes.len()) }
    }

    fn send(&mut self, _: &[io::IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[test]
fn a_reader_may_ask_as_often_as_it_likes() {
    let frame = zstd::stream::encode_all(&b"hello"[..], 3).unwrap();
    let mut flow = ZstdFlow::new(Box::new(Begins(frame[..frame.len() - 2].to_vec())), 3).unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 64]);
    for asked in 0..100 {
        match flow.receive(&mut [IoSliceMut::new(&mut buffer)], &mut ReadInfo::default()) {
            Ok(bytes) => read.extend_from_slice(&buffer[..bytes]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "asked {asked} times: {error}"),
        }
    }
    assert_eq!(read, b"hel", "what had come");
}
