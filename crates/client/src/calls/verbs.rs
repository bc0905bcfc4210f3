//! Ready-made single calls. Each is a batch of one: many calls are better put into one batch.

use super::{Batch, failed, when_permitted};
use crate::session::Session;
use xdfs_proto::base::{Digest, Error, ErrorKind, RelPath, Safety, Timestamp};
use xdfs_proto::wire::path::{
    self, Answer, Attributes, Call, FileSystem, FileType, Kept, NewTime, OpenedFor, Owner, Wanted,
};

/// Bytes that attributes may occupy in an answer, including the target of a link and all names.
const ATTRIBUTES_BYTES: usize = 5 * 1024;

/// The attributes that the server reports for a name, as an owned value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of `Attributes`")]
pub struct Facts {
    pub kind: FileType,
    pub mode: Option<u32>,
    pub size: Option<u64>,
    pub modified: Option<Timestamp>,
    pub accessed: Option<Timestamp>,
    pub links: Option<u64>,
    pub inode: Option<[u8; 16]>,
    pub owner: Option<(u32, u32)>,
    pub names: Option<(Vec<u8>, Vec<u8>)>,
    pub device: Option<(u32, u32)>,
    pub allocated: Option<u64>,
    pub change: Option<u64>,
    pub version: Option<Vec<u8>>,
    pub target: Option<Vec<u8>>,
    pub xattrs: Option<bool>,
    pub kept: Option<Kept>,
}

impl From<&Attributes<'_>> for Facts {
    fn from(told: &Attributes<'_>) -> Self {
        Self {
            kind: told.kind,
            mode: told.mode,
            size: told.size,
            modified: told.modified,
            accessed: told.accessed,
            links: told.links,
            inode: told.inode,
            owner: told.owner,
            names: told.names.map(|(user, group)| (user.to_vec(), group.to_vec())),
            device: told.device,
            allocated: told.allocated,
            change: told.change,
            version: told.version.map(<[u8]>::to_vec),
            target: told.target.map(<[u8]>::to_vec),
            xattrs: told.xattrs,
            kept: told.kept,
        }
    }
}

/// An open file of a client, as its server tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opener {
    /// Whose it is; empty for visitors, and if a visitor asks.
    pub user: Vec<u8>,
    /// What it does, and keeps others from.
    pub does: OpenedFor,
    /// Ranges that it has locked.
    pub ranges: u64,
}

/// Who has a file open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Openers {
    /// The open files of clients.
    pub list: Vec<Opener>,
    /// These are all; a server does not tell of more than 64.
    pub complete: bool,
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, "the server answered something else")
}

impl Session {
    /// Makes one call below `base`; `read` extracts its answer.
    pub(crate) fn one<T>(
        &self,
        base: &[u8],
        call: &Call<'_>,
        room: usize,
        read: impl FnOnce(&Answer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        let mut batch = Batch::new(base);
        batch.push_with_room(call, room.min(self.batch_bytes_max() - 1024));
        let reply = when_permitted(|| self.call(&batch)?.wait())?;
        match reply.read()?.outcomes.first() {
            Some(Ok(answer)) => read(answer).ok_or_else(unexpected),
            Some(Err(failure)) => Err(failed(*failure, &format!("'{}'", base.escape_ascii()))),
            None => Err(unexpected()),
        }
    }

    pub(crate) fn done(&self, base: &[u8], call: &Call<'_>) -> Result<(), Error> {
        self.one(base, call, 0, |answer| (*answer == Answer::Done).then_some(()))
    }

    /// The attributes of `remote`; for a link, those of the link itself.
    pub fn look(&self, remote: impl AsRef<[u8]>, wanted: Wanted) -> Result<Facts, Error> {
        let call = Call::Stat { path: b"", wanted };
        self.one(remote.as_ref(), &call, ATTRIBUTES_BYTES, |answer| match answer {
            Answer::Attributes(told) => Some(Facts::from(told)),
            _ => None,
        })
    }

    /// Makes a directory; with `parents` also its missing ancestors, and an existing directory is
    /// no error.
    pub fn make_directory(&self, remote: impl AsRef<[u8]>, mode: u32, parents: bool) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::MakeDirectory { path: b"", parents, mode })
    }

    /// Makes a named pipe.
    pub fn make_fifo(&self, remote: impl AsRef<[u8]>, mode: u32) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::MakeNode { path: b"", kind: FileType::Fifo, mode, device: (0, 0) })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, remote: impl AsRef<[u8]>) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::RemoveDirectory { path: b"" })
    }

    /// Removes a name that is not a directory.
    pub fn remove(&self, remote: impl AsRef<[u8]>) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::Unlink { path: b"" })
    }

    /// Renames `from` below `base` to `to` below it.
    pub fn rename(
        &self,
        base: impl AsRef<[u8]>,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        keep_existing: bool,
    ) -> Result<(), Error> {
        let (path, to) = (from.as_ref(), to.as_ref());
        self.done(base.as_ref(), &Call::Rename { path, to, keep_existing })
    }

    /// Gives the file `of` below `base` one more name below it.
    pub fn link(&self, base: impl AsRef<[u8]>, of: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.done(base.as_ref(), &Call::Link { path: of.as_ref(), to: name.as_ref() })
    }

    /// Makes or finds the staging directory of a tree that is to appear at `remote` as a whole, and
    /// returns its path below the export. `client` is this client's private id of the tree. The
    /// staging directory exists as long as this session lives.
    pub fn stage_tree(&self, remote: impl AsRef<[u8]>, client: [u8; 16]) -> Result<RelPath, Error> {
        let call = Call::StageTree { path: b"", client };
        self.one(remote.as_ref(), &call, 0, |answer| match answer {
            Answer::Bytes(place) => RelPath::parse(place).ok().filter(|place| !place.is_root()),
            _ => None,
        })
    }

    /// Renames such a tree to its final name, if that is free. With `durable` the name is on stable
    /// storage before the answer, if that says so.
    pub fn publish_tree(&self, remote: impl AsRef<[u8]>, client: [u8; 16], durable: bool) -> Result<Safety, Error> {
        let mut batch = Batch::new(remote.as_ref());
        batch.push(&Call::PublishTree { path: b"", client });
        let reply = self.call(&if durable { batch.durable() } else { batch })?.wait()?;
        let told = reply.read()?;
        match told.outcomes.first() {
            Some(Err(why)) => Err(failed(*why, "cannot give it its name")),
            _ => Ok(told.safety),
        }
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, remote: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::Symlink { path: b"", target: target.as_ref() })
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, remote: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        self.one(remote.as_ref(), &Call::ReadLink { path: b"" }, ATTRIBUTES_BYTES, |answer| match answer {
            Answer::Bytes(target) => Some(target.to_vec()),
            _ => None,
        })
    }

    /// Sets permission bits.
    pub fn set_mode(&self, remote: impl AsRef<[u8]>, mode: u32) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::SetMode { path: b"", mode })
    }

    /// Sets times; `None` leaves one unchanged.
    pub fn set_times(
        &self,
        remote: impl AsRef<[u8]>,
        modified: Option<NewTime>,
        accessed: Option<NewTime>,
    ) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::SetTimes { path: b"", modified, accessed })
    }

    /// Truncates or extends a file.
    pub fn truncate(&self, remote: impl AsRef<[u8]>, length: u64) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::Truncate { path: b"", length })
    }

    /// Sets owner and group; `None` leaves one unchanged.
    pub fn set_owner(
        &self,
        remote: impl AsRef<[u8]>,
        user: Option<Owner<'_>>,
        group: Option<Owner<'_>>,
    ) -> Result<(), Error> {
        self.done(remote.as_ref(), &Call::SetOwner { path: b"", user, group })
    }

    /// Space of the file system that holds `remote`.
    pub fn space(&self, remote: impl AsRef<[u8]>) -> Result<FileSystem, Error> {
        self.one(remote.as_ref(), &Call::FileSystem { path: b"" }, 0, |answer| match answer {
            Answer::FileSystem(room) => Some(*room),
            _ => None,
        })
    }

    /// Who has a file open, among the clients of its server.
    pub fn openers(&self, remote: impl AsRef<[u8]>) -> Result<Openers, Error> {
        let call = Call::Opens { path: b"" };
        self.one(remote.as_ref(), &call, call.room(), |answer| match answer {
            Answer::Openers(told) => {
                let opener =
                    |one: &path::Opener<'_>| Opener { user: one.user.to_vec(), does: one.does, ranges: one.ranges };
                Some(Openers { list: told.list.iter().map(opener).collect(), complete: told.complete })
            }
            _ => None,
        })
    }

    /// The hash of a file or a range of it, as its server reads it, and its length. For large files
    /// see [`Session::sum`]: later calls wait for this one.
    pub fn hash(&self, remote: impl AsRef<[u8]>, offset: u64, length: Option<u64>) -> Result<(u64, Digest), Error> {
        self.one(remote.as_ref(), &Call::Hash { path: b"", offset, length }, 0, |answer| match answer {
            Answer::Hash { length, digest } => Some((*length, *digest)),
            _ => None,
        })
    }
}
