//! What safety costs: a hash from end to end beside none, and a copy that survives a power cut beside `cp` and `sync`.

use super::file::Place;
use super::{chosen, run_cell, size};
use crate::args::{FileSystem, PeerName, Shape};
use crate::error::Result;
use crate::peers::{self, System, Xdfs};
use crate::report::Report;
use crate::world::World;

const BYTES: u64 = 2_000_000_000;

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let beside = chosen(args, &[PeerName::Xdfs, PeerName::Rsync, PeerName::CpSync]);
    for filesystem in &args.filesystems {
        let place = Place::create(world, *filesystem, size(args, BYTES))?;
        for direction in &args.directions {
            for channels in args.channels.clone().unwrap_or_else(|| vec![1]) {
                let work = place.work(*direction, channels);
                let mut cell = place.cell(world, Shape::Durable, work, systems(&beside, *filesystem));
                cell.title = format!("checked and durable, {}", cell.title);
                run_cell(world, report, &cell)?;
            }
        }
    }
    Ok(())
}

/// Nothing survives a power cut in memory: there the hash alone is measured.
fn systems(names: &[PeerName], filesystem: FileSystem) -> Vec<Box<dyn System>> {
    let lasts = filesystem == FileSystem::Ext4;
    let mut systems: Vec<Box<dyn System>> = Vec::new();
    if names.contains(&PeerName::Xdfs) {
        let plain = Xdfs::default();
        systems.push(Box::new(Xdfs { verify: "hash", ..plain.clone() }));
        systems.push(Box::new(plain.clone()));
        if lasts {
            systems.push(Box::new(Xdfs { durability: "durable", ..plain.clone() }));
            // What its markers and its journal cost.
            systems.push(Box::new(Xdfs { durability: "durable", resume: false, ..plain.clone() }));
            systems.push(Box::new(Xdfs { protection: "private", verify: "hash", durability: "durable", ..plain }));
        }
    }
    let others = names.iter().copied().filter(|name| *name == PeerName::Rsync || lasts && *name == PeerName::CpSync);
    systems.extend(peers::systems(&others.collect::<Vec<_>>()));
    systems
}
