//! The buffers of a registered operation. It owns them until its callback gets them back.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};

/// Memory that is lent to an operation and belongs to somebody else, such as the caller of the C library.
pub trait Lent: AsRef<[u8]> + AsMut<[u8]> + Send {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send> Lent for T {}

/// One buffer, or several that are filled or written in order.
pub enum Buffers {
    /// One.
    One(Vec<u8>),
    /// Several.
    Many(Vec<Vec<u8>>),
    /// Several of somebody else's.
    Lent(Vec<Box<dyn Lent>>),
}

impl Buffers {
    /// Their size together.
    pub fn size(&self) -> usize {
        match self {
            Self::One(buffer) => buffer.len(),
            Self::Many(buffers) => buffers.iter().map(Vec::len).sum(),
            Self::Lent(buffers) => buffers.iter().map(|buffer| (**buffer).as_ref().len()).sum(),
        }
    }

    /// The one buffer, or all of them in one.
    pub fn into_one(self) -> Vec<u8> {
        match self {
            Self::One(buffer) => buffer,
            Self::Many(buffers) => buffers.concat(),
            Self::Lent(buffers) => buffers.iter().flat_map(|buffer| (**buffer).as_ref().iter().copied()).collect(),
        }
    }

    /// What lies behind the first `done` bytes, to be written.
    pub(super) fn rest<T>(&self, done: usize, then: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let mut slices: Vec<_> = match self {
            Self::One(buffer) => return then(&[IoSlice::new(&buffer[done.min(buffer.len())..])]),
            Self::Many(buffers) => buffers.iter().map(|buffer| IoSlice::new(buffer)).collect(),
            Self::Lent(buffers) => buffers.iter().map(|buffer| IoSlice::new((**buffer).as_ref())).collect(),
        };
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, done);
        then(rest)
    }

    /// What lies behind the first `done` bytes, to be filled.
    pub(super) fn rest_mut<T>(&mut self, done: usize, then: impl FnOnce(&mut [IoSliceMut<'_>]) -> T) -> T {
        let mut slices: Vec<_> = match self {
            Self::One(buffer) => {
                let start = done.min(buffer.len());
                return then(&mut [IoSliceMut::new(&mut buffer[start..])]);
            }
            Self::Many(buffers) => buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect(),
            Self::Lent(buffers) => buffers.iter_mut().map(|buffer| IoSliceMut::new((**buffer).as_mut())).collect(),
        };
        let mut rest = &mut slices[..];
        IoSliceMut::advance_slices(&mut rest, done);
        then(rest)
    }

    fn slices(&self) -> Vec<&[u8]> {
        match self {
            Self::One(buffer) => vec![buffer],
            Self::Many(buffers) => buffers.iter().map(Vec::as_slice).collect(),
            Self::Lent(buffers) => buffers.iter().map(|buffer| (**buffer).as_ref()).collect(),
        }
    }
}

/// Equal are those of equal bytes, cut in the same way, whoever owns them.
impl PartialEq for Buffers {
    fn eq(&self, other: &Self) -> bool {
        self.slices() == other.slices()
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.slices()).finish()
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
