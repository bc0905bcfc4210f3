//! Clients in other languages against the real server. They are written from docs/protocol.md and the vectors alone, so
//! that these are known to suffice; what lies here in Rust only starts them and compares files.
