//! How to connect, and how one transfer is to be made.

use crate::connect::{Offer, TrustsNothing};
use std::sync::Arc;
use std::time::Duration;
use xdfs_engine::pump::DiskMode;
use xdfs_proto::base::{Level, Suite};
use xdfs_secure::handshake::HostCheck;
use xdfs_secure::handshake::tls::Certificates;
use xdfs_secure::record::Limits;
use xdfs_xio::transport::Address;

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// The server.
    pub address: Address,
    /// Name under which the server is known, for [`host_check`](Self::host_check); and the port of that name.
    pub host: String,
    /// See [`host`](Self::host).
    pub port: u16,
    /// Decides whether the server is the one that was meant. Nobody is where nothing is said here.
    pub host_check: Arc<dyn HostCheck>,
    /// In which form the server's key is wanted.
    pub certificates: Certificates,
    /// The user to log in as; may be empty for a token and for visitors.
    pub user: String,
    /// What to log in with, in this order; the server takes six tries at most.
    pub offers: Vec<Offer>,
    /// Cipher suites of records, best first; none leaves it to what this machine is fast at.
    pub suites: Option<Vec<Suite>>,
    /// How much one key of a channel may protect before the next one follows; the server's must be the same.
    pub key_limits: Limits,
    /// Channels wanted; the server may grant fewer.
    pub channels: u16,
    /// Pipelines wanted.
    pub pipelines: u8,
    /// Socket window in bytes; none leaves it to the kernel.
    pub window: Option<u32>,
    /// Block size in bytes; none leaves it to the server.
    pub block: Option<u32>,
    /// Protection of the blocks.
    pub level: Level,
    /// Congestion control by name; none picks it (see `xio::transport::settle`).
    pub congestion: Option<String>,
    /// A channel on which something is owed is lost after this silence; none leaves it to the server.
    pub stall: Option<Duration>,
    /// Time to connect, to open the session, and for the last channel to join.
    pub deadline: Duration,
    /// How files are written.
    pub disk: DiskMode,
}

impl ConnectOptions {
    /// One channel to `address`, as a visitor, everything else by default. Whoever connects has to say by
    /// [`host_check`](Self::host_check) which server is the right one.
    pub fn to(address: impl Into<Address>) -> Self {
        let address = address.into();
        let (host, port) = match &address {
            Address::Tcp(address) => (address.ip().to_string(), address.port()),
            other => (other.to_string(), 0),
        };
        Self {
            address,
            host,
            port,
            host_check: Arc::new(TrustsNothing),
            certificates: Certificates::Raw,
            user: String::new(),
            offers: vec![Offer::Anonymous],
            suites: None,
            key_limits: Limits::STANDARD,
            channels: 1,
            pipelines: 1,
            window: None,
            block: None,
            level: Level::Private,
            congestion: None,
            stall: None,
            deadline: Duration::from_secs(10),
            disk: DiskMode::default(),
        }
    }
}

impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ConnectOptions");
        shown.field("address", &self.address).field("host", &self.host).field("user", &self.user);
        shown.field("offers", &self.offers).field("channels", &self.channels).field("level", &self.level);
        shown.finish_non_exhaustive()
    }
}

/// How a transfer's content is checked, besides the tags of its blocks where their level gives them any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Verify {
    /// Not at all.
    None,
    /// By its hash: what arrived is what was sent.
    #[default]
    Hash,
    /// By its hash: what the target's storage gives back, where it can be read back, is what was sent.
    Reread,
}

/// How to upload.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Fail where the target exists.
    pub keep_existing: bool,
    /// Permission bits of the new file; none takes those of the source.
    pub mode: Option<u32>,
    /// The local name, for the server's log.
    pub label: Vec<u8>,
    /// The outcome comes when the file is on stable storage, not when it is written.
    pub durable: bool,
    /// Go on where an earlier upload of the same file to the same name ended, and leave something to go on with.
    pub resume: bool,
    /// How the content is checked.
    pub verify: Verify,
    /// An attempt of this upload was lost before: what [`crate::Transfer::replaces`] said of the first one. Nothing else is replaced then,
    /// and where the lost one had succeeded it is told so instead of being sent again. Counts for sources with a modification time.
    pub base: Option<Vec<u8>>,
    /// Runs of zeros need take no room at the server.
    pub holes: bool,
}

/// How to download.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// First byte.
    pub offset: u64,
    /// Bytes; none means up to the end.
    pub length: Option<u64>,
    /// The local name, for the server's log.
    pub label: Vec<u8>,
    /// The outcome comes when the file is on stable storage, not when it is written.
    pub durable: bool,
    /// Go on where an earlier download of the same file to the same place ended, and leave something to go on with.
    pub resume: bool,
    /// How the content is checked.
    pub verify: Verify,
}
