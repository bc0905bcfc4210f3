//! Conformance suites: one per plug-in room, in `tests/`. This library is empty on purpose; each suite holds its own
//! harness, since what a member is differs from room to room.
