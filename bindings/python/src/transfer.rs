//! Files and ranges that move as a whole: over all channels of the session, with progress, and stopped by
//! Ctrl-C.

use crate::errors::of_error;
use crate::server::shown;
use crate::wait::{TICK, blocking};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::wire::Wanted;
use xdfs_client::{
    Content, Error, ErrorKind, Existing, GetOptions, Payload, PutOptions, Report, Retry, Target, Timestamp, Transfer,
    Verify,
};

/// How often a transfer is started again after its session was lost; each continues where the one before
/// it ended.
const STARTS_MAX: usize = 8;

/// How long a transfer that was cancelled may take to end.
const CANCEL_DEADLINE: Duration = Duration::from_secs(3);

/// Ranges on their way at a time.
const RANGES_MAX: usize = 32;

/// Ranges of one file that are no longer than this are read through a handle, if there are so many of them:
/// opening and closing it costs two round trips.
const SMALL_BYTES_MAX: u64 = 64 << 10;
const SMALL_MIN: usize = 8;

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
        let started = blocking(py, move || remote.run(|session| begin(session, replaced.clone())))?;
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
    // One date for all starts.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let date = Timestamp::new(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos());
    let start = move |session: &xdfs_client::Session, base: Option<Vec<u8>>| {
        session.put(Payload::dated(&data, date)?, &path, &PutOptions { base, ..options.clone() })
    };
    complete(py, remote, &text, Progress::of(None), start).map(drop)
}

/// A range of a file.
type Range = (Vec<u8>, u64, Option<u64>);

/// What a range came to.
type Outcome = Result<Vec<u8>, Error>;

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
fn clipped(session: &xdfs_client::Session, range: &Range, verify: Verify) -> Outcome {
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

/// Reads the ranges with these indices as transfers, several on their way at a time.
fn read_large(session: &xdfs_client::Session, ranges: &[Range], wanted: &[usize], verify: Verify) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(wanted.len());
    let mut pending: VecDeque<Result<Reading, Error>> = VecDeque::new();
    let finish = |reading: Result<Reading, Error>| {
        let Reading { index, transfer, content } = reading?;
        match transfer.wait() {
            Ok(_) => Ok(content.take().unwrap_or_default()),
            Err(error) if error.kind == ErrorKind::OutOfRange => clipped(session, &ranges[index], verify),
            Err(error) => Err(error),
        }
    };
    for &index in wanted {
        if pending.len() == RANGES_MAX
            && let Some(first) = pending.pop_front()
        {
            outcomes.push(finish(first));
        }
        let requested = request(session, &ranges[index], verify);
        pending.push_back(requested.map(|(transfer, content)| Reading { index, transfer, content }));
    }
    outcomes.extend(pending.into_iter().map(finish));
    outcomes
}

/// Reads the short ranges of one file through a handle: hundreds of them take as long as one.
fn read_small(remote: &Arc<Remote>, path: &[u8], ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, Error> {
    let file = File::open(remote, path, &OpenOptions::new().read(true))?;
    let parts = file.read_ranges(ranges)?;
    file.close()?;
    Ok(parts)
}

/// The ranges of each file that are read through a handle, and all others, by index.
fn divided(ranges: &[Range]) -> (BTreeMap<&[u8], Vec<usize>>, Vec<usize>) {
    let mut small: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (index, (path, _, length)) in ranges.iter().enumerate() {
        if length.is_some_and(|length| length <= SMALL_BYTES_MAX) {
            small.entry(path).or_default().push(index);
        }
    }
    small.retain(|_, indices| indices.len() >= SMALL_MIN);
    let taken: BTreeSet<usize> = small.values().flatten().copied().collect();
    let large = (0..ranges.len()).filter(|index| !taken.contains(index)).collect();
    (small, large)
}

fn read_all(remote: &Arc<Remote>, ranges: &[Range], verify: Verify) -> Vec<Outcome> {
    let (small, large) = divided(ranges);
    let mut outcomes: Vec<Outcome> = ranges.iter().map(|_| Ok(Vec::new())).collect();
    for (path, indices) in small {
        // Short: fits.
        let wanted: Vec<_> = indices.iter().map(|&at| (ranges[at].1, ranges[at].2.unwrap_or(0) as usize)).collect();
        match read_small(remote, path, &wanted) {
            Ok(parts) => indices.into_iter().zip(parts).for_each(|(index, part)| outcomes[index] = Ok(part)),
            Err(error) => indices.into_iter().for_each(|index| outcomes[index] = Err(error.clone())),
        }
    }
    // Nothing of nothing is not asked for.
    let large: Vec<usize> = large.into_iter().filter(|&index| ranges[index].2 != Some(0)).collect();
    let read = remote.run(|session| {
        let read = read_large(session, ranges, &large, verify);
        // All of them again, if the session was lost meanwhile.
        match read.iter().find_map(|outcome| outcome.as_ref().err().filter(|error| may_continue(error))) {
            Some(error) => Err(error.clone()),
            None => Ok(read),
        }
    });
    match read {
        Ok(read) => large.into_iter().zip(read).for_each(|(index, outcome)| outcomes[index] = outcome),
        Err(error) => large.into_iter().for_each(|index| outcomes[index] = Err(error.clone())),
    }
    outcomes
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
    let remote = Arc::clone(remote);
    let (outcomes, ranges) = blocking(py, move || (read_all(&remote, &ranges, verify), ranges))?;
    let to_python = |(outcome, (path, ..)): (Outcome, &Range)| match outcome {
        Ok(bytes) => PyBytes::new(py, &bytes).into_any(),
        Err(error) => of_error(&error, &shown(path)).into_value(py).into_bound(py).into_any(),
    };
    Ok(outcomes.into_iter().zip(&ranges).map(to_python).collect())
}
