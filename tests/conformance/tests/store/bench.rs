//! The implementations under test, with what a test needs to look behind them.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use xdfs_io::store::fault::{Plan, Rates};
use xdfs_io::store::{FaultStore, LocalStore, MemoryStore, SimStore, Store};
use xdfs_test_conformance::store::bench::{Bench, path};

/// A directory of this test alone; removed with everything in it.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn under(above: &Path) -> Self {
        let mode = PermissionsExt::from_mode(0o755);
        Self(tempfile::Builder::new().prefix("xdfs-store-").permissions(mode).tempdir_in(above).unwrap())
    }

    pub(crate) fn on_tmpfs() -> Self {
        Self::under(Path::new("/dev/shm"))
    }

    pub(crate) fn on_disk() -> Self {
        Self::under(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) struct LocalBench {
    pub(crate) scratch: Scratch,
    pub(crate) store: LocalStore,
}

impl LocalBench {
    pub(crate) fn on_tmpfs() -> Self {
        Self::of(Scratch::on_tmpfs())
    }

    pub(crate) fn on_disk() -> Self {
        Self::of(Scratch::on_disk())
    }

    /// As where every file has a name.
    pub(crate) fn without_unnamed() -> Self {
        let Self { scratch, store } = Self::on_disk();
        Self { scratch, store: store.without_unnamed() }
    }

    pub(crate) fn of(scratch: Scratch) -> Self {
        let store = LocalStore::open_root(scratch.path(), true).unwrap();
        Self { scratch, store }
    }
}

impl Bench for LocalBench {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        std::fs::write(self.scratch.path().join(path), bytes).unwrap();
    }

    fn make_directory(&self, path: &str) {
        std::fs::create_dir(self.scratch.path().join(path)).unwrap();
    }

    fn make_special(&self, path: &str) {
        make_fifo(&self.scratch.path().join(path));
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.scratch.path().join(path)).ok()
    }

    fn names(&self) -> Vec<Vec<u8>> {
        names_under(self.scratch.path())
    }
}

/// No cipher, but different for whatever is different.
#[derive(Debug)]
pub(crate) struct Tags(pub(crate) u8);

impl xdfs_io::store::JournalTags for Tags {
    fn tag(&self, parts: &[&[u8]]) -> xdfs_proto::base::Digest {
        let mut tag = [self.0; 32];
        for (at, byte) in parts.iter().flat_map(|part| part.iter().chain(&[0xff])).enumerate() {
            tag[at % 32] = tag[at % 32].wrapping_mul(31).wrapping_add(*byte);
        }
        tag
    }
}

pub(crate) fn make_fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
}

/// Every name below `top`, relative to it, sorted; links are not followed.
pub(crate) fn names_under(top: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut open = vec![top.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            found.push(entry.path().strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec());
        }
    }
    found.sort();
    found
}

pub(crate) struct MemoryBench {
    store: MemoryStore,
}

impl MemoryBench {
    pub(crate) fn new() -> Self {
        Self { store: MemoryStore::new(64 << 20) }
    }
}

impl Bench for MemoryBench {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn put(&self, at: &str, bytes: &[u8]) {
        self.store.put(&path(at), bytes).unwrap();
    }

    fn make_directory(&self, at: &str) {
        self.store.create_directory(&path(at)).unwrap();
    }

    fn make_special(&self, at: &str) {
        self.store.create_special(&path(at)).unwrap();
    }

    fn content(&self, at: &str) -> Option<Vec<u8>> {
        self.store.content(&path(at))
    }

    fn names(&self) -> Vec<Vec<u8>> {
        // A stage has no name here, but its bytes are counted: what is counted beyond the files is a stage left over.
        let paths = self.store.paths();
        let held: usize = paths.iter().filter_map(|path| self.store.content(path)).map(|bytes| bytes.len()).sum();
        let mut names: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        if self.store.used() != held as u64 {
            names.push(format!("{} staged bytes", self.store.used() - held as u64).into_bytes());
        }
        names
    }
}

/// An implementation behind a fault store whose plan is empty.
pub(crate) struct FaultBench<B> {
    inner: B,
    store: FaultStore,
}

impl FaultBench<LocalBench> {
    pub(crate) fn on_local() -> Self {
        Self::local(Plan::none())
    }

    pub(crate) fn local(plan: Plan) -> Self {
        Self::of(LocalBench::on_tmpfs(), plan)
    }

    pub(crate) fn faults(&self) -> &FaultStore {
        &self.store
    }

    pub(crate) fn of(inner: LocalBench, plan: Plan) -> Self {
        Self { store: FaultStore::new(Arc::new(inner.store.clone()), plan), inner }
    }
}

impl<B: Bench> Bench for FaultBench<B> {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        self.inner.put(path, bytes);
    }

    fn make_directory(&self, path: &str) {
        self.inner.make_directory(path);
    }

    fn make_special(&self, path: &str) {
        self.inner.make_special(path);
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.inner.content(path)
    }

    fn names(&self) -> Vec<Vec<u8>> {
        self.inner.names()
    }
}

/// The simulated disk, seen through its truth.
pub(crate) struct SimBench {
    store: SimStore,
    truth: MemoryBench,
}

impl SimBench {
    pub(crate) fn new() -> Self {
        let rates = Rates { short: 300_000, interrupted: 200_000, ..Rates::default() };
        let store = SimStore::new(11, rates, 64 << 20);
        Self { truth: MemoryBench { store: store.truth().clone() }, store }
    }
}

impl Bench for SimBench {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        self.truth.put(path, bytes);
    }

    fn make_directory(&self, path: &str) {
        self.truth.make_directory(path);
    }

    fn make_special(&self, path: &str) {
        self.truth.make_special(path);
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.truth.content(path)
    }

    fn names(&self) -> Vec<Vec<u8>> {
        self.truth.names()
    }
}

/// Names its directory to the test that runs again as another user.
const AS_NOBODY: &str = "XDFS_TEST_AS_NOBODY";

/// Runs the test of this name once more, as a user who may write in no directory but this one. In that run `check`
/// is called and nothing is returned. Who is not root is another user already.
pub(crate) fn as_nobody(test: &str, check: impl FnOnce(&Path)) -> Option<Scratch> {
    const NOBODY: u32 = 65534;
    if let Some(top) = std::env::var_os(AS_NOBODY) {
        check(Path::new(&top));
        return None;
    }
    let scratch = Scratch::on_tmpfs();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // A copy of the program, since the folder it is in may be closed to others.
    let beside = Scratch::on_tmpfs();
    let program = beside.path().join("program");
    // By another program: what another test starts has the descriptors of this process for a moment, and nobody
    // executes a file that is open for writing.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let mut command = Command::new(&program);
    command.args(["--exact", test]).env(AS_NOBODY, scratch.path());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    Some(scratch)
}
