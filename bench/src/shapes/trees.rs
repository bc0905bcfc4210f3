//! Trees: the papers' (1,000 files from 1 KiB to 512 KiB in 100 directories) and 20,000 files of 4 KiB, copied beside those who do
//! that today; on ext4 also so that they survive a power cut. And, on ext4, one like a compiler's installation: copied, and compared.

use std::path::PathBuf;

use super::{chosen, memory, rounds, run_cell};
use crate::args::{FileSystem, PeerName, Shape};
use crate::bound::Direction;
use crate::cell::Cell;
use crate::error::Result;
use crate::files;
use crate::peers::{self, System, Work, Xdfs};
use crate::report::Report;
use crate::tree;
use crate::world::{ScratchDir, World};

/// A tree that is copied.
struct Kind {
    name: &'static str,
    directories: u32,
    files: u32,
    size: fn(f64) -> u64,
    /// Parallel files of GridFTP, at its best.
    channels: u32,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "1,000 files of 1 to 512 KiB",
        directories: 100,
        files: 10,
        // Evenly over the logarithm.
        size: |share| (1024.0 * (share * 9.0).exp2()) as u64,
        channels: 4,
    },
    Kind { name: "20,000 files of 4 KiB", directories: 200, files: 100, size: |_| 4096, channels: 16 },
];

const PEERS: [PeerName; 6] =
    [PeerName::Xdfs, PeerName::Cp, PeerName::TarNc, PeerName::Rsync, PeerName::Gridftp, PeerName::Scp];

/// Files of the tree like a compiler's installation; of a quick run.
const REAL_FILES: (u32, u32) = (100_000, 2_000);

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    for filesystem in &args.filesystems {
        let parent = match filesystem {
            FileSystem::Tmpfs => &args.tmpfs_dir,
            FileSystem::Ext4 => &args.ext4_dir,
        };
        files::check_file_system(parent, *filesystem)?;
        for kind in &KINDS {
            let directory = ScratchDir::create(parent, "trees")?;
            let bytes = files::create_tree(&source(&directory), kind.directories, kind.files, kind.size)?;
            let files = u64::from(kind.directories * kind.files);
            let made = Made { name: kind.name, filesystem: *filesystem, directory, bytes, files };
            for direction in &args.directions {
                if *filesystem == FileSystem::Ext4 {
                    let names = chosen(args, &[PeerName::Xdfs, PeerName::RsyncFsync]);
                    let cell = made.cell(world, made.copy(*direction, 4), durable(&names), ", durable");
                    run_cell(world, report, &cell)?;
                } else {
                    let systems = written(&chosen(args, &PEERS));
                    run_cell(world, report, &made.cell(world, made.copy(*direction, kind.channels), systems, ""))?;
                }
            }
        }
        if *filesystem == FileSystem::Ext4 {
            real(world, report)?;
        }
    }
    Ok(())
}

/// The tree like a compiler's installation: copied, and then brought up to date where nothing has changed.
fn real(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let directory = ScratchDir::create(&args.ext4_dir, "trees")?;
    let count = if args.quick { REAL_FILES.1 } else { REAL_FILES.0 };
    let bytes = tree::create(&source(&directory), count, &world.interrupt)?;
    let name = if args.quick { "2,000 files like a compiler's" } else { "100,000 files like a compiler's" };
    let made = Made { name, filesystem: FileSystem::Ext4, directory, bytes, files: u64::from(count) };
    let systems = || -> Vec<Box<dyn System>> {
        let own = Xdfs { channels: Some(4), ..Xdfs::default() };
        of(&chosen(args, &[PeerName::Xdfs, PeerName::Rsync]), vec![Box::new(own)])
    };
    for direction in &args.directions {
        run_cell(world, report, &made.cell(world, made.copy(*direction, 4), systems(), ""))?;
    }
    files::copy_tree(&source(&made.directory), &made.directory.path().join("target"))?;
    for direction in &args.directions {
        run_cell(world, report, &made.cell(world, made.again(*direction), systems(), ", unchanged"))?;
    }
    Ok(())
}

fn source(directory: &ScratchDir) -> PathBuf {
    directory.path().join("source")
}

/// A tree that is there.
struct Made {
    name: &'static str,
    filesystem: FileSystem,
    directory: ScratchDir,
    bytes: u64,
    files: u64,
}

impl Made {
    fn copy(&self, direction: Direction, channels: u32) -> Work {
        let (source, target) = (source(&self.directory), self.directory.path().join("target"));
        Work::Tree { direction, channels, source, target, bytes: self.bytes, files: self.files }
    }

    fn again(&self, direction: Direction) -> Work {
        let (source, target) = (source(&self.directory), self.directory.path().join("target"));
        Work::Same { direction, channels: 4, source, target, bytes: self.bytes, files: self.files }
    }

    fn cell(&self, world: &World, work: Work, systems: Vec<Box<dyn System>>, promise: &str) -> Cell {
        let place = match self.filesystem {
            FileSystem::Tmpfs => "tmpfs",
            FileSystem::Ext4 => "ext4",
        };
        Cell {
            shape: Shape::Trees,
            title: format!("tree of {}, {place}, {}{promise}", self.name, memory::direction_name(work.direction())),
            work,
            systems,
            rounds: rounds(&world.args),
            directory: Some(self.directory.path().to_owned()),
            warm: None,
            filesystem: Some(self.filesystem),
            fairness: false,
        }
    }
}

/// xdfs over four channels at `clear`, over one, and at `private`.
fn written(names: &[PeerName]) -> Vec<Box<dyn System>> {
    let own = |protection, channels| -> Box<dyn System> {
        Box::new(Xdfs { protection, channels: Some(channels), ..Xdfs::default() })
    };
    of(names, vec![own("clear", 4), own("clear", 1), own("private", 4)])
}

/// With every default but the channels of the cell.
fn durable(names: &[PeerName]) -> Vec<Box<dyn System>> {
    let all = Xdfs { protection: "private", verify: "hash", durability: "durable", ..Xdfs::default() };
    of(names, vec![Box::new(Xdfs { durability: "durable", ..Xdfs::default() }), Box::new(all)])
}

fn of(names: &[PeerName], own: Vec<Box<dyn System>>) -> Vec<Box<dyn System>> {
    let own = if names.contains(&PeerName::Xdfs) { own } else { Vec::new() };
    let others: Vec<PeerName> = names.iter().copied().filter(|name| *name != PeerName::Xdfs).collect();
    own.into_iter().chain(peers::systems(&others)).collect()
}
