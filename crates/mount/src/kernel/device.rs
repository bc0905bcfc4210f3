//! The kernel's device: requests are read from it, and answers and notices are written to it.

use super::abi;
use super::answer::Answer;
use rustix::io::Errno;
use std::fs::File;
use std::io::IoSlice;

/// The kernel, told that what it keeps is old. Each call waits for programs that have the directory locked: for the requests that
/// they wait for, too.
pub(crate) trait Kernel: Sync {
    /// Whether [`Kernel::drop_name`] takes nothing away from those who use what the name leads to.
    fn looks_again(&self) -> bool;
    /// A name in a directory.
    fn drop_name(&self, directory: u64, name: &[u8]);
    /// The attributes of an inode that is no file.
    fn drop_attributes(&self, directory: u64);
}

/// The kernel behind a device.
pub(super) struct Notifier<'a> {
    pub(super) device: &'a File,
    /// What both sides can: bits of [`abi::init`].
    pub(super) agreed: u64,
}

impl Kernel for Notifier<'_> {
    fn looks_again(&self) -> bool {
        self.agreed & abi::init::HAS_EXPIRE_ONLY != 0
    }

    // Neither finds anything if the kernel has forgotten it.
    fn drop_name(&self, directory: u64, name: &[u8]) {
        let mut fields = directory.to_ne_bytes().to_vec();
        // At most 255: fits.
        fields.extend([name.len() as u32, abi::EXPIRE_ONLY].map(u32::to_ne_bytes).concat());
        fields.extend(name);
        fields.push(0);
        let _ = write(self.device, (0, abi::NOTIFY_INVALIDATE_ENTRY), &fields, &[]);
    }

    fn drop_attributes(&self, directory: u64) {
        let _ = invalidate(self.device, directory, Kept::Attributes);
    }
}

/// Reads a request; none if the file system is unmounted.
pub(super) fn read(device: &File, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        match rustix::io::read(device, &mut *buffer) {
            // A request has a header. What has ended reads as nothing.
            Ok(0) | Err(Errno::NODEV) => return Ok(None),
            Ok(length) => return Ok(Some(length)),
            // ENOENT: the request was interrupted before it was read.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Answers a request; an error if the kernel does not know it any more.
pub(super) fn send(device: &File, unique: u64, outcome: Result<&Answer, Errno>) -> Result<(), Errno> {
    let (fields, data) = outcome.map(Answer::encode).unwrap_or_default();
    let data = data.unwrap_or_default();
    let error = outcome.err().map_or(0, |errno| -errno.raw_os_error());
    write(device, (unique, error), &fields, data)
}

/// What the kernel keeps of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    Attributes,
    /// All pages, too.
    Everything,
}

/// Has the kernel drop what it keeps of an inode, and waits for that.
pub(super) fn invalidate(device: &File, inode: u64, kept: Kept) -> Result<(), Errno> {
    // A negative offset says that no pages are meant.
    let (from, length) = if kept == Kept::Attributes { (u64::MAX, 0) } else { (0, 0) };
    let fields = [inode, from, length].map(u64::to_ne_bytes).concat();
    write(device, (0, abi::NOTIFY_INVALIDATE_INODE), &fields, &[])
}

fn write(device: &File, (unique, error): (u64, i32), fields: &[u8], data: &[u8]) -> Result<(), Errno> {
    let length = abi::ANSWER_HEAD + fields.len() + data.len();
    let mut head = Vec::with_capacity(abi::ANSWER_HEAD);
    // An answer is at most a few megabytes: fits.
    head.extend((length as u32).to_ne_bytes());
    head.extend(error.to_ne_bytes());
    head.extend(unique.to_ne_bytes());
    let parts = [IoSlice::new(&head), IoSlice::new(fields), IoSlice::new(data)];
    loop {
        match rustix::io::writev(device, &parts) {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(drop),
        }
    }
}
