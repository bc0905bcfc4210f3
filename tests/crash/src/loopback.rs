//! A real ext4 in a file, whose power is cut by the ioctl that drops everything which is not on the medium, the journal's last
//! transactions among it. Needs root and loop devices; where they are not, nothing is tried and the caller says so.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use xdfs_io::store::{CommitRequest, Existing, LocalStore, Stage, StageRequest, Store};
use xdfs_proto::base::commit::{Commit, CommitStep};
use xdfs_proto::base::{RelPath, Safety, TransferId};
use xdfs_test_cli::{Scene, pattern};

/// Room for what a few cuts leave; small, so that it comes back quickly.
const IMAGE_BYTES: u64 = 16 << 20;

/// EXT4_IOC_SHUTDOWN without a flush of the log, then the file system taken off and put back. There is no safe wrapper for it in
/// Rust, and Python has one; one process for all cuts, since starting `mount` twice costs more than a cut.
const CUTTER: &str = "\
import ctypes, errno, fcntl, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
device, folder = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
# A process that the test beside is just starting holds for a moment what is open here.
def retry(name, attempt):
    until = time.monotonic() + 10
    while True:
        try:
            return attempt()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                print(name, error.strerror, flush=True)
                libc.umount2(folder, 2)
                sys.exit(1)
def call(name, *arguments):
    def attempt():
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    retry(name, attempt)
# A mount namespace of its own, private (CLONE_NEWNS; MS_REC and MS_PRIVATE): one that another program makes meanwhile would
# hold a copy of this mount, and with it the file system that was shut down, which the next mount would then get again.
call('unshare', 0x20000)
call('mount', None, b'/', None, 1 << 14 | 1 << 18, None)
call('mount', device, folder, b'ext4', 0, None)
print('mounted', flush=True)
for line in sys.stdin:
    root = os.open(folder, os.O_RDONLY)
    fcntl.ioctl(root, 0x8004587d, struct.pack('I', 2))
    os.close(root)
    call('umount2', folder, 0)
    # Opened alone, which tells that nobody has it mounted any more; and nothing of what was never written may be read back
    # from memory: BLKFLSBUF.
    disk = retry('open', lambda: os.open(device, os.O_RDONLY | os.O_EXCL))
    fcntl.ioctl(disk, 0x1261)
    os.close(disk)
    call('mount', device, folder, b'ext4', 0, None)
    print('cut', flush=True)
call('umount2', folder, 2)
";

/// A real ext4 in a file whose power can be cut.
pub struct Disk {
    /// The loop device.
    device: String,
    /// As this process sees it: the mount is in the cutter's namespace alone.
    folder: PathBuf,
    cutter: Option<Child>,
    answers: Option<BufReader<std::process::ChildStdout>>,
    _scene: Scene,
}

/// Standard output of a program that succeeded, or why it did not.
fn run(program: &str, arguments: &[&OsStr]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Disk {
    /// A fresh file system; none where it cannot be made and tests may be left out.
    #[track_caller]
    pub fn new() -> Option<Self> {
        let made = Self::make().map_err(|why| format!("root, a loop device, the tools of ext4 and python3: {why}"));
        xdfs_test_needs::found(made)
    }

    /// The file is in memory where there is a place for it: what counts is which blocks the loop device was given, not how long
    /// another disk takes for them.
    fn make() -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let memory = Path::new("/dev/shm");
        let scene = if memory.is_dir() { Scene::below(memory) } else { Scene::new() };
        let image = scene.write("image", b"");
        let file = std::fs::File::options().write(true).open(&image);
        file.and_then(|file| file.set_len(IMAGE_BYTES)).map_err(text)?;
        let folder = scene.directory("mounted");
        // Its tables are made now: a thread of the kernel would else fill them in behind each mount.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), "-E".as_ref(), options.as_ref(), image.as_ref()])?;
        let device = run("losetup", &["--find".as_ref(), "--show".as_ref(), image.as_ref()])?;
        let mut disk = Self { device, folder: PathBuf::new(), cutter: None, answers: None, _scene: scene };
        let mut cutter = Command::new("python3");
        cutter.args(["-c", CUTTER, &disk.device]).arg(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cutter = cutter.spawn().map_err(text)?;
        disk.folder = PathBuf::from(format!("/proc/{}/root{}", cutter.id(), folder.display()));
        disk.answers = cutter.stdout.take().map(BufReader::new);
        disk.cutter = Some(cutter);
        match disk.answer().trim() {
            "mounted" => Ok(disk),
            answer => Err(format!("the file system cannot be mounted: {answer}")),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn answer(&mut self) -> String {
        let mut answer = String::new();
        let answers = self.answers.as_mut().expect("the helper was started");
        answers.read_line(&mut answer).expect("the helper answers");
        answer
    }

    /// What a name stands for; none where it is absent, which a file system that cannot be read does not show.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        match std::fs::read(self.folder.join(name)) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{name} cannot be read behind a cut: {error}"),
        }
    }

    /// The power is cut, and comes back.
    pub fn cut(&mut self) {
        let input = self.cutter.as_mut().and_then(|cutter| cutter.stdin.as_mut());
        input.expect("the helper was started").write_all(b"cut\n").expect("the helper reads");
        assert_eq!(self.answer(), "cut\n", "the file system is held, or does not come back");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut cutter) = self.cutter.take() {
            drop(cutter.stdin.take());
            let _ = cutter.wait();
        }
        let _ = run("losetup", &["--detach".as_ref(), self.device.as_ref()]);
    }
}

/// What a series of cuts found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    /// Cuts, and those between the first write and the last sync.
    pub all: usize,
    /// See `all`.
    pub inside: usize,
    /// The new file was there.
    pub new: usize,
    /// A promise that was broken.
    pub broken: Option<String>,
}

/// Cuts the power behind each step of a commit in turn, as long as `more` says; what is there then is what was there before or
/// the whole new file, and the new one where durable was told.
pub fn series(disk: &mut Disk, mut more: impl FnMut(usize) -> bool) -> Cuts {
    let mut cuts = Cuts::default();
    let mut before: Option<Vec<u8>> = None;
    while more(cuts.all) && cuts.broken.is_none() {
        let number = cuts.all;
        let steps = number % 6;
        let content = pattern(1 + (number * 7919) % 100_000, number as u64 + 1);
        let told = commit(&disk.folder, &content, number, steps);
        disk.cut();
        cuts.all += 1;
        cuts.inside += usize::from(told.is_none());
        let found = disk.read("target");
        let is_new = found.as_deref() == Some(&content);
        cuts.new += usize::from(is_new);
        if !is_new && (found != before || told == Some(Safety::Durable)) {
            let length = found.as_ref().map(Vec::len);
            cuts.broken = Some(format!("cut {number} behind step {steps}, told {told:?}: {length:?} bytes are there"));
        }
        before = found;
    }
    cuts
}

/// A commit that gets so far: 0 is some of the bytes, 1 all of them, then a step of the plan each. What was told.
fn commit(folder: &Path, content: &[u8], number: usize, steps: usize) -> Option<Safety> {
    // What the cuts before have left, so that a long series does not fill the disk.
    let staging = folder.join(".xdfs-staging");
    if staging.exists() {
        std::fs::remove_dir_all(staging).expect("it is ours");
    }
    // What was removed makes room only when the journal has it.
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).expect("the file system is there");
    let store = LocalStore::open_root(folder, true).expect("the file system is there");
    let mut transfer = [0; 16];
    transfer[..8].copy_from_slice(&number.to_be_bytes());
    let (target, transfer) = (RelPath::parse(b"target").expect("a name"), TransferId(transfer));
    let size = Some(content.len() as u64);
    let request =
        StageRequest { target, size, existing: Existing::Replace, transfer, resume: None, base: None, holes: false };
    let mut stage: Stage = store.stage(&request).expect("there is room");
    let length = if steps == 0 { content.len() / 2 } else { content.len() };
    stage.write(&content[..length], 0).expect("it is written");
    let request = CommitRequest { length: content.len() as u64, mode: 0o644, modified: None };
    let mut plan = Commit::single(true);
    for _ in 1..steps {
        let Some(step) = plan.next() else { break };
        match step {
            CommitStep::Finish(_) => stage.finish(&request),
            CommitStep::SyncFile(_) | CommitStep::SyncSystem => stage.sync(),
            CommitStep::Name(_) => stage.name(&request).map(drop),
            CommitStep::SyncDirectory(_) => stage.sync_directory(),
        }
        .expect("a sound disk");
        plan.on_done(step).expect("it was next");
    }
    // A program that loses its power removes nothing.
    stage.leave();
    plan.safety(0)
}
