//! Trees: the papers' (1,000 files from 1 KiB to 512 KiB in 100 directories) and 20,000 files of 4 KiB, copied beside those who do
//! that today; on ext4 also so that they survive a power cut.

use super::{chosen, memory, rounds, run_cell};
use crate::args::{FileSystem, PeerName, Shape};
use crate::bound::Direction;
use crate::cell::Cell;
use crate::error::Result;
use crate::files;
use crate::peers::{self, System, Work, Xdfs};
use crate::report::Report;
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
            let source = directory.path().join("source");
            let bytes = files::create_tree(&source, kind.directories, kind.files, kind.size)?;
            for direction in &args.directions {
                let work = |channels| Work::Tree {
                    direction: *direction,
                    channels,
                    source: source.clone(),
                    target: directory.path().join("target"),
                    bytes,
                };
                let mut cells = vec![(work(kind.channels), written(&chosen(args, &PEERS)), "")];
                if *filesystem == FileSystem::Ext4 {
                    let names = chosen(args, &[PeerName::Xdfs, PeerName::RsyncFsync]);
                    cells = vec![(work(4), durable(&names), ", durable")];
                }
                for (work, systems, promise) in cells {
                    let title = title(kind, *filesystem, *direction, promise);
                    let cell = Cell {
                        shape: Shape::Trees,
                        title,
                        work,
                        systems,
                        rounds: rounds(args),
                        directory: Some(directory.path().to_owned()),
                        warm: None,
                        filesystem: Some(*filesystem),
                        fairness: false,
                    };
                    run_cell(world, report, &cell)?;
                }
            }
        }
    }
    Ok(())
}

fn title(kind: &Kind, filesystem: FileSystem, direction: Direction, promise: &str) -> String {
    let place = match filesystem {
        FileSystem::Tmpfs => "tmpfs",
        FileSystem::Ext4 => "ext4",
    };
    format!("tree of {}, {place}, {}{promise}", kind.name, memory::direction_name(direction))
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
