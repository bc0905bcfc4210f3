//! Memory to memory: what the protocol and the event loop cost, with no disk and no page cache in the way.
//!
//! From 8 channels on, xdfs with one channel runs in the same rounds: "as fast as one channel" can only be said there.

use super::{chosen, rounds, run_cell, size};
use crate::args::{Args, FileSystem, PeerName, Shape};
use crate::bound::Direction;
use crate::cell::Cell;
use crate::error::Result;
use crate::files;
use crate::peers::{self, System, Work, Xdfs};
use crate::report::Report;
use crate::world::{ScratchDir, World};

/// Kernel and program memory that a peer takes per channel at most: its sockets' queues and one block. A peer that
/// needs gigabytes for 1000 channels is not to be measured by how cold they are.
const WARM_PER_CHANNEL: u64 = 2 << 20;

/// Below this many channels nobody needs enough memory for it to matter.
const WARM_FROM: u32 = 64;

/// Large enough that opening 1000 connections (some 50 ms) is a small part of the run.
const BYTES: u64 = 8_000_000_000;

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let names = chosen(args, &[PeerName::Xdfs, PeerName::Bound, PeerName::Iperf3, PeerName::Gridftp]);
    let bytes = size(args, BYTES);
    files::check_file_system(&args.tmpfs_dir, FileSystem::Tmpfs)?;
    let warm = ScratchDir::create(&args.tmpfs_dir, "warm")?;
    for direction in &args.directions {
        for channels in args.channels.clone().unwrap_or_else(|| vec![1, 8, 64, 500, 1000]) {
            let mut systems = peers::systems(&names);
            if channels > 1 && names.contains(&PeerName::Xdfs) {
                systems.insert(1, Box::new(Xdfs { channels: Some(1), ..Xdfs::default() }));
            }
            let plain = cell(args, Shape::Memory, "memory to memory", (*direction, channels, bytes), systems);
            let warm =
                (channels >= WARM_FROM).then(|| (warm.path().to_owned(), u64::from(channels) * WARM_PER_CHANNEL));
            run_cell(world, report, &Cell { warm, fairness: channels > 1, ..plain })?;
        }
    }
    Ok(())
}

/// From memory to memory: which way, over how many channels, how many bytes.
pub(super) fn cell(
    args: &Args,
    shape: Shape,
    what: &str,
    (direction, channels, bytes): (Direction, u32, u64),
    systems: Vec<Box<dyn System>>,
) -> Cell {
    Cell {
        shape,
        title: format!("{what}, {}, {}", direction_name(direction), channels_name(channels)),
        work: Work::Memory { direction, channels, bytes },
        systems,
        rounds: rounds(args),
        directory: None,
        warm: None,
        filesystem: None,
        fairness: false,
    }
}

/// For headings.
pub(super) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// For headings.
pub(super) fn channels_name(channels: u32) -> String {
    if channels == 1 { "1 channel".to_owned() } else { format!("{channels} channels") }
}
