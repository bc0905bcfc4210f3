//! The server's side of a pipeline: files of exports for its operations, and the receiver of its
//! reports.
//!
//! It must open files only through an [`Authorized`] operation.

use crate::authorise::{Authorized, Want};
use crate::batches::file::FileJob;
use crate::batches::path::BatchJob;
use crate::batches::{BatchOwner, BatchTraffic};
use crate::clock::seconds_now;
use crate::files;
use crate::files::leases::{AccessGuard, file_at};
use crate::log::{FirstFailure, LogEvent, LoggedName};
use crate::mailbox::ServerMessage;
use crate::replies::malformed;
use crate::session_context::SessionContext;
use crate::severity::has_left;
use crate::traffic::ExportLoad;
use crate::transfer_slots::TransferSlot;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};
use xdfs_engine::blocking::Slice;
use xdfs_engine::host::{Host, Opened, SlicedJob, Staged, StorageJob};
use xdfs_engine::pace::Pacer;
use xdfs_engine::schedule::QuotaClass;
use xdfs_engine::transfer::TransferStats;
use xdfs_io::store::{Attributes, Base, Existing, Resume, StageRequest};
use xdfs_proto::base::{ChannelId, Error, Level, OperationId};
use xdfs_proto::session::{CallService, Committed, SessionEvent, SourceFacts};
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::path::Batch;
use xdfs_proto::wire::request::Request;
use xdfs_secure::naming;

/// The server's side of a pump: files of exports, and reports to the listener.
pub(crate) struct ServerHost {
    /// The session of the pipeline.
    pub session: Arc<SessionContext>,
    /// Its number in the session.
    pub pipeline: u8,
    /// Bytes per second that the user may add to the audit log.
    pub audit_rate: u64,
    /// Channels that the client wants and that were not reported to the listener yet.
    pub wanted: Arc<AtomicU64>,
    /// The current operations.
    pub operations: BTreeMap<OperationId, OperationRecord>,
}

/// What is kept of a current operation, for its protection and for the log.
#[derive(Debug)]
pub(crate) struct OperationRecord {
    /// What it does.
    work: Work,
    /// The share under which its storage calls run.
    share: QuotaClass,
    /// The limits of bandwidth that hold for its bytes.
    pacer: Arc<Pacer>,
    /// Its export, if it is on one.
    export: Option<Arc<ExportLoad>>,
}

/// What an operation does.
#[derive(Debug)]
enum Work {
    /// It executes calls, which are logged when they are complete.
    Calls,
    /// It transfers a file.
    Transfer(TransferRecord),
}

/// A transfer, which is logged when it is over.
#[derive(Debug)]
struct TransferRecord {
    /// The name of the file, as it was requested.
    name: LoggedName,
    /// Its direction.
    upload: bool,
    /// The lowest level of its bytes.
    level: Level,
    /// While the file is read: no lease that would exclude this is granted.
    access: Arc<OnceLock<AccessGuard>>,
    /// It counts as one of its user's, unless it was refused.
    _slot: Option<TransferSlot>,
}

fn facts(attributes: &Attributes) -> SourceFacts {
    SourceFacts {
        size: attributes.size,
        mode: attributes.mode & 0o7777,
        modified: Some(attributes.modified),
        version: attributes.version.0.clone(),
        ..SourceFacts::default()
    }
}

fn open(file: &Authorized, offset: u64, before: Option<&[u8]>) -> Result<Opened, Error> {
    let source = file.store().open(file.path())?;
    let modified = source.modified();
    let resembles = before.is_some_and(|version| source.may_match(version));
    let facts = SourceFacts { modified, resembles, ..facts(source.attributes()) };
    Ok(Opened { source, offset, facts })
}

impl ServerHost {
    /// Authorises an operation and records it, whatever the result: a refusal is logged like any
    /// other end.
    fn begin(&mut self, operation: OperationId, request: &Request, upload: bool) -> Result<Authorized, Error> {
        let want = if upload { Want::Write { keep: request.keep_existing } } else { Want::Read };
        let session = &*self.session;
        let authority = session.services.authority.now();
        let judged = authority.authorise(&session.principal, &request.name, want, seconds_now());
        let (judged, slot) = match judged.and_then(|at| Ok((at, session.services.transfers.take(&session.budget)?))) {
            Ok((at, slot)) => (Ok(at), Some(slot)),
            Err(error) => (Err(error), None),
        };
        let share = self.share_on(judged.as_ref().ok().map(Authorized::export));
        let floor = judged.as_ref().map_or(Level::Clear, Authorized::floor).max(session.floor);
        session.metrics.live.fetch_add(1, Ordering::Relaxed);
        let name = LoggedName::from(request.name.as_slice());
        let limit = judged.as_ref().ok().map(|file| &file.load().limit);
        let pacer = limit.map_or_else(|| session.rates.arriving(), |limit| session.rates.on(limit));
        // What is refused counts as failed, too.
        let export = authority.load_of(&session.principal, &request.name);
        let level = request.level.max(floor);
        let work = Work::Transfer(TransferRecord { name, upload, level, access: Arc::default(), _slot: slot });
        self.operations.insert(operation, OperationRecord { work, share, pacer, export });
        judged
    }

    /// The share of threads: the user's work on one export, by its number.
    fn share_on(&self, export: Option<u32>) -> QuotaClass {
        // The exports' numbers follow the one of everything else.
        QuotaClass { user: Arc::clone(&self.session.budget), export: export.map_or(0, |number| number + 1) }
    }

    /// Reports to the listener that the client wants `count` more channels. Each pipeline has one
    /// message in flight, which includes what is requested meanwhile: a client that requests
    /// without end fills no queue.
    fn want(&self, count: u16) {
        if count == 0 || self.wanted.fetch_add(count.into(), Ordering::Relaxed) > 0 {
            return;
        }
        let wanted = Arc::clone(&self.wanted);
        let message = ServerMessage::WantChannels { session: self.session.id, pipeline: self.pipeline, wanted };
        if !self.session.services.listener.try_send(message) {
            // Never waits here: the client requests again when it got none.
            self.wanted.store(0, Ordering::Relaxed);
        }
    }

    /// A channel was lost; a session that is `closing` needs it no more.
    fn lost(&self, channel: ChannelId, error: &Error, closing: bool) {
        self.session.metrics.channels.fetch_sub(1, Ordering::Relaxed);
        let (session, channel, left, error) = (self.session.id, channel.0, has_left(error), error.to_string());
        (self.session.services.log)(&LogEvent::ChannelLost { session, channel, error, closing, left });
    }
}

impl Host for ServerHost {
    fn open(&mut self, operation: OperationId, request: &Request) -> StorageJob<Opened> {
        let judged = self.begin(operation, request, false);
        let offset = request.offset;
        let before = request.resume.as_ref().map(|resume| resume.source.clone());
        let files = Arc::clone(&self.session.services.files);
        let access = match self.operations.get(&operation).map(|known| &known.work) {
            Some(Work::Transfer(transfer)) => Arc::clone(&transfer.access),
            Some(Work::Calls) | None => Arc::default(),
        };
        Box::new(move || {
            let file = judged?;
            let reading = files.look_for_long(|| file_at(&file))?;
            let opened = open(&file, offset, before.as_deref())?;
            let _ = access.set(reading);
            Ok(opened)
        })
    }

    fn stage(
        &mut self,
        operation: OperationId,
        request: Option<&Request>,
        _grant: Option<&Grant>,
    ) -> StorageJob<Staged> {
        let Some(request) = request.cloned() else {
            return Box::new(|| Err(Error::internal("a server stages uploads only")));
        };
        let judged = self.begin(operation, &request, true);
        let since = self.session.since;
        // A user's partial file is never resumed by another user.
        let owner = self.session.principal.part_owner();
        let files = Arc::clone(&self.session.services.files);
        Box::new(move || {
            let file = judged?;
            // It gets the name of the file that is there now.
            let replaces = file.existing() != Existing::Keep;
            if replaces {
                files.renamed(|| file_at(&file));
            }
            // A client's ids are not secret: they never lead to another user's part file.
            let transfer = naming::transfer_id(&[b"of", &owner, &request.transfer.0]);
            let (hashed, synced) = (request.hash, request.durable);
            let stage = file.store().stage(&StageRequest {
                target: file.path().clone(),
                size: request.length,
                existing: file.existing().unless_same(since),
                transfer,
                resume: request.resume.map(|resume| Resume { source: resume.source, owner, hashed, since, synced }),
                base: request.base.map(|version| Base { version, modified: request.modified }),
                holes: request.holes,
            })?;
            let stage = match replaces {
                // Somebody may have got a lease while the bytes arrived.
                true => stage.before_name(move || files.renamed(|| file_at(&file))),
                false => stage,
            };
            Ok(Staged { stage, mode: request.mode, modified: request.modified })
        })
    }

    fn execute(
        &mut self,
        operation: OperationId,
        service: CallService,
        batch: Bytes,
        stop: Arc<AtomicBool>,
        memory: Vec<u8>,
    ) -> (QuotaClass, SlicedJob<Vec<u8>>) {
        let session = Arc::clone(&self.session);
        session.metrics.live.fetch_add(1, Ordering::Relaxed);
        let (authority, principal, now) = (session.services.authority.now(), &session.principal, seconds_now());
        let base = match service {
            CallService::Path => {
                Batch::head_of(&batch).map_err(|error| malformed(&error)).and_then(|head| match head.base {
                    b"" => Ok(None),
                    base => authority.base(principal, base, now).map(Some),
                })
            }
            CallService::File => Ok(None),
        };
        let export = match service {
            CallService::Path => {
                base.as_ref().ok().and_then(Option::as_ref).map(|base| (base.export(), Arc::clone(base.load())))
            }
            // Each call is judged when it is executed; here the export is all that counts.
            CallService::File => {
                let file = files::execution::name_of(&batch, &session.files)
                    .and_then(|name| authority.authorise(principal, &name, Want::Read, now));
                file.ok().map(|at| (at.export(), Arc::clone(at.load())))
            }
        };
        let (number, export) = export.unzip();
        let share = self.share_on(number);
        let rates = &session.rates;
        let pacer = export.as_ref().map_or_else(|| rates.arriving(), |export| rates.calls_on(&export.limit));
        let traffic = BatchTraffic::of(&session, export.as_ref(), batch.len());
        let known = OperationRecord { work: Work::Calls, share: share.clone(), pacer, export };
        self.operations.insert(operation, known);
        let (audit_rate, counted) = (self.audit_rate, traffic.clone());
        let whom = BatchOwner { session, authority, operation, audit_rate, traffic: counted, stop, now };
        let reply = move |reply: Poll<Result<Vec<u8>, Error>>| {
            if let Poll::Ready(Ok(reply)) = &reply {
                traffic.moved(false, reply.len());
            }
            reply
        };
        match service {
            CallService::Path => {
                let mut job = BatchJob::new(batch, base, memory, whom);
                (share, Box::new(move |slice: &Slice| reply(job.advance(slice))))
            }
            CallService::File => {
                let mut job = FileJob::new(batch, memory, whom);
                (share, Box::new(move |slice: &Slice| reply(job.advance(slice))))
            }
        }
    }

    fn share(&self, operation: OperationId) -> QuotaClass {
        self.operations.get(&operation).map_or_else(|| self.share_on(None), |known| known.share.clone())
    }

    fn pace(&self, operation: OperationId) -> Option<Arc<Pacer>> {
        let known = self.operations.get(&operation).map(|known| Arc::clone(&known.pacer));
        let pacer = known.unwrap_or_else(|| self.session.rates.arriving());
        pacer.is_limited().then_some(pacer)
    }

    fn pause(&self) -> Duration {
        self.session.services.audit_pace.wait(&self.session.budget, Instant::now())
    }

    fn floor(&self, operation: OperationId) -> Level {
        match self.operations.get(&operation).map(|known| &known.work) {
            Some(Work::Transfer(transfer)) => transfer.level,
            Some(Work::Calls) | None => Level::Private,
        }
    }

    fn numbered(&mut self, _ticket: u64, _operation: Result<OperationId, Error>) {}

    fn moved(&mut self, operation: OperationId, bytes: u64) {
        // Batches are counted where they are executed.
        let Some(known) = self.operations.get(&operation) else { return };
        let upload = matches!(&known.work, Work::Transfer(transfer) if transfer.upload);
        self.session.metrics.traffic.moved(upload, bytes);
        if let Some(export) = &known.export {
            export.traffic.moved(upload, bytes);
        }
    }

    fn settled(&mut self, operation: OperationId, outcome: Result<Committed, Error>, tally: TransferStats) {
        let SessionContext { metrics, services, .. } = &*self.session;
        metrics.operations.fetch_add(1, Ordering::Relaxed);
        // One that never began is not counted.
        let Some(OperationRecord { work, export, .. }) = self.operations.remove(&operation) else { return };
        metrics.live.fetch_sub(1, Ordering::Relaxed);
        let (name, upload, level) = match work {
            // They were logged when they were complete.
            Work::Calls => return,
            // Its file and its slot are given up here.
            Work::Transfer(transfer) => (transfer.name, transfer.upload, transfer.level),
        };
        metrics.traffic.transfer(upload, outcome.is_ok());
        if let Some(export) = export {
            export.traffic.transfer(upload, outcome.is_ok());
        }
        if let Err(error) = &outcome {
            let call = if upload { "upload" } else { "download" };
            let (path, error) = (name.clone(), error.to_string());
            metrics.first_failure.get_or_init(|| FirstFailure { call, path, error });
        }
        let bytes = (services.log)(&LogEvent::Transfer {
            session: self.session.id,
            user: self.session.principal.user.escape_debug().to_string(),
            operation: operation.0,
            upload,
            name,
            bytes: tally.bytes,
            level: level.name(),
            safety: outcome.as_ref().ok().filter(|_| upload).map(|committed| committed.safety),
            unchanged: tally.unchanged,
            error: outcome.err().map(|error| error.to_string()),
        });
        services.audit_pace.charge(&self.session.budget, bytes, self.audit_rate, Instant::now());
    }

    fn event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::ChannelsWanted { count } => {
                self.want(count);
            }
            SessionEvent::ChannelLost { channel, error } => self.lost(channel, &error, false),
            _ => {}
        }
    }

    fn lost_at_end(&mut self, channel: ChannelId, error: Error) {
        self.lost(channel, &error, true);
    }
}
