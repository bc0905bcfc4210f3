//! Results: a number with the kind of the error in its lowest byte and a count above it, and the texts of
//! the last errors by their numbers. Callbacks run on other threads, so that a text of each thread's own
//! would not do.

use crate::memory::TextOut;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use xdfs_xio::{Error, ErrorKind, Result};

/// What every call returns.
pub(crate) type ResultCode = u32;

/// No error.
pub(crate) const SUCCESS: ResultCode = 0;

/// The kind of an end: the framework tells it beside the bytes, and C has the result alone.
const END: u8 = 14;

/// How many texts are kept.
const TEXTS_MAX: usize = 256;

static TEXTS: Mutex<Texts> = Mutex::new(Texts { count: 0, kept: VecDeque::new() });

struct Texts {
    count: u32,
    kept: VecDeque<(ResultCode, String)>,
}

fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => 1,
        ErrorKind::Contact => 2,
        ErrorKind::Unsupported => 3,
        ErrorKind::Cancelled => 4,
        ErrorKind::TimedOut => 5,
        ErrorKind::Closed => 6,
        ErrorKind::TooMany => 7,
        ErrorKind::NotFound => 8,
        ErrorKind::Denied => 9,
        ErrorKind::Lost => 10,
        ErrorKind::Protocol => 11,
        ErrorKind::Driver => 12,
        _ => 13,
    }
}

/// The kinds in words, for errors whose texts are forgotten.
const KINDS: [&str; END as usize + 1] = [
    "no error",
    "the call cannot be meant",
    "the contact string is of no use",
    "the driver cannot do that",
    "the operation was cancelled",
    "its time is up",
    "the handle is closed",
    "too many operations are outstanding",
    "there is no such file, host or listener",
    "it is not allowed",
    "the peer refused or ended the connection",
    "what arrived is not what the protocol allows",
    "the driver broke its contract",
    "an error",
    "the end, before the bytes that were waited for",
];

/// The end of the input.
pub(crate) fn end() -> ResultCode {
    ResultCode::from(END)
}

/// The number of an error, whose text is kept.
pub(crate) fn result_of(error: &Error) -> ResultCode {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    // Zero is that of errors without a text of their own.
    texts.count = (texts.count % 0xff_ffff) + 1;
    let result = texts.count << 8 | ResultCode::from(code(error.kind()));
    if texts.kept.len() == TEXTS_MAX {
        texts.kept.pop_front();
    }
    texts.kept.push_back((result, error.to_string()));
    result
}

/// Runs the body of a call. A panic must not leave it: C has nothing that catches it.
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> ResultCode {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => result_of(&error),
        Err(_) => result_of(&Error::new(ErrorKind::Other, "a defect of the library: it panicked")),
    }
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_result_text(result: ResultCode, text: TextOut, size: usize) -> usize {
    let texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = texts.kept.iter().rev().find(|(kept, _)| *kept == result).map(|(_, text)| text.as_str());
    let shown = kept.or_else(|| KINDS.get((result & 0xff) as usize).copied()).unwrap_or("an error");
    text.set(shown, size);
    shown.len()
}
