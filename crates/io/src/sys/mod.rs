//! The calls for which no safe wrapper exists. There is no policy here: a function is one system
//! call with its arguments checked.

mod file;
mod socket;
mod wait;

pub(crate) use file::{LockRange, begin_writing, find_lock, set_lock};
pub use socket::TcpInfo;
pub(crate) use socket::{meminfo, tcp_info};
pub(crate) use wait::EpollEvents;
pub use wait::{PollEntry, poll};
