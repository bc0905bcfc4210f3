//! The calls on an open file.

use super::leases::{AccessGuard, Pinned, too_late};
use super::shares::Sharing;
use super::{Handle, NameSync, Object, OpenState, SessionFiles, changing, hidden, lock, stale};
use crate::authorise::{Authority, Authorized, Want};
use crate::replies::attributes_of;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use xdfs_io::store::open_file::Seek;
use xdfs_io::store::{OpenFile, OpenRequest};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::lease::Access;
use xdfs_proto::wire::file::{FileAnswer, FileCall, LeaseCall, OpenFile as OpenCall, OpenedFile, ReadRange};
use xdfs_proto::wire::path::{ReplyWriter, Wanted};
use xdfs_secure::policy::{Method, Principal};

/// The session for which a batch is executed.
pub(crate) struct Caller {
    /// What it has open.
    pub files: Arc<SessionFiles>,
    /// The access rules when the batch arrived.
    pub authority: Arc<Authority>,
    /// Its user.
    pub principal: Arc<Principal>,
    /// The user whose limits the handles count against.
    pub budget: Arc<str>,
    /// Seconds since 1970 when the batch arrived.
    pub now: u64,
}

/// The calls of one batch, for one user.
pub(super) struct FileCalls {
    /// For whom they are made.
    pub caller: Caller,
    /// What the batch does with the bytes and attributes of its file.
    pub wants: Option<Access>,
    /// It is executed under its handle's write lease, or not at all.
    pub under: bool,
    /// The file of the batch; none before it is opened, and when it is closed.
    pub file: Option<BatchFile>,
}

/// The file of a batch.
pub(super) struct BatchFile {
    /// Its handle.
    pub handle: Arc<Handle>,
    /// While the batch does what leases may exclude.
    pub access: Option<AccessGuard>,
    /// The handle's write lease, if it is executed under that, which does not end before the slice.
    pub pinned: Option<Pinned>,
}

/// The file of a batch, open for one of its calls.
pub(super) struct OpenedHandle<'a> {
    pub handle: &'a Arc<Handle>,
    pub file: Arc<OpenFile>,
    /// What the user may do with it now.
    pub at: Authorized,
}

/// Permission bits that every user may set.
const PLAIN: u32 = 0o777;

/// The same where the export keeps modes.
const ALL_BITS: u32 = 0o7777;

impl FileCalls {
    /// Executes one call and writes its result.
    pub(super) fn call(&mut self, call: &FileCall<'_>, writer: &mut ReplyWriter) -> Result<(), Error> {
        let handle = self.file.as_ref().map(|file| Arc::clone(&file.handle));
        // Whoever takes the handle over waits for this call.
        let running = handle.as_ref().map(|handle| handle.retired.read().unwrap_or_else(PoisonError::into_inner));
        if running.as_deref() == Some(&true) {
            drop(running);
            return self.call_retired(call, writer);
        }
        if self.is_too_late() && !matches!(call, FileCall::Lease(LeaseCall::Under)) {
            return Err(too_late());
        }
        match call {
            FileCall::Read { ranges } => return self.read(ranges, writer),
            FileCall::Attributes { wanted } => return self.attributes(*wanted, writer),
            FileCall::ReadPipe { length, .. } => return self.read_pipe(*length, writer),
            FileCall::WritePipe { offset, data, .. } => self.write_pipe(*offset, data),
            FileCall::Open(open) if open.pipe => self.open_pipe(open).map(FileAnswer::Opened),
            FileCall::Open(open) => self.open(open).map(FileAnswer::Opened),
            FileCall::Close => self.close(),
            FileCall::Sync { data_only } => self.sync(*data_only),
            FileCall::Append { data } => self.append(data),
            FileCall::Lock { .. }
            | FileCall::Unlock
            | FileCall::LockRange { .. }
            | FileCall::UnlockRange { .. }
            | FileCall::FindLock { .. } => self.lock(call),
            FileCall::Seek { offset, hole } => {
                let what = if *hole { Seek::Hole } else { Seek::Data };
                let OpenedHandle { file, .. } = self.opened(Want::Read)?;
                file.seek(*offset, what).map(|offset| FileAnswer::Found { offset })
            }
            FileCall::Write { .. }
            | FileCall::SetLength { .. }
            | FileCall::Allocate { .. }
            | FileCall::Punch { .. } => self.change(call),
            FileCall::Lease(lease) => self.lease(*lease).map(FileAnswer::Lease),
            FileCall::Unknown { .. } => Err(Error::new(ErrorKind::Unsupported, "no such call")),
        }?
        .tell(writer);
        Ok(())
    }

    /// A call about a handle that is closed already: the session has it no more, whatever the call is.
    fn call_retired(&mut self, call: &FileCall<'_>, writer: &mut ReplyWriter) -> Result<(), Error> {
        let closed = self.close()?;
        match call {
            FileCall::Close => {
                closed.tell(writer);
                Ok(())
            }
            _ => {
                let text = "it was opened again in another session, its export has another directory, or a reload took the right to \
                    keep others from it";
                Err(stale(text))
            }
        }
    }

    pub(super) fn authorise(&self, name: &[u8], want: Want) -> Result<Authorized, Error> {
        self.caller.authority.authorise(&self.caller.principal, name, want, self.caller.now)
    }

    /// The same for what is open, which must still be below the export.
    pub(super) fn authorise_open(&self, handle: &Handle, want: Want) -> Result<Authorized, Error> {
        let at = self.authorise(&handle.opened.name, want)?;
        if at.root().differs_from(handle.opened.root) {
            return Err(stale("its export has another directory now"));
        }
        Ok(at)
    }

    fn open(&mut self, open: &OpenCall<'_>) -> Result<OpenedFile, Error> {
        // What is created by this handle alone needs no more than the right to create.
        let own = open.exclusive
            || open.again.is_some_and(|before| self.caller.files.server.is_own(before, &self.caller.budget));
        let mut at = None;
        if open.read {
            at = Some(self.authorise(open.path, Want::Read)?);
        }
        if open.write {
            at = Some(self.authorise(open.path, changing(own))?);
        }
        if open.deny_read || open.deny_write {
            self.must_shut_others_out(open.path, own)?;
        }
        let at = at.ok_or_else(|| Error::new(ErrorKind::Protocol, "opened neither to read nor to write"))?;
        let reserved = self.caller.files.server.reserve(&self.caller.budget, open.path.len())?;
        let export = self.caller.authority.exports().get(at.export() as usize);
        let bits = if export.is_some_and(|export| export.access().keep.modes) { ALL_BITS } else { PLAIN };
        let request = OpenRequest {
            read: open.read,
            write: open.write,
            create: open.create,
            exclusive: open.exclusive,
            mode: open.mode & bits,
        };
        if let Some(before) = open.again {
            self.caller.files.server.take_over(before.handle, &self.caller.budget)?;
        }
        let (file, created) = at.store().open_file(at.path(), &request)?;
        let identity = file.identity()?;
        if open.again.is_some_and(|before| before.identity != identity) {
            return Err(stale("its name belongs to another file now"));
        }
        let (read, write, deny_read, deny_write) = (open.read, open.write, open.deny_read, open.deny_write);
        let sharing = Sharing { read, write, deny_read, deny_write };
        let id = self.caller.files.next_id()?;
        let access = self.access_of_opened(open, &identity, created)?;
        if !lock(&self.caller.files.server.shares).open(&identity, sharing) {
            let text = "somebody else has the file open in a way that excludes this one; try again later";
            return Err(Error::new(ErrorKind::Locked, text));
        }
        let name = match open.again {
            Some(_) => NameSync::Unknown,
            None if created => NameSync::Created,
            None => NameSync::Synced,
        };
        let opened = OpenState::new(open.path, at.root(), identity, sharing, own);
        let handle = Arc::new(Handle::new(&self.caller.files, id, opened, Object::file(name), reserved));
        if open.again.is_some() {
            self.claim_hidden(open.path, &handle);
        }
        if open.truncate && !created {
            file.set_length(0)?;
        }
        let node = file.node()?;
        handle.keep(Arc::new(file));
        self.adopt(Arc::clone(&handle), access);
        if open.again.is_some() {
            self.caller.files.inherit_failed_sync(&handle);
        }
        Ok(OpenedFile {
            handle: id,
            identity,
            verifier: self.caller.files.server.verifier,
            size: node.size,
            change: change_of(&node),
        })
    }

    /// A file that was opened again under a hidden name belongs to this session, if its user may remove it.
    fn claim_hidden(&self, path: &[u8], handle: &Handle) {
        if let Some(name) = hidden::plain(path).filter(|name| hidden::is_hidden(name))
            && self.authorise(&name, Want::Change).is_ok()
        {
            self.caller.files.server.hidden_claimed(name, handle.key(), &self.caller.principal);
        }
    }

    /// The batch is about this handle from now on, with this access to its file.
    pub(super) fn adopt(&mut self, handle: Arc<Handle>, access: Option<AccessGuard>) {
        self.caller.files.adopt(&handle);
        self.file = Some(BatchFile { handle, access, pinned: None });
    }

    /// Whoever shuts others out must have the right to change the file.
    pub(super) fn must_shut_others_out(&self, name: &[u8], own: bool) -> Result<(), Error> {
        self.authorise(name, changing(own)).map(drop)
    }

    /// The file of the batch.
    pub(super) fn file(&self) -> Result<&BatchFile, Error> {
        self.file.as_ref().ok_or_else(|| stale("it is closed"))
    }

    /// Its handle.
    pub(super) fn handle(&self) -> Result<&Arc<Handle>, Error> {
        self.file().map(|file| &file.handle)
    }

    fn close(&mut self) -> Result<FileAnswer<'static>, Error> {
        self.caller.files.close(self.handle()?.id)?;
        self.file = None;
        Ok(FileAnswer::Done)
    }

    /// The open file, if the user may do this with it now.
    fn opened(&self, want: Want) -> Result<OpenedHandle<'_>, Error> {
        let handle = self.handle()?;
        handle.file()?;
        let Sharing { read, write, .. } = handle.opened.sharing;
        let (granted, want) = match want {
            Want::Read => (read, want),
            _ => (write, handle.opened.changing()),
        };
        let at = self.authorise_open(handle, want)?;
        if !granted {
            let text =
                if want == Want::Read { "the handle is not open to read" } else { "the handle is not open to write" };
            return Err(Error::new(ErrorKind::Refused, text));
        }
        if let Some(file) = handle.descriptor() {
            return Ok(OpenedHandle { handle, file, at });
        }
        let file = match at.store().open_file(at.path(), &handle.opened.request()) {
            Ok((file, _)) => Arc::new(file),
            Err(error) if error.kind == ErrorKind::NotFound => return Err(stale("its name is gone")),
            Err(error) => return Err(error),
        };
        if file.identity()? != handle.opened.identity {
            return Err(stale("its name belongs to another file now"));
        }
        handle.keep(Arc::clone(&file));
        Ok(OpenedHandle { handle, file, at })
    }

    /// The open file for a call that needs no more than that it is open.
    pub(super) fn opened_anyhow(&self) -> Result<OpenedHandle<'_>, Error> {
        let reads = self.handle()?.opened.sharing.read;
        self.opened(if reads { Want::Read } else { Want::Change })
    }

    fn read(&self, ranges: &[ReadRange], writer: &mut ReplyWriter) -> Result<(), Error> {
        let OpenedHandle { file, .. } = self.opened(Want::Read)?;
        // Each range has its length before it, and the result its status and their number.
        let asked = ranges.iter().fold(16, |sum, range| sum + range.length as usize + 4);
        if asked > writer.room() {
            let text = format!("the reply has room for {} bytes, and {asked} are requested", writer.room());
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        let mut bytes = vec![0; asked];
        let (mut parts, mut rest) = (Vec::with_capacity(ranges.len()), bytes.as_mut_slice());
        for range in ranges {
            let (part, behind) = rest.split_at_mut(range.length as usize);
            let read = file.read_at(part, range.offset)?;
            parts.push(&part[..read]);
            rest = behind;
        }
        FileAnswer::Read(parts).tell(writer);
        Ok(())
    }

    fn attributes(&self, wanted: Wanted, writer: &mut ReplyWriter) -> Result<(), Error> {
        let OpenedHandle { file, .. } = self.opened_anyhow()?;
        // Account names are hidden from anonymous users.
        let visitor = self.caller.principal.method == Method::Anonymous;
        let wanted = if visitor { wanted.without(Wanted::NAMES) } else { wanted };
        FileAnswer::Attributes(attributes_of(&file.node()?, wanted, None)).tell(writer);
        Ok(())
    }

    fn change(&self, call: &FileCall<'_>) -> Result<FileAnswer<'static>, Error> {
        let OpenedHandle { handle, file, .. } = self.opened(Want::Change)?;
        match *call {
            FileCall::Write { offset, data } => {
                let turn = lock(&handle.file()?.writing);
                file.write_at(data, offset)?;
                drop(turn);
                handle.passed(data.len());
            }
            FileCall::SetLength { length } => file.set_length(length)?,
            FileCall::Allocate { offset, length, keep_size } => file.allocate(offset, length, keep_size)?,
            FileCall::Punch { offset, length } => file.punch(offset, length)?,
            _ => return Err(Error::new(ErrorKind::Unsupported, "no such call")),
        }
        Ok(FileAnswer::Changed { change: changed(handle, &file)? })
    }

    fn append(&self, data: &[u8]) -> Result<FileAnswer<'static>, Error> {
        let OpenedHandle { handle, file, .. } = self.opened(Want::Change)?;
        let offset = file.append(data)?;
        handle.passed(data.len());
        Ok(FileAnswer::Appended { offset, change: changed(handle, &file)? })
    }
}

/// The file's change number after a change through this handle.
fn changed(handle: &Handle, file: &OpenFile) -> Result<u64, Error> {
    let change = change_of(&file.node()?);
    handle.file()?.leased_change.store(change, Ordering::Relaxed);
    Ok(change)
}

/// The number that another one follows after every change.
pub(super) fn change_of(node: &xdfs_io::store::tree::Node) -> u64 {
    attributes_of(node, Wanted::CHANGE, None).change.unwrap_or(0)
}
