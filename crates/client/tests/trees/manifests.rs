//! B03: more than sixty manifests of a server that wants to write outside of the target, or to overwrite what it was not asked
//! for. Whatever it lists, nothing outside of the target changes, and the copy ends.

use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use std::time::SystemTime;
use xdfs_client::ErrorKind;
use xdfs_client::tree::{Download, Ended, Preserve, TreeOptions};
use xdfs_io::store::LocalStore;
use xdfs_io::store::tree::NodeKind;
use xdfs_proto::base::Timestamp;
use xdfs_server::Export;

use super::evil::{EvilStore, Line, Script, line, node};
use super::heard::{Heard, Meddler};
use super::support::Scratch;
use super::support::serving::{Serving, Setup};

/// A target with canaries around it.
struct World {
    scratch: Scratch,
}

type Seen = Vec<(Vec<u8>, u32, u64, SystemTime, Vec<u8>)>;

impl World {
    fn new() -> Self {
        let scratch = Scratch::new();
        for directory in ["target", "outside/inner"] {
            std::fs::create_dir_all(scratch.file(directory)).unwrap();
        }
        for name in ["canary", "outside/canary", "outside/inner/canary", "x", "outside/x"] {
            scratch.write(name, b"CANARY");
        }
        Self { scratch }
    }

    /// Names, modes, inodes, times and contents outside of the target.
    fn outside(&self) -> Seen {
        let mut seen = Vec::new();
        let mut open = vec![self.scratch.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path == self.scratch.file("target") {
                    continue;
                }
                let meta = path.symlink_metadata().unwrap();
                let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
                let name = path.as_os_str().as_encoded_bytes().to_vec();
                seen.push((name, meta.mode(), meta.ino(), meta.modified().unwrap(), content));
                if meta.is_dir() {
                    open.push(path);
                }
            }
        }
        seen.sort();
        seen
    }

    /// Downloads what a script lists.
    fn copy(&self, script: Script, options: TreeOptions, fresh: bool) -> (Ended, Heard) {
        let export = Export::open_to_all("evil", Arc::new(EvilStore::new(script)), false);
        let serving = Serving::with(Setup { more: vec![export], ..Setup::default() });
        let session = serving.connect(2);
        let store = LocalStore::open_root(&self.scratch.file("target"), true).unwrap();
        let mut heard = Heard::default();
        let ended = Download::new(store, "evil", fresh, options).run(&session, &mut heard);
        (ended, heard)
    }
}

/// Names that are no names, and such as only look dangerous.
const NAMES: [&[u8]; 25] = [
    b"/etc/xdfs-evil",
    b"/",
    b"..",
    b".",
    b"../x",
    b"../outside/x",
    b"a/../../x",
    b"a/b",
    b"a//b",
    b"a/",
    b"./a",
    b"..\\x",
    b"C:",
    b"C:\\x",
    b"CON",
    b"nul",
    b"a\0b",
    b"a\r\nb",
    b"\x1b[2J",
    b"\xe2\x80\xaegnp.exe",
    b"-rf",
    b"~root",
    b"$(id)",
    b"%2e%2e%2fx",
    b".xdfs-staging",
];

fn options() -> TreeOptions {
    TreeOptions::default()
}

#[test]
fn b03_whatever_a_server_names_nothing_outside_of_the_target_changes() {
    let long = [vec![b'n'; 255], vec![b'n'; 256], vec![b'/'; 300]];
    let names: Vec<Vec<u8>> = NAMES.iter().map(|name| name.to_vec()).chain(long).collect();
    let mut manifests = 0;
    for name in &names {
        for kind in [NodeKind::Regular, NodeKind::Directory, NodeKind::Symlink] {
            let world = World::new();
            let before = world.outside();
            let script = Script {
                listings: [(Vec::new(), vec![line(name, kind), line(b"x", NodeKind::Regular)])].into(),
                text: b"../outside".to_vec(),
                ..Script::default()
            };
            let (ended, _) = world.copy(script, options(), true);
            assert_eq!(world.outside(), before, "{} {kind:?}: {ended:?}", name.escape_ascii());
            manifests += 1;
        }
    }
    assert!(manifests >= 60, "{manifests}");
}

/// A link first, then something of its name that would go through it.
#[test]
fn b03_a_name_that_comes_twice_never_goes_through_what_came_first() {
    let kinds = [NodeKind::Regular, NodeKind::Directory, NodeKind::Symlink, NodeKind::Fifo];
    for first in kinds {
        for second in kinds {
            for text in [&b"../outside"[..], b"../outside/canary", b"/etc", b"."] {
                let world = World::new();
                let before = world.outside();
                let inside = vec![line(b"canary", NodeKind::Regular), line(b"x", NodeKind::Regular)];
                let script = Script {
                    listings: [(Vec::new(), vec![line(b"d", first), line(b"d", second)]), (b"d".to_vec(), inside)]
                        .into(),
                    text: text.to_vec(),
                    ..Script::default()
                };
                let (ended, heard) = world.copy(script, TreeOptions { keep: Preserve::ALL, ..options() }, true);
                assert_eq!(world.outside(), before, "{first:?} {second:?}: {ended:?}");
                assert!(heard.failed.contains(&(b"d".to_vec(), ErrorKind::Protocol)), "{:?}", heard.failed);
            }
        }
    }
}

#[test]
fn b03_links_that_are_in_the_target_already_lead_nowhere() {
    for name in ["d", "x", "canary"] {
        for kind in [NodeKind::Regular, NodeKind::Directory] {
            let world = World::new();
            let target = if kind == NodeKind::Directory { "outside" } else { "outside/x" };
            symlink(world.scratch.file(target), world.scratch.file(&format!("target/{name}"))).unwrap();
            let before = world.outside();
            let below = vec![line(b"canary", NodeKind::Regular), line(b"inner", NodeKind::Directory)];
            let script = Script {
                listings: [(Vec::new(), vec![line(name.as_bytes(), kind)]), (name.as_bytes().to_vec(), below)].into(),
                ..Script::default()
            };
            let delete = TreeOptions { delete: Some(u64::MAX), ..options() };
            let (ended, _) = world.copy(script, delete, false);
            assert_eq!(world.outside(), before, "{name} {kind:?}: {ended:?}");
        }
    }
}

#[test]
fn b03_a_tree_without_an_end_is_left_at_the_deepest_path() {
    let world = World::new();
    let before = world.outside();
    let script = Script { everywhere: vec![line(b"d", NodeKind::Directory)], ..Script::default() };
    let (ended, heard) = world.copy(script, options(), true);
    assert!(matches!(ended, Ended::Complete(summary) if summary.failed == 1), "{ended:?}");
    assert_eq!(heard.failed[0].1, ErrorKind::InvalidPath);
    assert_eq!(world.outside(), before);
    let removed = std::process::Command::new("rm").args(["-rf", "target"]).current_dir(world.scratch.path()).status();
    assert!(removed.unwrap().success());
}

/// P-72, and T8: nothing is concluded from a listing that does not end.
#[test]
fn b09_a_listing_that_says_nothing_ends_the_directory_and_removes_nothing() {
    let world = World::new();
    world.scratch.write("target/mine", b"mine");
    let script = Script { endless: true, ..Script::default() };
    let delete = TreeOptions { delete: Some(u64::MAX), ..options() };
    let (ended, heard) = world.copy(script, delete, false);
    assert!(matches!(ended, Ended::Complete(summary) if summary.failed == 1 && summary.deleted == 0), "{ended:?}");
    assert_eq!(heard.failed, [(Vec::new(), ErrorKind::Protocol)]);
    assert_eq!(world.scratch.read("target/mine"), b"mine");
}

/// B17, and numbers from both ends of what they can be.
#[test]
fn b17_numbers_that_no_file_has_are_refused_and_the_rest_arrives() {
    let world = World::new();
    let before = world.outside();
    let huge = |size, modified| {
        let node = super::evil::Line { name: b"huge".to_vec(), node: node(NodeKind::Regular) };
        Line { node: xdfs_io::store::tree::Node { size, modified, ..node.node }, ..node }
    };
    for (size, modified) in [
        ((1 << 62) - 1, Timestamp::default()),
        (1 << 61, Timestamp::new(i64::MAX >> 2, 0)),
        (7, Timestamp::new(i64::MIN >> 2, 999_999_999)),
    ] {
        let lines = vec![huge(size, modified), line(b"fine", NodeKind::Regular)];
        let script = Script { listings: [(Vec::new(), lines)].into(), ..Script::default() };
        let (ended, heard) = world.copy(script, TreeOptions { skip_same: false, ..options() }, false);
        assert!(matches!(ended, Ended::Complete(_)), "{ended:?} {:?}", heard.failed);
        assert_eq!(world.scratch.read("target/fine"), b"payload");
        assert!(world.outside() == before);
    }
}

/// T5: set-id bits, owners and what the kernel acts on come only where they are asked for.
#[test]
fn b06_a_manifest_alone_sets_no_special_bit_and_no_owner() {
    let world = World::new();
    let mut special = line(b"tool", NodeKind::Regular);
    (special.node.mode, special.node.owner) = (0o6755, (u32::MAX - 1, 4711));
    let lines = vec![special, line(b"fifo", NodeKind::Fifo), line(b"device", NodeKind::BlockDevice)];
    let script = Script { listings: [(Vec::new(), lines)].into(), ..Script::default() };
    let (ended, _) = world.copy(script, options(), true);
    assert!(matches!(ended, Ended::Complete(summary) if summary.passed_over == 2), "{ended:?}");
    let meta = std::fs::metadata(world.scratch.file("target/tool")).unwrap();
    assert_eq!((meta.mode() & 0o7000, meta.uid()), (0, rustix::process::geteuid().as_raw()));
    let names: Vec<_> = std::fs::read_dir(world.scratch.file("target")).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    // No file capability came by a list of attributes that nobody asked for.
    let mut list = [0; 256];
    assert_eq!(rustix::fs::listxattr(world.scratch.file("target/tool"), &mut list).unwrap(), 0);
}

/// The extended attributes of a file that a lying server told, when `keep` is kept.
fn kept_attributes(keep: Preserve) -> (Vec<Vec<u8>>, Ended, Heard) {
    let world = World::new();
    let script =
        Script { listings: [(Vec::new(), vec![line(b"tool", NodeKind::Regular)])].into(), ..Script::default() };
    let (ended, heard) = world.copy(script, TreeOptions { keep, ..options() }, true);
    let mut list = [0; 256];
    let length = rustix::fs::listxattr(world.scratch.file("target/tool"), &mut list).unwrap();
    let names: Vec<_> = list[..length].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    (names, ended, heard)
}

/// What the kernel acts on (capabilities, labels) is worth as much as an owner: extended attributes alone do not bring it.
#[test]
fn b06_extended_attributes_alone_bring_nothing_that_the_kernel_acts_on() {
    let xattrs = Preserve { xattrs: true, ..Preserve::default() };
    for keep in [xattrs, Preserve { owners: true, ..xattrs }, Preserve { modes: true, ..xattrs }] {
        let (names, ended, heard) = kept_attributes(keep);
        assert_eq!(names, [b"user.fine".to_vec(), Vec::new()], "{keep:?}");
        let Ended::Complete(summary) = ended else { panic!("{ended:?}") };
        assert!(summary.reduced >= 3, "security, trusted, and what is no name: {summary:?}");
        assert!(heard.notes.iter().any(|note| note.contains("owners and modes are not kept")), "{:?}", heard.notes);
    }
}

#[test]
fn b06_whoever_asks_for_owners_modes_and_attributes_gets_what_the_kernel_acts_on() {
    if !xdfs_test_needs::root("it sets attributes that only root may set") {
        return;
    }
    let names = kept_attributes(Preserve { owners: true, modes: true, xattrs: true, ..Preserve::default() }).0;
    assert!(names.contains(&b"trusted.x".to_vec()), "asked for all of it: {names:?}");
}

/// B08: a file system that takes two names for one shows the second when the first is there. In a directory of this copy nothing
/// is there before, so that it is found out, and nothing is written over.
#[test]
fn b08_of_two_names_that_are_one_here_the_second_fails_and_writes_over_nothing() {
    for kind in [NodeKind::Regular, NodeKind::Symlink, NodeKind::Directory] {
        let world = World::new();
        let lines = vec![line(b"A", NodeKind::Regular), line(b"a", kind)];
        let listings = [(Vec::new(), vec![line(b"new", NodeKind::Directory)]), (b"new".to_vec(), lines)].into();
        let script = Script { listings, text: b"../outside".to_vec(), ..Script::default() };
        let export = Export::open_to_all("evil", Arc::new(EvilStore::new(script)), false);
        let serving = Serving::with(Setup { more: vec![export], ..Setup::default() });
        let store = LocalStore::open_root(&world.scratch.file("target"), true).unwrap();
        let twin = world.scratch.file("target/new/a");
        // As the file system would, once the directory is there.
        let appears = || {
            if world.scratch.file("target/new").exists() && !twin.exists() {
                std::fs::write(&twin, b"CANARY").unwrap();
            }
        };
        let mut meddler = Meddler { heard: Heard::default(), each: Some(&appears), act: None };
        let ended = Download::new(store, "evil", true, TreeOptions::default()).run(&serving.connect(1), &mut meddler);
        assert!(matches!(ended, Ended::Complete(summary) if summary.failed == 1), "{kind:?}: {ended:?}");
        assert_eq!(meddler.heard.failed, [(b"new/a".to_vec(), ErrorKind::AlreadyExists)], "{kind:?}");
        assert_eq!(std::fs::read(&twin).unwrap(), b"CANARY", "{kind:?}");
        assert_eq!(std::fs::read(world.scratch.file("target/new/A")).unwrap(), b"payload");
    }
}

/// They are given back: other clients of the server come to an end.
#[test]
fn descriptors_that_others_have_are_waited_for() {
    let world = World::new();
    for (content, name) in [(Vec::new(), b"small"), (vec![7; 300_000], b"large")] {
        let mut file = line(name, NodeKind::Regular);
        file.node.size = content.len().max(7) as u64;
        let scarce = Arc::new(std::sync::atomic::AtomicU64::new(4));
        let listings = [(Vec::new(), vec![file])].into();
        let script = Script { listings, content, scarce: Arc::clone(&scarce), ..Script::default() };
        let (ended, heard) = world.copy(script, TreeOptions::default(), false);
        assert!(matches!(ended, Ended::Complete(summary) if summary.failed == 0), "{ended:?} {:?}", heard.failed);
        assert_eq!(scarce.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}
