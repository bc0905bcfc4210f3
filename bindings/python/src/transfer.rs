//! Files and ranges that move as a whole: over all channels of the session, with progress, and stopped by
//! Ctrl-C.

use crate::errors::of_error;
use crate::server::shown;
use crate::wait::{TICK, blocking};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use xdfs_client::file::Remote;
use xdfs_client::wire::Wanted;
use xdfs_client::{
    Content, Error, ErrorKind, Existing, GetOptions, Payload, PutOptions, Report, Retry, Target, Transfer, Verify,
};

/// How often a transfer is started again after its session was lost; each continues where the one before
/// it ended.
const STARTS_MAX: usize = 8;

/// How long a transfer that was cancelled may take to end.
const CANCEL_DEADLINE: Duration = Duration::from_secs(3);

/// Ranges on their way at a time.
const RANGES_MAX: usize = 32;

/// The function to call as bytes pass, if there is one.
pub(crate) struct Progress {
    call: Option<Py<PyAny>>,
    told: Option<u64>,
}

impl Progress {
    pub(crate) fn of(call: Option<Py<PyAny>>) -> Self {
        Self { call, told: None }
    }

    /// Tells if there is something new.
    fn tell(&mut self, py: Python<'_>, done: u64, length: Option<u64>) -> PyResult<()> {
        let Some(call) = self.call.as_ref().filter(|_| self.told != Some(done)) else { return Ok(()) };
        self.told = Some(done);
        call.call1(py, (done, length)).map(drop)
    }
}

/// Waits for the outcome without the interpreter's lock; after an exception of a signal or of `progress`
/// the transfer is cancelled.
fn wait(py: Python<'_>, mut transfer: Transfer, progress: &mut Progress) -> PyResult<Result<Report, Error>> {
    loop {
        let outcome;
        (outcome, transfer) = py.detach(move || (transfer.wait_for(TICK), transfer));
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        let done = transfer.moved() + transfer.resumed();
        let told = py.check_signals().and_then(|()| progress.tell(py, done, transfer.length()));
        if let Err(error) = told {
            transfer.cancel();
            py.detach(move || drop(transfer.wait_for(CANCEL_DEADLINE)));
            return Err(error);
        }
    }
}

/// Whether the same may succeed in a new session.
fn may_continue(error: &Error) -> bool {
    error.retry == Retry::Temporary && error.kind != ErrorKind::Locked
}

/// Starts a transfer until one ends otherwise than by the loss of its session. `start` is given what
/// the first one was to replace.
fn complete(
    py: Python<'_>,
    remote: &Arc<Remote>,
    path: &str,
    mut progress: Progress,
    start: impl Fn(&xdfs_client::Session, Option<Vec<u8>>) -> Result<Transfer, Error> + Clone + Send + 'static,
) -> PyResult<u64> {
    let mut base = None;
    let mut left = STARTS_MAX;
    loop {
        left -= 1;
        let (remote, begin, replaced) = (Arc::clone(remote), start.clone(), base.clone());
        let started = blocking(py, move || remote.run(|session, _| begin(session, replaced.clone())))?;
        let outcome = match started {
            Ok(transfer) => {
                let replaces = transfer.replaces();
                base = base.or(replaces);
                wait(py, transfer, &mut progress)?
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(report) => {
                progress.tell(py, report.length, Some(report.length))?;
                return Ok(report.length);
            }
            Err(error) if may_continue(&error) && left > 0 => {}
            Err(error) => return Err(of_error(&error, path)),
        }
    }
}

/// Downloads a file.
pub(crate) fn get(
    py: Python<'_>,
    remote: &Arc<Remote>,
    path: &[u8],
    local: &[u8],
    (keep_existing, durable): (bool, bool),
    progress: Progress,
) -> PyResult<u64> {
    let (path, local) = (path.to_vec(), local.to_vec());
    let text = shown(&path);
    let options = GetOptions { label: local.clone(), durable, resume: true, ..GetOptions::default() };
    complete(py, remote, &text, progress, move |session, _| {
        let existing = if keep_existing { Existing::Keep } else { Existing::Replace };
        session.get(&path, Target::file(&local, existing)?, &options)
    })
}

/// Uploads a file.
pub(crate) fn put(
    py: Python<'_>,
    remote: &Arc<Remote>,
    local: &[u8],
    path: &[u8],
    (keep_existing, durable): (bool, bool),
    progress: Progress,
) -> PyResult<u64> {
    let (path, local) = (path.to_vec(), local.to_vec());
    let text = shown(&path);
    let options = PutOptions { label: local.clone(), keep_existing, durable, resume: true, ..PutOptions::default() };
    complete(py, remote, &text, progress, move |session, base| {
        session.put(Payload::file(&local)?, &path, &PutOptions { base, ..options.clone() })
    })
}

/// Uploads bytes.
pub(crate) fn put_bytes(
    py: Python<'_>,
    remote: &Arc<Remote>,
    path: &[u8],
    data: &[u8],
    keep_existing: bool,
) -> PyResult<()> {
    let (path, data) = (path.to_vec(), data.to_vec());
    let text = shown(&path);
    let options = PutOptions { keep_existing, mode: Some(0o666), ..PutOptions::default() };
    let start = move |session: &xdfs_client::Session, base: Option<Vec<u8>>| {
        session.put(Payload::bytes(data.clone())?, &path, &PutOptions { base, ..options.clone() })
    };
    complete(py, remote, &text, Progress::of(None), start).map(drop)
}

/// A range of a file.
type Range = (Vec<u8>, u64, Option<u64>);

/// A range on its way.
struct Reading {
    index: usize,
    transfer: Transfer,
    content: Content,
}

fn request(session: &xdfs_client::Session, range: &Range, verify: Verify) -> Result<(Transfer, Content), Error> {
    let (path, offset, length) = range;
    let (target, content) = Target::memory();
    let options = GetOptions { offset: *offset, length: *length, verify, ..GetOptions::default() };
    session.get(path, target, &options).map(|transfer| (transfer, content))
}

/// A range that may reach behind the end of its file, which a transfer refuses.
fn clipped(session: &xdfs_client::Session, range: &Range, verify: Verify) -> Result<Vec<u8>, Error> {
    let (path, offset, length) = range;
    let size = session.look(path, Wanted::SIZE)?.size.unwrap_or(0);
    let left = size.saturating_sub(*offset);
    let length = length.map_or(left, |length| length.min(left));
    if length == 0 {
        return Ok(Vec::new());
    }
    let (transfer, content) = request(session, &(path.clone(), *offset, Some(length)), verify)?;
    transfer.wait()?;
    Ok(content.take().unwrap_or_default())
}

fn read_all(session: &xdfs_client::Session, ranges: &[Range], verify: Verify) -> Vec<Result<Vec<u8>, Error>> {
    let mut results: Vec<Result<Vec<u8>, Error>> = Vec::with_capacity(ranges.len());
    results.resize_with(ranges.len(), || Ok(Vec::new()));
    let mut pending: VecDeque<Reading> = VecDeque::new();
    let finish = |reading: Reading, results: &mut Vec<Result<Vec<u8>, Error>>| {
        let Reading { index, transfer, content } = reading;
        results[index] = match transfer.wait() {
            Ok(_) => Ok(content.take().unwrap_or_default()),
            Err(error) if error.kind == ErrorKind::OutOfRange => clipped(session, &ranges[index], verify),
            Err(error) => Err(error),
        };
    };
    for (index, range) in ranges.iter().enumerate() {
        if range.2 == Some(0) {
            continue;
        }
        if pending.len() == RANGES_MAX
            && let Some(first) = pending.pop_front()
        {
            finish(first, &mut results);
        }
        match request(session, range, verify) {
            Ok((transfer, content)) => pending.push_back(Reading { index, transfer, content }),
            Err(error) => results[index] = Err(error),
        }
    }
    for reading in pending {
        finish(reading, &mut results);
    }
    results
}

/// Reads ranges, all on their way at a time.
pub(crate) fn read_many<'py>(
    py: Python<'py>,
    remote: &Arc<Remote>,
    ranges: Vec<Range>,
    tagged: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    // Where each block has a tag it is verified already.
    let verify = if tagged { Verify::None } else { Verify::Hash };
    let (remote, asked) = (Arc::clone(remote), ranges.clone());
    let results = blocking(py, move || {
        let read = remote.run(|session, _| {
            let results = read_all(session, &asked, verify);
            // All of them again, if the session was lost meanwhile.
            match results.iter().find_map(|result| result.as_ref().err().filter(|error| may_continue(error))) {
                Some(error) => Err(error.clone()),
                None => Ok(results),
            }
        });
        read.unwrap_or_else(|error| asked.iter().map(|_| Err(error.clone())).collect())
    })?;
    let to_python = |(result, (path, ..)): (Result<Vec<u8>, Error>, &Range)| match result {
        Ok(bytes) => PyBytes::new(py, &bytes).into_any(),
        Err(error) => of_error(&error, &shown(path)).into_value(py).into_bound(py).into_any(),
    };
    Ok(results.into_iter().zip(&ranges).map(to_python).collect())
}
