//! A transform in Rust with bugs: it panics in the call that its attribute names. Where that is `refuse` or `number`
//! its open fails, with a text or with a number, and where it is `text`, with a text that panics.

#[path = "../../../../drivers/skeleton-rust/src/driver.rs"]
mod driver;

use driver::{Below, Transform, each};
use std::ffi::c_uint;
use std::io::{self, IoSlice, IoSliceMut};

struct Panics {
    call: String,
}

#[derive(Debug)]
struct PanicsInText;

impl std::fmt::Display for PanicsInText {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("a bug in a text");
    }
}

impl std::error::Error for PanicsInText {}

impl Panics {
    fn may_panic(&self, call: &str) {
        assert!(self.call != call, "a bug in {call}");
    }
}

impl Transform for Panics {
    const KEEPS: bool = true;

    fn open(attributes: &str, _: bool) -> io::Result<Self> {
        let call = each(attributes).map(|(_, call)| call.to_owned()).next().unwrap_or_default();
        let opened = Self { call };
        opened.may_panic("open");
        match &*opened.call {
            "refuse" => Err(io::Error::other("the licence is over")),
            "text" => Err(io::Error::other(PanicsInText)),
            "number" => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(opened),
        }
    }

    fn receive(&mut self, below: &mut Below, into: &mut [IoSliceMut<'_>], flags: &mut c_uint) -> io::Result<usize> {
        self.may_panic("receive");
        below.receive(into, flags)
    }

    fn send(&mut self, below: &mut Below, from: &[IoSlice<'_>], flags: c_uint) -> io::Result<usize> {
        self.may_panic("send");
        below.send(from, flags)
    }

    fn flush(&mut self, _: &mut Below) -> io::Result<()> {
        self.may_panic("flush");
        Ok(())
    }

    fn holds(&self) -> bool {
        self.may_panic("holds");
        false
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        self.may_panic("close");
    }
}

export_transform!(Panics, c"panics", [c"call"]);
