//! What the other end of GSI sends: chains of certificates with proxies, requests for proxies, tokens of the handshake; and the
//! policies that a site keeps. Their readers are no public interface: their crate judges them.

use xdfs_secure::handshake::tls::gsi::fuzzing;

pub(super) fn chain(input: &[u8]) {
    fuzzing::feed_chain(input);
}

pub(super) fn policy(input: &[u8]) {
    fuzzing::feed_policy(input);
}

pub(super) fn request(input: &[u8]) {
    fuzzing::feed_request(input);
}

pub(super) fn stream(input: &[u8]) {
    fuzzing::feed_stream(input);
}

pub(super) fn inside(input: &[u8]) {
    fuzzing::feed_inside(input);
}
