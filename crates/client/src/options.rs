//! Options of connections and of single transfers.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use xdfs_engine::pace::Limit;
use xdfs_engine::pump::DiskMode;
use xdfs_io::stack::Over;
use xdfs_io::transport::Address;
use xdfs_proto::base::{Error, ErrorKind, Level, Suite};
use xdfs_secure::handshake::tls::Certificates;
use xdfs_secure::handshake::{HostCheck, Shown};
use xdfs_secure::identity::Signer;
use xdfs_secure::login::{Offered, Password};
use xdfs_secure::record::Limits;

/// A credential to log in with.
#[derive(Clone)]
pub enum Offer {
    /// A key of the user, wherever its private half is.
    Key(Arc<dyn Signer>),
    /// A token.
    Token(Arc<dyn Signer>),
    /// The user's password.
    Password(Arc<Password>),
    /// No credential: as a visitor, if the server admits visitors.
    Anonymous,
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => write!(f, "Key({:?})", key.public()),
            Self::Token(key) => write!(f, "Token({:?})", key.public()),
            Self::Password(_) => f.write_str("Password(..)"),
            Self::Anonymous => f.write_str("Anonymous"),
        }
    }
}

impl Offer {
    pub(crate) fn offered(&self) -> Offered {
        match self {
            Self::Key(key) => Offered::Key(key.public()),
            Self::Token(key) => Offered::Token(key.public()),
            Self::Password(password) => Offered::Password(password.copy()),
            Self::Anonymous => Offered::Anonymous,
        }
    }

    pub(crate) fn signer(&self) -> Option<&Arc<dyn Signer>> {
        match self {
            Self::Key(signer) | Self::Token(signer) => Some(signer),
            Self::Password(_) | Self::Anonymous => None,
        }
    }
}

/// Trusts no server at all.
struct TrustsNothing;

impl HostCheck for TrustsNothing {
    fn check(&self, host: &str, port: u16, shown: &Shown) -> Result<(), Error> {
        let text = format!("the key of {host}:{port} ({}) is not known here", shown.fingerprint);
        Err(Error::new(ErrorKind::Refused, text))
    }
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// The server.
    pub address: Address,
    /// A connection to it that was made elsewhere, for channel 1; the other channels still connect
    /// to `address`.
    pub connection: Option<Arc<OwnedFd>>,
    /// What is put above the socket of each channel; the server's must be the same.
    pub stack: Option<Arc<dyn Over>>,
    /// Name under which the server is known, for [`host_check`](Self::host_check).
    pub host: String,
    /// The port of [`host`](Self::host).
    pub port: u16,
    /// Decides whether the server is the intended one. By default no server is.
    pub host_check: Arc<dyn HostCheck>,
    /// In which form the server's key is requested.
    pub certificates: Certificates,
    /// The user to log in as; may be empty for a token and for visitors.
    pub user: String,
    /// Credentials to log in with, in this order; the server accepts at most six tries.
    pub offers: Vec<Offer>,
    /// Cipher suites of records, best first; `None` selects those that are fast on this machine.
    pub suites: Option<Vec<Suite>>,
    /// How much one key of a channel may protect before the next one follows; the server's must be
    /// the same.
    pub key_limits: Limits,
    /// Channels requested; the server may grant fewer.
    pub channels: u16,
    /// Pipelines requested.
    pub pipelines: u8,
    /// Socket window in bytes; `None` leaves it to the kernel.
    pub window: Option<u32>,
    /// Block size in bytes; `None` leaves it to the server.
    pub block: Option<u32>,
    /// Protection level of the blocks.
    pub level: Level,
    /// Congestion control by name; `None` selects it (see `io::transport::settle`).
    pub congestion: Option<String>,
    /// A channel with outstanding data is lost after this time without traffic; `None` leaves it to
    /// the server.
    pub stall: Option<Duration>,
    /// Time to connect, to open the session, and for the last channel to join.
    pub deadline: Duration,
    /// How files are written.
    pub disk: DiskMode,
    /// The limit of bandwidth of the session's payloads, which other sessions may share.
    pub limit: Option<Arc<Limit>>,
}

impl ConnectOptions {
    /// One channel to `address`, as a visitor, with defaults for everything else. The caller has to
    /// set [`host_check`](Self::host_check) to decide which server is the right one.
    pub fn to(address: impl Into<Address>) -> Self {
        let address = address.into();
        let (host, port) = match &address {
            Address::Tcp(address) => (address.ip().to_string(), address.port()),
            other => (other.to_string(), 0),
        };
        Self {
            address,
            connection: None,
            stack: None,
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
            limit: None,
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

/// How a transfer's content is verified, besides the tags of its blocks if their level has any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Verify {
    /// Not at all.
    None,
    /// By hash: the received bytes are those that were sent.
    #[default]
    Hash,
    /// By hash: the bytes read back from the target's storage, if it can be read back, are those
    /// that were sent.
    Reread,
}

/// The permissions of a file that is made now, and of which owner, mode and access control list are set afterwards if `owner_follows`.
pub(crate) const fn made_with(mode: u32, owner_follows: bool) -> u32 {
    let as_all = mode & 0o707 | mode & (mode & 0o7) << 3;
    if owner_follows { as_all } else { mode & 0o777 }
}

/// How to upload.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Fail if the target exists.
    pub keep_existing: bool,
    /// Permission bits of the new file; `None` uses those of the source.
    pub mode: Option<u32>,
    /// The local name, for the server's log.
    pub label: Vec<u8>,
    /// Report the outcome when the file is on stable storage, not when it is written.
    pub durable: bool,
    /// Resume an earlier upload of the same file to the same name, and keep what is needed to
    /// resume this one.
    pub resume: bool,
    /// How the content is verified.
    pub verify: Verify,
    /// Set if an attempt of this upload was lost before: the result of
    /// [`crate::Transfer::replaces`] of the first one. Nothing else is replaced then, and if the
    /// lost attempt had succeeded this is reported instead of sending again. Applies to sources
    /// with a modification time.
    pub base: Option<Vec<u8>>,
    /// Runs of zeros need not occupy space at the server.
    pub holes: bool,
}

/// How to download.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// First byte.
    pub offset: u64,
    /// Number of bytes; `None` means up to the end.
    pub length: Option<u64>,
    /// The local name, for the server's log.
    pub label: Vec<u8>,
    /// Report the outcome when the file is on stable storage, not when it is written.
    pub durable: bool,
    /// Resume an earlier download of the same file to the same place, and keep what is needed to
    /// resume this one.
    pub resume: bool,
    /// How the content is verified.
    pub verify: Verify,
    /// Owner and mode are set afterwards: until then the file's group, and whom a list of its directory names, may do no more
    /// than everybody may.
    pub owner_follows: bool,
}
