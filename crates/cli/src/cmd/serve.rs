//! `xdfs serve`: offers directories until it is stopped.
//!
//! The server runs on a separate thread; this one waits for signals and for that thread's end.
//! Everything is opened and the process confined before that thread starts.

mod fixed;
mod hand_over;
mod inside;
mod lines;
mod log;
mod metrics;
mod offer;
mod paths;
mod reach;
mod site;
mod standby;
mod start;
mod stdio;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::policy::Fingerprint;
use xdfs_server::audit::{AuditLog, OnFailure};
use xdfs_server::config::Audit;
use xdfs_server::privilege::{Confined, confine};
use xdfs_server::users::{LiveAccounts, StateFolder};
use xdfs_server::{
    Address, Config, DiskMode, Export, HostIdentity, KeyLimits, KeyPair, Log, LogEvent, Server, ServerHandle,
    ServerIdentity, Severity, SiteCertificate, TransportOptions,
};

use xdfs_xio::Over;

use super::notify;
use crate::calendar;
use crate::descriptors;
use crate::exit::{Exit, Failure, HELP};
use crate::output::{JsonLines, Ready, Recovered, print};
use crate::plan::ServePlan;
use crate::signal::{Asked, Notifier, Signals};
use crate::text::{printable_path, shell_word};
use crate::{stack, state};
use fixed::Fixed;
use hand_over::HandOver;
use log::Logger;
use metrics::Answering;
use offer::ServerOffer;
use reach::Reach;
use site::Shown;
use standby::{Followers, Inherited};
pub(crate) use stdio::run as run_stdio;

/// A change of the users takes effect within this time.
const LOOK_AT_USERS: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or Ctrl-C, and then until the running transfers have ended.
pub(crate) fn run(plan: ServePlan) -> Result<Exit, Failure> {
    let signals = Signals::new()?;
    signals.hangup(plan.is_read_again())?;
    let mut inherited = None;
    if plan.standby {
        inherited = Followers::wait().map_err(|error| local("no server hands over to this process", &error))?;
        if inherited.is_none() {
            return Ok(Exit::Done);
        }
    }
    serve(plan, signals, inherited)
}

fn local(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Local, format!("{what}: {error}"))
}

/// Serves in the place of its predecessor, if there is one.
fn serve(plan: ServePlan, signals: Signals, inherited: Option<Inherited>) -> Result<Exit, Failure> {
    let limit = descriptors::raise_limit();
    descriptors::must_do(limit, true)?;
    let (offer, state) = ServerOffer::resolve(&plan, None)?;
    start::check_entry(&plan, &offer.needs)?;
    start::tell_channels(&offer, limit);
    let (audit, logger, tell) = logs(&offer, &signals, plan.json)?;
    let (mut followers, inherited, metrics) = match inherited {
        Some(Inherited { followers, listener, metrics }) => (followers, Some(listener), metrics),
        None => (Followers::default(), None, None),
    };
    let (names, stack) = (names(&offer), stack_of(&offer)?);
    let key = state.host_key().map_err(|error| Failure::local(&error))?;
    let visitors = offer.visitors();
    let accounts = Arc::new(state.live(visitors).map_err(|error| Failure::local(&error))?);
    let shown = Arc::new(Shown::of(offer.site.as_ref(), calendar::now()));
    let config = Config {
        identity: Arc::new(identity(key, offer.site)),
        directory: Arc::<LiveAccounts>::clone(&accounts),
        listen: Address::Tcp(offer.fixed.listen),
        inherited,
        stack,
        transport: TransportOptions::default(),
        exports: offer.exports,
        policy: offer.policy,
        limits: offer.limits,
        key_limits: KeyLimits::STANDARD,
        disk: DiskMode::default(),
        log: Arc::clone(&tell),
    };
    let server = bind(config, offer.fixed.listen, &state)?;
    // Before it is confined: afterwards no process can be started, and no socket made.
    let metrics = metrics::take(&offer.fixed, metrics)?;
    let hand_over = HandOver::prepare(&plan, &offer.fixed, &server, &signals)?;
    notify::prepare();
    let confined = confine(&offer.needs, offer.fixed.confinement).map_err(|error| local("--confinement", &error))?;
    confined.notes.iter().for_each(|note| logger.say(Severity::Info, note));
    let handle = server.handle();
    let address = server.address().to_string();
    announce(plan.json, &names, &address, &server.host_key().to_string())?;
    if !visitors && accounts.is_empty() {
        say_how_to_let_in(&state, &logger);
    }
    tell(&LogEvent::Started { address });
    notify::notify(notify::READY);
    followers.tell_ready().map_err(|error| local("the server that hands over", &error))?;
    // Ends with the server, when nothing listens any more. Started here, so that it is confined
    // like the rest.
    let _watching =
        watch(Arc::clone(&accounts), handle.clone(), Arc::clone(&logger), (Arc::clone(&shown), Arc::clone(&tell)));
    let serving = Serving {
        host_key: server.host_key(),
        answering: metrics::answer(metrics, &handle)?,
        fixed: offer.fixed,
        reach: Reach::of(&offer.needs),
        plan,
        handle,
        accounts,
        shown,
        followers,
        hand_over,
        confined,
        audit,
        logger,
        tell,
    };
    conduct(server, serving, signals)
}

/// Listens, and records what is offered from now on.
fn bind(config: Config, listen: SocketAddr, state: &StateFolder) -> Result<Server, Failure> {
    let exports: Vec<_> = config.exports.iter().map(|export| export.name().to_owned()).collect();
    let server = Server::bind(config).map_err(|error| start::cannot_listen(listen, &error))?;
    state.record_exports(exports.iter().map(String::as_str));
    Ok(server)
}

/// What is put above the server's connections: loaded and read before the process is confined.
fn stack_of(offer: &ServerOffer) -> Result<Option<Arc<dyn Over>>, Failure> {
    offer.fixed.stack.as_deref().map(|text| stack::of_server(text, offer.policy.floor)).transpose()
}

/// The audit log, the log, and the receiver of events that writes both.
type Logs = (Option<Arc<AuditLog>>, Arc<Logger>, Log);

fn logs(offer: &ServerOffer, signals: &Signals, json: bool) -> Result<Logs, Failure> {
    let audit = audit(&offer.fixed.audit)?;
    let logger = Arc::new(Logger::of_environment(offer.quiet)?);
    let alarm = (offer.fixed.audit_failure == OnFailure::Stop).then(|| signals.log_alarm()).transpose()?;
    let log = log(Arc::clone(&logger), json, audit.clone(), alarm);
    Ok((audit, logger, log))
}

/// Whether a server would start so: says what it would do. Nothing is made or changed, and no port is opened, since the
/// server that the answer is for may be running.
pub(crate) fn check(plan: &ServePlan) -> Result<Exit, Failure> {
    descriptors::must_do(descriptors::raise_limit(), true)?;
    let offer = ServerOffer::check(plan)?;
    start::check_entry(plan, &offer.needs)?;
    stack_of(&offer)?;
    print(&format!("valid: listens on {} and offers {}\n", offer.fixed.listen, names(&offer)))?;
    Ok(Exit::Done)
}

/// Runs the server on a separate thread until it has ended.
fn conduct(server: Server, serving: Serving, mut signals: Signals) -> Result<Exit, Failure> {
    let teller = signals.teller()?;
    let thread = std::thread::spawn(move || {
        let _teller = teller;
        server.run()
    });
    let exit = serving.until_told(&mut signals);
    match thread.join() {
        Ok(Ok(())) => Ok(exit),
        Ok(Err(error)) => Err(ended(&error)),
        Err(_) => Err(Failure::new(Exit::Local, "the server failed; this is a bug, please report the lines above")),
    }
}

/// A running server, as seen by the thread that waits for signals.
struct Serving {
    plan: ServePlan,
    handle: ServerHandle,
    accounts: Arc<LiveAccounts>,
    /// What clients pin.
    host_key: Fingerprint,
    /// The certificate that is presented to clients that request one.
    shown: Arc<Shown>,
    /// Answers with the metrics.
    answering: Option<Answering>,
    /// The processes whose sessions stayed there.
    followers: Followers,
    hand_over: HandOver,
    confined: Confined,
    /// Settings that a reload does not change.
    fixed: Fixed,
    reach: Reach,
    audit: Option<Arc<AuditLog>>,
    logger: Arc<Logger>,
    tell: Log,
}

impl Serving {
    /// Handles signals until the server has ended.
    fn until_told(mut self, signals: &mut Signals) -> Exit {
        let mut exit = Exit::Done;
        loop {
            match signals.wait() {
                Asked::Report => self.handle.status(),
                Asked::Reload if !self.plan.is_read_again() => {
                    let text = "SIGHUP, and there is no --config to read again: ending as with SIGTERM";
                    self.logger.say(Severity::Warning, text);
                    self.end();
                }
                Asked::Reload => {
                    // A line of the log is one line.
                    let error = self.reload().err().map(|error| error.replace(HELP, "; "));
                    match error {
                        None => self.followers.tell_reloaded(),
                        // What was withdrawn from the sessions that stayed is not known.
                        Some(_) if self.hand_over.is_done() => self.handle.drain(),
                        Some(_) => {}
                    }
                    (self.tell)(&LogEvent::Reloaded { error });
                }
                // Every line that cannot be written requests it.
                Asked::LogFailed if exit == Exit::Local => {}
                Asked::LogFailed => {
                    let text =
                        "stopping, since nothing is to happen that is not in the audit log (audit-failure = \"stop\")";
                    self.logger.say(Severity::Error, text);
                    exit = Exit::Local;
                    self.hand_over = HandOver::Impossible;
                    self.handle.stop();
                }
                Asked::Ended => return exit,
                asked @ (Asked::Interrupt | Asked::Terminate) => {
                    if asked == Asked::Interrupt {
                        exit = Exit::Cancelled;
                    }
                    self.end();
                }
            }
        }
    }

    /// Accepts nothing new, and lets running operations end.
    fn end(&mut self) {
        if self.hand_over.is_done() {
            return self.handle.drain();
        }
        notify::notify(notify::STOPPING);
        // From now on the kernel refuses new connections, so that they do not wait in vain.
        self.hand_over = HandOver::Impossible;
        self.handle.drain();
    }

    /// Reloads the configuration: all of it takes effect, or none of it and the text gives the
    /// reason.
    fn reload(&mut self) -> Result<(), String> {
        if let Some(audit) = &self.audit {
            audit.reopen().map_err(|error| error.to_string())?;
        }
        let (mut offer, state) =
            ServerOffer::resolve(&self.plan, Some(&self.fixed)).map_err(|failure| failure.message)?;
        if self.hand_over.is_done() {
            // The sessions that stayed reach no more than before, and the rest is the other process's.
            return self.offer(offer);
        }
        let hands_over = self.confined.files && !self.reach.covers(&Reach::of(&offer.needs));
        let later = self.fixed.unlike(&offer.fixed, hands_over);
        if !later.is_empty() {
            let text = format!("what the configuration says of {} holds from the next start on", later.join(", "));
            self.logger.say(Severity::Warning, &text);
        }
        if hands_over && self.fixed.state != offer.fixed.state {
            return Err(
                "the state folder is another one than at the start, with another host key and other users, and new \
                        directories need a process that starts anew; restart the server if that is meant"
                    .to_owned(),
            );
        }
        if hands_over {
            self.hand_over()?;
            // What was withdrawn is withdrawn from the sessions that stay here, too; they cannot reach
            // what is new.
            return self.offer(offer);
        }
        let site = offer.site.take();
        let validity = Shown::of(site.as_ref(), calendar::now());
        let shown = identity(state.host_key().map_err(|error| error.message)?, site);
        if shown.fingerprint() != self.host_key {
            return Err(
                "the host key is another one than at the start, which clients would refuse; restart the server \
                        if that is meant"
                    .to_owned(),
            );
        }
        self.handle.present(ServerIdentity::new(&shown).map_err(|error| error.message)?);
        self.shown.take(validity);
        self.offer(offer)
    }

    /// Replaces what is offered.
    fn offer(&self, offer: ServerOffer) -> Result<(), String> {
        self.accounts.allow_anonymous(offer.visitors());
        self.handle.reload(offer.exports, offer.limits, offer.policy);
        Ok(())
    }

    /// The new offer lies outside of what this process may reach: another process serves from now
    /// on, and this one ends when its sessions are over.
    fn hand_over(&mut self) -> Result<(), String> {
        let missing = "new directories need a process that is not confined yet, and there is none; restart the server";
        let ready = std::mem::replace(&mut self.hand_over, HandOver::Impossible);
        let HandOver::Ready { standby, socket, reloaded, ended } = ready else { return Err(missing.to_owned()) };
        let process = standby.process();
        let metrics = self.answering.as_ref().map(Answering::socket);
        self.followers.forget_ended();
        // A confined process cannot start another one.
        let successor = standby.hand_over(&socket, metrics, &self.followers).map_err(|error| {
            format!("process {process} could not take over: {error}; this one serves on as before: restart the server")
        })?;
        self.hand_over = HandOver::Done;
        // From now on they follow the process that serves.
        self.followers.tell_reloaded();
        self.followers = Followers::default();
        notify::notify(&format!("MAINPID={process}"));
        self.logger.say(Severity::Info, &format!("process {process} serves on"));
        self.answering = None;
        drop(socket);
        self.handle.retire();
        if let Err(error) = successor.follow(reloaded, ended) {
            // Nobody would tell what is withdrawn.
            self.logger.say(Severity::Error, &format!("cannot follow process {process}: {error}; ending its sessions"));
            self.handle.drain();
        }
        Ok(())
    }
}

fn identity(key: KeyPair, site: Option<SiteCertificate>) -> HostIdentity {
    let identity = HostIdentity::new(key);
    match site {
        Some(site) => identity.with_site(site),
        None => identity,
    }
}

fn ended(error: &Error) -> Failure {
    Failure::new(Exit::ConnectionLost, format!("the server cannot go on: {error}"))
}

fn names(offer: &ServerOffer) -> String {
    let shown =
        |export: &Export| format!("{}{}", export.name(), if export.access().writable { "" } else { " (read-only)" });
    offer.exports.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// One line when it is ready, whatever else is printed.
fn announce(json: bool, names: &str, address: &str, host_key: &str) -> Result<(), Failure> {
    if json {
        return JsonLines.write(&Ready { address: address.to_owned(), host_key: host_key.to_owned() });
    }
    print(&format!("xdfs is ready on {address} with the host key {host_key} and offers {names}\n"))
}

fn say_how_to_let_in(state: &StateFolder, logger: &Logger) {
    let shown = state.shown();
    let option = state::option(Some(Path::new(shown)));
    let text =
        format!("nobody may log in yet; on this machine: xdfs user add NAME --key FILE.pub{option} (state: {shown})");
    logger.say(Severity::Warning, &text);
}

/// The audit log, if one is configured.
fn audit(wanted: &Audit) -> Result<Option<Arc<AuditLog>>, Failure> {
    Ok(match wanted {
        Audit::Off => None,
        Audit::StandardError => Some(Arc::new(AuditLog::standard_error())),
        Audit::File(path) => {
            let log = AuditLog::file(path).map_err(|error| {
                let failure = Failure::local(&error);
                match error.kind {
                    ErrorKind::PermissionDenied => {
                        let path = shell_word(&printable_path(path));
                        failure.help(format_args!(
                            "if another user made it, give it to the one who serves: chown USER {path}"
                        ))
                    }
                    _ => failure,
                }
            })?;
            Some(Arc::new(log))
        }
    })
}

/// Checks once a second, besides at each connection, whether the users changed, and ends the sessions that the change would not
/// admit; also whether the certificate has expired, which is reported. The thread ends when the
/// returned value is dropped.
fn watch(
    accounts: Arc<LiveAccounts>,
    handle: ServerHandle,
    logger: Arc<Logger>,
    (shown, tell): (Arc<Shown>, Log),
) -> SyncSender<()> {
    let (running, ended) = sync_channel(0);
    std::thread::spawn(move || {
        while ended.recv_timeout(LOOK_AT_USERS) == Err(RecvTimeoutError::Timeout) {
            let change = accounts.refresh().unwrap_or_else(|error| {
                logger.say(Severity::Error, &format!("{error}; what was known before holds on"));
                None
            });
            if accounts.has_changed() || change.is_some() {
                logger.say(Severity::Info, "the users have changed; the change holds from now on");
            }
            if let Some(change) = change {
                handle.revoke(move |principal| change.ends(principal));
            }
            if let Some(event) = shown.look(calendar::now()) {
                tell(&event);
            }
        }
    });
    running
}

/// The receiver of events: the log for people, which an audit log on standard error replaces, and the
/// audit log. The `alarm` is raised if that cannot be written.
fn log(logger: Arc<Logger>, json: bool, audit: Option<Arc<AuditLog>>, alarm: Option<Notifier>) -> Log {
    Arc::new(move |event| {
        let wrote = audit.as_ref().map(|audit| audit.write(event)).unwrap_or_default();
        if let (Some(alarm), true) = (&alarm, wrote.failed) {
            alarm.raise();
        }
        if let (LogEvent::Recovered { parts, bytes, others, expired }, true) = (event, json) {
            let line = Recovered { parts: *parts, bytes: *bytes, others: *others, expired: *expired };
            // The process that started the server may have stopped reading; that is no reason to
            // stop serving.
            let _ = JsonLines.write(&line);
        }
        let in_its_place = audit.as_ref().is_some_and(|audit| audit.folder().is_none());
        if !in_its_place || matches!(event, LogEvent::Status { .. }) {
            logger.event(event);
        }
        wrote.bytes
    })
}
