//! Trees that somebody may want to copy, what the target has of them already, and how they change
//! meanwhile.

use super::files::{Found, Inode, SimulatedFiles};
use super::random::Random;
use super::server::Refusals;
use crate::tree::{Preserve, TreeOptions, join, same_time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xdfs_io::store::Existing;
use xdfs_io::store::tree::{NodeKind, Tree};
use xdfs_proto::base::{RelPath, Timestamp};

/// Names of a usual tree, and of one with a large directory.
const NAMES: usize = 14;
const NAMES_MANY: usize = 5000;
/// One in so many trees has a large directory.
const LARGE_ONE_IN: u64 = 20_000;
/// One in so many has more directories than are listed at a time.
const WIDE_ONE_IN: usize = 500;
const NAMES_WIDE: usize = 250;
/// Changes while a copy runs.
const CHANGES_MAX: usize = 4;

/// Everything about one copy that its seed decides.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) up: bool,
    pub(super) fresh: bool,
    pub(super) options: TreeOptions,
    pub(super) source: SimulatedFiles,
    pub(super) target: SimulatedFiles,
    pub(super) refusals: Refusals,
    pub(super) greedy: bool,
    pub(super) page: usize,
    pub(super) batch_bytes_max: usize,
    /// Steps of a session, at most; none if none is lost.
    pub(super) life: Option<usize>,
    /// Looks whether to go on, until somebody stops the copy and repeats the command; none if nobody does.
    pub(super) patience: Option<u64>,
    /// The source changes while it is copied.
    pub(super) changes: bool,
    /// Answers come only when nothing else is left to do.
    pub(super) slow: bool,
}

impl Scenario {
    pub(super) fn new(random: &mut Random) -> Self {
        let options = options(random);
        let source = SimulatedFiles::new();
        let many = random.one_in(LARGE_ONE_IN, 1);
        let count = match random.below(WIDE_ONE_IN) {
            _ if many => random.below(NAMES_MANY),
            0 => NAMES_WIDE,
            _ => random.below(NAMES),
        };
        fill(random, &source, count, many);
        let fresh = random.one_in(4, 1) && !options.dry_run;
        let target = if fresh { SimulatedFiles::new() } else { earlier(random, &source, &options) };
        let refusals = match random.below(8) {
            0 => Refusals { scarce: 500, storage: 0 },
            1 => Refusals { scarce: 0, storage: 500 },
            _ => Refusals::default(),
        };
        Self {
            up: random.coin(),
            fresh,
            source,
            target,
            refusals,
            greedy: random.coin(),
            page: random.pick(&[1, 3, 1000]),
            batch_bytes_max: random.pick(&[64 << 10, 256 << 10]),
            life: random.one_in(3, 1).then(|| 1 + random.below(40)),
            // What storage fails at in the first of two runs, nobody is told in the second.
            patience: (random.one_in(3, 1) && !options.dry_run && refusals.storage == 0)
                .then(|| random.below(12) as u64),
            changes: random.one_in(4, 1) && !options.dry_run,
            slow: random.coin(),
            options,
        }
    }
}

fn options(random: &mut Random) -> TreeOptions {
    let keep = Preserve {
        modes: random.coin(),
        specials: random.coin(),
        links: random.coin(),
        owners: false,
        ..Preserve::default()
    };
    let excludes = random.one_in(4, 1);
    let filter = |path: &[u8], _: bool| !path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().starts_with(b"x");
    TreeOptions {
        durable: random.coin(),
        keep_existing: random.one_in(8, 1),
        checksum: random.one_in(4, 1),
        dry_run: random.one_in(16, 1),
        delete: random.coin().then_some(u64::MAX),
        keep,
        filter: if excludes { Some(Arc::new(filter)) } else { None },
        ..TreeOptions::default()
    }
}

fn name(random: &mut Random, long: bool) -> Vec<u8> {
    let letter = random.pick(b"abcdefgx");
    match random.below(12) {
        0 if !long => vec![letter; 150],
        _ if long => [&[letter][..], random.below(1 << 20).to_string().as_bytes()].concat(),
        _ => vec![letter],
    }
}

fn file(random: &mut Random) -> Inode {
    let length = match random.below(16) {
        0 => 0,
        1 => 40_000 + random.below(70_000),
        _ => 1 + random.below(40),
    };
    let content = vec![random.pick(b"0123456789"); length];
    Inode::new(NodeKind::Regular, random.pick(&[0o644, 0o600, 0o755, 0o4755]), content, time(random))
}

fn time(random: &mut Random) -> Timestamp {
    Timestamp::new(100 + random.below(3) as i64, random.pick(&[0, 50, 54]))
}

/// Adds names to a tree.
fn fill(random: &mut Random, files: &SimulatedFiles, count: usize, large: bool) {
    let mut directories = vec![Vec::new()];
    let mut regular: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        // Most names of a large tree are in one directory.
        let above = if large && !random.one_in(50, 1) {
            Vec::new()
        } else {
            directories[random.below(directories.len())].clone()
        };
        let path = join(&above, &name(random, large));
        let made = match random.below(20) {
            0..4 => {
                let mode = random.pick(&[0o755, 0o700, 0o1777]);
                files
                    .create(&path, Inode::new(NodeKind::Directory, mode, Vec::new(), Timestamp::new(1, 0)))
                    .map(|()| directories.push(path))
            }
            4..6 => {
                let text = vec![b'l'; 1 + random.below(30)];
                files.create(&path, Inode::new(NodeKind::Symlink, 0o777, text, time(random)))
            }
            6 => files.create(&path, Inode::new(NodeKind::Fifo, 0o644, Vec::new(), time(random))),
            7..9 if !regular.is_empty() => {
                let of = regular[random.below(regular.len())].clone();
                link(files, &of, &path)
            }
            _ => files.create(&path, file(random)).map(|()| regular.push(path)),
        };
        // A name that is taken is one name less.
        drop(made);
    }
    for (index, directory) in directories.iter().enumerate() {
        files.edit(directory, |inode| inode.modified = Timestamp::new(500 + index as i64, 0));
    }
}

fn link(files: &SimulatedFiles, of: &[u8], path: &[u8]) -> Result<(), xdfs_proto::base::Error> {
    let parse = |path: &[u8]| RelPath::parse(path).expect("a path");
    files.link(&parse(of), &parse(path))
}

/// What an earlier copy has left, and others have changed since.
fn earlier(random: &mut Random, source: &SimulatedFiles, options: &TreeOptions) -> SimulatedFiles {
    let target = source.copy();
    if random.one_in(6, 1) {
        return target;
    }
    for (path, found) in source.walk() {
        // Something above it may be gone.
        if target.find(&path).is_err() || !random.coin() {
            continue;
        }
        match random.below(8) {
            0 => target.remove_all(&path),
            1 => {
                target.remove_all(&path);
                // Its directory has another time from now on.
                let there = file(random);
                drop(target.create(&path, there.at(Timestamp::new(90, 0))));
            }
            2 => {
                target.remove_all(&path);
                drop(target.create(&path, Inode::new(NodeKind::Directory, 0o755, Vec::new(), Timestamp::new(91, 0))));
                if random.coin() {
                    drop(target.create(&join(&path, b"a"), file(random)));
                }
            }
            3 => {
                target.remove_all(&path);
                drop(
                    target.create(
                        &path,
                        Inode::new(NodeKind::Symlink, 0o777, b"elsewhere".to_vec(), Timestamp::new(92, 0)),
                    ),
                );
            }
            4 => target.edit(&path, |inode| inode.mode ^= if inode.kind == NodeKind::Symlink { 0 } else { 0o044 }),
            5 if found.kind == NodeKind::Regular => target.edit(&path, |inode| {
                inode.content.iter_mut().for_each(|byte| *byte ^= 1);
            }),
            6 if found.kind == NodeKind::Regular => {
                // Names that are one file here and were two, or the reverse.
                let others = source.walk();
                let index = random.below(others.len());
                if let Some((other, _)) = others.iter().nth(index).filter(|(_, other)| other.kind == NodeKind::Regular)
                {
                    let again = target
                        .find(&path)
                        .map(|there| Inode::new(there.kind, there.mode, there.content, Timestamp::new(93, 0)));
                    target.remove_all(&path);
                    if random.coin() {
                        drop(link(&target, other, &path));
                    } else {
                        drop(again.and_then(|file| target.create(&path, file)));
                    }
                }
            }
            _ => target.edit(&path, |inode| inode.modified = Timestamp::new(94, 0)),
        }
    }
    add_surplus(random, &target);
    if !options.checksum {
        tell_apart(source, &target);
    }
    target
}

/// Names that the source does not have.
fn add_surplus(random: &mut Random, target: &SimulatedFiles) {
    let surplus = random.below(4);
    let directories: Vec<Vec<u8>> = std::iter::once(Vec::new())
        .chain(target.walk().into_iter().filter(|(_, found)| found.kind == NodeKind::Directory).map(|(path, _)| path))
        .collect();
    for _ in 0..surplus {
        let above = directories[random.below(directories.len())].clone();
        let path = join(&above, &[b's', random.pick(b"012x")]);
        let new = if random.one_in(3, 1) {
            Inode::new(NodeKind::Directory, 0o755, Vec::new(), Timestamp::new(95, 0))
        } else {
            file(random)
        };
        drop(target.create(&path, new));
    }
}

/// Without a comparison of contents nobody sees a difference behind the same size and time.
fn tell_apart(source: &SimulatedFiles, target: &SimulatedFiles) {
    for (path, found) in source.walk() {
        let alike = |there: &Found| {
            there.kind == found.kind && same_time(found.modified, there.modified) && there.content != found.content
        };
        if found.kind == NodeKind::Regular && target.find(&path).is_ok_and(|there| alike(&there)) {
            target.edit(&path, |inode| inode.modified.seconds += 50);
        }
    }
}

/// Changes of the source while it is copied.
#[derive(Debug)]
pub(super) struct Changes {
    source: SimulatedFiles,
    left: usize,
    /// Names that were changed, with all below them, and every content that each of them had.
    pub(super) paths: BTreeSet<Vec<u8>>,
    pub(super) contents: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl Changes {
    pub(super) fn new(source: SimulatedFiles, any: bool) -> Self {
        let left = if any { CHANGES_MAX } else { 0 };
        Self { source, left, paths: BTreeSet::new(), contents: BTreeMap::new() }
    }

    /// Changes something, perhaps.
    pub(super) fn step(&mut self, random: &mut Random) {
        if self.left == 0 || !random.one_in(12, 1) {
            return;
        }
        self.left -= 1;
        let names: Vec<(Vec<u8>, Found)> = self.source.walk().into_iter().collect();
        if names.is_empty() {
            return;
        }
        let (path, found) = names[random.below(names.len())].clone();
        match random.below(5) {
            0 => self.source.remove_all(&path),
            1 if found.kind == NodeKind::Regular => self.source.edit(&path, |inode| {
                inode.content.truncate(inode.content.len() / 2);
                inode.modified.seconds += 1000;
            }),
            2 if found.kind == NodeKind::Regular => {
                let more = random.pick(&[1, 50_000, 200_000]);
                self.source.edit(&path, |inode| {
                    inode.content.resize(inode.content.len() + more, b'+');
                    inode.modified.seconds += 1000;
                });
            }
            3 if found.kind == NodeKind::Regular => {
                let new = file(random).at(Timestamp::new(2000, 0));
                drop(self.source.put(&path, new, Existing::Replace));
            }
            _ => {
                self.source.remove_all(&path);
                let new = if random.coin() {
                    Inode::new(NodeKind::Directory, 0o755, Vec::new(), Timestamp::new(2001, 0))
                } else {
                    Inode::new(NodeKind::Symlink, 0o777, b"new".to_vec(), Timestamp::new(2002, 0))
                };
                drop(self.source.create(&path, new));
            }
        }
        // All names of a file have its content.
        let one = |other: &Found| other.inode == found.inode;
        for (other, _) in names.iter().filter(|(_, other)| one(other)) {
            // What has the name of one of them now may be taken for all of them.
            for now in [&path, other].into_iter().filter_map(|name| self.source.find(name).ok()) {
                self.contents.entry(other.clone()).or_default().push(now.content);
            }
            self.paths.insert(other.clone());
        }
    }

    /// Whether it, or something above it, was changed.
    pub(super) fn reach(&self, path: &[u8]) -> bool {
        let mut ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        ends.any(|end| self.paths.contains(&path[..end]))
    }

    /// Whether something below it was changed.
    pub(super) fn reach_below(&self, path: &[u8]) -> bool {
        let start = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        self.paths.iter().any(|changed| changed.starts_with(&start))
    }
}
