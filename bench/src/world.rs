//! What all runs share: the temporary directory, the flag of Ctrl-C, free ports, where the programs are.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::Args;
use crate::error::{Context, Error, Result};
use crate::process::Running;
use crate::sockets;

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Set by SIGINT, SIGTERM and SIGHUP; every wait looks at it, so the drops run and no process is left behind.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes over the signals.
    pub fn install() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context(|| "signal handler".to_owned())?;
        }
        Ok(Self(flag))
    }

    /// Fails once a signal has come.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Sleeps in steps short enough that Ctrl-C is answered at once.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        loop {
            self.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// A directory of this run, removed with all it holds.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates `xdfs-bench-PID-PURPOSE` in `parent`, for this user alone.
    pub fn create(parent: &Path, purpose: &str) -> Result<Self> {
        let path = parent.join(format!("xdfs-bench-{}-{purpose}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What all runs share.
#[derive(Debug)]
pub struct World {
    /// The command line.
    pub args: Args,
    /// Logs, configurations and keys.
    pub scratch: ScratchDir,
    /// Ctrl-C.
    pub interrupt: Interrupt,
    /// True when nobody else's packets are counted in this network.
    pub own_network: bool,
    /// The program without a protocol.
    pub bound: PathBuf,
    /// Plain rustls.
    pub tls_bound: PathBuf,
    /// Holds sessions that do nothing.
    pub holder: PathBuf,
    /// Makes small files.
    pub small_files: PathBuf,
    /// A file system in user space without a server, where it was built: a feature asks for it.
    pub passthrough: PathBuf,
    /// The system under test.
    pub xdfs: PathBuf,
    /// Number of names given out.
    names: AtomicU32,
}

impl World {
    /// Prepares everything but the network.
    pub fn create(args: Args, own_network: bool) -> Result<Self> {
        let program = std::env::current_exe().context(|| "path of this program".to_owned())?;
        let beside = program.parent().unwrap_or(Path::new("."));
        let xdfs = args.xdfs.clone().unwrap_or_else(|| {
            let built = beside.join("xdfs");
            if built.exists() { built } else { PathBuf::from("target/release/xdfs") }
        });
        let own = |name: &str| {
            let path = beside.join(name);
            if path.exists() { Ok(path) } else { Err(Error::NotBuilt { path }) }
        };
        raise_descriptor_limit();
        Ok(Self {
            scratch: ScratchDir::create(&std::env::temp_dir(), "run")?,
            interrupt: Interrupt::install()?,
            own_network,
            bound: own("bound")?,
            tls_bound: own("tls-bound")?,
            holder: own("holder")?,
            small_files: own("small-files")?,
            passthrough: beside.join("passthrough"),
            xdfs: fs::canonicalize(&xdfs).unwrap_or(xdfs),
            args,
            names: AtomicU32::new(0),
        })
    }

    /// A name for a server's files and its account that no other has.
    pub fn unique(&self, name: &str) -> String {
        format!("{name}-server-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// A port nobody listens on. For programs that cannot pick one themselves.
    pub fn free_port(&self) -> Result<u16> {
        let picking = || "pick a free port".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(picking)?;
        Ok(listener.local_addr().context(picking)?.port())
    }

    /// Waits until somebody listens on `port`, without connecting: several peers count a connection as a client.
    pub fn wait_listening(&self, port: u16, server: &mut Running) -> Result<()> {
        self.wait_until(server, || sockets::listens(port).then_some(()))
    }

    /// Waits until `probe` has an answer, the server ends, or the limit is over.
    pub fn wait_until<T>(&self, server: &mut Running, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            self.interrupt.check()?;
            if let Some(answer) = probe() {
                return Ok(answer);
            }
            if server.has_ended() {
                return Err(server.ended_early());
            }
            if Instant::now() > deadline {
                return Err(Error::Deadline { command: "server start".to_owned(), seconds: START_LIMIT.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Two ends of 1000 channels and every peer inherit this limit.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
