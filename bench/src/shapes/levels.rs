//! What the check of every block costs: protection `integrity` against `clear`, in the same rounds.

use super::file::Place;
use super::{memory, run_cell, size};
use crate::args::Shape;
use crate::error::Result;
use crate::peers::{System, Xdfs};
use crate::report::Report;
use crate::world::World;

const MEMORY_BYTES: u64 = 4_000_000_000;
const FILE_BYTES: u64 = 2_000_000_000;

fn levels() -> Vec<Box<dyn System>> {
    let level = |protection| -> Box<dyn System> { Box::new(Xdfs { protection, ..Xdfs::default() }) };
    vec![level("clear"), level("integrity")]
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    for direction in &args.directions {
        for channels in args.channels.clone().unwrap_or_else(|| vec![1, 8]) {
            let moved = (*direction, channels, size(args, MEMORY_BYTES));
            let cell = memory::cell(args, Shape::Levels, "integrity against clear, memory", moved, levels());
            run_cell(world, report, &cell)?;
        }
    }
    for filesystem in &args.filesystems {
        let place = Place::create(world, *filesystem, size(args, FILE_BYTES))?;
        for direction in &args.directions {
            let work = place.work(*direction, 1);
            let mut cell = place.cell(world, Shape::Levels, work, levels());
            cell.title = format!("integrity against clear, {}", cell.title);
            run_cell(world, report, &cell)?;
        }
    }
    Ok(())
}
