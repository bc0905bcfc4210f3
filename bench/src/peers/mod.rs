//! The systems that are compared. One file each; what a member must provide is [`System`].
//!
//! A member starts its server on loopback with a configuration written into the scratch directory, says which command
//! line does a piece of work, and reads the result from what that command printed. It never measures: time, CPU and
//! memory are taken the same way for all of them (`measure.rs`).

mod bound;
mod cp;
mod gridftp;
mod iperf3;
mod nginx;
mod rsync;
mod rustls;
mod ssh;
mod tar;
mod xdfs;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::process::{Account, Command, Running};
use crate::world::World;
pub use rustls::Rustls;
pub use xdfs::{Xdfs, state};

/// A piece of work, the same for every system.
#[derive(Debug, Clone)]
pub enum Work {
    /// Endless zeros to nowhere: nothing but the transport.
    Memory {
        /// Which way.
        direction: Direction,
        /// Parallel channels.
        channels: u32,
        /// Bytes over all channels.
        bytes: u64,
    },
    /// One file to an absent target. Both are in the directory that the server serves.
    File {
        /// Which way.
        direction: Direction,
        /// Parallel channels, where the system has them.
        channels: u32,
        /// Existing file.
        source: PathBuf,
        /// File that does not exist yet.
        target: PathBuf,
        /// Length of the source.
        bytes: u64,
    },
    /// A directory to an absent one. Both are in the directory that the server serves.
    Tree {
        /// Which way.
        direction: Direction,
        /// Parallel channels, or parallel files, as the system has them.
        channels: u32,
        /// Existing directory.
        source: PathBuf,
        /// Directory that does not exist yet.
        target: PathBuf,
        /// Bytes in all files.
        bytes: u64,
        /// All files.
        files: u64,
    },
    /// A directory to one that is the same already: nothing is to be sent.
    Same {
        /// Which way.
        direction: Direction,
        /// Parallel channels.
        channels: u32,
        /// Existing directory.
        source: PathBuf,
        /// Its copy.
        target: PathBuf,
        /// Bytes in all files.
        bytes: u64,
        /// All files.
        files: u64,
    },
}

impl Work {
    /// Bytes to move, or to find moved.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory { bytes, .. }
            | Self::File { bytes, .. }
            | Self::Tree { bytes, .. }
            | Self::Same { bytes, .. } => *bytes,
        }
    }

    /// Channels asked for.
    pub fn channels(&self) -> u32 {
        match self {
            Self::Memory { channels, .. }
            | Self::File { channels, .. }
            | Self::Tree { channels, .. }
            | Self::Same { channels, .. } => *channels,
        }
    }

    /// Which way.
    pub fn direction(&self) -> Direction {
        match self {
            Self::Memory { direction, .. }
            | Self::File { direction, .. }
            | Self::Tree { direction, .. }
            | Self::Same { direction, .. } => *direction,
        }
    }

    /// Files of a tree.
    pub fn files(&self) -> Option<u64> {
        match self {
            Self::Memory { .. } | Self::File { .. } => None,
            Self::Tree { files, .. } | Self::Same { files, .. } => Some(*files),
        }
    }
}

/// What a program said about its own run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Bytes it moved, where it says so.
    pub bytes: Option<u64>,
    /// Its own clock, where it has one.
    pub seconds: Option<f64>,
    /// Channels it got, where it says so.
    pub channels: Option<u32>,
    /// Congestion control it reports.
    pub congestion: Option<String>,
}

/// A running server of a peer.
#[derive(Debug)]
pub struct Server {
    /// Its main process. Declared first: it is stopped before its account is closed.
    pub running: Running,
    /// All its processes.
    pub account: Account,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    /// What an URL ends in to pin its key, `#SHA256:...`; empty for systems without.
    pub pin: String,
}

/// One system under comparison.
pub trait System {
    /// Which one.
    fn name(&self) -> PeerName;

    /// Name in the tables.
    fn label(&self) -> String;

    /// The same by the build that `--before` names.
    fn before(&self) -> Option<Box<dyn System>> {
        None
    }

    /// Programs it needs, with the Debian package of each; an empty package means "not from Debian".
    fn programs(&self) -> &'static [(&'static str, &'static str)];

    /// True when it can do this work.
    fn can(&self, work: &Work) -> bool;

    /// True when the payload crosses the network, so that the octet counter must have seen it.
    fn uses_network(&self) -> bool {
        true
    }

    /// Bytes that may be missing at the end of a good run. None for everything that moves data for its own sake.
    fn unreceived_max(&self, _work: &Work) -> u64 {
        0
    }

    /// Starts the server, where there is one. `directory` holds the files of the work.
    fn serve(&self, world: &World, directory: Option<&Path>) -> Result<Option<Server>>;

    /// The client's command line.
    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command>;

    /// Reads what the client printed.
    fn outcome(&self, output: &str) -> Result<Outcome>;
}

/// All systems that fit a shape, in the order of the tables.
pub fn systems(names: &[PeerName]) -> Vec<Box<dyn System>> {
    let make = |name: &PeerName| -> Box<dyn System> {
        match name {
            PeerName::Xdfs => Box::new(Xdfs::default()),
            PeerName::Bound => Box::new(bound::Bound),
            PeerName::Iperf3 => Box::new(iperf3::Iperf3),
            PeerName::Gridftp => Box::new(gridftp::GridFtp::Clear),
            PeerName::GridftpSafe => Box::new(gridftp::GridFtp::Safe),
            PeerName::GridftpPrivate => Box::new(gridftp::GridFtp::Private),
            PeerName::GridftpSerial => Box::new(gridftp::GridFtp::Serial),
            PeerName::GridftpPipelined => Box::new(gridftp::GridFtp::Pipelined),
            PeerName::XdfsGridftp => Box::new(gridftp::Client::Clear),
            PeerName::XdfsGridftpPrivate => Box::new(gridftp::Client::Private),
            PeerName::Cp => Box::new(cp::Cp::Written),
            PeerName::CpSync => Box::new(cp::Cp::Synced),
            PeerName::Rsync => Box::new(rsync::Rsync::Written),
            PeerName::RsyncFsync => Box::new(rsync::Rsync::Synced),
            PeerName::Rustls => Box::new(Rustls),
            PeerName::Nginx => Box::new(nginx::Nginx::default()),
            PeerName::Ssh => Box::new(ssh::Ssh::Zeros),
            PeerName::TarNc => Box::new(tar::TarNc),
            PeerName::Scp => Box::new(ssh::Ssh::Scp),
            PeerName::RsyncSsh => Box::new(ssh::Ssh::Rsync),
        }
    };
    names.iter().map(make).collect()
}

/// Fails when a program of the system is not there.
pub fn check_installed(system: &dyn System, world: &World) -> Result<()> {
    let own = matches!(system.name(), PeerName::Xdfs | PeerName::XdfsGridftp | PeerName::XdfsGridftpPrivate);
    if own && !world.xdfs.exists() {
        return Err(Error::NoXdfs { path: world.xdfs.clone() });
    }
    match system.programs().iter().find(|(program, _)| find_program(program).is_none()) {
        Some((program, package)) => Err(Error::Missing { program: (*program).to_owned(), package }),
        None => Ok(()),
    }
}

/// Looks for a program as the shell does, and in the places of system programs.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// The command for an installed program, by its full path: sshd insists on one.
fn program(name: &str) -> Command {
    Command::new(find_program(name).unwrap_or_else(|| PathBuf::from(name)))
}

/// Starts a server that listens on a port we picked, and waits until it does.
fn start_on_port(world: &World, name: &str, command: &Command, port: u16) -> Result<Option<Server>> {
    let name = world.unique(name);
    let mut account = Account::open(&name);
    let mut running = command.start(world.scratch.path(), &name, &mut account, Stdio::null())?;
    world.wait_listening(port, &mut running)?;
    Ok(Some(Server { running, account, port, pin: String::new() }))
}

/// Starts a server that picks its port itself and says so with `{"event":"ready","address":...}`.
fn start_ready(world: &World, name: &str, command: &Command) -> Result<Option<Server>> {
    let name = world.unique(name);
    let mut account = Account::open(&name);
    let mut running = command.start(world.scratch.path(), &name, &mut account, Stdio::null())?;
    let output_name = world.scratch.path().join(format!("{name}.out"));
    let (port, pin) = world.wait_until(&mut running, || {
        let text = std::fs::read_to_string(&output_name).ok()?;
        let ready = json_events(&text).into_iter().find(|event| event["event"] == "ready")?;
        let port = ready["address"].as_str()?.rsplit(':').next()?.parse().ok()?;
        let pin = ready["host_key"].as_str().map(|key| format!("#{key}")).unwrap_or_default();
        Some((port, pin))
    })?;
    Ok(Some(Server { running, account, port, pin }))
}

/// The complete JSON lines of an output; other lines are not ours.
pub fn json_events(text: &str) -> Vec<serde_json::Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Reads the object `{"event":"transfer",...}` that xdfs and the bound print.
fn read_transfer(program: &str, output: &str) -> Result<Outcome> {
    let unreadable = |detail: &str| Error::Unreadable { program: program.to_owned(), detail: detail.to_owned() };
    let events = json_events(output);
    let transfer = events
        .iter()
        .find(|event| event["event"] == "transfer")
        .ok_or_else(|| unreadable("no transfer object on standard output"))?;
    if transfer["ok"] == false {
        return Err(unreadable(&format!("the transfer failed: {transfer}")));
    }
    let seconds = transfer["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    Ok(Outcome {
        bytes: Some(transfer["bytes"].as_u64().ok_or_else(|| unreadable("no bytes"))?),
        seconds: Some(seconds.ok_or_else(|| unreadable("no seconds"))?),
        channels: transfer["channels"].as_u64().and_then(|count| u32::try_from(count).ok()),
        congestion: transfer["congestion"].as_str().map(str::to_owned),
    })
}

/// The port of a server that the work cannot do without.
fn port_of(server: Option<&Server>, program: &str) -> Result<u16> {
    let missing = || Error::Unreadable { program: program.to_owned(), detail: "no server was started".to_owned() };
    server.map(|server| server.port).ok_or_else(missing)
}

/// A path's last component as text; the bench makes only such names.
fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
