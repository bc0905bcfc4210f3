//! FTP and GridFTP, as a client speaks them (RFC 959, 2389, 2428, 3659; GFD.20).
//!
//! Everything with states is a machine without I/O: [`reply::ReplyReader`] cuts the control channel
//! into replies, [`control::Control`] says which reply may follow which command, and
//! [`mode_e::Assembly`] decides about each block of the parallel data channels. [`client::Client`]
//! is the only module with sockets. [`driver::ModeE`] offers such channels to stacks of `xdfs-xio`.
//!
//! The server may be hostile. A reply has a bounded length, an address must be the server's own, a
//! block must lie in the file and overlap no other, and a name that would end a command early is
//! refused before anything is sent.
#![forbid(unsafe_code)]

pub mod address;
pub mod client;
pub mod command;
pub mod control;
pub use xdfs_xio::credentials;
pub mod driver;
pub mod features;
pub mod listing;
pub mod markers;
pub mod mode_e;
pub mod ranges;
pub mod reply;
pub mod text;
