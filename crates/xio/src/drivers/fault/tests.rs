//! What `fault` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::{ErrorKind, Handle, Options, Server, Stack};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// A connection whose ends have these faults.
fn pair(attributes: &str) -> (Handle, Handle, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let stack = Stack::new().push("unix", "").unwrap().push("fault", attributes).unwrap();
    let server = Server::listen(&stack, directory.path().join("socket").to_str().unwrap()).unwrap();
    let contact = server.contact().unwrap();
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&Options::default()).unwrap());
    let client = Handle::open(&stack, &contact, &Options::default()).unwrap();
    (client, accepting.join().unwrap(), directory)
}

#[test]
fn every_byte_arrives_whatever_the_odds() {
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for odds in ["0", "1;short=1000", "2;blocked=900;short=0", "3;late=1000", "4;late=1000;short=900;blocked=500"] {
        let (client, server, _directory) = pair(odds);
        let sent = content.clone();
        let sending = thread::spawn(move || {
            sent.chunks(7919).for_each(|piece| assert_eq!(client.write(piece).unwrap(), piece.len()));
            client.close().unwrap();
        });
        let mut received = vec![0; content.len() + 1];
        let read = server.read(&mut received, content.len() + 1).unwrap();
        assert!(read.info.end && received[..read.bytes] == content, "{odds}: {} bytes", read.bytes);
        sending.join().unwrap();
    }
}

#[test]
fn what_happens_is_the_same_for_the_same_seed_and_another_for_another() {
    let failures = |seed: u64| -> Vec<bool> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = Stack::new().push("file", "create").unwrap();
        let file = file.push("fault", &format!("{seed};errors=300;short=0;blocked=0;late=0")).unwrap();
        let path = path.to_str().unwrap();
        let handle = (0..100).find_map(|_| Handle::open(&file, path, &Options::default()).ok());
        let Some(handle) = handle else { return Vec::new() };
        (0..100).map(|_| handle.write(b"x").is_err()).collect()
    };
    let first: Vec<_> = (0..4).map(failures).collect();
    assert!(first.iter().any(|one| one.contains(&true) && one.contains(&false)));
    assert_eq!(first, (0..4).map(failures).collect::<Vec<_>>());
    assert!(first.windows(2).any(|two| two[0] != two[1]));
}

#[test]
fn a_fault_names_itself_and_loses_nothing() {
    let faulty = Stack::new().push_all("unix,fault:errors=300;seed=5").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let server = Server::listen(&Stack::new().push("unix", "").unwrap(), directory.path().join("s").to_str().unwrap());
    let server = server.unwrap();
    let contact = server.contact().unwrap();
    let mut faults = 0;
    let client = loop {
        match Handle::open(&faulty, &contact, &Options::default()) {
            Ok(client) => break client,
            Err(error) => assert_eq!(error.driver(), Some("fault"), "{error}"),
        }
        faults += 1;
        assert!(faults < 100);
    };
    let accept = || server.accept(Some(PATIENCE)).unwrap().open(&Options::default()).unwrap();
    // Those before it failed when they had connected.
    (0..faults).for_each(|_| drop(accept()));
    let peer = accept();
    let (mut moved, content) = (0, [7; 10_000]);
    while moved < content.len() {
        match client.write(&content[moved..]) {
            Ok(bytes) => moved += bytes,
            Err(error) => {
                assert_eq!((error.kind(), error.driver()), (ErrorKind::Other, Some("fault")), "{error}");
                moved += error.transferred();
            }
        }
    }
    client.close().unwrap();
    let mut received = vec![0; content.len() + 1];
    assert_eq!(peer.read(&mut received, content.len() + 1).unwrap().bytes, content.len());
}

#[test]
fn odds_that_let_nothing_through_are_refused() {
    for attributes in ["errors=1001", "blocked=1000", "errors=1000", "short=-1", "seed=x"] {
        let stack = Stack::new().push("unix", "").unwrap().push("fault", attributes);
        let error = stack.and_then(|stack| Handle::open(&stack, "/no/such", &Options::default())).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("fault")), "{attributes}: {error}");
    }
}
