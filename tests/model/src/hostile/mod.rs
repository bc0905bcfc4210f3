//! Model checking of joining, revocation and protection with a hostile participant: every order in which things can happen
//! around a small session of Ann's while Eve, who has an account and a session of her own and sees and moves every byte on
//! the way, does what she can.
//!
//! Real are the server's [`xdfs_proto::registry`] (who is in, which grant serves whom, what a revocation reaches), every
//! [`xdfs_proto::session::Session`] of Ann's at both ends and of Eve's at the server, and `negotiate`. Symbolic is what
//! cryptography does ([`symbol`]): a proof or a seal can be made by who holds the key and by nobody else, and be copied by
//! everybody. The places of connections that have proved nothing are searched apart, in [`places`].
//!
//! | property | what it says here |
//! |---|---|
//! | S1 | a channel of a session was opened by a proof that the holder of its secret made |
//! | S2 | and that holder is the session's user |
//! | S3 | a number of a grant attaches once, and no number that was not granted |
//! | S4 | nothing is written, staged or named before the session began, and after it ended or was taken away; nothing joins it |
//! | S5 | no block is taken below the floors of client, server and export, and both ends say the same level |
//! | S6 | no key protects two records under one nonce |
//! | S12 | what has proved nothing is bounded, and gone at its deadline |
//!
//! And beside them: Ann is never found at fault for what Eve does, what she is told is true, and everything comes to its end.
//!
//! # What is left out
//!
//! - **The handshake**: a login is right or it is not. The real one is fuzzed and attacked over sockets.
//! - **Eve's own machine**: she says what she likes, out of a small alphabet, and takes no answers.
//! - **Time** is before or after the end of a grant's life.

pub mod action;
mod drive;
mod eve;
pub mod oracle;
pub mod places;
pub mod properties;
pub mod setting;
pub mod settings;
pub mod symbol;
pub mod world;
