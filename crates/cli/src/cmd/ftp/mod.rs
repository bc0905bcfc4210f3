//! Sessions with the FTP servers that a command names: one for each, opened when first needed.

mod error;
pub(super) mod facts;
mod login;
mod netrc;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use xdfs_client::{Error, ErrorKind, Safety};
use xdfs_gridftp::client::{Session, Waiting};
use xdfs_gridftp::command::Login;
use xdfs_io::store::{CommitRequest, LocalStore, Stage};

pub(super) use self::error::error_of;
pub(super) use self::tree::FtpRemote;
use crate::address;
use crate::exit::{Exit, Failure, Side};
use crate::plan::{LoginPlan, Options};
use crate::signal::StopFlag;
use crate::url::{FROM_ROOT, Url};

/// How long a server may be silent.
const WAIT: Duration = Duration::from_secs(60);

/// The FTP servers of a command.
#[derive(Debug)]
pub(super) struct FtpServers {
    plan: LoginPlan,
    /// Once it is set, everything that waits for a server ends.
    stop: StopFlag,
    servers: Vec<FtpServer>,
    /// The logins that servers accepted, so that nobody types a password twice.
    logins: Vec<(Url, Login)>,
}

/// A session, and what was learned of its server.
#[derive(Debug)]
pub(super) struct FtpServer {
    url: Url,
    pub(super) session: Session,
    /// It renames no file, so that uploads are written under their final names.
    pub(super) in_place: bool,
    /// That content is not verified was said.
    pub(super) told_unverified: bool,
    /// That times are not set was said.
    pub(super) told_undated: bool,
}

impl FtpServer {
    /// The path of a URL's file, as the server knows it.
    pub(super) fn path(&self, url: &Url) -> Vec<u8> {
        path_of(&self.session, url)
    }
}

/// The path of a URL's file, as a server knows it.
pub(super) fn path_of(session: &Session, url: &Url) -> Vec<u8> {
    match url.export == FROM_ROOT {
        true => [b"/", url.path.as_bytes()].concat(),
        false => session.below_home(url.path.as_bytes()),
    }
}

/// Why there is no session: the message to report, and its kind.
pub(super) type NoSession = (Failure, ErrorKind);

impl FtpServers {
    pub(super) fn new(plan: LoginPlan, stop: StopFlag) -> Self {
        Self { plan, stop, servers: Vec::new(), logins: Vec::new() }
    }

    /// The session with a URL's server.
    pub(super) fn with(&mut self, url: &Url) -> Result<&mut FtpServer, NoSession> {
        let known = self.servers.iter().position(|server| serves(&server.url, url));
        let index = match known {
            Some(index) => index,
            None => {
                let session = self.open(url)?;
                let url = url.clone();
                self.servers.push(FtpServer {
                    url,
                    session,
                    in_place: false,
                    told_unverified: false,
                    told_undated: false,
                });
                self.servers.len() - 1
            }
        };
        Ok(&mut self.servers[index])
    }

    /// Whether a URL's server can prove what it has; false where there is no session with it.
    pub(super) fn verifies(&self, url: &Url) -> bool {
        let mut servers = self.servers.iter().filter(|server| serves(&server.url, url));
        servers.any(|server| server.session.features().sha256.is_some())
    }

    /// A URL's server as the remote end of a tree copy, over as many sessions as channels are asked for.
    pub(super) fn remote(&mut self, url: &Url, local: &LocalStore, options: &Options) -> Result<FtpRemote, NoSession> {
        // The first session asks for the password, if need be, and learns whether it is right.
        self.with(url)?;
        let login = self.logins.iter().find(|(of, _)| serves(of, url)).map(|(_, login)| login.clone());
        let opener =
            Opener { url: url.clone(), login: login.unwrap_or_else(Login::anonymous), stop: Arc::clone(&self.stop) };
        FtpRemote::open(opener, local.clone(), options)
    }

    /// One more session with a URL's server.
    fn open(&mut self, url: &Url) -> Result<Session, NoSession> {
        let known = self.logins.iter().find(|(of, _)| serves(of, url)).map(|(_, login)| login.clone());
        let login = match known {
            Some(login) => login,
            None => login::of(url, &self.plan).map_err(|failure| (failure, ErrorKind::LoginRefused))?,
        };
        let session = open_as(url, login.clone(), &self.stop)?;
        self.logins.retain(|(of, _)| !serves(of, url));
        self.logins.push((url.clone(), login));
        Ok(session)
    }

    /// Forgets the session with a URL's server: it was lost, or is in an unknown state.
    pub(super) fn forget(&mut self, url: &Url) {
        self.servers.retain(|server| !serves(&server.url, url));
    }

    /// Ends all sessions in order.
    pub(super) fn close(self) {
        self.servers.into_iter().for_each(|server| server.session.quit());
    }
}

/// Opens sessions with a server whose login is known.
#[derive(Debug)]
struct Opener {
    url: Url,
    login: Login,
    stop: StopFlag,
}

impl Opener {
    fn open(&self) -> Result<Session, NoSession> {
        open_as(&self.url, self.login.clone(), &self.stop)
    }
}

/// Gives a staged file its name, in the order of docs/durability.md.
pub(super) fn commit(stage: &mut Stage, request: &CommitRequest, durable: bool) -> Result<Safety, Error> {
    stage.finish(request)?;
    if !durable {
        return stage.name(request).map(|_| Safety::Written);
    }
    stage.sync()?;
    stage.name(request)?;
    stage.sync_directory()?;
    Ok(stage.promises())
}

/// Tries every address of the server.
fn open_as(url: &Url, login: Login, stop: &StopFlag) -> Result<Session, NoSession> {
    let addresses = address::resolve(url).map_err(|failure| (failure, ErrorKind::ConnectionLost))?;
    let mut last = None;
    for address in addresses {
        match Session::open(address, login.clone(), Waiting { limit: WAIT, stop: Arc::clone(stop) }) {
            Ok(session) => return Ok(session),
            Err(error @ xdfs_gridftp::client::Error::Connect { .. }) => last = Some(error),
            Err(error) => return Err(no_session(url, &error_of(error))),
        }
    }
    let error = last.map_or_else(|| Error::new(ErrorKind::ConnectionLost, "no address"), error_of);
    Err(no_session(url, &error))
}

fn no_session(url: &Url, error: &Error) -> NoSession {
    (Failure::new(Exit::of_error(error, Side::Peer), format!("{url}: {error}")), error.kind)
}

/// Whether a session opened for one URL serves another: the same server for the same user.
fn serves(opened: &Url, url: &Url) -> bool {
    opened.via == url.via
        && opened.host == url.host
        && opened.port == url.port
        && opened.user == url.user
        && opened.password == url.password
}
