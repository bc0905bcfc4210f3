//! How long it takes to open a session of 16 channels and move one byte: round trips and start, nothing else.

use super::memory::direction_name;
use super::{chosen, rounds, run_cell};
use crate::args::{PeerName, Shape};
use crate::cell::Cell;
use crate::error::Result;
use crate::peers::{self, Work};
use crate::report::Report;
use crate::world::World;

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let names = chosen(args, &[PeerName::Xdfs, PeerName::Bound, PeerName::Gridftp]);
    for direction in &args.directions {
        for channels in args.channels.clone().unwrap_or_else(|| vec![16]) {
            let cell = Cell {
                shape: Shape::Small,
                title: format!("open {channels} channels and move 1 byte, {}", direction_name(*direction)),
                work: Work::Memory { direction: *direction, channels, bytes: 1 },
                systems: peers::systems(&names),
                rounds: rounds(args),
                directory: None,
                warm: None,
                filesystem: None,
                fairness: false,
            };
            run_cell(world, report, &cell)?;
        }
    }
    Ok(())
}
