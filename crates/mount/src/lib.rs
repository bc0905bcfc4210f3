//! A directory of an xdfs server as a directory of this machine (DFSM-01, DFSM-13): a file system in
//! user space, of which `docs/mount.md` says what is POSIX and what is not.
//!
//! The kernel's requests are answered by calls on names and on open files of `xdfs_client`, which
//! survive the loss of the session. What the server does not answer in time is EIO.
#![forbid(unsafe_code)]

mod errno;
mod handles;
mod inodes;
mod kernel;
mod tree;

pub use kernel::{AttachError, Attached, KernelOptions, MountPoint, attach};
pub use tree::{Settings, Tree};

use xdfs_client::Error;

/// Answers the kernel until the directory is unmounted, and calls `ended` then: the calls that are being made may yet wait for
/// the server. An error is one of the kernel's device.
pub fn serve(attached: &Attached, tree: &Tree, ended: &(dyn Fn() + Sync)) -> Result<(), Error> {
    kernel::serve(&attached.device, tree, ended).map_err(|errno| {
        let text = format!("the kernel's FUSE device: {}", std::io::Error::from(errno));
        Error::new(xdfs_client::ErrorKind::Storage, text)
    })
}
