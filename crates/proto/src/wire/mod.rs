//! Bytes on the wire: fixed heads, variable-length integers, one file per family of messages. Total functions: any
//! input gives a value or a [`WireError`], never a panic, and never an allocation larger than the input.

mod call_codes;
pub mod codec;
pub mod control;
pub mod event;
mod extents;
pub mod file;
mod finish;
pub mod handshake;
pub mod head;
pub mod login;
pub mod notice;
pub mod path;
pub mod preface;
mod recall;
pub mod request;
mod times;

pub use codec::{Reader, WireError, Writer};
pub use control::Control;
pub use event::Event;
pub use head::{Flags, HEAD_BYTES, Head};
