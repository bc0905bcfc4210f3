//! Batches of calls (PATHM-01 to PATHM-07): read, judged call by call, done in their order on a thread of the pool.
//!
//! It must not reach a file but through an [`Authorized`]: every name goes through [`Base::authorise`].

mod change;
mod look;
mod small;

use crate::authorise::{Authorized, Base, Want};
use crate::log::CallLine;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety};
use xdfs_proto::wire::path::{Answer, Attributes, Batch, Call, Entry, Failure, FileType, ReplyWriter, Wanted};
use xdfs_xio::store::Reading;

/// What became of a batch.
#[derive(Debug)]
pub(crate) struct Done {
    /// The payload of the reply.
    pub reply: Vec<u8>,
    /// For the log: the calls that changed something or read a file.
    pub lines: Vec<CallLine>,
    /// How safe what they changed is; none where they were to change nothing.
    pub safety: Option<Safety>,
}

/// What a batch does its calls with.
struct Work<'b> {
    base: &'b Base,
    /// Nobody waits for the rest any more.
    stop: &'b AtomicBool,
    durable: bool,
    /// What came since then nobody of the session may have seen.
    since: (i64, u32),
    /// Directories whose names changed.
    touched: BTreeSet<RelPath>,
    /// What got other attributes, or another length.
    changed: BTreeSet<RelPath>,
    /// A file was put that is not on stable storage.
    loose: bool,
    /// Where small files are read into.
    reading: Reading,
}

/// Why a call failed, as the reply tells it.
fn failure(error: &Error) -> Failure {
    Failure { kind: error.kind, errno: error.errno }
}

/// Does the calls of `batch`, in order, none after `stop` is set, for a session that was opened at `since`; the reply is made in
/// `memory`.
pub(crate) fn execute(
    batch: &Batch<'_>,
    base: &Base,
    since: (i64, u32),
    stop: &AtomicBool,
    memory: Vec<u8>,
) -> Result<Done, Error> {
    let mut writer = room(batch, memory)?;
    let mut lines = Vec::new();
    let mut work = Work {
        base,
        stop,
        durable: batch.durable,
        since,
        touched: BTreeSet::new(),
        changed: BTreeSet::new(),
        loose: false,
        reading: Reading::default(),
    };
    let mut left = batch.calls.as_slice();
    while let Some(call) = left.first() {
        if stop.load(Ordering::Relaxed) {
            if left.len() == batch.calls.len() {
                return Err(Error::new(ErrorKind::Cancelled, "cancelled before it was begun"));
            }
            break;
        }
        let puts = small::group(left, batch.stop);
        if call.changes() {
            work.reading.forget();
        }
        let results = match puts.is_empty() {
            true => vec![work.call(call, &mut writer).map(|()| false)],
            false => work.put(&puts),
        };
        let (done, rest) = left.split_at(results.len());
        left = rest;
        for (call, result) in done.iter().zip(&results) {
            if !puts.is_empty() {
                match result {
                    Ok(_) => writer.answer(&Answer::Done),
                    Err(error) => writer.fail(failure(error)),
                }
            }
            if call.changes() || matches!(call, Call::Get { .. }) {
                lines.push(CallLine::of(call, result.as_ref()));
            }
        }
        if batch.stop && results.iter().any(Result::is_err) {
            break;
        }
    }
    let safety = work.settle();
    let changed = batch.calls.iter().any(Call::changes);
    Ok(Done { reply: writer.finish(safety), lines, safety: changed.then_some(safety) })
}

/// What the list of exports answers: it can be looked at, and nothing else.
pub(crate) fn exports(batch: &Batch<'_>, shown: &[&str]) -> Result<Done, Error> {
    let mut writer = room(batch, Vec::new())?;
    let root = Attributes::of(FileType::Directory);
    for call in &batch.calls {
        match call {
            Call::Stat { path: b"", .. } => writer.answer(&Answer::Attributes(root)),
            Call::List { path: b"", cursor: b"", .. } => {
                let mut page = writer.listing();
                let all = shown.iter().all(|name| page.push(&Entry { name: name.as_bytes(), attributes: root }));
                // A page of 256 KiB has room for more exports than a configuration has; a smaller one says that it is not all.
                page.finish(all, b"");
            }
            Call::Unknown { .. } => writer.fail(Failure { kind: ErrorKind::Unsupported, errno: 0 }),
            _ => writer.fail(Failure { kind: ErrorKind::Refused, errno: 0 }),
        }
    }
    Ok(Done { reply: writer.finish(Safety::Written), lines: Vec::new(), safety: None })
}

/// The reply's writer, where the room is enough for any outcome.
pub(crate) fn room(batch: &Batch<'_>, memory: Vec<u8>) -> Result<ReplyWriter, Error> {
    ReplyWriter::within(memory, batch.calls.len(), batch.room as usize).ok_or_else(|| {
        let text = format!("{} bytes are too little room for the reply to {} calls", batch.room, batch.calls.len());
        Error::new(ErrorKind::LimitExceeded, text)
    })
}

impl Work<'_> {
    /// Does one call and writes its result.
    fn call(&mut self, call: &Call<'_>, writer: &mut ReplyWriter) -> Result<(), Error> {
        let result = match call {
            Call::List { path, wanted, cursor } => return self.list(path, self.told(*wanted), cursor, writer),
            Call::Stat { path, wanted } => return self.stat(path, self.told(*wanted), writer),
            Call::Get { path, wanted, most } => return self.get(path, self.told(*wanted), *most, writer),
            Call::ReadLink { path } => {
                return self.tell(writer, |work| {
                    let at = work.at(path, Want::Read)?;
                    at.store().tree()?.read_symlink(at.path())
                });
            }
            Call::XattrValue { path, name } => {
                return self.tell(writer, |work| {
                    let at = work.at(path, Want::Read)?;
                    at.store().tree()?.xattr(at.path(), name)
                });
            }
            Call::XattrNames { path } => return self.xattr_names(path, writer),
            Call::FileSystem { path } => self.space(path),
            Call::Hash { path, offset, length } => self.hash(path, *offset, *length),
            Call::Unknown { .. } => Err(Error::new(ErrorKind::Unsupported, "no such call")),
            other => self.change(other).map(|()| Answer::Done),
        };
        match result {
            Ok(answer) => {
                writer.answer(&answer);
                Ok(())
            }
            Err(error) => {
                writer.fail(failure(&error));
                Err(error)
            }
        }
    }

    /// A call that tells bytes.
    fn tell(
        &mut self,
        writer: &mut ReplyWriter,
        bytes: impl FnOnce(&mut Self) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        match bytes(self) {
            Ok(bytes) => {
                writer.answer(&Answer::Bytes(&bytes));
                Ok(())
            }
            Err(error) => {
                writer.fail(failure(&error));
                Err(error)
            }
        }
    }

    /// What may be told of what is wanted: who has accounts here is no visitor's business.
    fn told(&self, wanted: Wanted) -> Wanted {
        if self.base.is_visitor() { wanted.without(Wanted::NAMES) } else { wanted }
    }

    fn at(&self, path: &[u8], want: Want) -> Result<Authorized, Error> {
        self.base.authorise(path, want)
    }

    /// A name came or went in the directory that holds `path`.
    fn touched(&mut self, path: &RelPath) {
        if self.durable {
            self.touched.extend(path.parent());
        }
    }

    /// Waits for what changed where that was asked for, and says how safe it is.
    fn settle(&mut self) -> Safety {
        if !self.durable {
            return Safety::Written;
        }
        let (files, directories) = (std::mem::take(&mut self.changed), std::mem::take(&mut self.touched));
        let files = files.is_empty() || self.base.sync_files(&files) == Ok(Safety::Durable);
        let names = directories.iter().all(|path| self.base.sync(path).is_ok());
        if files && names && !self.loose { Safety::Durable } else { Safety::Written }
    }
}
