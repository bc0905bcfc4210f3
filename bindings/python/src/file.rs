//! A remote file that is open, below Python's own buffers.

use crate::errors::of_error;
use crate::fork::OfProcess;
use crate::wait::blocking;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use xdfs::access::Connection;
use xdfs_client::file::File;
use xdfs_client::{Error, ErrorKind};

/// Most bytes of one read, whatever is asked for: a reader asks again.
const READ_BYTES_MAX: usize = 16 << 20;

/// A remote file that is open.
#[pyclass(frozen, module = "xdfs._xdfs")]
pub(crate) struct RawFile {
    file: OfProcess<Mutex<Option<File>>>,
    path: String,
    /// Ends behind the file.
    _connection: OfProcess<Connection>,
}

/// The error inside of one of the standard library, which a [`File`] as a stream has.
fn inner(error: std::io::Error) -> Error {
    let text = error.to_string();
    match error.into_inner().and_then(|inner| inner.downcast::<Error>().ok()) {
        Some(error) => *error,
        None => Error::new(ErrorKind::OutOfRange, text),
    }
}

impl RawFile {
    pub(crate) fn new(file: File, path: String, connection: OfProcess<Connection>) -> Self {
        Self { file: OfProcess::new(Arc::new(Mutex::new(Some(file)))), path, _connection: connection }
    }

    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut File) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        if self.file.is_inherited() {
            let text = "opened before a fork; open it in the child";
            return Err(PyOSError::new_err((Errno::BADF.raw_os_error(), text, self.path.clone())));
        }
        let file = Arc::clone(&self.file);
        let outcome = blocking(py, move || file.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(work))?;
        let outcome = outcome.ok_or_else(|| PyValueError::new_err("I/O operation on closed file"))?;
        outcome.map_err(|error| of_error(&error, &self.path))
    }
}

#[pymethods]
impl RawFile {
    /// At most `length` bytes at the position; fewer than that only at the end, or of very many.
    fn read<'py>(&self, py: Python<'py>, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, move |file| {
            let mut bytes = vec![0; length.min(READ_BYTES_MAX)];
            let mut done = 0;
            while done < bytes.len() {
                match file.read(&mut bytes[done..]).map_err(inner)? {
                    0 => break,
                    count => done += count,
                }
            }
            bytes.truncate(done);
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes all of `data` at the position.
    fn write(&self, py: Python<'_>, data: &[u8]) -> PyResult<usize> {
        let data = data.to_vec();
        self.with(py, move |file| file.write_all(&data).map(|()| data.len()).map_err(inner))
    }

    /// Moves the position; as `io.RawIOBase.seek`.
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(offset)) => SeekFrom::Start(offset),
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            _ => {
                return Err(PyOSError::new_err((
                    Errno::INVAL.raw_os_error(),
                    "a position before the file",
                    self.path.clone(),
                )));
            }
        };
        self.with(py, move |file| file.seek(to).map_err(inner))
    }

    /// Ranges, each an offset and a length, with few round trips; shorter at the end of the file.
    fn read_ranges<'py>(&self, py: Python<'py>, ranges: Vec<(u64, usize)>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let parts = self.with(py, move |file| file.read_ranges(&ranges))?;
        Ok(parts.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// Writes all of `data` at `offset`; the position stays.
    fn write_at(&self, py: Python<'_>, data: &[u8], offset: u64) -> PyResult<()> {
        let data = data.to_vec();
        self.with(py, move |file| file.write_at(&data, offset))
    }

    /// Its length.
    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| file.length())
    }

    /// Cuts or extends it.
    fn truncate(&self, py: Python<'_>, length: u64) -> PyResult<()> {
        self.with(py, move |file| file.set_len(length))
    }

    /// Waits for the answers to all writes.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        // A child has nothing on its way, and closes what it inherited.
        if self.file.is_inherited() {
            return Ok(());
        }
        self.with(py, |file| file.flush().map_err(inner))
    }

    /// Waits until what was written is on stable storage.
    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.with(py, move |file| if data_only { file.sync_data() } else { file.sync_all() })
    }

    /// Locks the file; waits for it at most this many seconds.
    fn lock(&self, py: Python<'_>, exclusive: bool, seconds: f64) -> PyResult<()> {
        let patience =
            Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.with(py, move |file| file.lock(exclusive, patience))
    }

    /// Ends the lock.
    fn unlock(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |file| file.unlock())
    }

    /// Waits for the answers to all writes, and closes it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.file.is_inherited() {
            return Ok(());
        }
        let file = Arc::clone(&self.file);
        let close = move || match file.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(file) => file.close(),
            None => Ok(()),
        };
        blocking(py, close)?.map_err(|error| of_error(&error, &self.path))
    }
}
