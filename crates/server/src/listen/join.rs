//! From a pending login to a channel: sessions start, channels join, pipelines get threads.

use super::Server;
use crate::clock::moment_now;
use crate::files::SessionFiles;
use crate::host::ServerHost;
use crate::log::LogEvent;
use crate::mailbox::ServerMessage;
use crate::mailbox::{PumpMailbox, PumpSender};
use crate::pending_login::GrantedSession;
use crate::rates::SessionRates;
use crate::session_context::{Metrics, SessionContext};
use crate::sessions::{IdleSocket, PipelineState, SessionEntry, SessionTerms};
use crate::users::admits;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use xdfs_engine::bounds;
use xdfs_engine::host::Ending;
use xdfs_engine::idle::IdlePipeline;
use xdfs_engine::mailbox::{MailboxSender, Message};
use xdfs_engine::pipeline::{Pipeline, PipelineChannel};
use xdfs_engine::pump::{Parts, Pump, Settings};
use xdfs_engine::record::RecordLayer;
use xdfs_engine::schedule::QuotaClass;
use xdfs_io::dispatch::{Dispatch, Dispatcher, SocketId};
use xdfs_io::transport::{self, Link};
use xdfs_proto::base::{ChannelId, Error, Level, PipelineId, SessionId};
use xdfs_proto::negotiate::Granted;
use xdfs_proto::session::{Role, Session, SessionLimits};
use xdfs_secure::keys::RoleKeys;
use xdfs_secure::policy::Principal;

impl Server {
    /// The answer to OPEN was sent: channel 1 carries records from now on.
    pub(super) fn start_session(&mut self, socket: SocketId, session: GrantedSession) {
        let now = self.dispatch.now();
        // The directory may know of a revocation before the message about it arrives.
        if !admits(&*self.config.directory, &session.principal) {
            self.sessions.registry.end(session.id);
        }
        if !self.sessions.registry.begin(session.id) {
            return self.disconnect(socket, "what it logged in with was revoked");
        }
        // It is there: its answer has just left.
        let Some(guest) = self.logins.take(socket) else { return };
        let GrantedSession { id, secret, grant, granted, open, principal, farewell } = session;
        let limits = SessionLimits {
            floor: granted.floor,
            block: granted.block,
            flow_window: 0,
            stall: granted.stall,
            pipelines: granted.pipelines,
            channels: granted.channels,
            calls_room: granted.calls_room(),
            keys: self.config.key_limits,
            ..SessionLimits::default()
        };
        let machine = |pipeline| Session::new(Role::Server, PipelineId(pipeline), limits.clone());
        let mut pipelines: Vec<_> =
            (0..granted.pipelines).map(|pipeline| Box::new(IdlePipeline::new(machine(pipeline)))).collect();
        let agreed = SessionTerms {
            peer: guest.peer,
            opened: now,
            channels: granted.channels,
            window: u32::try_from(granted.window).unwrap_or(0),
            secret,
        };
        let keys = agreed.keys(id, ChannelId(1), &grant);
        let records = match keys.and_then(|keys| RecordLayer::new(keys.seal, keys.open, self.config.key_limits)) {
            Ok(records) => records,
            Err(error) => {
                self.sessions.registry.end(id);
                self.dispatch.detach(socket, &mut Vec::new());
                return self.tell_refusal(agreed.peer, error.to_string());
            }
        };
        self.tell_opened(id, &agreed.peer, &principal, (&granted, open.channels));
        let context = self.context_of(id, principal, granted.floor);
        self.apply_window(socket, &agreed);
        let begun = pipelines[0].begin(&mut self.dispatch, socket, records, farewell, open.first.as_ref());
        let entry = SessionEntry::new(agreed, context, pipelines.into_iter().map(PipelineState::Idle).collect());
        entry.context.metrics.channels.fetch_add(1, Ordering::Relaxed);
        self.sessions.idle.insert(socket, IdleSocket { session: id, pipeline: 0, channel: ChannelId(1) });
        self.sessions.running.insert(id, entry);
        if let Err(error) = begun {
            return self.drop_session(id, Some(error));
        }
        if open.first.is_some() || granted.pipelines > 1 {
            self.start_pipelines(id);
        }
    }

    /// What the pipelines of a new session share.
    fn context_of(&self, id: SessionId, principal: Arc<Principal>, floor: Level) -> SessionContext {
        let services = Arc::clone(&self.services);
        let budget: Arc<str> = principal.budget().to_string().into();
        SessionContext {
            id,
            since: moment_now(),
            floor,
            metrics: Metrics::default(),
            reply_cache: services.reply_caches.of(&principal),
            files: Arc::new(SessionFiles::new(&services.files, id, &principal)),
            watches: Arc::new(self.watches.of_session(id, &principal)),
            rates: SessionRates::new(services.rates.of(&budget)),
            principal,
            budget,
            services,
        }
    }

    fn tell_opened(&mut self, id: SessionId, peer: &str, principal: &Principal, (granted, asked): (&Granted, u16)) {
        self.totals.sessions += 1;
        (self.config.log)(&LogEvent::SessionOpened {
            session: id,
            peer: peer.to_owned(),
            user: principal.user.escape_debug().to_string(),
            method: principal.method,
            key: principal.key.map(|key| key.fingerprint()),
            channels: granted.channels,
            asked,
            pipelines: granted.pipelines,
        });
    }

    /// Applies the granted window, or the one that suits many channels within one host. A window
    /// that the kernel refuses is no reason to refuse the channel: the client sees the effective
    /// one in its own figures.
    fn apply_window(&self, socket: SocketId, terms: &SessionTerms) {
        let link = self.dispatch.link(socket);
        let asked = (terms.window > 0).then_some(terms.window);
        let default = || transport::default_window(link.is_local(), terms.channels);
        if let Some(bytes) = asked.or_else(default) {
            let _ = link.set_window(bytes);
        }
    }

    /// A channel was authenticated for a session, and its answer was sent.
    pub(super) fn admit(&mut self, socket: SocketId, id: SessionId, channel: ChannelId, keys: RoleKeys) {
        // The session may have ended, or the channel may have been removed, while the answer was in
        // flight.
        let records = if self.sessions.registry.attach(id, channel) {
            RecordLayer::new(keys.seal, keys.open, self.config.key_limits).ok()
        } else {
            None
        };
        let (Some(entry), Some(records)) = (self.sessions.running.get(&id), records) else {
            return self.disconnect(socket, "JOIN of a session that has ended");
        };
        self.apply_window(socket, &entry.terms);
        entry.context.metrics.channels.fetch_add(1, Ordering::Relaxed);
        let pipeline = entry.pipeline_of(channel);
        // Cannot fail: it was found above.
        let Some(entry) = self.sessions.running.get_mut(&id) else { return };
        match entry.pipelines.get_mut(pipeline) {
            Some(PipelineState::Idle(idle)) => {
                idle.join(&mut self.dispatch, socket, channel, records);
                self.logins.take(socket);
                self.sessions.idle.insert(socket, IdleSocket { session: id, pipeline, channel });
            }
            Some(PipelineState::Running(post)) => {
                let (post, context) = (post.clone(), Arc::clone(&entry.context));
                self.logins.take(socket);
                let detached = self.dispatch.detach(socket, &mut Vec::new());
                let joined = PipelineChannel {
                    channel,
                    link: detached.link,
                    unread: detached.unread,
                    records,
                    known: false,
                    farewell: None,
                };
                if post.try_send(Message::Attach(Box::new(joined))).is_err() {
                    // The link is dropped with the message: the client requests another channel.
                    context.metrics.channels.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Some(PipelineState::Over) | None => self.disconnect(socket, "JOIN of a session that has ended"),
        }
    }

    /// Starts a thread for every idle pipeline of the session. A pipeline that is sending its close
    /// reason continues without one.
    pub(super) fn start_pipelines(&mut self, id: SessionId) {
        // It has ended by what came before.
        let Some(count) = self.sessions.running.get(&id).map(|entry| entry.pipelines.len()) else { return };
        let idle =
            |entry: &SessionEntry, index: usize| entry.pipelines[index].idle().is_some_and(IdlePipeline::may_move);
        let mut waiting = Vec::new();
        for index in 0..count {
            if self.sessions.running.get(&id).is_some_and(|entry| idle(entry, index)) {
                match self.prepare(id, index) {
                    Ok(prepared) => waiting.push(prepared),
                    Err(error) => return self.drop_session(id, Some(error)),
                }
            }
        }
        // Cannot fail: it was found above.
        let Some(entry) = self.sessions.running.get(&id) else { return };
        let posts: Vec<Option<PumpSender>> = entry
            .pipelines
            .iter()
            .map(|pipeline| match pipeline {
                PipelineState::Running(post) => Some(post.clone()),
                _ => None,
            })
            .collect();
        for prepared in waiting {
            if let Err(error) = self.spawn(id, prepared, &posts) {
                return self.drop_session(id, Some(error));
            }
        }
    }

    fn prepare(&mut self, id: SessionId, index: usize) -> Result<Prepared, Error> {
        let resources = |error: std::io::Error| {
            Error::new(xdfs_proto::base::ErrorKind::Resources, format!("cannot start a pipeline: {error}"))
        };
        let dispatch = Dispatcher::new().map_err(resources)?;
        let (post, mailbox) = MailboxSender::new(bounds::MAILBOX, dispatch.waker());
        let Some(entry) = self.sessions.running.get_mut(&id) else {
            return Err(resources(std::io::ErrorKind::NotFound.into()));
        };
        let pipeline = std::mem::replace(&mut entry.pipelines[index], PipelineState::Running(post.clone()));
        let PipelineState::Idle(idle) = pipeline else {
            return Err(resources(std::io::ErrorKind::AlreadyExists.into()));
        };
        for socket in idle.sockets() {
            self.sessions.idle.remove(&socket);
        }
        let pipeline = idle.into_pipeline(&mut self.dispatch);
        Ok(Prepared { index, dispatch, post, mailbox, pipeline })
    }

    fn spawn(&mut self, id: SessionId, prepared: Prepared, posts: &[Option<PumpSender>]) -> Result<(), Error> {
        let Prepared { index, dispatch, post, mailbox, pipeline } = prepared;
        // Cannot fail: the caller has it.
        let Some(entry) = self.sessions.running.get(&id) else { return Ok(()) };
        let number = index as u8;
        let host = ServerHost {
            session: Arc::clone(&entry.context),
            pipeline: number,
            audit_rate: self.config.limits.audit_rate,
            wanted: Arc::default(),
            operations: BTreeMap::new(),
        };
        let mut siblings = posts.to_vec();
        siblings[index] = None;
        let parts = Parts {
            dispatch,
            host,
            mailbox,
            post,
            siblings,
            blocking: self.blocking.clone(),
            settings: Settings {
                pipeline: PipelineId(number),
                share: QuotaClass { user: Arc::clone(&entry.context.budget), export: 0 },
                disk: self.config.disk,
                retire: entry.pipelines.len() == 1,
            },
        };
        let listener = self.services.listener.clone();
        let mark = Arc::clone(&entry.threads);
        let name = format!("xdfs-pipeline-{index}");
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve(parts, pipeline)));
            let (ending, mailbox) = served.unwrap_or_else(|_| {
                let error = Error::new(xdfs_proto::base::ErrorKind::Resources, "the pipeline failed unexpectedly");
                (Ending::Over(Some(error)), PumpMailbox::closed())
            });
            drop(mark);
            listener.send(ServerMessage::Ended { session: id, pipeline: number, ending, mailbox });
        });
        spawned.map(drop).map_err(|error| {
            Error::new(xdfs_proto::base::ErrorKind::Resources, format!("cannot start a pipeline's thread: {error}"))
        })
    }
}

/// What a pipeline's thread needs to start.
struct Prepared {
    index: usize,
    dispatch: Dispatcher,
    post: PumpSender,
    mailbox: PumpMailbox,
    pipeline: Pipeline<Link>,
}

fn serve(parts: Parts<Dispatcher, ServerHost>, pipeline: Pipeline<Link>) -> (Ending<Link>, PumpMailbox) {
    match Pump::new(parts, pipeline) {
        Ok(pump) => {
            let (ending, _host, mailbox) = pump.run();
            (ending, mailbox)
        }
        Err(error) => {
            let error = Error::new(xdfs_proto::base::ErrorKind::Resources, format!("cannot watch channels: {error}"));
            (Ending::Over(Some(error)), PumpMailbox::closed())
        }
    }
}
