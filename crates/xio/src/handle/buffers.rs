//! The buffers of a registered operation. It owns them until its callback gets them back.

use std::io::{IoSlice, IoSliceMut};

/// One buffer, or several that are filled or written in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Buffers {
    /// One.
    One(Vec<u8>),
    /// Several.
    Many(Vec<Vec<u8>>),
}

impl Buffers {
    /// Their size together.
    pub fn size(&self) -> usize {
        match self {
            Self::One(buffer) => buffer.len(),
            Self::Many(buffers) => buffers.iter().map(Vec::len).sum(),
        }
    }

    /// The one buffer, or all of them in one.
    pub fn into_one(self) -> Vec<u8> {
        match self {
            Self::One(buffer) => buffer,
            Self::Many(buffers) => buffers.concat(),
        }
    }

    /// What lies behind the first `done` bytes, to be written.
    pub(super) fn rest<T>(&self, done: usize, then: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        match self {
            Self::One(buffer) => then(&[IoSlice::new(&buffer[done.min(buffer.len())..])]),
            Self::Many(buffers) => {
                let mut slices: Vec<_> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
                let mut rest = &mut slices[..];
                IoSlice::advance_slices(&mut rest, done);
                then(rest)
            }
        }
    }

    /// What lies behind the first `done` bytes, to be filled.
    pub(super) fn rest_mut<T>(&mut self, done: usize, then: impl FnOnce(&mut [IoSliceMut<'_>]) -> T) -> T {
        match self {
            Self::One(buffer) => {
                let start = done.min(buffer.len());
                then(&mut [IoSliceMut::new(&mut buffer[start..])])
            }
            Self::Many(buffers) => {
                let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
                let mut rest = &mut slices[..];
                IoSliceMut::advance_slices(&mut rest, done);
                then(rest)
            }
        }
    }
}

impl From<Vec<u8>> for Buffers {
    fn from(buffer: Vec<u8>) -> Self {
        Self::One(buffer)
    }
}

impl From<Vec<Vec<u8>>> for Buffers {
    fn from(buffers: Vec<Vec<u8>>) -> Self {
        Self::Many(buffers)
    }
}
