//! Open files.

use super::recent_changes::Changed;
use super::{Outcomes, Tree, WANTED, refused};
use crate::kernel::{Answer, NewMode, Newer, abi};
use bytes::Bytes;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use xdfs_client::file::{File, OpenOptions};
use xdfs_client::wire::Call;

/// Flags of open(2), as Linux has them on every machine that xdfs runs on.
const ACCESS_MODE: u32 = 3;
const WRITE_ONLY: u32 = 1;
const READ_WRITE: u32 = 2;
const EXCLUSIVE: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;
const APPEND: u32 = 0o2000;
const DATA_SYNC: u32 = 0o10_000;
const DIRECT: u32 = 0o40_000;

/// So much of a file is read in the round trip that opens it.
pub(super) const FIRST_BYTES: u32 = 64 << 10;

/// How long a file that had no set-user-id or set-group-id bit is taken for one that has none, unless this mount sets it.
const PLAIN_FOR: Duration = Duration::from_secs(1);

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;

/// `whence` of lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// A file that a program has open.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) inode: u64,
    pub(super) file: File,
    /// It was opened for writing.
    pub(super) writes: bool,
    /// The change number of the attributes that the kernel may keep, as far as reads have compared it.
    compared: AtomicU64,
    /// When its name led to it.
    pub(super) named: Instant,
    /// What it is said to have lost another one has: whoever opens the file later hears of that from there, or not at all.
    has_inherited: AtomicBool,
}

impl OpenFile {
    pub(super) fn new(inode: u64, file: File, writes: bool) -> Self {
        let compared = AtomicU64::new(file.read_change());
        Self { inode, file, writes, compared, named: Instant::now(), has_inherited: AtomicBool::new(false) }
    }
}

/// Appends as much as can be: who is told of an error takes nothing of it for written.
fn append(file: &File, data: &[u8]) -> Result<usize, xdfs_client::Error> {
    let mut written = 0;
    for part in data.chunks(file.append_max()) {
        match file.append(part) {
            Ok(_) => written += part.len(),
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(written)
}

impl OpenFile {
    /// What was lost of what was written through it.
    pub(super) fn own_loss(&self) -> Option<xdfs_client::Error> {
        self.file.lost().filter(|_| !self.has_inherited.load(Ordering::Relaxed))
    }

    /// What was written through another one is lost.
    pub(super) fn inherit_loss(&self, error: &xdfs_client::Error) {
        if self.file.lost().is_none() {
            self.has_inherited.store(true, Ordering::Relaxed);
            self.file.inherit_loss(error);
        }
    }
}

fn options(flags: u32) -> OpenOptions {
    let access = flags & ACCESS_MODE;
    OpenOptions::new().read(access != WRITE_ONLY).write(matches!(access, WRITE_ONLY | READ_WRITE))
}

impl Tree {
    pub(super) fn file(&self, handle: u64) -> Result<Arc<OpenFile>, Errno> {
        self.files.find(handle).ok_or(Errno::BADF)
    }

    /// Some open file of an inode; one that was opened for writing if there is one.
    pub(super) fn open_file_of(&self, inode: u64) -> Option<Arc<OpenFile>> {
        let mut all = self.files.all();
        all.retain(|open| open.inode == inode);
        let writes = all.iter().position(|open| open.writes);
        (!all.is_empty()).then(|| all.swap_remove(writes.unwrap_or(0)))
    }

    /// All open files, those through which ranges are locked among them.
    fn open_files(&self) -> Vec<Arc<OpenFile>> {
        let mut all = self.files.all();
        all.extend(self.locking_files());
        all
    }

    /// The paths of open files at or below an inode changed.
    pub(super) fn tell_open_files(&self, moved: u64) {
        // The last one who lets go of a file closes it, for which the server is asked: nothing is locked then.
        let all = self.open_files();
        {
            let inodes = self.inodes();
            for open in all.iter().filter(|open| inodes.is_below(open.inode, moved)) {
                if let Some(path) = inodes.path(open.inode) {
                    open.file.moved(self.full(&path));
                }
            }
        }
        // On most file systems of servers the change time is another one now.
        self.changed_by_name(moved);
    }

    /// An inode was changed by its name: its open files have to know that it was us.
    pub(super) fn changed_by_name(&self, inode: u64) {
        for open in self.open_files().iter().filter(|open| open.inode == inode) {
            // A lost session is found again by whoever uses the file.
            let _ = open.file.changed_by_name();
        }
    }

    fn opened(&self, inode: u64, file: File, flags: u32) -> (u64, u32) {
        let writes = flags & ACCESS_MODE != 0;
        self.inodes().open(inode);
        // The kernel's pages are those of the file as it is now if nobody changed it: close-to-open.
        let version = Some(file.version());
        let known = std::mem::replace(&mut self.contents().entry(inode).or_default().version, version);
        let handle = self.files.insert(OpenFile::new(inode, file, writes));
        // What the kernel believes to be the end of the file is not where an append goes: its page cache
        // would have the bytes in the wrong place.
        let direct = writes && flags & APPEND != 0;
        let same = version == known;
        let cache = if same && !direct { abi::opened::KEEP_CACHE } else { 0 };
        (handle, if direct { abi::opened::DIRECT_IO } else { cache })
    }

    pub(super) fn open(&self, inode: u64, flags: u32) -> Outcomes {
        if !self.files.has_room() {
            return Err(Errno::NFILE);
        }
        self.settle(inode);
        let options = options(flags);
        // The kernel reads the start next, unless it has kept it.
        let is_unread = self.contents().get(&inode).is_none_or(|content| content.version.is_none());
        let first = if is_unread && flags & TRUNCATE == 0 { FIRST_BYTES } else { 0 };
        let early = if first > 0 && flags & ACCESS_MODE == 0 { self.opened_early(inode) } else { None };
        if flags & ACCESS_MODE != 0 {
            self.close_early(inode);
        }
        let (file, then) = match early {
            Some(early) => early,
            None => {
                let then = Instant::now();
                (self.open_file(inode, &options, first)?, then)
            }
        };
        let is_known = self.compare_known_facts(inode, file.version().1, then);
        if flags & TRUNCATE != 0 && flags & ACCESS_MODE != 0 {
            file.set_len(0).map_err(|error| refused(&error))?;
            self.was_emptied(&file);
            self.tell_locker(inode, &file);
            self.content_changed(inode);
        }
        let (handle, flags) = self.opened(inode, file, flags);
        // Its size is where reads end.
        let changed = (!is_known && !self.settings.valid.is_zero()).then_some(inode);
        Ok(Answer::Opened { handle, flags, changed })
    }

    /// Opens the file of an inode, and reads its first bytes with that. If its name leads to another one, or nowhere, the kernel is told to ask
    /// again where it leads to.
    pub(super) fn open_file(&self, inode: u64, options: &OpenOptions, first: u32) -> Result<File, Errno> {
        let path = self.path(inode)?;
        let changes = self.contents().entry(inode).or_default().changes.clone();
        let opened = File::open_sharing(&self.remote, self.full(&path), options, &changes, first);
        let file = match opened.map_err(|error| refused(&error)) {
            Err(Errno::NOENT) => return Err(Errno::STALE),
            opened => opened?,
        };
        let same = self.inodes().identity(inode) == Some(file.inode());
        if same { Ok(file) } else { Err(Errno::STALE) }
    }

    /// Sets the length of a file that is not open.
    pub(super) fn truncate(&self, inode: u64, length: u64) -> Result<(), Errno> {
        let file = self.open_file(inode, &OpenOptions::new().write(true), 0)?;
        file.set_len(length).map_err(|error| refused(&error))?;
        self.tell_locker(inode, &file);
        self.content_changed(inode);
        if length == 0 {
            self.was_emptied(&file);
        }
        self.closes_unsynced(&file);
        file.close().map_err(|error| refused(&error))
    }

    pub(super) fn create(&self, parent: u64, name: &[u8], mode: NewMode, flags: u32) -> Outcomes {
        if !self.files.has_room() {
            return Err(Errno::NFILE);
        }
        let path = self.new_path(parent, name)?;
        if flags & (TRUNCATE | EXCLUSIVE) == TRUNCATE {
            // It may be an inode that is written under another name.
            self.settle_all();
        }
        let mode = self.mode_in(parent, mode)?;
        let then = self.now();
        let options = options(flags).write(true).mode(mode & 0o7777);
        let exclusive = flags & EXCLUSIVE != 0;
        let options = if exclusive { options } else { options.create(true).truncate(flags & TRUNCATE != 0) };
        let file = self.make_file(&path, options, exclusive)?;
        let facts = file.look(WANTED).map_err(|error| refused(&error))?;
        // A file that was there keeps its mode; one with bytes was.
        let facts = if facts.size == Some(0) { self.with_mode(&path, facts, mode)? } else { facts };
        if exclusive {
            self.is_new(&facts);
        }
        let entry = self.entry_since(then, (parent, name), &facts)?;
        let file = file.sharing(&self.contents().entry(entry.id).or_default().changes);
        // It can be written even if only its creation asked for that.
        let flags = if flags & ACCESS_MODE == 0 { flags | READ_WRITE } else { flags };
        let (handle, flags) = self.opened(entry.id, file, flags);
        Ok(Answer::Created { entry, handle, flags })
    }

    pub(super) fn read(&self, handle: u64, offset: u64, size: u32) -> Outcomes {
        let open = self.file(handle)?;
        let mut bytes = vec![0; (size as usize).min(abi::DATA_MAX)];
        self.settle(open.inode);
        let length = open.file.read_ahead_at(&mut bytes, offset).map_err(|error| refused(&error))?;
        bytes.truncate(length);
        // Who has read what others wrote is not told the size before that: neither one that the kernel has, nor one that was
        // asked for before and is still on its way.
        let (inode, change) = (open.inode, open.file.read_change());
        let is_new = open.compared.load(Ordering::Relaxed) != change && !self.are_known_facts(inode, change);
        if is_new {
            self.changes.note([Changed::Inode(inode)]);
        }
        let newer = is_new.then_some(Newer { inode, handle, change });
        Ok(Answer::Read { bytes: Bytes::from(bytes), newer })
    }

    /// The kernel has no older attributes any more: not before that does another reader of this file get its bytes without it.
    pub(super) fn read_newer(&self, newer: Newer) {
        if let Ok(open) = self.file(newer.handle) {
            open.compared.fetch_max(newer.change, Ordering::Relaxed);
        }
    }

    /// `how`: the flags that the file has now, and why the kernel writes.
    pub(super) fn write(&self, handle: u64, offset: u64, data: &[u8], how: (u32, u32)) -> Outcomes {
        let (flags, cause) = how;
        let open = self.file(handle)?;
        if cause & abi::WRITE_KILL_PRIVILEGE != 0 {
            self.take_privilege(&open)?;
        }
        // What comes from a mapping has its place.
        let appends = flags & APPEND != 0 && cause & abi::WRITE_CACHE == 0;
        let mut written = data.len();
        // A lock must know of each change.
        if appends || flags & (DATA_SYNC | DIRECT) != 0 || self.has_locker(open.inode) {
            written = self.write_through(&open, offset, data, appends)?;
            // The kernel asks for no sync of what passes its cache by, as appends do.
            if appends && flags & DATA_SYNC != 0 {
                self.sync(handle, true)?;
            }
        } else {
            self.write_behind(&open, data, offset)?;
        }
        // At most a megabyte: fits.
        Ok(Answer::Written(written as u32))
    }

    /// How many bytes of it were written.
    fn write_through(&self, open: &OpenFile, offset: u64, data: &[u8], appends: bool) -> Result<usize, Errno> {
        self.settle(open.inode);
        let written = match appends {
            true => append(&open.file, data),
            false => open.file.write_at(data, offset).map(|()| data.len()),
        };
        self.tell_locker(open.inode, &open.file);
        self.content_changed(open.inode);
        written.map_err(|error| refused(&error))
    }

    /// Who writes a file has no right to run it as its owner. The kernel asks for that with each write of a user other than root.
    fn take_privilege(&self, open: &OpenFile) -> Result<(), Errno> {
        let (inode, now) = (open.inode, Instant::now());
        let modes_set = match self.contents().get(&inode) {
            Some(content) if content.plain_until.is_some_and(|until| now < until) => return Ok(()),
            content => content.map(|content| content.modes_set),
        };
        let facts = open.file.look(WANTED).map_err(|error| refused(&error))?;
        let Some(mode) = facts.mode.filter(|mode| mode & 0o6000 != 0) else {
            if let Some(content) = self.contents().get_mut(&inode).filter(|now| Some(now.modes_set) == modes_set) {
                content.plain_until = Some(now + PLAIN_FOR);
            }
            return Ok(());
        };
        let path = self.path_to_change(inode)?;
        let bits = if mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
        self.change(&[Call::SetMode { path: &path, mode: mode & !bits }]).map(drop)
    }

    /// This mount has set the mode of an inode.
    pub(super) fn mode_was_set(&self, inode: u64) {
        if let Some(content) = self.contents().get_mut(&inode) {
            content.modes_set += 1;
            content.plain_until = None;
        }
    }

    pub(super) fn flush(&self, handle: u64, owner: u64) -> Outcomes {
        let open = self.file(handle)?;
        // Mapped pages are written through any of the files that are open for it.
        self.settle(open.inode);
        self.share_loss(open.inode);
        self.end_locks_of(open.inode, owner);
        // Any process that has the file open may be the one who closes it, also in an exec, and ignore the
        // error: the next one is told, too. Whoever only reads it has nothing to lose.
        let error = if open.writes { open.file.write_error() } else { None };
        error.map_or(Ok(Answer::Done), |error| Err(refused(&error)))
    }

    pub(super) fn release(&self, handle: u64) -> Outcomes {
        let Some(open) = self.files.remove(handle) else { return Err(Errno::BADF) };
        let inode = open.inode;
        self.settle(inode);
        self.share_loss(inode);
        if let Some(error) = open.own_loss() {
            self.inherit_loss(inode, &error);
        }
        if self.open_file_of(inode).is_none() {
            self.end_locker(inode);
        }
        self.closes_unsynced(&open.file);
        // Nobody is told how it went; a call that still uses the file closes it.
        if let Some(open) = Arc::into_inner(open) {
            let _ = open.file.close();
        }
        let _hiding = self.hiding.hold();
        let hidden = self.inodes().close(inode);
        self.remove_hidden(hidden);
        Ok(Answer::Done)
    }

    pub(super) fn allocate(&self, handle: u64, (offset, length): (u64, u64), mode: u32) -> Outcomes {
        let open = self.file(handle)?;
        self.settle(open.inode);
        let done = match mode {
            0 | KEEP_SIZE => open.file.allocate(offset, length, mode == KEEP_SIZE),
            _ if mode == PUNCH_HOLE | KEEP_SIZE => open.file.punch(offset, length),
            _ => return Err(Errno::OPNOTSUPP),
        };
        done.map_err(|error| refused(&error))?;
        self.tell_locker(open.inode, &open.file);
        self.content_changed(open.inode);
        Ok(Answer::Done)
    }

    pub(super) fn seek(&self, handle: u64, offset: u64, whence: u32) -> Outcomes {
        let hole = match whence {
            SEEK_DATA => false,
            SEEK_HOLE => true,
            _ => return Err(Errno::INVAL),
        };
        let open = self.file(handle)?;
        self.settle(open.inode);
        match open.file.seek_data(offset, hole).map_err(|error| refused(&error))? {
            Some(offset) => Ok(Answer::Offset(offset)),
            None => Err(Errno::NXIO),
        }
    }
}
