//! The xdfs client: a session of n channels to one server, and transfers over it (CLI-06..09).
//!
//! A session serves any number of transfers, several concurrently and in both directions, without a
//! new connection.
//!
//! # Upload
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (address, store, handle, host_key) = {
#![doc = include_str!("example_server.txt")]
//! # };
//! use std::sync::Arc;
//! use xdfs_client::{ConnectOptions, Payload, Pinned, PutOptions, Session};
//!
//! // The key that the server printed when it started.
//! let host_check = Arc::new(Pinned(host_key));
//! let options = ConnectOptions { channels: 4, host_check, ..ConnectOptions::to(address) };
//! let session = Session::connect(&options)?;
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
//! # let (address, store, handle, host_key) = {
#![doc = include_str!("example_server.txt")]
//! # };
//! # store.put(&xdfs_proto::base::RelPath::parse(b"greeting")?, b"hello, world")?;
//! use std::sync::Arc;
//! use xdfs_client::wire::Wanted;
//! use xdfs_client::{ConnectOptions, GetOptions, Pinned, Session, Target};
//!
//! let host_check = Arc::new(Pinned(host_key));
//! let session = Session::connect(&ConnectOptions { host_check, ..ConnectOptions::to(address) })?;
//! assert_eq!(session.look("export/greeting", Wanted::SIZE)?.size, Some(12));
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

mod call_queue;
mod callback;
mod calls;
mod connect;
mod download_request;
mod endpoints;
pub mod file;
mod host;
pub mod identity;
mod joining;
mod journal;
mod options;
mod pipelines;
pub mod pool;
mod requests;
pub mod retry;
mod session;
mod transfer;
pub mod tree;
pub mod trust;
pub mod watch;
mod watches;

pub use calls::{Batch, Facts, Opener, Openers, Page, Pages, PendingReply, Reply, failed, in_full, when_permitted};
pub use connect::{connect_any, has_no_way, was_lost_in_opening};
pub use endpoints::{Content, Payload, Target, TargetInfo};
pub use journal::{authenticated, use_journal_key};
pub use options::{ConnectOptions, GetOptions, Offer, PutOptions, Verify};
pub use session::{Session, SessionFacts};
pub use transfer::{RemoteFile, Report, Transfer};
pub use xdfs_engine::pace::{Limit, rate};
pub use xdfs_engine::pump::DiskMode;
pub use xdfs_io::store::Existing;
pub use xdfs_io::transport::Address;
pub use xdfs_proto::base::{Digest, Error, ErrorKind, Level, Retry, Safety, Suite, Timestamp};
pub use xdfs_proto::limits::BLOCK_BYTES_MIN;
pub use xdfs_proto::wire::path as wire;
pub use xdfs_secure::content::hexadecimal;
pub use xdfs_secure::handshake::tls::{Certificates, read_roots};
pub use xdfs_secure::handshake::{Chain, HostCheck, Pinned, Shown};
pub use xdfs_secure::login::Password;
pub use xdfs_secure::policy::{Fingerprint, Method, PublicKey};
pub use xdfs_secure::record::Limits as KeyLimits;
