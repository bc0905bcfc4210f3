//! What `verify` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::flow::VerifyFlow;
use crate::{Answer, Handle, Options, Server, Stack};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// A layer that answers as it is told, and what it says of itself otherwise.
struct Answers {
    /// Bytes, and whether it is the end; none: it is not ready.
    receives: Vec<Option<(usize, bool)>>,
    sends: usize,
    holds: bool,
}

impl Flow for Answers {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let (bytes, end) = self.receives.remove(0).ok_or(io::ErrorKind::WouldBlock)?;
        info.end = end;
        Ok(bytes)
    }

    fn send(&mut self, _: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Ok(self.sends)
    }

    fn holds(&self) -> bool {
        self.holds
    }
}

fn over(receives: &[Option<(usize, bool)>], sends: usize, holds: bool) -> VerifyFlow {
    let mut flow = VerifyFlow::new(Box::new(Answers { receives: receives.to_vec(), sends, holds }));
    flow.connected().unwrap();
    flow
}

fn receive(flow: &mut VerifyFlow) -> io::Result<usize> {
    flow.receive(&mut [IoSliceMut::new(&mut [0; 4])], &mut ReadInfo::default())
}

#[test]
fn a_neighbour_that_breaks_the_contract_is_found_out_and_nothing_more_passes() {
    for (receives, holds, word) in [
        (vec![Some((5, false))], false, "more than was asked"),
        (vec![Some((0, false))], false, "neither bytes nor an end"),
        (vec![Some((1, true)), Some((1, false))], false, "behind its end"),
        (vec![Some((0, true)), Some((1, true))], false, "behind its end"),
        (vec![None], true, "holds bytes"),
        (vec![None], false, "neither the kernel nor the clock"),
    ] {
        let mut flow = over(&receives, 4, holds);
        let results: Vec<_> = receives.iter().map(|_| receive(&mut flow)).collect();
        let error = results.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(error.contains(word) && error.starts_with("driver verify"), "{error}");
        let again = flow.send(&[IoSlice::new(b"more")], &WriteInfo::default()).unwrap_err();
        assert_eq!(again.to_string(), error, "it stays broken");
    }
    for (sends, word) in [(5, "more than it was given"), (0, "took none")] {
        let error = over(&[], sends, false).send(&[IoSlice::new(b"four")], &WriteInfo::default()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    let mut early = VerifyFlow::new(Box::new(Answers { receives: vec![Some((1, false))], sends: 1, holds: false }));
    let error = receive(&mut early).unwrap_err().to_string();
    assert!(error.contains("before it was told"), "{error}");
}

#[test]
fn both_ends_count_and_digest_the_same_bytes_of_each_direction() {
    let patience = Some(Duration::from_secs(30));
    // What is below changes the bytes and how many of them move at a time.
    let stack = Stack::new().push_all("tcp,fault:seed=9;delay=0ms,telnet,verify").unwrap();
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let (client, server) = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| server.accept(patience).unwrap().open(&Options::default()).unwrap());
        (Handle::open(&stack, &contact, &Options::default()).unwrap(), accepting.join().unwrap())
    });
    client.write(&[255; 10_000]).unwrap();
    server.write(b"a").unwrap();
    server.read(&mut [0; 10_000], 10_000).unwrap();
    client.read(&mut [0], 1).unwrap();
    let ask = |handle: &Handle, name| handle.control(Some("verify"), name, None).unwrap();
    assert_eq!(ask(&client, "sent"), ask(&server, "received"));
    // The digest of "a" that is in the description of FNV-1a.
    assert_eq!(ask(&client, "received"), Answer::Text("1 bytes, af63dc4c8601ec8c".to_owned()));
    assert_ne!(ask(&client, "sent"), ask(&client, "received"));
}
