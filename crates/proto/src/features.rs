//! Features of a session, as bits of a set: a client asks for them, and a server grants those that it has.

/// The batches and rooms of all live operations of calls are together at most
/// [`CALL_ROOM_WIDE`](crate::limits::CALL_ROOM_WIDE) (P-71).
pub const WIDE_CALLS: u64 = 1;

/// All that this version has.
pub const ALL: u64 = WIDE_CALLS;
