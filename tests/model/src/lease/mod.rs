//! Two clients that keep bytes and changes of one file under leases, a server that may restart, sessions that may be lost, and a
//! program on the server's machine that changes the file: the real [`xdfs_proto::lease::LeaseTable`] and
//! [`xdfs_proto::lease::Holding`], in every order of messages and moments within the budgets of a [`setting::Leases`].
//!
//! What is proved: L1 what a client may use is the file as it was changed last, by whomever; L2 what the server has, and what it
//! tells others, is that too, unless a client still keeps the last change under its lease; L3 nobody waits for longer than a lease
//! holds, whatever its client does.
//!
//! # What is assumed
//!
//! Clocks run equally fast, and are shared here: only differences are ever used. Whatever a client does it may also leave undone,
//! so one that never answers is among those that are searched. Answers arrive in the order of the calls; a recall may overtake
//! them and be overtaken. The kernel tells the server of a program that opens the file before it can do anything with it, as it
//! does with F_SETLEASE; with `local_waits` off L1 does not hold, and a test shows it.

mod client;
pub mod properties;
mod server;
pub mod setting;
pub mod world;
