//! What `tcp` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::{Answer, ErrorKind, Handle, Options, Server, Stack};

fn stack(attributes: &str) -> Stack {
    Stack::new().push("tcp", attributes).unwrap()
}

fn text(handle: &Handle, command: &str) -> String {
    match handle.control(Some("tcp"), command, None).unwrap() {
        Answer::Text(text) => text,
        other => panic!("{command}: {other:?}"),
    }
}

#[test]
fn each_end_knows_the_addresses_of_both() {
    let server = Server::listen(&stack(""), "localhost:0").unwrap();
    let client = Handle::open(&stack(""), &server.contact().unwrap(), &Options::default()).unwrap();
    let peer = server.accept(None).unwrap().open(&Options::default()).unwrap();
    assert_eq!((text(&client, "local"), text(&client, "peer")), (text(&peer, "peer"), text(&peer, "local")));
    assert_eq!(text(&client, "peer"), server.contact().unwrap());
}

#[test]
fn the_host_may_be_left_out_to_listen_and_not_to_connect() {
    let server = Server::listen(&stack(""), ":0").unwrap();
    let contact = server.contact().unwrap();
    Handle::open(&stack(""), &contact, &Options::default()).unwrap();
    let error = Handle::open(&stack(""), ":9", &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Contact, Some("tcp")), "{error}");
}

#[test]
fn attributes_that_the_kernel_does_not_take_are_refused() {
    let server = Server::listen(&stack(""), "127.0.0.1:0").unwrap();
    for attributes in ["window=8GiB", "congestion=no_such_algorithm"] {
        let error = Handle::open(&stack(attributes), &server.contact().unwrap(), &Options::default()).unwrap_err();
        assert_eq!(error.driver(), Some("tcp"), "{attributes}: {error}");
    }
}
