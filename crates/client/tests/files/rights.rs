//! Every call on an open file against every right, which is judged again for each of them.

use super::support::PATIENCE;
use super::support::serving::{Serving, Setup};
use super::{BOTH, remote};
use std::sync::Arc;
use std::time::Duration;
use xdfs_client::file::{Extent, File, LeaseKind, OpenOptions, Pipe, PipeSide, RangeLock, Remote};
use xdfs_client::wire::Wanted;
use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::{LocalStore, Store};
use xdfs_proto::wire::file::FileCode;
use xdfs_server::{Access, Anonymous, Export, ServerLimits};

/// What the user may do when the call is made; the file was opened when he might do everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Right {
    Everything,
    /// What exists may not be changed.
    Add,
    Read,
    /// The export is read-only for everybody.
    Fixed,
    Nothing,
}

const RIGHTS: [Right; 5] = [Right::Everything, Right::Add, Right::Read, Right::Fixed, Right::Nothing];

/// What a call does, as far as rights are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    /// Whoever has the file open may.
    Read,
    /// It changes the file, or keeps others from it.
    Change,
}

fn does(code: FileCode) -> Does {
    match code {
        FileCode::Read
        | FileCode::Sync
        | FileCode::Seek
        | FileCode::Attributes
        | FileCode::Unlock
        | FileCode::UnlockRange
        | FileCode::FindLock
        | FileCode::ReadPipe
        | FileCode::Close => Does::Read,
        FileCode::Open
        | FileCode::Write
        | FileCode::Append
        | FileCode::SetLength
        | FileCode::Allocate
        | FileCode::Punch
        | FileCode::Lock
        | FileCode::LockRange
        | FileCode::Lease
        | FileCode::WritePipe => Does::Change,
    }
}

fn expected(right: Right, code: FileCode) -> Option<ErrorKind> {
    match (right, does(code)) {
        // To give something back needs no right.
        _ if code == FileCode::Close => None,
        (Right::Nothing, _) => Some(ErrorKind::NotFound),
        (Right::Everything, _) | (_, Does::Read) => None,
        (Right::Add | Right::Read, Does::Change) => Some(ErrorKind::Refused),
        (Right::Fixed, Does::Change) => Some(ErrorKind::ReadOnly),
    }
}

pub(super) struct Scene {
    pub(super) serving: Serving,
    store: Arc<dyn Store>,
    remote: Arc<Remote>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let usual = Setup::default();
        let limits = ServerLimits { lease: Duration::from_secs(600), leased_before: false, ..usual.limits };
        let serving = Serving::with(Setup { limits, ..usual });
        let store: Arc<dyn Store> = Arc::new(LocalStore::open_root(serving.directory.path(), true).unwrap());
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, serving.directory.file("p"), fifo, mode, 0).unwrap();
        let scene = Self { remote: remote(&serving), store, serving };
        scene.grant(Right::Everything);
        scene
    }

    pub(super) fn grant(&self, right: Right) {
        let anonymous = match right {
            Right::Everything | Right::Fixed => Anonymous::Write,
            Right::Add => Anonymous::Create,
            Right::Read => Anonymous::Read,
            Right::Nothing => Anonymous::Nothing,
        };
        let access = Access { writable: right != Right::Fixed, anonymous, pipes: true, ..Access::default() };
        let limits = ServerLimits { lease: Duration::from_secs(600), ..ServerLimits::roomy() };
        let export = Export::new("e", Arc::clone(&self.store), access);
        self.serving.handle.reload(vec![export], limits, Default::default());
    }

    /// A new file, and both ends of the pipe, opened with every right.
    pub(super) fn open(&self, name: &str) -> Opened {
        self.grant(Right::Everything);
        self.serving.directory.write(name, b"content");
        let path = format!("e/{name}");
        let file = File::open(&self.remote, &path, &BOTH).unwrap();
        let pipe = |side| Pipe::open(&self.remote, "e/p", side).unwrap();
        let (reads, mut writes) = (pipe(PipeSide::Read), pipe(PipeSide::Write));
        writes.write_within(b"there", PATIENCE).unwrap();
        writes.settle_within(PATIENCE).unwrap();
        Opened { remote: Arc::clone(&self.remote), path, file: Some(file), reads, writes }
    }

    /// Makes one call of this kind with this right.
    fn call(&self, code: FileCode, right: Right) -> Result<(), Error> {
        let mut opened = self.open(&format!("{}-{right:?}", code.name()));
        self.grant(right);
        opened.call(code)
    }
}

/// What is open, and calls on it.
pub(super) struct Opened {
    remote: Arc<Remote>,
    path: String,
    /// None once it is closed.
    file: Option<File>,
    reads: Pipe,
    writes: Pipe,
}

impl Opened {
    pub(super) fn call(&mut self, code: FileCode) -> Result<(), Error> {
        let range = RangeLock { range: Extent::new(0, 4).unwrap(), exclusive: true };
        if code == FileCode::Close {
            return self.file.take().map_or(Ok(()), File::close);
        }
        let file = self.file.as_ref().unwrap();
        match code {
            FileCode::Open => File::open(&self.remote, &self.path, &OpenOptions::new().write(true)).map(drop),
            FileCode::Close => Ok(()),
            FileCode::Read => file.read_at(&mut [0; 4], 0).map(drop),
            FileCode::Write => file.write_at(b"x", 0),
            FileCode::Append => file.append(b"x").map(drop),
            FileCode::SetLength => file.set_len(3),
            FileCode::Sync => file.sync_all(),
            FileCode::Allocate => file.allocate(0, 10, true),
            FileCode::Punch => file.punch(0, 2),
            FileCode::Seek => file.seek_data(0, false).map(drop),
            FileCode::Attributes => file.look(Wanted::SIZE).map(drop),
            FileCode::Lock => file.try_lock(false),
            FileCode::Unlock => file.unlock(),
            FileCode::Lease => file.lease(LeaseKind::Read).map(drop),
            FileCode::LockRange => file.try_lock_range(1, range),
            FileCode::UnlockRange => file.unlock_range(1, range.range),
            FileCode::FindLock => file.find_lock(1, range).map(drop),
            FileCode::ReadPipe => self.reads.read_within(&mut [0; 9], PATIENCE).map(drop),
            FileCode::WritePipe => {
                self.writes.write_within(b"more", PATIENCE)?;
                self.writes.settle_within(PATIENCE).map(drop)
            }
        }
    }
}

/// B23: what was granted when the file was opened is not granted for ever.
#[test]
fn every_right_meets_every_call_on_an_open_file_as_the_table_says() {
    let scene = Scene::new();
    for code in FileCode::ALL.iter().copied() {
        for right in RIGHTS {
            let found = scene.call(code, right).err().map(|error| error.kind);
            assert_eq!(found, expected(right, code), "{} with {right:?}", code.name());
        }
    }
}
