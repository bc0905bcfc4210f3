//! A client that does what the command line cannot be asked for: hold sessions in which nothing happens, log in thousands
//! of times from one process, and time the first byte over a long way. It uses the client's crate as an application would.
//!
//! It must not measure what it can be measured for from outside: CPU and memory are the bench's to take.

pub(crate) mod relay;
pub mod remote_files;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use xdfs_client::identity::{Places, identities};
use xdfs_client::wire::{Call, Put, Wanted};
use xdfs_client::{
    Address, Batch, ConnectOptions, GetOptions, Level, Offer, Password, Pinned, Safety, Session, Target, Timestamp,
};
use xdfs_secure::Zeroizing;
use xdfs_secure::identity::read_token;

use crate::error::{Context, Error, Result};
use relay::Relay;

/// The endless file that every server of the bench offers, for the one tiny operation of a session.
const FILE: &str = "m/zero";

/// Time for all channels of a session, and for one step of a transfer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Files of a batch: as many become durable together.
const GROUP: usize = 64;

/// What a call has besides its name and its bytes: less than this.
const CALL_BYTES: usize = 128;

/// How often the first byte is looked for: well below the milliseconds that are asked about.
const LOOK: Duration = Duration::from_micros(200);

/// Which server, and as whom.
#[derive(Debug, Clone, Args)]
pub struct Login {
    /// Address of the server.
    #[arg(long)]
    pub connect: SocketAddr,
    /// Fingerprint of its key, SHA256:...
    #[arg(long)]
    pub host_key: String,
    /// The user; nobody for a token and for visitors.
    #[arg(long, default_value = "")]
    pub user: String,
    /// File of a private key.
    #[arg(long)]
    pub identity: Option<PathBuf>,
    /// File of a token.
    #[arg(long)]
    pub token_file: Option<PathBuf>,
    /// File of a password.
    #[arg(long)]
    pub password_file: Option<PathBuf>,
}

impl Login {
    /// What a session of `channels` is asked for with.
    fn options(&self, channels: u16) -> Result<ConnectOptions> {
        let wrong = |detail: String| Error::Wrong { system: "holder".to_owned(), detail };
        let host_key = self.host_key.parse().map_err(|_| wrong(format!("{:?} is no fingerprint", self.host_key)))?;
        Ok(ConnectOptions {
            host_check: Arc::new(Pinned(host_key)),
            user: self.user.clone(),
            offers: vec![self.offer()?],
            channels,
            level: Level::Private,
            deadline: PATIENCE,
            ..ConnectOptions::to(Address::Tcp(self.connect))
        })
    }

    fn offer(&self) -> Result<Offer> {
        let wrong = |detail: String| Error::Wrong { system: "holder".to_owned(), detail };
        if let Some(path) = &self.identity {
            let places = Places { chosen: Some(path.clone()), ..Places::default() };
            let found = identities(&places)?.found;
            let signer = found.first().and_then(xdfs_client::identity::Identity::ready);
            return signer.map(Offer::Key).ok_or_else(|| wrong(format!("{} cannot be used", path.display())));
        }
        if let Some(path) = &self.token_file {
            let key = read_token(&first_line(path)?).map_err(|error| wrong(error.to_string()))?;
            return Ok(Offer::Token(Arc::new(key)));
        }
        if let Some(path) = &self.password_file {
            return Ok(Offer::Password(Arc::new(Password::new(Zeroizing::new(first_line(path)?)))));
        }
        Ok(Offer::Anonymous)
    }
}

fn first_line(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).context(|| path.display().to_string())?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Opens `sessions` with `channels` each, does one tiny operation in each, says so with `opened`, and holds them without
/// an operation until standard input ends.
pub fn hold(login: &Login, sessions: u32, channels: u16, opened: impl FnOnce(f64)) -> Result<()> {
    let started = Instant::now();
    let options = login.options(channels)?;
    let mut held = Vec::new();
    for _ in 0..sessions {
        let session = Session::connect(&options)?;
        session.look(FILE, Wanted::NOTHING)?;
        held.push(session);
    }
    opened(started.elapsed().as_secs_f64());
    io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink()).context(|| "standard input".to_owned())?;
    Ok(())
}

/// Logs in and closes, `count` times, one after the other. Returns the seconds.
pub fn logins(login: &Login, count: u32) -> Result<f64> {
    let options = login.options(1)?;
    let started = Instant::now();
    for _ in 0..count {
        Session::connect(&options)?.close()?;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Milliseconds from connect to the first byte of a file, `count` times, through a relay that holds every byte back for
/// `delay` in each direction.
pub fn first_bytes(login: &Login, count: u32, delay: Duration) -> Result<Vec<f64>> {
    let relay = Relay::listen(login.connect, delay)?;
    // The server is known by its own name, not by the relay's.
    let options = ConnectOptions { address: Address::Tcp(relay.address()?), ..login.options(1)? };
    (0..count)
        .map(|_| {
            relay.carry_next()?;
            first_byte(&options)
        })
        .collect()
}

fn first_byte(options: &ConnectOptions) -> Result<f64> {
    let wanted = GetOptions { length: Some(1), ..GetOptions::default() };
    let started = Instant::now();
    let (session, transfer) = Session::connect_and_get(options, FILE, Target::null(), &wanted)?;
    let mut outcome = None;
    while transfer.moved() == 0 && outcome.is_none() {
        outcome = transfer.wait_for(LOOK);
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
    let report = outcome.unwrap_or_else(|| transfer.wait())?;
    session.close()?;
    if report.length == 1 { Ok(milliseconds) } else { Err(Error::Bound("moved another number of bytes than asked")) }
}

/// Puts `files` files of `size` bytes below `base`, durably, in batches as large as the session takes, and waits for them all.
/// Returns the seconds from connect to the last answer.
pub fn put_small(login: &Login, base: &str, files: u32, size: usize) -> Result<f64> {
    let options = login.options(1)?;
    let content = vec![0x5a; size];
    let started = Instant::now();
    let session = Session::connect(&options)?;
    let most = session.batch_bytes_max();
    let mut pending = Vec::new();
    let mut batch = Batch::new(base).durable();
    for number in 0..files {
        let name = format!("file-{number:06}");
        let hash = Some(xdfs_secure::content::hash(&content));
        let (path, mode, modified) = (name.as_bytes(), 0o644, Some(Timestamp::new(1_700_000_000, 0)));
        let call =
            Put { path, keep_existing: true, parents: true, mode, modified, holes: false, hash, content: &content };
        if batch.bytes().0 + size + name.len() + CALL_BYTES > most || batch.len() == GROUP {
            pending.push(session.call(&std::mem::replace(&mut batch, Batch::new(base).durable()))?);
        }
        batch.push(&Call::Put(call));
    }
    pending.push(session.call(&batch)?);
    for reply in pending {
        let reply = reply.wait()?;
        let reply = reply.read()?;
        let lost = reply.outcomes.iter().find_map(|outcome| outcome.as_ref().err());
        if let Some(failure) = lost {
            let detail = format!("a file was not put: {:?}", failure.kind);
            return Err(Error::Wrong { system: "holder".to_owned(), detail });
        }
        if reply.safety != Safety::Durable {
            return Err(Error::Bound("the server promises nothing"));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    session.close()?;
    Ok(seconds)
}
