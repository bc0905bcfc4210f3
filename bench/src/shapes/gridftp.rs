//! Servers of GridFTP: xdfs beside globus-url-copy with the same server, file to file in memory over 1, 4 and 16 streams, over
//! four with an encrypted data channel, and a tree of 10,000 files of 4 KiB in one session.

use super::file::Place;
use super::{rounds, run_cell, size};
use crate::args::{FileSystem, PeerName, Shape};
use crate::cell::Cell;
use crate::error::Result;
use crate::files;
use crate::peers::{self, Work};
use crate::report::Report;
use crate::shapes::memory::direction_name;
use crate::world::{ScratchDir, World};

const FILE_BYTES: u64 = 2_000_000_000;

const STREAMS: [u32; 3] = [1, 4, 16];

/// Of the encrypted runs.
const PRIVATE_STREAMS: u32 = 4;

/// Directories of the tree, files of each, and bytes of each file.
const TREE: (u32, u32, u64) = (100, 100, 4096);

const CLEAR: [PeerName; 2] = [PeerName::XdfsGridftp, PeerName::Gridftp];
const PRIVATE: [PeerName; 2] = [PeerName::XdfsGridftpPrivate, PeerName::GridftpPrivate];
const TREES: [PeerName; 3] = [PeerName::XdfsGridftp, PeerName::GridftpSerial, PeerName::GridftpPipelined];

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let place = Place::create(world, FileSystem::Tmpfs, size(args, FILE_BYTES))?;
    let streams = args.channels.clone().unwrap_or_else(|| STREAMS.to_vec());
    for direction in &args.directions {
        let cells = streams.iter().map(|streams| (*streams, &CLEAR)).chain([(PRIVATE_STREAMS, &PRIVATE)]);
        for (streams, names) in cells {
            let mut cell = place.cell(world, Shape::Gridftp, place.work(*direction, streams), peers::systems(names));
            cell.title = format!("GridFTP server, {}", cell.title);
            run_cell(world, report, &cell)?;
        }
    }
    drop(place);
    let directory = ScratchDir::create(&args.tmpfs_dir, "trees")?;
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    let (directories, each, length) = TREE;
    let bytes = files::create_tree(&source, directories, each, |_| length)?;
    for direction in &args.directions {
        let (direction, files) = (*direction, u64::from(directories * each));
        let work = Work::Tree { direction, channels: 1, source: source.clone(), target: target.clone(), bytes, files };
        let cell = Cell {
            shape: Shape::Gridftp,
            title: format!("GridFTP server, tree of {files} files of 4 KiB, {}", direction_name(direction)),
            work,
            systems: peers::systems(&TREES),
            rounds: rounds(args),
            directory: Some(directory.path().to_owned()),
            warm: None,
            filesystem: Some(FileSystem::Tmpfs),
            fairness: false,
        };
        run_cell(world, report, &cell)?;
    }
    Ok(())
}
