//! Driver stacks for any program (the papers' XIO): a program opens a stack by names that it gets
//! at run time, and reads and writes through it, whatever is below. `docs/xio.md` says how to use
//! it and how to write a driver.
//!
//! Who waits, for how long, what a cancel or a close does and who is told when is decided here, once:
//! in [`Handle`] and the machine below it ([`operations::Operations`]). A driver moves bytes and
//! never waits.

mod asynchronous;
pub mod attributes;
mod contact;
pub mod credentials;
mod driver;
pub mod drivers;
mod error;
mod given;
mod guard;
mod handle;
mod load;
pub mod operations;
mod pool;
mod registry;
#[cfg(any(feature = "futures", feature = "tokio"))]
mod runtimes;
mod server;
mod stack;

pub use asynchronous::AsyncHandle;
pub use attributes::{AttributeInfo, Attributes, Value, ValueKind};
pub use contact::{Contact, ContactError};
pub use driver::{Below, Driver, Kind, Listener};
pub use error::{Error, ErrorKind, Result};
pub use given::Accepting;
pub use handle::{Buffers, Completed, Handle, Lent, Options, Received, Timeouts};
pub use operations::OperationId;
pub use registry::Registry;
pub use server::{Accepted, Server};
pub use stack::Stack;
pub use xdfs_io::stack::{Answer, Command, Flow, Interest, Over, ReadInfo, Room, WriteInfo};
