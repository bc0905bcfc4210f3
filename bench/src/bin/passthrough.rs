//! `passthrough`: a directory of this machine mounted once more through FUSE, with nothing between: what any file system in user
//! space pays for being one. It has the files of that one directory, which are read, made and written, and nothing else.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use clap::Parser;
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use xdfs_bench::error::{Context, Result, exit_code};

/// Mounts a directory of this machine on another one, until it is unmounted.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// What is mounted.
    directory: PathBuf,
    /// Where.
    point: PathBuf,
}

/// How long names and attributes are used without another look: as `xdfs mount` does.
const VALID: Duration = Duration::from_secs(1);

/// Most bytes of a request: as `xdfs mount` asks for.
const REQUEST_MAX: u32 = 1 << 20;

fn main() -> ExitCode {
    exit_code("passthrough", run(&Cli::parse()))
}

fn run(cli: &Cli) -> Result<()> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("passthrough".to_owned()), MountOption::DefaultPermissions];
    config.n_threads = Some(std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    config.clone_fd = true;
    let files = Passthrough { directory: cli.directory.clone(), state: Mutex::default() };
    fuser::mount(files, &cli.point, &config).context(|| cli.point.display().to_string())
}

#[derive(Default)]
struct State {
    paths: BTreeMap<u64, PathBuf>,
    open: BTreeMap<u64, Arc<File>>,
    last: u64,
}

struct Passthrough {
    directory: PathBuf,
    state: Mutex<State>,
}

fn attributes(metadata: &Metadata, inode: INodeNo) -> FileAttr {
    let time = |seconds: i64| UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap_or_default());
    let kind = FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile);
    FileAttr {
        ino: inode,
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime()),
        mtime: time(metadata.mtime()),
        ctime: time(metadata.ctime()),
        crtime: UNIX_EPOCH,
        kind,
        // Twelve bits: fits.
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: 1,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Passthrough {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn path(&self, inode: INodeNo) -> io::Result<PathBuf> {
        if inode == INodeNo::ROOT {
            return Ok(self.directory.clone());
        }
        self.with(|state| state.paths.get(&inode.0).cloned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        self.with(|state| state.open.get(&handle.0).cloned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn keep(&self, file: File) -> FileHandle {
        self.with(|state| {
            state.last += 1;
            state.open.insert(state.last, Arc::new(file));
            FileHandle(state.last)
        })
    }

    /// What a name leads to.
    fn found(&self, path: PathBuf, metadata: &Metadata) -> FileAttr {
        self.with(|state| state.paths.insert(metadata.ino(), path));
        attributes(metadata, INodeNo(metadata.ino()))
    }

    fn cut(&self, inode: INodeNo, size: Option<u64>) -> io::Result<FileAttr> {
        let path = self.path(inode)?;
        if let Some(size) = size {
            File::options().write(true).open(&path)?.set_len(size)?;
        }
        Ok(attributes(&path.metadata()?, inode))
    }

    fn make(&self, name: &OsStr, mode: u32) -> io::Result<(FileAttr, FileHandle)> {
        let path = self.directory.join(name);
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(mode).open(&path)?;
        let facts = self.found(path, &file.metadata()?);
        Ok((facts, self.keep(file)))
    }
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel does not have is left out.
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC | InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(REQUEST_MAX);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let path = self.directory.join(name);
        match path.metadata() {
            Ok(metadata) => reply.entry(&VALID, &self.found(path, &metadata), Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.cut(inode, None) {
            Ok(facts) => reply.attr(&VALID, &facts),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _user: Option<u32>,
        _group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.cut(inode, size) {
            Ok(facts) => reply.attr(&VALID, &facts),
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.0 & 0o3 != 0;
        let cuts = writes && flags.0 & 0o1000 != 0;
        let open = |path| File::options().read(true).write(writes).truncate(cuts).open(path);
        match self.path(inode).and_then(open) {
            Ok(file) => reply.opened(self.keep(file), FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        _: &Request,
        _parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(name, mode) {
            Ok((facts, handle)) => reply.created(&VALID, &facts, Generation(0), handle, FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size as usize];
        match self.file(handle).and_then(|file| file.read_at(&mut buffer, offset)) {
            Ok(count) => reply.data(&buffer[..count]),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(handle).and_then(|file| file.write_all_at(data, offset)) {
            // One request is far below 4 GiB: fits.
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _inode: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.with(|state| state.open.remove(&handle.0));
        reply.ok();
    }

    fn getxattr(&self, _: &Request, _inode: INodeNo, _: &OsStr, _: u32, reply: fuser::ReplyXattr) {
        // The kernel asks before each write otherwise.
        reply.error(Errno::ENOSYS);
    }
}
