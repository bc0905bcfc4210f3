//! The caller's memory: the only unsafe code of this crate that reads or writes any. Each type is one kind
//! of parameter; Rust code makes none of them, so what they hold is what the header asks of a caller.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use xdfs_xio::{Error, ErrorKind, Result};

/// Most buffers of one operation, as the kernel has it.
const VECTORS_MAX: c_int = 1024;

fn usage(what: &str) -> Error {
    Error::new(ErrorKind::Usage, what)
}

/// A text of the caller's, or NULL.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text; none for NULL.
    pub(crate) fn get(&self) -> Result<Option<&str>> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller passes NULL or a text with a zero at its end, which stays while the call lasts.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(Some).map_err(|_| usage("a text is not UTF-8"))
    }

    /// A text that must be there.
    pub(crate) fn required(&self, what: &str) -> Result<&str> {
        self.get()?.ok_or_else(|| usage(&format!("{what} is NULL")))
    }
}

/// Where a value goes.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// It must not be NULL.
    pub(crate) fn required(self) -> Result<Self> {
        if self.0.is_null() { Err(usage("the place of the result is NULL")) } else { Ok(self) }
    }

    /// Writes it, unless nobody wants it.
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the caller passes NULL or the address of such a value, which may hold anything before.
            unsafe { ptr::write(self.0, value) };
        }
    }
}

/// Where a text goes, with its size behind it.
#[repr(transparent)]
pub(crate) struct TextOut(*mut c_char);

impl TextOut {
    /// Writes as much as there is room for, and a zero.
    pub(crate) fn set(&self, text: &str, size: usize) {
        if self.0.is_null() || size == 0 {
            return;
        }
        let length = text.len().min(size - 1);
        // SAFETY: the caller has `size` bytes there, or passes NULL; `length` is less than that, and no
        // text of ours is inside the caller's memory.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), length);
            ptr::write(self.0.add(length), 0);
        }
    }
}

/// A buffer of the caller's, lent to an operation until that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Buffer {
    start: *mut u8,
    length: usize,
}

// SAFETY: until the operation is over the memory is the operation's alone, on whatever thread it goes on.
unsafe impl Send for Buffer {}

impl Buffer {
    /// The bytes at `start`, if they can be.
    pub(crate) fn of(start: *mut u8, length: usize) -> Result<Self> {
        let buffer = Self { start, length };
        if start.is_null() && length > 0 || isize::try_from(length).is_err() {
            return Err(usage("a buffer is NULL, or longer than memory is"));
        }
        Ok(buffer)
    }

    /// What is handed back to the caller.
    pub(crate) fn start(self) -> *mut u8 {
        self.start
    }

    /// Its length.
    pub(crate) fn length(self) -> usize {
        self.length
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `of` found it not NULL and no longer than memory; the caller has that many bytes there and
        // touches none before the operation is over.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: as in `as_ref`; an operation that reads is given memory that can be written.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

/// Several buffers of the caller's, `struct iovec`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Vectors(*mut Buffer);

impl Vectors {
    /// The buffers.
    pub(crate) fn get(self, count: c_int) -> Result<Vec<Buffer>> {
        let length = usize::try_from(count).ok().filter(|_| count <= VECTORS_MAX);
        let Some(length) = length.filter(|length| *length == 0 || !self.0.is_null()) else {
            return Err(usage(&format!("there is no list of {count} buffers")));
        };
        if length == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: it is not NULL; the caller has that many of `struct iovec` there while the call lasts, and
        // `Buffer` has the same fields in the same order.
        let vectors = unsafe { std::slice::from_raw_parts(self.0, length) };
        let buffers = vectors.iter().map(|vector| Buffer::of(vector.start, vector.length));
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        let total = buffers.iter().try_fold(0usize, |sum, buffer| sum.checked_add(buffer.length));
        total.map(|_| buffers).ok_or_else(|| usage("the buffers are longer than memory is"))
    }
}

// SAFETY: it is handed back to the caller's callback, and read by nobody else after the call.
unsafe impl Send for Vectors {}

/// Something of the caller's that callbacks get back.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct UserArg(*mut c_void);

// SAFETY: nobody here follows it, and the header says that callbacks run on another thread.
unsafe impl Send for UserArg {}
