//! What a pipeline asks of the server: files of exports for its operations, and a place for what it reports.

use crate::export::{Export, resolve};
use crate::log::{Log, LogEvent};
use crate::sessions::{Letter, Metrics};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use xdfs_engine::host::{Host, Job, Opened, Staged};
use xdfs_engine::transfer::Tally;
use xdfs_proto::base::{Error, ErrorKind, OperationId, RelPath, SessionId};
use xdfs_proto::session::{Committed, SessionEvent, SourceFacts};
use xdfs_proto::wire::control::{Grant, Kind};
use xdfs_proto::wire::request::Request;
use xdfs_xio::dispatch::{DescriptorWaker, Wake};
use xdfs_xio::store::{Attributes, Existing, FileKind, StageRequest, Store};

/// See the module.
pub(crate) struct ServerHost {
    pub session: SessionId,
    pub exports: Arc<Vec<Export>>,
    pub log: Log,
    pub metrics: Arc<Metrics>,
    pub letters: SyncSender<Letter>,
    pub waker: DescriptorWaker,
    pub pipeline: u8,
    /// Name, direction and level of the present operations, for the log.
    pub names: BTreeMap<OperationId, (String, bool, &'static str)>,
}

fn facts(attributes: &Attributes) -> SourceFacts {
    SourceFacts {
        kind: match attributes.kind {
            FileKind::Regular => Kind::Regular,
            FileKind::Directory => Kind::Directory,
            FileKind::Other => Kind::Other,
        },
        size: attributes.size,
        mode: attributes.mode & 0o7777,
        modified: Some(attributes.modified),
        version: attributes.version.0.clone(),
    }
}

fn open(store: &dyn Store, path: &RelPath, head_only: bool, offset: u64) -> Result<Opened, Error> {
    if head_only {
        return Ok(Opened { source: None, offset, facts: facts(&store.attributes(path)?) });
    }
    let source = store.open(path)?;
    let modified = source.modified();
    let facts = SourceFacts { kind: Kind::Regular, modified, ..facts(source.attributes()) };
    Ok(Opened { source: Some(source), offset, facts })
}

impl ServerHost {
    fn remember(&mut self, operation: OperationId, request: &Request, upload: bool) {
        self.metrics.live.fetch_add(1, Ordering::Relaxed);
        let name = request.name.escape_ascii().to_string();
        self.names.insert(operation, (name, upload, request.level.name()));
    }

    fn tell(&self, letter: Letter) {
        // The listener's queue is only full when it is gone.
        let _ = self.letters.try_send(letter);
        self.waker.wake();
    }
}

impl Host for ServerHost {
    fn open(&mut self, operation: OperationId, request: &Request) -> Job<Opened> {
        self.remember(operation, request, false);
        let found = resolve(&self.exports, &request.name).map(|(_, export, path)| (Arc::clone(&export.store), path));
        let (head_only, offset) = (request.head_only, request.offset);
        Box::new(move || {
            let (store, path) = found?;
            open(&*store, &path, head_only, offset)
        })
    }

    fn stage(&mut self, operation: OperationId, request: Option<&Request>, _grant: Option<&Grant>) -> Job<Staged> {
        let Some(request) = request.cloned() else {
            return Box::new(|| Err(Error::new(ErrorKind::Protocol, "a server stages uploads only")));
        };
        self.remember(operation, &request, true);
        let exports = Arc::clone(&self.exports);
        Box::new(move || {
            let (_, export, target) = resolve(&exports, &request.name)?;
            if !export.writable {
                let text = format!("export '{}' is read-only", export.name);
                return Err(Error::new(ErrorKind::ReadOnly, text));
            }
            let stage = export.store.stage(&StageRequest {
                target,
                size: request.length,
                existing: if request.keep_existing { Existing::Keep } else { Existing::Replace },
                transfer: request.transfer,
            })?;
            Ok(Staged { stage, mode: request.mode, modified: request.modified })
        })
    }

    fn numbered(&mut self, _ticket: u64, _operation: Result<OperationId, Error>) {}

    fn moved(&mut self, _operation: OperationId, bytes: u64) {
        self.metrics.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn settled(&mut self, operation: OperationId, outcome: Result<Committed, Error>, tally: Tally) {
        self.metrics.operations.fetch_add(1, Ordering::Relaxed);
        let Some((name, upload, level)) = self.names.remove(&operation) else { return };
        self.metrics.live.fetch_sub(1, Ordering::Relaxed);
        (self.log)(&LogEvent::Transfer {
            session: self.session,
            operation: operation.0,
            upload,
            name,
            bytes: tally.bytes,
            level,
            error: outcome.err().map(|error| error.to_string()),
        });
    }

    fn event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::ChannelsWanted { count } => {
                self.tell(Letter::WantChannels { session: self.session, pipeline: self.pipeline, count });
            }
            SessionEvent::ChannelLost { channel, error } => {
                self.metrics.channels.fetch_sub(1, Ordering::Relaxed);
                (self.log)(&LogEvent::ChannelLost {
                    session: self.session,
                    channel: channel.0,
                    error: error.to_string(),
                });
            }
            _ => {}
        }
    }
}
