//! What `unix` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::{ErrorKind, Handle, Options, Server, Stack};

#[test]
fn a_path_is_needed_and_one_that_is_taken_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let path = path.to_str().unwrap();
    let stack = Stack::new().push("unix", "").unwrap();
    let server = Server::listen(&stack, path).unwrap();
    let error = Server::listen(&stack, path).unwrap_err();
    assert_eq!(error.driver(), Some("unix"), "{error}");
    Handle::open(&stack, path, &Options::default()).unwrap();
    drop(server);
    let error = Handle::open(&stack, path, &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Lost, Some("unix")), "{error}");
    let error = Handle::open(&stack, "localhost:1", &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Contact, Some("unix")), "{error}");
}
