//! Memory to memory: what the protocol and the event loop cost, with no disk and no page cache in the way.
//!
//! From 8 channels on, xdfs with one channel runs in the same rounds: "as fast as one channel" can only be said there.

use super::{chosen, rounds, run_cell, size};
use crate::args::{PeerName, Shape};
use crate::cell::Cell;
use crate::error::Result;
use crate::peers::{self, Work, Xdfs};
use crate::report::Report;
use crate::world::World;

/// Large enough that opening 1000 connections (some 50 ms) is a small part of the run.
const BYTES: u64 = 8_000_000_000;

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let names = chosen(args, &[PeerName::Xdfs, PeerName::Bound, PeerName::Iperf3, PeerName::Gridftp]);
    let bytes = size(args, BYTES);
    for direction in &args.directions {
        for channels in args.channels.clone().unwrap_or_else(|| vec![1, 8, 64, 500, 1000]) {
            let mut systems = peers::systems(&names);
            if channels > 1 && names.contains(&PeerName::Xdfs) {
                systems.insert(1, Box::new(Xdfs { channels: Some(1), ..Xdfs::default() }));
            }
            let cell = Cell {
                shape: Shape::Memory,
                title: format!("memory to memory, {}, {channels} channels", direction_name(*direction)),
                work: Work::Memory { direction: *direction, channels, bytes },
                systems,
                rounds: rounds(args),
                directory: None,
                warm: None,
                filesystem: None,
                fairness: true,
            };
            run_cell(world, report, &cell)?;
        }
    }
    Ok(())
}

/// For headings.
pub(super) fn direction_name(direction: crate::bound::Direction) -> &'static str {
    match direction {
        crate::bound::Direction::Down => "down",
        crate::bound::Direction::Up => "up",
    }
}
