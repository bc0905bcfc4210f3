//! From a URL to a session: checks that the server's key is the expected one, logs in, and reports
//! every obstacle with what to do about it.
//!
//! Prompts are made between two connections, never during one: a server that waits for a person to
//! compare fingerprints would have to wait for everybody.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use xdfs_client::retry::{Attempts, Backoff, FailureClass, Outage};
use xdfs_client::trust::{HostName, KeyRejection, KnownHosts, Remembered, Trust};
use xdfs_client::{
    Address, Certificates, ConnectOptions, Error, ErrorKind, Limit, Session, connect_any, has_no_way,
    was_lost_in_opening,
};
use xdfs_io::store::owners;
use xdfs_secure::policy::Fingerprint;
use xdfs_xio::Over;

use super::authorities;
use super::login::{Offers, TypedSecrets, User, variable};
use super::pause::{attempts_told, paused};
use crate::config::{Config, HostSettings};
use crate::exit::{Exit, Failure, Side};
use crate::output::complain;
use crate::plan::LoginPlan;
use crate::url::{PORT_DEFAULT, Url, is_user_name};
use crate::{address, ask, calendar, stack, state};

/// The parameters that are requested for every session.
#[derive(Clone, Debug)]
pub(crate) struct SessionRequest {
    pub(crate) channels: u16,
    pub(crate) window: Option<u32>,
    pub(crate) block: Option<u32>,
    pub(crate) congestion: Option<String>,
    pub(crate) level: xdfs_client::Level,
    /// Files are moved at that level, not only asked about.
    pub(crate) moves: bool,
    /// The limit of bandwidth of all sessions together.
    pub(crate) limit: Option<Arc<Limit>>,
    /// How long to retry if a connection is lost before there is a session.
    pub(crate) retry: Duration,
}

impl Default for SessionRequest {
    /// One channel: enough for single calls.
    fn default() -> Self {
        Self {
            channels: 1,
            window: None,
            block: None,
            congestion: None,
            level: xdfs_client::Level::Private,
            moves: false,
            limit: None,
            retry: Duration::ZERO,
        }
    }
}

/// Connections for one URL: the first, one after the server's key was accepted, one for each of two
/// keys behind a passphrase, and three for a password.
const CONNECTIONS_MAX: usize = 7;

/// A session, or the failure to report and its kind.
pub(crate) type ConnectResult<T = Session> = Result<T, (Failure, ErrorKind)>;

/// How a session is opened once the server's key and the user are known: alone, or with a first
/// request.
pub(crate) type OpenFn<'a, T> = &'a dyn Fn(&ConnectOptions) -> Result<T, Error>;

/// Connects to a URL's server and logs in.
pub(crate) fn connect<T>(
    url: &Url,
    wishes: &SessionRequest,
    login: (&LoginPlan, &TypedSecrets),
    open: OpenFn<'_, T>,
) -> ConnectResult<T> {
    let (login, typed) = login;
    let state_option = state::own_option(login.state.as_deref());
    let here = |failure: Failure| (failure, ErrorKind::Refused);
    let folder = state::own(login.state.as_deref()).map_err(here)?;
    let known = KnownHosts::read(&folder).map_err(|error| here(Failure::local(&error)))?;
    let host = HostName::new(&url.host.to_string(), url.port);
    let host_settings = login.config.find(url);
    let stack = stack_to(url, wishes, login, host_settings).map_err(here)?;
    let named = LoginPlan { identity: identity(login, host_settings), ..login.clone() };
    // No other server learns one's name: a key in the URL may come from whoever wrote the URL.
    let is_known = host_settings.is_some() || known.find(&host).is_some();
    let user = match &url.user {
        Some(user) => User::Named(user.clone()),
        None if is_known => host_settings
            .and_then(|host| host.server.user.clone())
            .or_else(own_name)
            .map_or(User::Nobody, User::Assumed),
        None => User::Nobody,
    };
    let mut offers = Offers::gather(user, &named, folder.clone()).map_err(here)?;
    offers.recall(typed, &host);
    let pinned = url.key.as_deref().and_then(|key| key.parse().ok());
    let roots = authorities::named(login).map_err(here)?;
    let unattended = login.unattended;
    let connecting = Connecting {
        url,
        wishes,
        stack,
        folder,
        state_option,
        host,
        pinned,
        known,
        offers,
        roots,
        typed,
        unattended,
        config: &login.config,
    };
    connecting.run(open)
}

/// What the channels to a URL's server pass through: what was asked for, or what the configuration file
/// has.
fn stack_to(
    url: &Url,
    wishes: &SessionRequest,
    login: &LoginPlan,
    host: Option<&HostSettings>,
) -> Result<Option<Arc<dyn Over>>, Failure> {
    let (option, text) = match (&login.stack, host.and_then(|host| host.stack.as_deref())) {
        (Some(text), _) => ("--stack", text.as_str()),
        (None, Some(text)) => ("stack", text),
        (None, None) => return Ok(None),
    };
    let stack = stack::named(option, text)?;
    if wishes.moves {
        stack.suits(wishes.level).map_err(|error| {
            let remedy = "add --protection integrity, or --protection clear; or leave 'zstd' out at both ends";
            Failure::new(Exit::Usage, format!("{option} {error}")).help(remedy)
        })?;
    }
    Ok(Some(stack.to(format!("{}:{}", url.host, url.port))))
}

/// The key to log in with: the one that was named, or that of the configuration file.
fn identity(login: &LoginPlan, host: Option<&HostSettings>) -> Option<PathBuf> {
    let named = login.identity.clone().or_else(|| variable("XDFS_IDENTITY").map(PathBuf::from));
    named.or_else(|| host.and_then(|host| host.identity.clone()))
}

/// The name of this user on this machine, if it could be that of a user of a server.
fn own_name() -> Option<String> {
    let told = ["USER", "LOGNAME"].into_iter().find_map(variable).map(OsString::into_vec);
    // Services and containers often have neither.
    let name = told.unwrap_or_else(|| owners::known().users.name(rustix::process::geteuid().as_raw()).to_vec());
    String::from_utf8(name).ok().filter(|name| is_user_name(name))
}

struct Connecting<'a> {
    url: &'a Url,
    wishes: &'a SessionRequest,
    stack: Option<Arc<dyn Over>>,
    folder: PathBuf,
    /// The option that commands need to find that folder.
    state_option: String,
    host: HostName,
    pinned: Option<Fingerprint>,
    known: KnownHosts,
    offers: Offers,
    typed: &'a TypedSecrets,
    /// The authorities that are trusted to certify the server's name if its key is unknown.
    roots: Option<Vec<Vec<u8>>>,
    /// Nobody is asked.
    unattended: bool,
    config: &'a Config,
}

/// Why an attempt to open a session failed.
enum OpenError {
    /// The host is not known.
    NoAddress(Failure),
    /// No session came of the connection.
    Session(Error),
}

/// The attempts to open a session, of which none was refused.
struct OpenAttempts<'c, 'a, T> {
    connecting: &'c Connecting<'a>,
    trust: &'c Arc<Trust>,
    open: OpenFn<'c, T>,
}

impl<T> Attempts for OpenAttempts<'_, '_, T> {
    type Done = T;
    type Failure = OpenError;

    fn attempt(&mut self) -> Result<T, OpenError> {
        self.connecting.attempt_once(self.trust, self.open)
    }

    fn classify(&self, failure: &OpenError) -> FailureClass {
        match failure {
            OpenError::Session(error) if was_lost_in_opening(error) => FailureClass::Transient,
            _ => FailureClass::Permanent,
        }
    }

    fn progress(&self) -> u64 {
        0
    }

    fn pause(&mut self, time: Duration) -> bool {
        paused(time)
    }

    fn on_retry(&mut self, failure: OpenError, outage: Outage) {
        if let (OpenError::Session(error), Outage::Begins) = (failure, outage) {
            let same = if self.connecting.stack.is_some() { "; it needs the same drivers" } else { "" };
            complain(&format!("{}: {error}{same}; trying again", self.connecting.host));
        }
    }
}

impl Connecting<'_> {
    fn run<T>(mut self, open: OpenFn<'_, T>) -> ConnectResult<T> {
        let (mut last, mut backoff) = (None, Backoff::since_progress(self.wishes.retry));
        for _ in 0..CONNECTIONS_MAX {
            let trust = Arc::new(Trust::new(self.host.clone(), self.pinned, &self.known));
            let error = match self.attempt(&mut backoff, &trust, open) {
                Ok(session) => {
                    self.offers.keep(self.typed, &self.host);
                    return Ok(session);
                }
                Err(OpenError::NoAddress(failure)) => return Err((failure, ErrorKind::ConnectionLost)),
                Err(OpenError::Session(error)) => error,
            };
            if let Some(doubt) = trust.doubt() {
                self.clear(doubt).map_err(|failure| {
                    let kind = if failure.exit == Exit::Cancelled { ErrorKind::Cancelled } else { ErrorKind::Refused };
                    (failure, kind)
                })?;
                continue;
            }
            let more = match error.kind {
                ErrorKind::LoginRefused => self.offers.ask_for_more(&self.host.to_string()),
                _ => Ok(false),
            };
            match more {
                Ok(true) => last = Some(error),
                Ok(false) => return Err(self.cannot_connect(&error)),
                Err(error) => return Err((self.unanswered(&error), error.kind)),
            }
        }
        let busy = || Error::new(ErrorKind::LoginRefused, "the server refused the login");
        Err(self.cannot_connect(&last.unwrap_or_else(busy)))
    }

    /// Connects; retries if the connection is lost after a server answered and before there is a
    /// session.
    fn attempt<T>(&self, backoff: &mut Backoff, trust: &Arc<Trust>, open: OpenFn<'_, T>) -> Result<T, OpenError> {
        let outcome = backoff.retry(&mut OpenAttempts { connecting: self, trust, open });
        outcome.map_err(|failed| match failed {
            OpenError::Session(error) if was_lost_in_opening(&error) => {
                let message = format!("{error}{}", attempts_told(backoff));
                OpenError::Session(Error { message, ..error })
            }
            other => other,
        })
    }

    /// Makes one connection to each address of the host until a server answers.
    fn attempt_once<T>(&self, trust: &Arc<Trust>, open: OpenFn<'_, T>) -> Result<T, OpenError> {
        let addresses = address::resolve(self.url).map_err(OpenError::NoAddress)?;
        let open_at = |address| {
            let options = ConnectOptions {
                stack: self.stack.clone(),
                host: self.url.host.to_string(),
                port: self.url.port,
                host_check: Arc::<Trust>::clone(trust),
                certificates: self.certificates(trust),
                user: self.offers.user().to_owned(),
                offers: self.offers.now(),
                channels: self.wishes.channels,
                window: self.wishes.window,
                block: self.wishes.block,
                congestion: self.wishes.congestion.clone(),
                level: self.wishes.level,
                limit: self.wishes.limit.clone(),
                ..ConnectOptions::to(address)
            };
            open(&options)
        };
        connect_any(addresses.into_iter().map(Address::from), open_at).map_err(OpenError::Session)
    }

    /// If the server's key is known, that is requested; otherwise a certificate, if any authority
    /// is trusted.
    fn certificates(&self, trust: &Trust) -> Certificates {
        match &self.roots {
            Some(roots) if trust.expected().is_none() => Certificates::X509 { roots: roots.clone() },
            _ => Certificates::Raw,
        }
    }

    /// Handles a rejected server key: a person confirms it, or the command ends.
    fn clear(&mut self, doubt: KeyRejection) -> Result<(), Failure> {
        let KeyRejection::Unknown { shown } = doubt else {
            return Err(changed((self.url, self.config), &self.host, doubt, &self.state_option));
        };
        let host = &self.host;
        let question = format!(
            "The server {host} is not known here. Its key is {shown}.\nThe same key must be shown on the server by \
             'xdfs key show --host'. Trust it and go on?"
        );
        let answer = if self.unattended { Ok(None) } else { ask::agree(&question) };
        match answer.map_err(|error| self.unanswered(&error))? {
            Some(true) => {}
            Some(false) => {
                let failure = Failure::new(Exit::NotTrusted, format!("{host} is not trusted; nothing was sent"));
                return Err(failure.help(self.pin_command(shown)));
            }
            None => {
                let message = format!("{}, and there is no terminal to ask; nothing was sent", doubt.describe(host));
                return Err(Failure::new(Exit::NotTrusted, message).help(self.pin_command(shown)));
            }
        }
        let remembered = Remembered { fingerprint: shown, since: calendar::now() };
        if let Err(error) = self.known.pin(host, remembered) {
            complain(&format!("{host} is trusted this once and cannot be remembered: {error}"));
            self.pinned = Some(shown);
        }
        Ok(())
    }

    /// Why no question was answered.
    fn unanswered(&self, error: &Error) -> Failure {
        match error.kind {
            ErrorKind::Cancelled => {
                Failure::new(Exit::Cancelled, format!("{}: cancelled; nothing was sent", self.host))
            }
            _ => Failure::local(error),
        }
    }

    /// How to trust a server with the key `shown`, once somebody has compared it.
    fn pin_command(&self, shown: Fingerprint) -> String {
        format!(
            "compare the key with the server's ('xdfs key show --host' there), then run\n  xdfs trust pin {} {shown}{}",
            self.host, self.state_option
        )
    }

    fn cannot_connect(&self, error: &Error) -> (Failure, ErrorKind) {
        let url = self.url;
        let reason = match error.kind {
            // The rest of the message lists the offers with their origin, not only their
            // fingerprint.
            ErrorKind::LoginRefused if self.offers.obstacle().is_some() => {
                self.offers.obstacle().unwrap_or_default().to_owned()
            }
            ErrorKind::LoginRefused if self.offers.any() => "the server refused the login".to_owned(),
            _ => error.to_string(),
        };
        let shown = Url { key: None, ..url.clone() };
        let failure = Failure::new(Exit::of_error(error, Side::Peer), format!("{shown}: {reason}"));
        let port = url.port;
        let listen = if port == PORT_DEFAULT { String::new() } else { format!("--listen '[::]:{port}' ") };
        let failure = match error.kind {
            ErrorKind::ConnectionLost | ErrorKind::Protocol if self.stack.is_some() => failure.help(format!(
                "is 'xdfs serve' running there, on port {port}, over the same drivers? On that machine: xdfs serve --listen \
                 'ADDR:{port}?stack=DRIVERS'"
            )),
            ErrorKind::ConnectionLost if has_no_way(error) => {
                failure.help("no network of this machine leads there; see the ones that it has with: ip route")
            }
            ErrorKind::ConnectionLost => {
                let failure = failure.help(format!(
                    "is 'xdfs serve' running there, on port {port}? On that machine: xdfs serve {listen}--export data=DIRECTORY"
                ));
                // Where nothing answers, drivers change nothing.
                match was_lost_in_opening(error) {
                    true => failure.help("if it listens with '?stack=', name the same drivers with --stack"),
                    false => failure,
                }
            }
            ErrorKind::TimedOut => failure.help(format!(
                "a firewall may drop what goes to port {port}; there TCP must be let in, or use ssh: xdfs ls ssh://{}/",
                url.host
            )),
            ErrorKind::Protocol => failure.help(format!(
                "another program listens on port {port}, or the server has a stack of drivers\nhelp: name the port of 'xdfs serve', as \
                 in xdfs://{}:PORT/, or the same drivers with --stack",
                url.host
            )),
            ErrorKind::LoginRefused => self.offers.describe(failure, url),
            ErrorKind::Storage => failure.help(format!("see {}", self.folder.display())),
            // It may say when.
            ErrorKind::Busy | ErrorKind::Draining if !reason.contains("try again") => failure.help("try again later"),
            _ => failure,
        };
        (failure, error.kind)
    }
}

/// A key that is not the expected one: a loud error, and never accepted without confirmation.
fn changed((url, config): (&Url, &Config), host: &HostName, doubt: KeyRejection, state_option: &str) -> Failure {
    let KeyRejection::Changed { shown, expected, since } = doubt else {
        let remedy = "connect by the name that the certificate is for, and name the authority that signed it with --ca; or leave \
                      --ca out, and know the server by its own key ('xdfs key show --host' there)";
        return Failure::new(Exit::NotTrusted, format!("{}; nothing was sent", doubt.describe(host))).help(remedy);
    };
    let (from, remedy) = match (since, config.pin(url)) {
        (Some(since), _) => (
            format!("known here since {} UTC", calendar::shown_unsigned(since)),
            format!("xdfs trust pin {host} {shown}{state_option}"),
        ),
        (None, Some((place, name))) => (
            format!("host-key of [hosts.{name}] in {place}"),
            format!("write host-key = \"{shown}\" there, below [hosts.{name}]"),
        ),
        (None, None) => (
            "pinned by the URL".to_owned(),
            format!("write #{shown} at the end of the URL, in place of #{}", url.key.as_deref().unwrap_or_default()),
        ),
    };
    let message = format!(
        "THE KEY OF THE SERVER {host} IS NOT THE EXPECTED ONE\n  expected: {expected}, {from}\n  shown:    {shown}\nEither \
         somebody is between you and the server, or the server has a new key. Nothing was sent."
    );
    Failure::new(Exit::NotTrusted, message).help(format!(
        "ask the server's administrator ('xdfs key show --host' there); only if the new key is right:\n  {remedy}"
    ))
}
