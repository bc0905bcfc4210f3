//! The results: a table on the terminal while the run goes on, Markdown and JSON at the end.

mod markdown;
pub mod table;

use serde::Serialize;

use crate::cell::CellReport;
use crate::error::{Context, Result};
use crate::goals::Goal;
use crate::machine::Machine;
use crate::shapes::clients::ClientsReport;
use crate::shapes::idle::IdleReport;
use crate::shapes::login::LoginReport;
use crate::shapes::mounts::MountsReport;
use crate::shapes::names::NamesReport;
use crate::shapes::remote_files::RemoteFilesReport;
use crate::shapes::resume::ResumeReport;
use crate::shapes::sessions::SessionsReport;
use crate::shapes::small_files::SmallFilesReport;
use crate::shapes::stall::StallReport;
use crate::world::World;

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of this bench.
    pub version: &'static str,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// Rounds of each measurement.
    pub rounds: u32,
    /// Tables.
    pub cells: Vec<CellReport>,
    /// Many clients.
    pub clients: Vec<ClientsReport>,
    /// The idle session, and the one that waits.
    pub idle: Vec<IdleReport>,
    /// Many idle sessions.
    pub sessions: Vec<SessionsReport>,
    /// Logins.
    pub logins: Vec<LoginReport>,
    /// A channel that stops.
    pub stalls: Vec<StallReport>,
    /// Many small files.
    pub small_files: Vec<SmallFilesReport>,
    /// Directories of many names.
    pub names: Vec<NamesReport>,
    /// Mounted directories.
    pub mounts: Vec<MountsReport>,
    /// A remote file as programs use it.
    pub remote_files: Option<RemoteFilesReport>,
    /// Copies that go on.
    pub resumes: Vec<ResumeReport>,
    /// The goals that these results say something about.
    pub goals: Vec<Goal>,
}

/// Fewest rounds behind a figure that is quoted: with fewer the median is a neighbour's burst or a cold page now and then.
const ROUNDS_QUOTED: u32 = 7;

impl Report {
    /// An empty report.
    pub fn new(machine: Machine, rounds: u32) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine,
            rounds,
            cells: Vec::new(),
            clients: Vec::new(),
            idle: Vec::new(),
            sessions: Vec::new(),
            logins: Vec::new(),
            stalls: Vec::new(),
            small_files: Vec::new(),
            names: Vec::new(),
            mounts: Vec::new(),
            remote_files: None,
            resumes: Vec::new(),
            goals: Vec::new(),
        }
    }

    /// Why none of the figures may be quoted, where that is so.
    pub fn caveat(&self) -> Option<String> {
        let few = self.rounds < ROUNDS_QUOTED;
        few.then(|| format!("{} rounds: figures of fewer than {ROUNDS_QUOTED} are not to be quoted", self.rounds))
    }

    /// Writes the files that the command line names.
    pub fn write(&self, world: &World) -> Result<()> {
        if let Some(path) = &world.args.json {
            let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
            let text = text.context(|| path.display().to_string())?;
            std::fs::write(path, text + "\n").context(|| path.display().to_string())?;
        }
        if let Some(path) = &world.args.markdown {
            std::fs::write(path, markdown::render(self)).context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// What failed, one line each.
    pub fn failures(&self) -> Vec<String> {
        let cells = self.cells.iter().flat_map(|cell| {
            let failed = cell.systems.iter().filter(|system| system.failure.is_some());
            failed.map(|system| format!("{}: {}", cell.title, system.label))
        });
        let clients = self.clients.iter().filter(|one| one.failure.is_some()).map(|_| "clients".to_owned());
        let idle = self.idle.iter().filter(|one| one.failure.is_some()).map(|_| "idle".to_owned());
        let sessions = self.sessions.iter().filter(|one| one.failure.is_some()).map(|_| "sessions".to_owned());
        let logins = self.logins.iter().filter(|one| one.failure.is_some()).map(|_| "login".to_owned());
        let stalls = self.stalls.iter().filter(|one| one.failure.is_some()).map(|_| "stall".to_owned());
        let small = self.small_files.iter().filter(|one| one.failure.is_some()).map(|_| "small files".to_owned());
        let names = self.names.iter().filter(|one| one.failure.is_some()).map(|_| "names".to_owned());
        let mounts = self.mounts.iter().filter(|one| one.failure.is_some()).map(|_| "mounts".to_owned());
        let remote = self.remote_files.iter().filter(|one| one.failure.is_some()).map(|_| "remote files".to_owned());
        let resumes = self.resumes.iter().filter(|one| one.failure.is_some()).map(|_| "resume".to_owned());
        let others = clients
            .chain(idle)
            .chain(sessions)
            .chain(logins)
            .chain(stalls)
            .chain(small)
            .chain(names)
            .chain(mounts)
            .chain(remote)
            .chain(resumes);
        cells.chain(others).collect()
    }
}
