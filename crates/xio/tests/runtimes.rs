//! Handles as tasks of tokio, and by the traits of `futures`, use them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use xdfs_xio::{AsyncHandle, Handle, Options, Server, Stack, Timeouts};

const STACKS: [&str; 3] = ["tcp", "tcp,zstd", "tcp,fault:seed=9;late=300,noop,queue=5000"];

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(30);

fn pair(text: &str) -> (AsyncHandle, AsyncHandle) {
    let stack = Stack::new().push_all(text).unwrap();
    let time = Some(PATIENCE);
    let options = Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } };
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let client = Handle::open(&stack, &server.contact().unwrap(), &options).unwrap();
    (client.into(), server.accept(time).unwrap().open(&options).unwrap().into())
}

/// A runtime of one thread: whatever blocks in a call would keep the other task from its turn.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn two_tasks_of_tokio_share_a_thread_and_a_handle_has_two_halves() {
    for text in STACKS {
        let (ours, theirs) = pair(text);
        let sent = content(700_001);
        let received = runtime().block_on(async {
            let (mut reader, mut writer) = tokio::io::split(ours);
            let (mut from, mut back) = tokio::io::split(theirs);
            let mut received = vec![0; sent.len()];
            let echo = async {
                let mut piece = vec![0; 10_007];
                let mut left = sent.len();
                while left > 0 {
                    let count = from.read(&mut piece).await.unwrap();
                    assert!(count > 0, "{text}");
                    back.write_all(&piece[..count]).await.unwrap();
                    left -= count;
                }
                back.flush().await.unwrap();
            };
            let write = async {
                writer.write_all(&sent).await.unwrap();
                writer.flush().await.unwrap();
            };
            let read = async { reader.read_exact(&mut received).await.unwrap() };
            tokio::join!(echo, write, read);
            back.shutdown().await.unwrap();
            assert_eq!(reader.read(&mut [0; 8]).await.unwrap(), 0, "{text}: the end");
            writer.shutdown().await.unwrap();
            received
        });
        assert!(received == sent, "{text}");
    }
}

#[test]
fn a_read_that_select_gives_up_loses_nothing() {
    let (mut ours, mut theirs) = pair("tcp");
    runtime().block_on(async {
        for round in 0..200_u8 {
            let mut into = [0; 3];
            // The first is ready, so that the read is begun and given up.
            tokio::select! {
                biased;
                read = async { if round % 2 == 0 { std::future::pending().await } else { ours.read(&mut into).await } } => {
                    panic!("{round}: nothing was sent: {read:?}");
                }
                () = std::future::ready(()) => {}
            }
            theirs.write_all(&[round; 3]).await.unwrap();
            theirs.flush().await.unwrap();
            ours.read_exact(&mut into).await.unwrap();
            assert_eq!(into, [round; 3]);
        }
    });
}

#[test]
fn the_traits_of_futures_read_write_and_close() {
    use futures_io::{AsyncRead, AsyncWrite};
    for text in STACKS {
        let (mut ours, theirs) = pair(text);
        runtime().block_on(async {
            let wrote = std::future::poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut ours), cx, b"four"));
            assert_eq!(wrote.await.unwrap(), 4);
            std::future::poll_fn(|cx| AsyncWrite::poll_flush(Pin::new(&mut ours), cx)).await.unwrap();
            std::future::poll_fn(|cx| AsyncWrite::poll_close(Pin::new(&mut ours), cx)).await.unwrap();
            let (mut all, mut theirs) = (Vec::new(), pin!(theirs));
            loop {
                let mut piece = [0; 3];
                let read = std::future::poll_fn(|cx| AsyncRead::poll_read(theirs.as_mut(), cx, &mut piece));
                match read.await.unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&piece[..count]),
                }
            }
            assert_eq!(all, b"four", "{text}");
        });
    }
}
