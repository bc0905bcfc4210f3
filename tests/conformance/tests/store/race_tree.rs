//! B04 in short for the verbs of a tree: while a directory on the way, or the name itself, is exchanged with a link that leads out,
//! every verb runs many times. Nothing outside is told, made, removed or changed.

use crate::race::{StopOnDrop, World, flip, rounds};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicBool;
use xdfs_io::store::tree::{AttributeChange, ListControl, NodeKind, Special};
use xdfs_io::store::{Existing, Store, Tree};
use xdfs_proto::base::{Error, ErrorKind, Timestamp};
use xdfs_test_conformance::store::bench::path;

/// A verb on the names below `d/e`; what it tells is checked in it.
type Verb = fn(&dyn Tree, &Inside) -> Result<(), Error>;

/// What is told about the file inside.
struct Inside {
    /// The file, or either of it and the link where the name itself is exchanged.
    identities: Vec<(u64, u64)>,
}

impl Inside {
    fn knows(&self, identity: (u64, u64)) {
        assert!(self.identities.contains(&identity), "told about something else");
    }
}

const FIFO: Special = Special { kind: NodeKind::Fifo, mode: 0o600, device: (0, 0) };
const CHANGE: AttributeChange = AttributeChange {
    mode: Some(0o640),
    length: Some(3),
    modified: Some(Timestamp::new(1, 1)),
    owner: (None, None),
    accessed: None,
};
const TOUCH: AttributeChange = AttributeChange { mode: None, length: None, ..CHANGE };

const VERBS: &[(&str, Verb)] = &[
    ("node", |tree, inside| tree.node(&path("d/e/x")).map(|node| inside.knows(node.identity))),
    ("list", |tree, inside| {
        let list = tree.list(&path("d/e"), b"", &mut |name, node| {
            if name == b"x" {
                inside.knows(node.identity);
            }
            ListControl::More
        });
        list.map(drop)
    }),
    ("make_directory", |tree, _| tree.make_directory(&path("d/e/made"), 0o755, false)),
    ("make_directory with parents", |tree, _| tree.make_directory(&path("d/e/deep/made"), 0o755, true)),
    ("make_symlink", |tree, _| tree.make_symlink(&path("d/e/new-link"), b"x")),
    ("make_special", |tree, _| tree.make_special(&path("d/e/fifo"), &FIFO)),
    ("rename", |tree, _| tree.rename(&path("d/e/fifo"), &path("d/e/moved"), Existing::Replace)),
    ("rename into", |tree, _| tree.rename(&path("spare"), &path("d/e/moved"), Existing::Replace)),
    ("rename out of", |tree, _| tree.rename(&path("d/e/moved"), &path("spare"), Existing::Replace)),
    ("link", |tree, _| tree.link(&path("d/e/x"), &path("d/e/second"))),
    ("link into", |tree, _| tree.link(&path("spare"), &path("d/e/third"))),
    ("read_symlink", |tree, _| match tree.read_symlink(&path("d/e/xlink")) {
        Err(error) if error.message.contains("not a symbolic link") => Ok(()),
        other => other.map(drop),
    }),
    ("remove", |tree, _| tree.remove(&path("d/e/second"))),
    ("remove_directory", |tree, _| tree.remove_directory(&path("d/e/made"))),
    ("change", |tree, _| tree.change(&path("d/e/x"), &CHANGE)),
    ("change of times", |tree, _| tree.change(&path("d/e/x"), &TOUCH)),
    ("set_xattr", |tree, _| tree.set_xattr(&path("d/e/x"), b"user.race", b"x")),
    ("xattr", |tree, _| tree.xattr(&path("d/e/x"), b"user.race").map(|value| assert_eq!(value, b"x"))),
    ("xattrs", |tree, _| {
        tree.xattrs(&path("d/e/x")).map(|names| assert!(names.iter().all(|name| name == b"user.race"), "{names:?}"))
    }),
    ("remove_xattr", |tree, _| tree.remove_xattr(&path("d/e/x"), b"user.race")),
    ("space", |tree, _| tree.space(&path("d/e/x")).map(drop)),
    ("sync", |tree, _| tree.sync(&path("d/e"))),
];

/// Mode, time, links and extended attributes of the file outside, besides what `World` compares.
fn canary(world: &World) -> (u32, i64, u64, usize) {
    let file = world.scratch.path().join("outside/e/x");
    let meta = std::fs::metadata(&file).unwrap();
    let mut names = [0; 64];
    (meta.mode(), meta.mtime_nsec(), meta.nlink(), rustix::fs::listxattr(&file, &mut names).unwrap())
}

/// Runs every verb while the names are exchanged; tells of each how often a link was in its way.
fn race_all(one: &str, other: &str, of: &[&str]) -> Vec<(&'static str, u32)> {
    let world = World::new();
    std::fs::write(world.at("spare"), b"spare").unwrap();
    let identity = |name: &&str| world.store.tree().unwrap().node(&path(name)).unwrap().identity;
    let inside = Inside { identities: of.iter().map(identity).collect() };
    let before = canary(&world);
    let stop = AtomicBool::new(false);
    let mut blocked: Vec<_> = VERBS.iter().map(|(name, _)| (*name, 0)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| flip(&world.at(one), &world.at(other), &stop));
        let _stop = StopOnDrop(&stop);
        let tree = world.store.tree().unwrap();
        // In turns, so that what one verb makes another one finds.
        for _ in 0..rounds() {
            for ((_, verb), (_, count)) in VERBS.iter().zip(&mut blocked) {
                let outcome = verb(tree, &inside);
                *count += u32::from(outcome.is_err_and(|error| error.kind == ErrorKind::NotRegular));
            }
        }
    });
    world.outside_is_untouched();
    assert_eq!(canary(&world), before);
    blocked
}

#[test]
fn an_exchanged_directory_never_lets_a_verb_of_a_tree_out() {
    let blocked = race_all("d", "link", &["d/e/x"]);
    // Each was raced: a link was in its way sometimes, and not always.
    for (name, count) in blocked {
        assert!(count > 0 && count < rounds(), "{name}: {count} of {}", rounds());
    }
}

#[test]
fn an_exchanged_name_never_lets_a_verb_of_a_tree_out() {
    race_all("d/e/x", "d/e/xlink", &["d/e/x", "d/e/xlink"]);
}
