//! A real ext4 in a file, whose power is cut by the ioctl that drops everything which is not on the medium, the journal's last
//! transactions among it. Needs root and loop devices; where they are not, nothing is tried and the caller says so.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use xdfs_proto::base::{RelPath, Safety};
use xdfs_proto::commit::{Commit, Step};
use xdfs_proto::session::Bugs;
use xdfs_test_cli::{Scene, pattern};
use xdfs_xio::store::{CommitRequest, Existing, LocalStore, Stage, StageRequest, Store};

/// EXT4_IOC_SHUTDOWN without a flush of the log. There is no safe wrapper for it in Rust, and Python has one.
const CUTTER: &str = "\
import fcntl, os, struct, sys
for line in sys.stdin:
    folder = os.open(line.rstrip('\\n'), os.O_RDONLY)
    fcntl.ioctl(folder, 0x8004587d, struct.pack('I', 2))
    os.close(folder)
    print('cut', flush=True)
";

/// See the module.
pub struct Disk {
    image: PathBuf,
    folder: PathBuf,
    cutter: Child,
    answers: BufReader<std::process::ChildStdout>,
    mounted: bool,
    _scene: Scene,
}

fn run(program: &str, arguments: &[&Path]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Disk {
    /// A fresh file system; none where it cannot be made.
    pub fn new() -> Option<Self> {
        let scene = Scene::new();
        let image = scene.write("image", b"");
        std::fs::File::options().write(true).open(&image).ok()?.set_len(64 << 20).ok()?;
        let folder = scene.directory("mounted");
        if !run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &image]) {
            return None;
        }
        let mut cutter = Command::new("python3");
        cutter.args(["-c", CUTTER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cutter = cutter.spawn().ok()?;
        let answers = BufReader::new(cutter.stdout.take()?);
        let mut disk = Self { image, folder, cutter, answers, mounted: false, _scene: scene };
        disk.mount().then_some(disk)
    }

    fn mount(&mut self) -> bool {
        self.mounted = run("mount", &[Path::new("-o"), Path::new("loop"), &self.image, &self.folder]);
        self.mounted
    }

    /// The power is cut, and comes back.
    pub fn cut(&mut self) {
        let line = format!("{}\n", self.folder.display());
        self.cutter.stdin.as_mut().expect("it is a pipe").write_all(line.as_bytes()).expect("the helper reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the helper answers");
        assert_eq!(answer, "cut\n");
        assert!(run("umount", &[&self.folder]), "something still holds the file system");
        assert!(self.mount(), "the file system does not come back");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            run("umount", &[Path::new("-l"), &self.folder]);
        }
        drop(self.cutter.stdin.take());
        let _ = self.cutter.wait();
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
pub fn series(disk: &mut Disk, bugs: Bugs, mut more: impl FnMut(usize) -> bool) -> Cuts {
    let mut cuts = Cuts::default();
    let mut before: Option<Vec<u8>> = None;
    while more(cuts.all) && cuts.broken.is_none() {
        let number = cuts.all;
        let steps = number % 6;
        let content = pattern(1 + (number * 7919) % 300_000, number as u64 + 1);
        let told = commit(&disk.folder, &content, number, steps, bugs);
        disk.cut();
        cuts.all += 1;
        cuts.inside += usize::from(told.is_none());
        let found = std::fs::read(disk.folder.join("target")).ok();
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
fn commit(folder: &Path, content: &[u8], number: usize, steps: usize, bugs: Bugs) -> Option<Safety> {
    // What the cuts before have left, so that a long series does not fill the disk.
    for entry in std::fs::read_dir(folder).expect("the file system is there").flatten() {
        if entry.file_name().to_string_lossy().ends_with(".part") {
            std::fs::remove_file(entry.path()).expect("it is ours");
        }
    }
    let store = LocalStore::open_root(folder, true).expect("the file system is there");
    let mut transfer = [0; 16];
    transfer[..8].copy_from_slice(&number.to_be_bytes());
    let target = RelPath::parse(b"target").expect("a name");
    let size = Some(content.len() as u64);
    let request = StageRequest { target, size, existing: Existing::Replace, transfer, resume: None };
    let mut stage: Stage = store.stage(&request).expect("there is room");
    let length = if steps == 0 { content.len() / 2 } else { content.len() };
    stage.write(&content[..length], 0).expect("it is written");
    let request = CommitRequest { length: content.len() as u64, mode: 0o644, modified: None };
    let mut plan = Commit::new(true, bugs);
    for _ in 1..steps {
        let Some(step) = plan.next() else { break };
        match step {
            Step::Finish => stage.finish(&request),
            Step::SyncFile => stage.sync(),
            Step::Name => stage.name(&request).map(drop),
            Step::SyncDirectory => stage.sync_directory(),
        }
        .expect("a sound disk");
        plan.on_done(step).expect("it was next");
    }
    // A program that loses its power removes nothing.
    stage.leave();
    plan.safety()
}
