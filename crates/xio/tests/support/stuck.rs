//! What keeps somebody waiting: more bytes than anybody takes, and a peer that never answers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// More than all queues on the way hold, however it is compressed.
pub fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..50_000_000).map(next).collect()
}

/// A listener whose queue is full, so that whoever connects hears nothing.
pub fn silent() -> ((OwnedFd, TcpStream), String) {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let only = TcpStream::connect(address).unwrap();
    ((listener, only), address.to_string())
}
