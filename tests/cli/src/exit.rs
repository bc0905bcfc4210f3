//! The exit codes of the command, as docs/exit-codes.md lists them.

/// Everything that was requested is done.
pub const DONE: i32 = 0;
/// Some of it was done.
pub const SOME_FAILED: i32 = 1;
/// The command line is invalid.
pub const USAGE: i32 = 2;
/// The server refused.
pub const REFUSED: i32 = 3;
/// No connection.
pub const CONNECTION_LOST: i32 = 4;
/// An error of this machine.
pub const LOCAL: i32 = 5;
/// Something that was named does not exist.
pub const NOT_FOUND: i32 = 6;
/// It is not allowed.
pub const PERMISSION_DENIED: i32 = 7;
/// A disk is full.
pub const NO_SPACE: i32 = 8;
/// The server's key is not the known one.
pub const NOT_TRUSTED: i32 = 9;
/// No login was accepted.
pub const LOGIN_REFUSED: i32 = 10;
/// Something exists that may not be replaced.
pub const EXISTS: i32 = 11;
/// Somebody else changed it meanwhile.
pub const CHANGED: i32 = 12;
/// The content is not what was sent.
pub const CORRUPTED: i32 = 13;
/// Not now.
pub const BUSY: i32 = 14;
/// Ctrl-C.
pub const CANCELLED: i32 = 130;
