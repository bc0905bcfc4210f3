//! The xdfs client: a session of n channels to one server, and transfers over it (CLI-06..09).
//!
//! A session serves any number of transfers, several at a time and in both directions, without a new connection.
//!
//! # Upload
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (address, store, handle) = {
#![doc = include_str!("example_server.txt")]
//! # };
//! use xdfs_client::{ConnectOptions, Payload, PutOptions, Session};
//!
//! let session = Session::connect(&ConnectOptions { channels: 4, ..ConnectOptions::to(address) })?;
//! let transfer = session.put(Payload::bytes(b"hello".to_vec())?, "export/greeting", &PutOptions::default())?;
//! assert_eq!(transfer.wait()?.length, 5);
//! session.close()?;
//! # assert_eq!(store.content(&xdfs_proto::base::RelPath::parse(b"greeting")?).as_deref(), Some(&b"hello"[..]));
//! # handle.stop();
//! # Ok(())
//! # }
//! ```
//!
//! # Download
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (address, store, handle) = {
#![doc = include_str!("example_server.txt")]
//! # };
//! # store.put(&xdfs_proto::base::RelPath::parse(b"greeting")?, b"hello, world")?;
//! use xdfs_client::{ConnectOptions, GetOptions, Session, Target};
//!
//! let session = Session::connect(&ConnectOptions::to(address))?;
//! assert_eq!(session.stat("export/greeting")?.size, Some(12));
//! let (target, content) = Target::memory();
//! let options = GetOptions { offset: 7, ..GetOptions::default() };
//! session.get("export/greeting", target, &options)?.wait()?;
//! assert_eq!(content.take().as_deref(), Some(&b"world"[..]));
//! session.close()?;
//! # handle.stop();
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod ends;
mod host;
pub mod identity;
mod joining;
mod options;
mod session;
mod transfer;
pub mod trust;

pub use ends::{Content, Payload, Staging, Target};
pub use options::{GetOptions, PutOptions};
pub use session::{ConnectOptions, Session, SessionFacts};
pub use transfer::{RemoteFile, Report, Transfer};
pub use xdfs_engine::pump::DiskMode;
pub use xdfs_proto::base::{Error, ErrorKind, Level, Retry, Safety};
pub use xdfs_xio::store::Existing;
pub use xdfs_xio::transport::Address;
