//! File to file: random bytes in the page cache, absent target, no sync: what `cp` does, over the network.

use std::path::PathBuf;

use super::memory::direction_name;
use super::{chosen, rounds, run_cell, size};
use crate::args::{FileSystem, PeerName, Shape};
use crate::cell::Cell;
use crate::error::{Error, Result};
use crate::files;
use crate::peers::{self, Work};
use crate::report::Report;
use crate::world::{ScratchDir, World};

/// Large against every cache of the CPU, small enough for source, target and warm memory to fit several times.
const BYTES: u64 = 2_000_000_000;

/// Source and target of file runs on one file system, removed at the end.
pub(super) struct Place {
    directory: ScratchDir,
    warm: ScratchDir,
    source: PathBuf,
    filesystem: FileSystem,
    bytes: u64,
}

impl Place {
    /// Checks the directories and creates the source.
    pub(super) fn create(world: &World, filesystem: FileSystem, bytes: u64) -> Result<Self> {
        let args = &world.args;
        let parent = match filesystem {
            FileSystem::Tmpfs => &args.tmpfs_dir,
            FileSystem::Ext4 => &args.ext4_dir,
        };
        files::check_file_system(parent, filesystem)?;
        let free = files::free_bytes(parent)?;
        if free < 3 * bytes {
            let detail =
                format!("{} has {free} free bytes; {} are needed (or a smaller --size)", parent.display(), 3 * bytes);
            return Err(Error::Wrong { system: "file system".to_owned(), detail });
        }
        let directory = ScratchDir::create(parent, "files")?;
        let warm = ScratchDir::create(parent, "warm")?;
        let source = directory.path().join("source");
        files::create_random(&source, bytes, &world.interrupt)?;
        Ok(Self { directory, warm, source, filesystem, bytes })
    }

    /// A cell here.
    pub(super) fn cell(&self, world: &World, shape: Shape, work: Work, systems: Vec<Box<dyn peers::System>>) -> Cell {
        let title = format!(
            "file to file on {}, {}, -P {}",
            match self.filesystem {
                FileSystem::Tmpfs => "tmpfs",
                FileSystem::Ext4 => "ext4",
            },
            direction_name(work.direction()),
            work.channels()
        );
        Cell {
            shape,
            title,
            work,
            systems,
            rounds: rounds(&world.args),
            directory: Some(self.directory.path().to_owned()),
            warm: Some((self.warm.path().to_owned(), self.bytes)),
            filesystem: Some(self.filesystem),
            fairness: false,
        }
    }

    /// The work here.
    pub(super) fn work(&self, direction: crate::bound::Direction, channels: u32) -> Work {
        let target = self.directory.path().join("target");
        Work::File { direction, channels, source: self.source.clone(), target, bytes: self.bytes }
    }
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let fitting = [PeerName::Xdfs, PeerName::Cp, PeerName::Bound, PeerName::Gridftp, PeerName::Rsync, PeerName::Scp];
    let names = chosen(args, &fitting);
    for filesystem in &args.filesystems {
        let place = Place::create(world, *filesystem, size(args, BYTES))?;
        for direction in &args.directions {
            for channels in args.channels.clone().unwrap_or_else(|| default_channels(*filesystem)) {
                let work = place.work(*direction, channels);
                run_cell(world, report, &place.cell(world, Shape::File, work, peers::systems(&names)))?;
            }
        }
    }
    Ok(())
}

/// 1000 channels are about memory, which is the same on every file system.
fn default_channels(filesystem: FileSystem) -> Vec<u32> {
    match filesystem {
        FileSystem::Tmpfs => vec![1, 4, 8, 10, 50, 1000],
        FileSystem::Ext4 => vec![1, 4, 8, 10, 50],
    }
}
