//! End-to-end tests of the `xdfs` command: the real binary, real sockets, real files, as a person uses them.
//!
//! A test makes a [`Scene`] (a fresh directory), starts servers in it, runs commands and looks at exit codes, messages
//! and files. Nothing here knows how xdfs works inside. Every command has a deadline, so a hang is a failed test; no
//! test sleeps, shares a name or uses a fixed port. `XDFS_BINARY` tests another binary than the one of this workspace.

mod binary;
mod delay;
mod disk;
pub mod exit;
mod mounted;
mod proc;
mod relay;
mod run;
mod scene;
mod server;
mod sockets;
mod terminal;
mod timing;

pub use binary::{released, xdfs_binary};
pub use delay::{Delay, pass};
pub use disk::with_small_disk;
pub use mounted::{Mounted, with_file_systems};
pub use proc::{has_open, seen_by, threads_named};
pub use relay::Relay;
pub use run::{Outcome, Running, is_running};
pub use scene::{LISTEN, STAGING, Scene, Stacks, pattern};
pub use server::Server;
pub use sockets::{TcpState, tcp_sockets};
pub use terminal::Terminal;
pub use timing::{all_but_one_below, least, timed, until, wait_until};
