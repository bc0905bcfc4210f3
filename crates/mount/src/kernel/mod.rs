//! The kernel's side: the protocol of `/dev/fuse`, threads that answer its requests, and the mount
//! point. Nothing here knows what is mounted: that is a [`FileSystem`].

pub(crate) mod abi;
mod agree;
mod answer;
mod attach;
mod device;
mod dying;
mod file_system;
mod in_flight;
mod present;
mod request;
mod serve;

pub(crate) use answer::{Answer, Attributes, DirectoryBuffer, Entry, FileSystemFacts, Newer};
pub use attach::{AttachError, Attached, KernelOptions, MountPoint, attach};
pub(crate) use device::Kernel;
pub(crate) use file_system::{FileSystem, Outcome, Waiting};
pub(crate) use request::{Call, LockRequest, NewAttributes, NewMode, Operation, SetTime};
pub(crate) use serve::serve;
