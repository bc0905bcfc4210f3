//! Sessions with the FTP servers that a command names: one for each, opened when first needed.

mod error;
pub(super) mod facts;
mod gsi;
mod login;
mod netrc;
mod opener;
pub(super) mod part;
mod records;
pub(super) mod stage;
mod tree;

use std::collections::BTreeMap;

use xdfs_client::{Error, ErrorKind, Level};
use xdfs_gridftp::client::{self, Security, Session};
use xdfs_gridftp::command::Login;
use xdfs_io::store::LocalStore;
use xdfs_secure::handshake::tls::gsi::Gsi;
use xdfs_secure::handshake::tls::related::Authorities;
use xdfs_secure::random;

pub(super) use self::error::{error_of, is_cut, is_refused_name};
use self::opener::Opener;
pub(super) use self::records::{PartRecords, PartsInUse, is_gone};
pub(super) use self::tree::FtpRemote;
use crate::exit::{Exit, Failure};
use crate::plan::{LoginPlan, Options};
use crate::signal::StopFlag;
use crate::url::{FROM_ROOT, Ftp, Url, Via};

/// Shorter files are not worth more than one connection, nor what resuming them costs.
pub(super) const LARGE_BYTES_MIN: u64 = 1 << 20;

/// The FTP servers of a command.
#[derive(Debug)]
pub(super) struct FtpServers {
    plan: LoginPlan,
    /// Once it is set, everything that waits for a server ends.
    stop: StopFlag,
    servers: Vec<FtpServer>,
    /// What protects the data of servers that let the client choose.
    level: Level,
    /// The user's certificate; read when the first server asks for it.
    certificate: Option<Gsi>,
    /// Who may certify servers; read when the first of them has TLS.
    authorities: Option<Authorities>,
    /// The logins that servers accepted, so that nobody types a password twice.
    logins: Vec<(Url, Login)>,
    /// A tree copy removes what servers do not list.
    pub(super) deletes: bool,
    /// Names that this command may have left on servers, or an earlier one, are removed in the end.
    pub(super) removes_left: bool,
    /// What temporary names of copies from elsewhere begin with: the same in all attempts of this command.
    own_id: Option<[u8; 16]>,
    /// Temporary names that are in use, with their servers.
    parts: BTreeMap<(String, Vec<u8>), Part>,
    /// Pairs of servers between which nothing moves directly, and why.
    apart: Vec<(Url, Url, String)>,
}

/// A temporary name that is in use.
#[derive(Debug)]
struct Part {
    /// What is recorded of it.
    in_use: PartsInUse,
    /// The next command may go on with it.
    is_resumable: bool,
}

/// A session, and what was learned of its server.
#[derive(Debug)]
pub(super) struct FtpServer {
    pub(super) url: Url,
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
    pub(super) fn new(plan: LoginPlan, level: Level, stop: StopFlag) -> Self {
        Self {
            plan,
            stop,
            servers: Vec::new(),
            level,
            certificate: None,
            authorities: None,
            logins: Vec::new(),
            deletes: false,
            removes_left: false,
            own_id: None,
            parts: BTreeMap::new(),
            apart: Vec::new(),
        }
    }

    /// How the data of a URL's server are protected on the way.
    pub(super) fn level(&self, url: &Url) -> Level {
        if gsi::is_used(url, &self.plan) { self.level } else { url.ftp_level() }
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

    /// The session with a URL's server, for a copy that needs two, perhaps with one server.
    pub(super) fn take(&mut self, url: &Url) -> Result<FtpServer, NoSession> {
        self.with(url)?;
        let index = self.servers.iter().position(|server| serves(&server.url, url));
        let lost = || (Failure::new(Exit::ConnectionLost, format!("{url}: no session")), ErrorKind::ConnectionLost);
        index.map(|index| self.servers.swap_remove(index)).ok_or_else(lost)
    }

    /// Keeps a session that was taken, unless there is another one by now.
    pub(super) fn give_back(&mut self, server: FtpServer) {
        if self.servers.iter().any(|other| serves(&other.url, &server.url)) {
            return server.session.quit();
        }
        self.servers.push(server);
    }

    /// Whether two URLs are of one server and user.
    pub(super) fn is_same(&self, one: &Url, other: &Url) -> bool {
        serves(one, other)
    }

    /// Why nothing moves directly between two servers, if that is known.
    pub(super) fn why_apart(&self, from: &Url, to: &Url) -> Option<&str> {
        let mut known = self.apart.iter().filter(|(source, target, _)| serves(source, from) && serves(target, to));
        known.next().map(|(_, _, why)| why.as_str())
    }

    /// Remembers that nothing moves directly between two servers.
    pub(super) fn keep_apart(&mut self, from: &Url, to: &Url, why: String) {
        self.apart.push((from.clone(), to.clone(), why));
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
        let opener = self.opener(url, login.unwrap_or_else(Login::anonymous))?;
        let records = PartRecords::of(url, &self.plan);
        FtpRemote::open(opener, xdfs_client::authenticated(local.clone()), (options, self.deletes), records)
    }

    /// A value of this command, for temporary names that no other command has.
    pub(super) fn own_id(&mut self) -> Result<[u8; 16], Error> {
        match self.own_id {
            Some(id) => Ok(id),
            None => Ok(*self.own_id.insert(random::array()?)),
        }
    }

    /// Records the temporary name of a file that this command writes on a URL's server, unless it is known.
    pub(super) fn begin_part(&mut self, url: &Url, name: &[u8]) {
        let records = PartRecords::of(url, &self.plan);
        let begin = || Part { in_use: records.begin(&[name.to_vec()]), is_resumable: false };
        self.parts.entry((server_of(url), name.to_vec())).or_insert_with(begin);
    }

    /// The same for a part that the next command continues. Another name is returned if another command writes it.
    pub(super) fn begin_resumable(&mut self, url: &Url, path: &[u8], name: Vec<u8>) -> Result<Vec<u8>, Error> {
        let key = (server_of(url), name);
        if self.parts.contains_key(&key) {
            return Ok(key.1);
        }
        let (server, name) = key;
        let (name, in_use) = PartRecords::of(url, &self.plan).begin_resumable(path, name)?;
        self.parts.insert((server, name.clone()), Part { in_use, is_resumable: true });
        Ok(name)
    }

    /// A temporary name is no more. What the target had of other versions is removed.
    pub(super) fn end_part(&mut self, url: &Url, name: &[u8]) {
        let Some(part) = self.parts.remove(&(server_of(url), name.to_vec())) else { return };
        match self.with(url) {
            Ok(server) => part.in_use.done_with(&mut server.session),
            Err(_) => part.in_use.done(),
        }
    }

    /// No file from elsewhere is being written on a URL's server any more: what is there under temporary names is removed, if
    /// the session answers. Otherwise only its records stay, for the end of this command or the next.
    pub(super) fn leave_parts(&mut self, url: &Url) {
        let of_url = server_of(url);
        let left: Vec<_> =
            self.parts.extract_if(.., |(server, _), part| *server == of_url && !part.is_resumable).collect();
        for ((_, name), part) in left {
            // A source that failed may have ended the session.
            let Ok(server) = self.with(url) else { return };
            let client = server.session.client();
            if !client.is_ready() {
                return;
            }
            match client.remove(&name) {
                // That there is nothing is usual.
                removed if is_gone(&removed) => part.in_use.done(),
                Ok(()) | Err(client::Error::Refused { .. }) => {}
                Err(_) => return self.forget(url),
            }
        }
    }

    /// One more session with a URL's server.
    fn open(&mut self, url: &Url) -> Result<Session, NoSession> {
        let known = self.logins.iter().find(|(of, _)| serves(of, url)).map(|(_, login)| login.clone());
        let login = match known {
            Some(login) => login,
            None if gsi::is_used(url, &self.plan) => gsi::login(url),
            None => login::of(url, &self.plan).map_err(|failure| (failure, ErrorKind::LoginRefused))?,
        };
        let session = self.opener(url, login.clone())?.open()?;
        self.logins.retain(|(of, _)| !serves(of, url));
        self.logins.push((url.clone(), login));
        Ok(session)
    }

    /// What opens sessions with a URL's server.
    fn opener(&mut self, url: &Url, login: Login) -> Result<Opener, NoSession> {
        let security = self.security(url)?;
        Ok(Opener::new(url, login, security, self.level(url), &self.stop))
    }

    fn security(&mut self, url: &Url) -> Result<Security, NoSession> {
        if gsi::is_used(url, &self.plan) {
            let known = match self.certificate.take() {
                Some(certificate) => certificate,
                None => gsi::load(url).map_err(|failure| (failure, ErrorKind::LoginRefused))?,
            };
            self.certificate = Some(known.clone());
            return Ok(gsi::security(url, known, self.level));
        }
        if url.via != Via::Ftp(Ftp::Secure) {
            return Ok(Security::Clear);
        }
        let authorities = match self.authorities.take() {
            Some(authorities) => authorities,
            None => opener::authorities(&self.plan).map_err(|failure| (failure, ErrorKind::Refused))?,
        };
        self.authorities = Some(authorities.clone());
        Ok(opener::security(url, authorities))
    }

    /// Forgets the session with a URL's server: it was lost, or is in an unknown state.
    pub(super) fn forget(&mut self, url: &Url) {
        self.servers.retain(|server| !serves(&server.url, url));
    }

    /// Ends all sessions in order, and removes before what earlier commands have left.
    pub(super) fn close(mut self, exit: Exit) {
        // Who cancels does not wait for a server, and one that is lost does not answer.
        self.removes_left &= !matches!(exit, Exit::Cancelled | Exit::ConnectionLost);
        // What this one did not end is left, too.
        self.parts.clear();
        for mut server in std::mem::take(&mut self.servers) {
            let records = self.removes_left.then(|| PartRecords::of(&server.url, &self.plan));
            // A session that was idle during a long copy may have been ended by its server.
            if records.as_ref().is_some_and(|records| records.remove_left(&mut server.session).is_err())
                && let Ok(session) = self.open(&server.url)
            {
                server.session = session;
                let _ = records.map(|records| records.remove_left(&mut server.session));
            }
            server.session.quit();
        }
    }
}

/// The server of a URL and its user, among those of temporary names.
fn server_of(url: &Url) -> String {
    format!("{:?} {:?} {} {}", url.via, url.user, url.host, url.port)
}

/// Whether a session opened for one URL serves another: the same server for the same user.
fn serves(opened: &Url, url: &Url) -> bool {
    opened.via == url.via
        && opened.host == url.host
        && opened.port == url.port
        && opened.user == url.user
        && opened.password == url.password
}
