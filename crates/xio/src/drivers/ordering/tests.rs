//! What `ordering` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::flow::{Early, OrderingFlow};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// A piece as it comes: its offset, if it tells one, and its bytes.
type Piece<'a> = (Option<u64>, &'a [u8]);

/// A layer whose pieces come as they are given: offset, if it tells one, and bytes; then the end.
struct Pieces(VecDeque<(Option<u64>, Vec<u8>)>);

impl Flow for Pieces {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some((offset, bytes)) = self.0.pop_front() else {
            info.end = true;
            return Ok(0);
        };
        info.offset = offset;
        into[0][..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn send(&mut self, _: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What is read of these pieces, at most `room` bytes at a time.
fn read(pieces: &[Piece<'_>], kept: u64, room: usize) -> io::Result<Vec<u8>> {
    let pieces = pieces.iter().map(|(offset, bytes)| (*offset, bytes.to_vec())).collect();
    let mut flow = OrderingFlow::new(Box::new(Pieces(pieces)), kept, 0);
    let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
    loop {
        let mut info = ReadInfo::default();
        match flow.receive(&mut [IoSliceMut::new(&mut buffer)], &mut info) {
            Ok(bytes) => {
                assert!(bytes == 0 || info.offset == Some(all.len() as u64));
                all.extend_from_slice(&buffer[..bytes]);
                if info.end {
                    return Ok(all);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let again = flow.receive(&mut [IoSliceMut::new(&mut buffer)], &mut info).unwrap_err();
                assert_eq!(again.kind(), error.kind(), "it stays refused");
                return Err(error);
            }
        }
    }
}

#[test]
fn every_order_of_pieces_gives_the_same_bytes() {
    let pieces: [(u64, &[u8]); 5] = [(0, b"ab"), (2, b"c"), (3, b"defg"), (7, b"h"), (8, b"ij")];
    // Every order: a number in the mixed base 5, 4, 3, 2, 1.
    for number in 0..120 {
        let (mut left, mut order, mut rest) = (pieces.to_vec(), Vec::new(), number);
        while !left.is_empty() {
            let at = rest % left.len();
            rest /= left.len();
            let (offset, bytes) = left.remove(at);
            order.push((Some(offset), bytes));
        }
        for room in [1, 3, 100] {
            assert_eq!(read(&order, 100, room).unwrap(), b"abcdefghij", "{order:?}");
        }
    }
}

#[test]
fn bytes_without_an_offset_follow_those_before_them() {
    assert_eq!(read(&[(Some(0), b"more than is kept")], 1, 3).unwrap(), b"more than is kept", "it is in order");
    assert_eq!(
        read(&[(None, b"a"), (None, b"bc"), (Some(5), b"f"), (None, b"g"), (Some(3), b"de")], 9, 9).unwrap(),
        b"abcdefg"
    );
}

#[test]
fn what_comes_twice_too_early_or_not_at_all_is_refused() {
    let cases: [(&[Piece<'_>], io::ErrorKind, &str); 6] = [
        (&[(Some(0), b"abc"), (Some(2), b"c")], io::ErrorKind::InvalidData, "twice"),
        (&[(Some(5), b"abc"), (Some(4), b"xy")], io::ErrorKind::InvalidData, "twice"),
        (&[(Some(5), b"abc"), (Some(7), b"x")], io::ErrorKind::InvalidData, "twice"),
        (&[(Some(1), b"abcdefghijk")], io::ErrorKind::InvalidData, "'kept'"),
        (&[(Some(u64::MAX), b"ab")], io::ErrorKind::InvalidData, "last offset"),
        (&[(Some(0), b"a"), (Some(2), b"c")], io::ErrorKind::UnexpectedEof, "missing"),
    ];
    for (pieces, kind, word) in cases {
        let error = read(pieces, 10, 100).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(word), "{pieces:?}: {error}");
    }
}

#[test]
fn what_is_kept_is_bounded_in_bytes_and_pieces() {
    let mut early = Early::new(1 << 40);
    let kept = (1..).take_while(|at| early.keep(0, at * 2, b"x").is_ok()).count();
    assert_eq!(kept, 4096);
    assert!(!early.has(0) && early.has(2));
}
