//! Types that every other crate shares: ids, byte ranges, relative paths, error kinds, time.
//!
//! This is the only part of `proto` that `io` may use, so the author of a storage driver needs
//! nothing else of the protocol.

pub mod commit;
mod error;
mod extent;
mod id;
mod key_limits;
mod level;
mod marker;
pub mod path;
mod safety;
mod subtree;
mod suite;
mod time;
mod timestamp;

pub use error::{Error, ErrorKind, Retry};
pub use extent::{Extent, ExtentError};
pub use id::{ChannelId, OperationId, PipelineId, SessionId, TransferId};
pub use key_limits::KeyLimits;
pub use level::Level;
pub use marker::{Marker, MarkerStep};
pub use path::{PathError, RelPath};
pub use safety::Safety;
pub use subtree::{Digest, Subtree};
pub use suite::Suite;
pub use time::{Duration, Instant};
pub use timestamp::Timestamp;
