//! The mount point: mounted with mount(2) by root, by fusermount3 for everybody else.

use super::present;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that mounts for users who may not.
const FUSERMOUNT: &str = "fusermount3";

/// How the kernel mounts it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelOptions {
    /// What is mounted, as `mount` and `df` show it.
    pub source: String,
    /// Nothing is written.
    pub read_only: bool,
    /// Other users may use it; otherwise only the one who mounted it.
    pub allow_other: bool,
    /// No program of it is executed.
    pub no_exec: bool,
}

/// Why a directory cannot be mounted on.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It is missing, or no directory.
    #[error("{}: {errno}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the kernel says.
        errno: Errno,
    },
    /// Another mount is there, whose process is gone.
    #[error("{}: a mount is there whose process is gone", directory.display())]
    Stale {
        /// The directory.
        directory: PathBuf,
    },
    /// A server's directory is mounted there already.
    #[error("{}: '{what}' is mounted there", directory.display())]
    Mounted {
        /// The directory.
        directory: PathBuf,
        /// What is there.
        what: String,
    },
    /// The kernel's device cannot be opened.
    #[error("/dev/fuse: {0}")]
    Device(Errno),
    /// The kernel refuses.
    #[error("the kernel does not mount it: {0}")]
    Kernel(Errno),
    /// There is no program that mounts for users.
    #[error("there is no fusermount3, which mounts for users other than root")]
    NoFusermount,
    /// That program refuses.
    #[error("fusermount3 does not mount it")]
    Fusermount,
    /// Something that should not happen.
    #[error("cannot start fusermount3: {0}")]
    Io(#[from] std::io::Error),
}

/// A mounted directory, and the descriptor on which the kernel asks.
#[derive(Debug)]
pub struct Attached {
    /// The descriptor.
    pub(crate) device: File,
    /// Where.
    pub point: MountPoint,
}

/// A mounted directory, to be unmounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountPoint {
    directory: PathBuf,
    by_kernel: bool,
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// Mounts on `directory`, which must be absolute.
pub fn attach(directory: &Path, options: &KernelOptions) -> Result<Attached, AttachError> {
    let refused = |errno| match errno {
        Errno::NOTCONN => AttachError::Stale { directory: directory.to_owned() },
        errno => AttachError::Directory { directory: directory.to_owned(), errno },
    };
    let stat = rustix::fs::stat(directory).map_err(refused)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(refused(Errno::NOTDIR));
    }
    // What is known of a mount whose process is gone may still answer the first call, but not this one.
    rustix::fs::statfs(directory).map_err(refused)?;
    if let Some(what) = present::source(directory, stat.st_dev) {
        return Err(AttachError::Mounted { directory: directory.to_owned(), what });
    }
    let by_kernel = rustix::process::geteuid().is_root();
    let device = match by_kernel {
        true => by_kernel_itself(directory, options, stat.st_mode)?,
        false => by_fusermount(directory, options)?,
    };
    Ok(Attached { device, point: MountPoint { directory: directory.to_owned(), by_kernel } })
}

#[expect(clippy::disallowed_methods, reason = "the kernel's device: one fixed name")]
fn device() -> std::io::Result<File> {
    File::options().read(true).write(true).open("/dev/fuse")
}

fn by_kernel_itself(directory: &Path, options: &KernelOptions, mode: u32) -> Result<File, AttachError> {
    let device = device().map_err(|error| AttachError::Device(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let others = if options.allow_other { ",allow_other" } else { "" };
    let data = format!(
        "fd={},rootmode={:o},user_id={user},group_id={group},default_permissions{others}",
        device.as_raw_fd(),
        mode & 0o170_000
    );
    let data = CString::new(data).map_err(|_| AttachError::Kernel(Errno::INVAL))?;
    let flag = |set: bool, flag: MountFlags| if set { flag } else { MountFlags::empty() };
    let flags = MountFlags::NOSUID
        | MountFlags::NODEV
        | flag(options.read_only, MountFlags::RDONLY)
        | flag(options.no_exec, MountFlags::NOEXEC);
    rustix::mount::mount(options.source.as_str(), directory, present::TYPE, flags, data.as_c_str())
        .map_err(AttachError::Kernel)?;
    Ok(device)
}

/// The program gets a socket as its standard input, and sends the descriptor through it.
fn by_fusermount(directory: &Path, options: &KernelOptions) -> Result<File, AttachError> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut words = format!("default_permissions,nosuid,nodev,subtype=xdfs,fsname={}", escaped(&options.source));
    for (set, word) in [(options.read_only, ",ro"), (options.allow_other, ",allow_other"), (options.no_exec, ",noexec")]
    {
        if set {
            words.push_str(word);
        }
    }
    let mut command = Command::new(FUSERMOUNT);
    command.arg("-o").arg(words).arg("--").arg(directory);
    command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => AttachError::NoFusermount,
        _ => AttachError::Io(error),
    })?;
    // Its end of the socket goes with it.
    drop(command);
    let received = receive(&ours);
    let ended = child.wait()?;
    match received {
        Some(device) if ended.success() => Ok(File::from(device)),
        _ => Err(AttachError::Fusermount),
    }
}

fn receive(socket: &UnixStream) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

impl MountPoint {
    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts it, unless it is busy; with `lazily` nothing new is opened, and it goes when the
    /// last file is closed. False if it stays.
    pub fn detach(&self, lazily: bool) -> bool {
        if self.by_kernel {
            let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
            return matches!(rustix::mount::unmount(&self.directory, flags), Ok(()) | Err(Errno::INVAL));
        }
        let mut command = Command::new(FUSERMOUNT);
        command.arg("-u").arg("-q");
        if lazily {
            command.arg("-z");
        }
        let ended = command.arg("--").arg(OsString::from(self.directory.as_os_str())).status();
        ended.is_ok_and(|status| status.success())
    }

    /// What a person types to unmount it.
    pub fn command(directory: &Path) -> String {
        let shown = directory.as_os_str().as_bytes().escape_ascii();
        match rustix::process::geteuid().is_root() {
            true => format!("umount {shown}"),
            false => format!("{FUSERMOUNT} -u {shown}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_commas_is_one_option() {
        assert_eq!(escaped("xdfs://h/a,b\\c"), "xdfs://h/a\\,b\\\\c");
    }
}
