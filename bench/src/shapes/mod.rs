//! The shapes: which work, which systems, in which cells. One file each.

pub mod clients;
mod durable;
mod file;
mod gridftp;
pub mod idle;
mod levels;
pub mod login;
mod memory;
pub mod mounts;
pub mod names;
mod private;
pub mod remote_files;
pub mod resume;
pub mod sessions;
mod small;
pub mod small_files;
pub mod stall;
mod trees;

use crate::args::{Args, PeerName, Shape};
use crate::cell::{self, Cell, CellReport};
use crate::error::{Error, Result};
use crate::report::{Report, table};
use crate::world::World;

/// Runs one shape and prints its tables as they come.
pub fn run(world: &World, shape: Shape, report: &mut Report) -> Result<()> {
    match shape {
        Shape::Memory => memory::run(world, report),
        Shape::File => file::run(world, report),
        Shape::Levels => levels::run(world, report),
        Shape::Private => private::run(world, report),
        Shape::Durable => durable::run(world, report),
        Shape::Clients => clients::run(world, report),
        Shape::Idle => idle::run(world, report),
        Shape::Sessions => sessions::run(world, report),
        Shape::Login => login::run(world, report),
        Shape::Small => small::run(world, report),
        Shape::SmallFiles => small_files::run(world, report),
        Shape::Names => names::run(world, report),
        Shape::Mounts => mounts::run(world, report),
        Shape::RemoteFiles => remote_files::run(world, report),
        Shape::Gridftp => gridftp::run(world, report),
        Shape::Resume => resume::run(world, report),
        Shape::Stall => stall::run(world, report),
        Shape::Trees => trees::run(world, report),
        Shape::All => {
            let all = [
                Shape::Memory,
                Shape::File,
                Shape::Levels,
                Shape::Private,
                Shape::Durable,
                Shape::SmallFiles,
                Shape::Trees,
                Shape::Names,
                Shape::Mounts,
                Shape::RemoteFiles,
                Shape::Gridftp,
                Shape::Resume,
                Shape::Small,
                Shape::Clients,
                Shape::Idle,
                Shape::Sessions,
                Shape::Login,
                Shape::Stall,
            ];
            all.into_iter().try_for_each(|shape| run(world, shape, report))
        }
    }
}

/// Runs one cell, prints its table, keeps its report.
fn run_cell(world: &World, report: &mut Report, cell: &Cell) -> Result<()> {
    let done: CellReport = cell::run(world, cell)?;
    print!("{}", table::terminal(&done));
    report.cells.push(done);
    Ok(())
}

/// Why a measurement ended early, told as it happens; an interruption ends the run.
fn failure(shape: &str, outcome: Result<()>) -> Result<Option<String>> {
    match outcome {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            eprintln!("xdfs-bench: {shape}: {error}");
            Ok(Some(error.to_string()))
        }
        Ok(()) => Ok(None),
    }
}

/// The systems of a shape: those of the command line, in the order of `fitting`.
fn chosen(args: &Args, fitting: &[PeerName]) -> Vec<PeerName> {
    let wanted = |name: &PeerName| args.peers.as_ref().is_none_or(|peers| peers.contains(name));
    fitting.iter().copied().filter(wanted).collect()
}

/// Rounds: three in a quick run.
pub fn rounds(args: &Args) -> u32 {
    if args.quick { args.rounds.min(3) } else { args.rounds }
}

/// Bytes per transfer: the command line's, else the shape's own size, else an eighth of it in a quick run.
fn size(args: &Args, full: u64) -> u64 {
    args.size.unwrap_or(if args.quick { full / 8 } else { full })
}
