//! Admission of connections to the handshake: the table is [`xdfs_proto::admit`], which knows
//! neither sockets nor addresses; this module adds both, and the settings of an administrator.

mod limits;
mod source;

pub use limits::ServerLimits;
pub(crate) use source::SourceNetwork;
pub(crate) use xdfs_proto::admit::{AdmissionVerdict, Drop};

use xdfs_io::dispatch::SocketId;

/// The connections of this server that have not authenticated yet.
pub(crate) type Admission = xdfs_proto::admit::Admission<SocketId, SourceNetwork>;
