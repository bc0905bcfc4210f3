//! What encryption costs, and what it costs others: xdfs at its three levels beside rustls, GridFTP, nginx and ssh.

use super::file::Place;
use super::{chosen, memory, run_cell, size};
use crate::args::{PeerName, Shape};
use crate::error::Result;
use crate::peers::{self, System, Xdfs};
use crate::report::Report;
use crate::world::World;

const MEMORY_BYTES: u64 = 4_000_000_000;
const FILE_BYTES: u64 = 2_000_000_000;

const MEMORY_PEERS: [PeerName; 6] =
    [PeerName::Xdfs, PeerName::Rustls, PeerName::GridftpPrivate, PeerName::GridftpSafe, PeerName::Nginx, PeerName::Ssh];

const FILE_PEERS: [PeerName; 4] = [PeerName::Xdfs, PeerName::GridftpPrivate, PeerName::Scp, PeerName::RsyncSsh];

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let channels = args.channels.clone().unwrap_or_else(|| vec![1, 8]);
    for direction in &args.directions {
        for channels in &channels {
            let (moved, beside) = ((*direction, *channels, size(args, MEMORY_BYTES)), chosen(args, &MEMORY_PEERS));
            let cell = memory::cell(args, Shape::Private, "protected, memory to memory", moved, systems(&beside));
            run_cell(world, report, &cell)?;
        }
    }
    for filesystem in &args.filesystems {
        let place = Place::create(world, *filesystem, size(args, FILE_BYTES))?;
        for direction in &args.directions {
            for channels in &channels {
                let work = place.work(*direction, *channels);
                let mut cell = place.cell(world, Shape::Private, work, systems(&chosen(args, &FILE_PEERS)));
                cell.title = format!("protected, {}", cell.title);
                run_cell(world, report, &cell)?;
            }
        }
    }
    Ok(())
}

/// `private` first: it is what the others are compared with. The other levels of xdfs follow it.
fn systems(names: &[PeerName]) -> Vec<Box<dyn System>> {
    let level = |protection| -> Box<dyn System> { Box::new(Xdfs { protection, ..Xdfs::default() }) };
    let own = names.contains(&PeerName::Xdfs);
    let levels = if own { vec![level("private"), level("integrity"), level("clear")] } else { Vec::new() };
    let others: Vec<PeerName> = names.iter().copied().filter(|name| *name != PeerName::Xdfs).collect();
    levels.into_iter().chain(peers::systems(&others)).collect()
}
