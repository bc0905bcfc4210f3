//! skeleton_rust: a transform in Rust to begin one's own with. It does what drivers/skeleton/skeleton.c
//! does, so that each reads what the other sent.

mod driver;

use driver::{Below, EINVAL, Transform, each};
use std::ffi::c_uint;
use std::io::{self, IoSlice, IoSliceMut};

struct Skeleton {
    key: u8,
}

impl Transform for Skeleton {
    fn open(attributes: &str, _accepted: bool) -> io::Result<Self> {
        let mut key = "42";
        for (name, value) in each(attributes) {
            match name {
                "key" => key = value,
                // The framework lets no names through but those that are listed below.
                _ => return Err(io::Error::from_raw_os_error(EINVAL)),
            }
        }
        Ok(Self { key: key.parse().map_err(|_| io::Error::from_raw_os_error(EINVAL))? })
    }

    fn receive(&mut self, below: &mut Below, into: &mut [IoSliceMut<'_>], flags: &mut c_uint) -> io::Result<usize> {
        let received = below.receive(into, flags)?;
        for byte in into.iter_mut().flat_map(|slice| slice.iter_mut()).take(received) {
            *byte ^= self.key;
        }
        Ok(received)
    }

    fn send(&mut self, below: &mut Below, from: &[IoSlice<'_>], flags: c_uint) -> io::Result<usize> {
        let length: usize = from.iter().map(|slice| slice.len()).sum();
        let bytes = from.iter().flat_map(|slice| slice.iter());
        let changed: Vec<u8> = bytes.take(16 << 10).map(|byte| byte ^ self.key).collect();
        // A message ends with its last byte.
        let flags = if changed.len() == length { flags } else { 0 };
        below.send(&[IoSlice::new(&changed)], flags)
    }
}

export_transform!(Skeleton, c"skeleton_rust", [c"key"]);
