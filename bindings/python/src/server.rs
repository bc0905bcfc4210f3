//! A server: calls on its names, and what opens its files and moves them.

use crate::errors::{of_error, of_refusal};
use crate::file::RawFile;
use crate::fork::OfProcess;
use crate::transfer::{self, Progress};
use crate::wait::blocking;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use xdfs::access::{Connection, Login, Place};
use xdfs_client::file::{File, OpenOptions};
use xdfs_client::wire::{Answer, Call, FileSystem, NewTime, Wanted};
use xdfs_client::{Batch, Error, ErrorKind, Facts, Level, Timestamp, failed};

/// Most entries of one listing: their names fit into the memory of any machine that asks.
const ENTRIES_MAX: usize = 4_000_000;

/// The attributes that Python programs ask for.
const SHOWN: Wanted = Wanted::MODE
    .and(Wanted::SIZE)
    .and(Wanted::MODIFIED)
    .and(Wanted::ACCESSED)
    .and(Wanted::LINKS)
    .and(Wanted::INODE)
    .and(Wanted::OWNER)
    .and(Wanted::TARGET);

/// Attributes in the order of `xdfs.Stat`: type, mode, size, times in nanoseconds, links, inode, owner,
/// group, target of a link.
type Attributes = (
    u8,
    Option<u32>,
    Option<u64>,
    Option<i128>,
    Option<i128>,
    Option<u64>,
    Option<u128>,
    Option<u32>,
    Option<u32>,
    Option<Vec<u8>>,
);

fn attributes(facts: Facts) -> Attributes {
    (
        facts.kind as u8,
        facts.mode,
        facts.size,
        facts.modified.map(Timestamp::as_nanoseconds),
        facts.accessed.map(Timestamp::as_nanoseconds),
        facts.links,
        facts.inode.map(u128::from_be_bytes),
        facts.owner.map(|(user, _)| user),
        facts.owner.map(|(_, group)| group),
        facts.target,
    )
}

/// A path for messages.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Splits a URL into that of its server and the path on it.
#[pyfunction]
pub(crate) fn parse<'py>(py: Python<'py>, url: &[u8]) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let place = Place::parse(OsStr::from_bytes(url)).map_err(|refusal| of_refusal(refusal, &shown(url)))?;
    Ok((place.server(), PyBytes::new(py, &place.path())))
}

/// A server that this process is connected to; connected again after a loss.
#[pyclass(frozen, module = "xdfs._xdfs")]
pub(crate) struct Server {
    connection: OfProcess<Connection>,
}

impl Server {
    /// Makes a call whose repetition does no harm.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        path: &[u8],
        work: impl Fn(&xdfs_client::Session, &[u8]) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let (remote, owned) = (Arc::clone(&self.connection.remote), path.to_vec());
        let outcome = blocking(py, move || remote.run(|session| work(session, &owned)))?;
        outcome.map_err(|error| of_error(&error, &shown(path)))
    }

    /// Makes a call that changes something: once, in however many sessions it is sent.
    fn change(&self, py: Python<'_>, base: &[u8], call: &Call<'_>, path: &[u8]) -> PyResult<()> {
        let error = |error: Error| of_error(&error, &shown(path));
        let mut batch = Batch::new(base);
        batch.push(call);
        let batch = batch.once().map_err(error)?;
        let remote = Arc::clone(&self.connection.remote);
        let what = shown(path);
        let change = move || match remote.call(&batch)?.read()?.outcomes.first() {
            Some(Ok(Answer::Done)) => Ok(()),
            Some(Err(failure)) => Err(failed(*failure, &what)),
            _ => Err(Error::new(ErrorKind::Protocol, "the server answered something else")),
        };
        blocking(py, change)?.map_err(error)
    }
}

#[pymethods]
impl Server {
    /// Connects and logs in. A lost server is tried again for `timeout` seconds.
    #[staticmethod]
    #[pyo3(signature = (url, *, identity, password_file, ca, state, channels, protection, timeout))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn connect(
        py: Python<'_>,
        url: &[u8],
        identity: Option<PathBuf>,
        password_file: Option<PathBuf>,
        ca: Option<PathBuf>,
        state: Option<PathBuf>,
        channels: Option<u16>,
        protection: Option<&str>,
        timeout: f64,
    ) -> PyResult<Self> {
        let patience = Duration::try_from_secs_f64(timeout)
            .map_err(|error| PyValueError::new_err(format!("timeout={timeout}: {error}")))?;
        let level = match protection {
            None => None,
            Some("private") => Some(Level::Private),
            Some("integrity") => Some(Level::Integrity),
            Some("clear") => Some(Level::Clear),
            Some(other) => {
                let text = format!("protection='{other}': write one of private, integrity, clear");
                return Err(PyValueError::new_err(text));
            }
        };
        if channels == Some(0) {
            return Err(PyValueError::new_err("channels=0: a session has at least one"));
        }
        let place = Place::parse(OsStr::from_bytes(url)).map_err(|refusal| of_refusal(refusal, &shown(url)))?;
        let login = Login { identity, password_file, ca, state, channels, level };
        let connected = blocking(py, move || place.connect(&login, patience))?;
        let connection = connected.map_err(|refusal| of_refusal(refusal, &shown(url)))?;
        Ok(Self { connection: OfProcess::new(Arc::new(connection)) })
    }

    /// Channels that the server granted.
    #[getter]
    fn channels(&self) -> u16 {
        self.connection.channels
    }

    /// The attributes of a name; for a link, those of the link.
    fn stat(&self, py: Python<'_>, path: &[u8]) -> PyResult<Attributes> {
        self.ask(py, path, |session, path| session.look(path, SHOWN)).map(attributes)
    }

    /// The entries of a directory; of the server itself, its exports.
    fn list(&self, py: Python<'_>, path: &[u8]) -> PyResult<Vec<(Vec<u8>, Attributes)>> {
        self.ask(py, path, |session, path| {
            let mut entries = Vec::new();
            for page in session.list(path, SHOWN)? {
                let page = page?;
                let page = page.entries().into_iter().flatten();
                entries.extend(page.map(|entry| (entry.name.to_vec(), attributes(Facts::from(&entry.attributes)))));
                if entries.len() > ENTRIES_MAX {
                    let text = format!("more than {ENTRIES_MAX} names in one directory");
                    return Err(Error::new(ErrorKind::LimitExceeded, text));
                }
            }
            Ok(entries)
        })
    }

    /// Makes a directory; with `parents` also what is missing above it, and one that exists is no error.
    fn make_directory(&self, py: Python<'_>, path: &[u8], mode: u32, parents: bool) -> PyResult<()> {
        self.change(py, path, &Call::MakeDirectory { path: b"", parents, mode }, path)
    }

    /// Removes an empty directory.
    fn remove_directory(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.change(py, path, &Call::RemoveDirectory { path: b"" }, path)
    }

    /// Removes a name that is no directory.
    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.change(py, path, &Call::Unlink { path: b"" }, path)
    }

    /// Renames `path` below `base` to `to` below it.
    fn rename(&self, py: Python<'_>, base: &[u8], path: &[u8], to: &[u8], keep_existing: bool) -> PyResult<()> {
        self.change(py, base, &Call::Rename { path, to, keep_existing }, path)
    }

    /// Makes a symbolic link.
    fn symlink(&self, py: Python<'_>, path: &[u8], target: &[u8]) -> PyResult<()> {
        self.change(py, path, &Call::Symlink { path: b"", target }, path)
    }

    /// Sets permission bits.
    fn set_mode(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<()> {
        self.change(py, path, &Call::SetMode { path: b"", mode }, path)
    }

    /// Sets the modification time, in nanoseconds since 1970; `None` is the server's present time.
    fn set_modified(&self, py: Python<'_>, path: &[u8], nanoseconds: Option<i128>) -> PyResult<()> {
        let modified = match nanoseconds.map(Timestamp::from_nanoseconds) {
            None => NewTime::Now,
            Some(Some(time)) => NewTime::At(time),
            Some(None) => return Err(PyValueError::new_err("the time is out of range")),
        };
        self.change(py, path, &Call::SetTimes { path: b"", modified: Some(modified), accessed: None }, path)
    }

    /// Space of the file system: bytes of a block, in all, free, and free for this user.
    fn space(&self, py: Python<'_>, path: &[u8]) -> PyResult<(u64, u64, u64, u64)> {
        let FileSystem { block, bytes, free, available, .. } =
            self.ask(py, path, |session, path| session.space(path))?;
        Ok((block, bytes, free, available))
    }

    /// The hash of a file as its server reads it, in hexadecimal digits.
    fn hash(&self, py: Python<'_>, path: &[u8]) -> PyResult<String> {
        let digest = self.ask(py, path, |session, path| session.sum(path, 0, None))?;
        Ok(xdfs_client::hexadecimal(&digest))
    }

    /// Opens a file. `how` has the letters of Python's modes without the `b`.
    fn open(&self, py: Python<'_>, path: &[u8], how: &str, mode: u32) -> PyResult<RawFile> {
        let updates = how.contains('+');
        let options = OpenOptions::new().mode(mode);
        let options = match how.trim_end_matches('+') {
            "r" => options.read(true).write(updates),
            "w" => options.write(true).create(true).truncate(true).read(updates),
            "x" => options.write(true).create_new(true).read(updates),
            "a" => options.append(true).create(true).read(updates),
            _ => return Err(PyValueError::new_err(format!("invalid mode: '{how}'"))),
        };
        let (remote, owned) = (Arc::clone(&self.connection.remote), path.to_vec());
        let opened = blocking(py, move || File::open(&remote, owned, &options))?;
        let path = shown(path);
        opened
            .map(|file| RawFile::new(file, path.clone(), self.connection.clone()))
            .map_err(|error| of_error(&error, &path))
    }

    /// Downloads a file to `local`; `progress` is called with the bytes so far and in all.
    fn get(
        &self,
        py: Python<'_>,
        path: &[u8],
        local: PathBuf,
        keep_existing: bool,
        durable: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let progress = Progress::of(progress);
        transfer::get(
            py,
            &self.connection.remote,
            path,
            local.as_os_str().as_bytes(),
            (keep_existing, durable),
            progress,
        )
    }

    /// Uploads the file `local`; `progress` is called with the bytes so far and in all.
    fn put(
        &self,
        py: Python<'_>,
        local: PathBuf,
        path: &[u8],
        keep_existing: bool,
        durable: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let progress = Progress::of(progress);
        transfer::put(
            py,
            &self.connection.remote,
            local.as_os_str().as_bytes(),
            path,
            (keep_existing, durable),
            progress,
        )
    }

    /// Uploads bytes as a file that appears complete.
    fn put_bytes(&self, py: Python<'_>, path: &[u8], data: &[u8], keep_existing: bool) -> PyResult<()> {
        transfer::put_bytes(py, &self.connection.remote, path, data, keep_existing)
    }

    /// Reads ranges of files, all on their way at a time: a path, an offset, and a length or `None`
    /// for the rest. Each result is bytes, or the exception of that range.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(Vec<u8>, u64, Option<u64>)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        // At `clear` blocks have no tag.
        let tagged = self.connection.level != Level::Clear;
        transfer::read_many(py, &self.connection.remote, ranges, tagged)
    }

    /// Ends the session, once the last of its files is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let remote = Arc::clone(&self.connection.remote);
        // What was answered is safe: a connection that breaks here is no error.
        blocking(py, move || drop(remote.close()))
    }
}
