//! The bench of xdfs: the same work, done by xdfs and by its peers, one after the other inside each round.
//!
//! `bin/xdfs-bench.rs` is the harness, `bin/bound.rs` the program without a protocol that every transfer is measured
//! against. Nothing here is linked into xdfs, and the bench knows xdfs by its command line: what a user can run is what is
//! measured. `bin/holder.rs` alone uses the client's crate, for what the command line cannot be asked for.
#![forbid(unsafe_code)]

pub mod args;
pub mod bound;
pub mod cell;
pub mod error;
pub mod files;
pub mod goals;
pub mod holder;
pub mod install;
pub mod machine;
pub mod measure;
pub mod namespace;
pub mod peers;
pub mod process;
pub mod report;
pub mod shapes;
pub mod sockets;
pub mod stats;
pub mod tls;
pub mod tree;
pub mod world;
