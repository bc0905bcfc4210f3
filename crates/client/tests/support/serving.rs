//! A server in this process, and what it logs.

use super::middle::Middle;
use super::{PATIENCE, Scratch, Watched};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use xdfs_client::{Address, ConnectOptions, HostCheck, Level, Offer, Pinned, Session};
use xdfs_io::store::{LocalStore, MemoryExport};
use xdfs_server::{
    Access, Anonymous, Config, Directory, DiskMode, Export, HostIdentity, KeyLimits, KeyPair, LogEvent, Policy, Server,
    ServerHandle, ServerLimits, TransportOptions, VisitorsOnly,
};

/// The seed of the host's key.
pub const HOST_SEED: [u8; 32] = [7; 32];

/// Takes the test server and no other.
pub fn host_check() -> Arc<dyn HostCheck> {
    Arc::new(Pinned(KeyPair::from_seed(&HOST_SEED).unwrap().public().fingerprint()))
}

/// A server in this process and its log. Exports: `data` (a directory), `fixed` (the same one,
/// read-only), `integrity` and `private`
/// (the same one, with these floors) and `memory` (zero and null).
pub struct Serving {
    pub directory: Scratch,
    pub address: Address,
    pub handle: ServerHandle,
    setup: Setup,
    log: Arc<Watched<Vec<LogEvent>>>,
    thread: Option<JoinHandle<Result<(), xdfs_client::Error>>>,
}

/// What differs from test to test.
pub struct Setup {
    pub policy: Policy,
    pub limits: ServerLimits,
    pub key_limits: KeyLimits,
    pub disk: DiskMode,
    pub unix: bool,
    pub directory: Arc<dyn Directory>,
    /// Exports besides the usual ones.
    pub more: Vec<Export>,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = ServerLimits { drain: PATIENCE, ..ServerLimits::roomy() };
        Self {
            policy: Policy::default(),
            limits,
            key_limits: KeyLimits::STANDARD,
            disk: DiskMode::default(),
            unix: false,
            directory: Arc::new(VisitorsOnly(true)),
            more: Vec::new(),
        }
    }
}

impl Serving {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Self {
        let (directory, log) = (Scratch::new(), Arc::new(Watched::new(Vec::new())));
        let (address, handle, thread) = launch(&setup, &directory, &log);
        Self { directory, address, handle, setup, log, thread: Some(thread) }
    }

    /// Ends the server at once, and starts another one in its place: at the same Unix socket, with the
    /// same exports.
    pub fn restart(&mut self) {
        self.stop_and(|_| {});
    }

    /// The same; in between something is done to the directory.
    pub fn stop_and(&mut self, act: impl FnOnce(&std::path::Path)) {
        self.stop();
        act(self.directory.path());
        self.restart_stopped();
    }

    /// Starts another server where one was stopped.
    pub fn restart_stopped(&mut self) {
        let (address, handle, thread) = launch(&self.setup, &self.directory, &self.log);
        (self.address, self.handle, self.thread) = (address, handle, Some(thread));
    }

    /// Ends the server at once.
    pub fn stop(&mut self) {
        self.handle.stop();
        self.ended().unwrap();
        if let Address::Unix(path) = &self.address {
            std::fs::remove_file(path).unwrap();
        }
    }

    /// A session of so many channels, with small blocks.
    pub fn connect(&self, channels: u16) -> Session {
        Session::connect(&self.options(channels)).unwrap()
    }

    pub fn options(&self, channels: u16) -> ConnectOptions {
        ConnectOptions {
            channels,
            block: Some(super::BLOCK as u32),
            level: Level::Clear,
            host_check: host_check(),
            ..ConnectOptions::to(self.address.clone())
        }
    }

    /// Ada with this proof at level private, through the middle.
    pub fn ada(&self, middle: &Middle, offer: Offer, channels: u16) -> ConnectOptions {
        ConnectOptions {
            address: middle.address.clone(),
            user: "ada".into(),
            offers: vec![offer],
            level: Level::Private,
            deadline: PATIENCE,
            ..self.options(channels)
        }
    }

    /// The first logged event of which `found` says something.
    #[track_caller]
    pub fn heard<R>(&self, what: &str, found: impl FnMut(&LogEvent) -> Option<R>) -> R {
        self.heard_within(PATIENCE, what, found)
    }

    #[track_caller]
    pub fn heard_within<R>(&self, time: Duration, what: &str, mut found: impl FnMut(&LogEvent) -> Option<R>) -> R {
        let result = self.log.wait_for(time, |events| events.iter().find_map(&mut found));
        result.unwrap_or_else(|| panic!("the server did not log: {what}; it logged {:#?}", self.log.lock()))
    }

    /// How many logged events `wanted` takes.
    pub fn count(&self, wanted: impl Fn(&LogEvent) -> bool) -> usize {
        self.log.lock().iter().filter(|event| wanted(event)).count()
    }

    /// Everything that was logged.
    pub fn events(&self) -> Vec<LogEvent> {
        self.log.lock().clone()
    }

    /// Forgets what was logged.
    pub fn forget(&self) {
        self.log.lock().clear();
    }

    /// Waits for the end of some session; its error.
    #[track_caller]
    pub fn session_ended(&self) -> Option<String> {
        self.heard("the end of a session", |event| match event {
            LogEvent::SessionEnded { error, .. } => Some(error.clone()),
            _ => None,
        })
    }

    /// The first line of the server's state: sessions, connections that are opening, pipeline threads.
    pub fn status(&self) -> [usize; 3] {
        let seen = |events: &[LogEvent]| events.iter().filter(|event| matches!(event, LogEvent::Status { .. })).count();
        let before = seen(&self.log.lock());
        self.handle.status();
        let line = self.log.wait_for(PATIENCE, |events| {
            let mut states = events.iter().filter_map(|event| match event {
                LogEvent::Status { lines } => Some(lines[0].clone()),
                _ => None,
            });
            states.nth(before)
        });
        let line = line.expect("the server tells its state");
        let numbers: Vec<usize> = line.split([' ', '(']).filter_map(|word| word.parse().ok()).collect();
        [numbers[0], numbers[1], numbers[2]]
    }

    /// Waits until the state is so.
    #[track_caller]
    pub fn wait_for_status(&self, what: &str, wanted: impl Fn([usize; 3]) -> bool) {
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            let state = self.status();
            if wanted(state) {
                return;
            }
            assert!(std::time::Instant::now() < until, "{what}: sessions, opening, pipeline threads stayed {state:?}");
            std::thread::yield_now();
        }
    }

    /// Waits until the server has ended by itself.
    #[track_caller]
    pub fn ended(&mut self) -> Result<(), xdfs_client::Error> {
        let thread = self.thread.take().unwrap();
        super::within(PATIENCE, "the server's end", move || thread.join().unwrap())
    }
}

type Launched = (Address, ServerHandle, JoinHandle<Result<(), xdfs_client::Error>>);

/// Starts a server.
fn launch(setup: &Setup, directory: &Scratch, log: &Arc<Watched<Vec<LogEvent>>>) -> Launched {
    // A Unix socket's name lies beside the export, not in it.
    let socket = Address::Unix(directory.path().with_extension("socket"));
    let hears = Arc::clone(log);
    let export = |name: &str, writable| {
        let store = LocalStore::open_root(directory.path(), writable).unwrap();
        Export::open_to_all(name, Arc::new(store), writable)
    };
    let above = |name: &str, floor: Level| {
        let store = LocalStore::open_root(directory.path(), true).unwrap();
        let access = Access { writable: true, anonymous: Anonymous::Write, floor, ..Access::default() };
        Export::new(name, Arc::new(store), access)
    };
    let memory = Export::open_to_all("memory", Arc::new(MemoryExport), true);
    let server = Server::bind(Config {
        listen: if setup.unix { socket } else { Address::Tcp(([127, 0, 0, 1], 0).into()) },
        inherited: None,
        stack: None,
        transport: TransportOptions::default(),
        exports: [
            export("data", true),
            export("fixed", false),
            above("integrity", Level::Integrity),
            above("private", Level::Private),
            memory,
        ]
        .into_iter()
        .chain(setup.more.iter().cloned())
        .collect(),
        policy: setup.policy.clone(),
        limits: setup.limits,
        key_limits: setup.key_limits,
        disk: setup.disk,
        identity: Arc::new(HostIdentity::new(KeyPair::from_seed(&HOST_SEED).unwrap())),
        directory: Arc::clone(&setup.directory),
        log: Arc::new(move |event| {
            hears.change(|events| events.push(event.clone()));
            0
        }),
    })
    .unwrap();
    let (address, handle) = (server.address().clone(), server.handle());
    let thread = std::thread::spawn(move || server.run());
    (address, handle, thread)
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}
