//! The xdfs server: one listener thread that never waits for a peer, and one thread per pipeline that moves data.
//!
//! - `audit`: lines of JSON for every event, and how fast a user may fill it;
//! - `listen`: the listener's loop: connections, handshakes, idle sessions;
//! - `config`: the configuration file;
//! - `guest`: a connection that has not proved anything yet;
//! - `privilege`: what the process gives up before it serves;
//! - `sessions`: the sessions that have begun, and their pipelines (who may join is [`xdfs_proto::registry`]'s to say);
//! - `admit`: what bounds strangers (the table is [`xdfs_proto::admit`]);
//! - `authorise`: from a name on the wire and a proved principal to a file of an export;
//! - `calls`: what batches of calls do;
//! - `host`: what a pipeline asks of the server;
//! - `repeats`: batches of calls that come again;
//! - `log`: what an administrator hears;
//! - [`users`]: the state folder: the host's key and who may log in.
//!
//! The library binds wherever it is told.
#![forbid(unsafe_code)]

mod admit;
pub mod audit;
mod authorise;
mod calls;
pub mod config;
mod host;
mod listen;
mod log;
mod pending_login;
mod pending_shutdowns;
pub mod privilege;
mod recovery;
mod reply_cache;
mod sessions;
pub mod users;

pub use admit::ServerLimits;
pub use authorise::{Access, Anonymous, Export, Keep, Users};
pub use listen::{Config, Handle, Server};
pub use log::{CallLine, Log, LogEvent, LoggedName};
pub use xdfs_engine::pump::DiskMode;
pub use xdfs_proto::base::KeyLimits;
pub use xdfs_proto::negotiate::Policy;
pub use xdfs_secure::handshake::tls::{HostIdentity, ServerIdentity, SiteCertificate, SiteError, Validity};
pub use xdfs_secure::identity::KeyPair;
pub use xdfs_secure::policy::{Directory, Fingerprint, VisitorsOnly};
pub use xdfs_xio::transport::{Address, TransportOptions};
