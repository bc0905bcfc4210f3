//! The xdfs server: one listener thread that never waits for a peer, and one thread per pipeline
//! that moves data.
//!
//! - `audit`: lines of JSON for every event, and the limit on how fast a user may fill the log;
//! - `listen`: the listener's loop: connections, handshakes, idle sessions;
//! - `config`: the configuration file;
//! - `mailbox`: messages of other threads to the listener;
//! - `pending_login`: a connection that has not authenticated yet;
//! - `privilege`: the privileges that the process gives up before it serves;
//! - `session_context`: what the pipelines of a session share, and what all sessions do;
//! - `sessions`: the running sessions and their pipelines ([`xdfs_proto::registry`] decides which
//!   connections may join);
//! - `admit`: limits for unauthenticated connections (the table is [`xdfs_proto::admit`]);
//! - `authorise`: from a name on the wire and an authenticated principal to a file of an export;
//! - `batches`: the execution of batches of calls, for whom, and their lines in the log;
//! - `calls`: calls on names;
//! - `clock`: the time that files and tokens have;
//! - `files`: open files, and calls on them;
//! - `host`: the server's side of a pipeline;
//! - `rates`: limits of bandwidth of users and exports;
//! - `replies`: what the replies to calls on names and on files have in common;
//! - `reply_cache`: batches of calls that are repeated;
//! - `metrics`: figures for Prometheus;
//! - `log`: the events for an administrator; `severity`: how important each is;
//! - `traffic`: counters of what moved;
//! - [`users`]: the state folder: the host's key and the accounts.
//!
//! The library binds to whatever address it is given.
#![forbid(unsafe_code)]

mod admit;
pub mod audit;
mod authorise;
mod batches;
mod calls;
mod clock;
pub mod config;
mod descriptor_slots;
mod files;
mod host;
mod listen;
mod log;
mod mailbox;
pub mod metrics;
mod pending_login;
mod pending_shutdowns;
pub mod privilege;
mod rates;
mod recovery;
mod replies;
mod reply_cache;
mod session_context;
mod sessions;
mod severity;
pub mod stores;
mod traffic;
mod transfer_slots;
pub mod users;
mod watches;

pub use admit::ServerLimits;
pub use authorise::{Access, Anonymous, Export, Preserve, Users};
pub use listen::{Config, Server, ServerHandle};
pub use log::{CallLine, FirstFailure, Log, LogEvent, LoggedName};
pub use severity::{Area, Severity};
pub use traffic::{Count, Moved};
pub use xdfs_engine::pump::DiskMode;
pub use xdfs_io::transport::{Address, TransportOptions};
pub use xdfs_proto::base::KeyLimits;
pub use xdfs_proto::negotiate::Policy;
pub use xdfs_secure::handshake::tls::{HostIdentity, ServerIdentity, SiteCertificate, SiteError, Validity};
pub use xdfs_secure::identity::KeyPair;
pub use xdfs_secure::policy::{Directory, Fingerprint, VisitorsOnly};
