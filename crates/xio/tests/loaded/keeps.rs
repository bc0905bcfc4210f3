//! A transform in Rust that keeps bytes: in sending until the flush, and in receiving more than is asked for.

#[path = "../../../../drivers/skeleton-rust/src/driver.rs"]
mod driver;

use driver::{Below, END, Transform};
use std::collections::VecDeque;
use std::ffi::c_uint;
use std::io::{self, IoSlice, IoSliceMut};

#[derive(Default)]
struct Keeps {
    sending: VecDeque<u8>,
    received: VecDeque<u8>,
    ended: bool,
}

impl Transform for Keeps {
    const KEEPS: bool = true;

    fn open(_: &str, _: bool) -> io::Result<Self> {
        Ok(Self::default())
    }

    fn receive(&mut self, below: &mut Below, into: &mut [IoSliceMut<'_>], flags: &mut c_uint) -> io::Result<usize> {
        let mut moved = 0;
        if self.received.is_empty() && !self.ended {
            let mut bytes = [0; 1000];
            let received = below.receive(&mut [IoSliceMut::new(&mut bytes)], flags)?;
            self.ended = *flags & END != 0;
            self.received.extend(&bytes[..received]);
        }
        for place in into.iter_mut().flat_map(|slice| slice.iter_mut()) {
            let Some(byte) = self.received.pop_front() else { break };
            *place = byte;
            moved += 1;
        }
        *flags = if self.ended && self.received.is_empty() { END } else { 0 };
        Ok(moved)
    }

    fn send(&mut self, below: &mut Below, from: &[IoSlice<'_>], _: c_uint) -> io::Result<usize> {
        if self.sending.len() > 10_000 {
            self.flush(below)?;
        }
        self.sending.extend(from.iter().flat_map(|slice| slice.iter()));
        Ok(from.iter().map(|slice| slice.len()).sum())
    }

    fn flush(&mut self, below: &mut Below) -> io::Result<()> {
        while !self.sending.is_empty() {
            let sent = below.send(&[IoSlice::new(self.sending.make_contiguous())], 0)?;
            self.sending.drain(..sent);
        }
        Ok(())
    }

    fn holds(&self) -> bool {
        !self.received.is_empty()
    }
}

export_transform!(Keeps, c"keeps", []);
