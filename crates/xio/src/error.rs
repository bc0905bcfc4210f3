//! The one error of every driver and every call: what kind it is, which driver of which stack it
//! comes from, and how many bytes had moved.

use crate::contact::ContactError;
use std::fmt;
use std::io;

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, the same for all drivers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something that cannot be meant: an unknown driver, a stack without a
    /// transport, a blocking call from a callback.
    Usage,
    /// The contact string is malformed, or of no use to the stack's drivers.
    Contact,
    /// The driver cannot do that.
    Unsupported,
    /// The operation was cancelled.
    Cancelled,
    /// Its time is up.
    TimedOut,
    /// The handle is closed, or is being closed.
    Closed,
    /// Too many operations are outstanding on the handle.
    TooMany,
    /// There is no such file, host or listener.
    NotFound,
    /// It is not allowed.
    Denied,
    /// The peer refuses or ended the connection, or it was lost.
    Lost,
    /// What arrived is not what the driver's protocol allows.
    Protocol,
    /// The driver broke its contract: it panicked, or claims to have moved more than it could.
    Driver,
    /// Anything else; the source says what.
    Other,
}

/// An error of a stack.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    what: String,
    driver: Option<String>,
    stack: Option<String>,
    transferred: usize,
    source: Option<io::Error>,
}

impl Error {
    /// An error that says `what`.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { inner: Box::new(Inner { kind, what, driver: None, stack: None, transferred: 0, source: None }) }
    }

    /// An error of a driver's call.
    pub(crate) fn from_io(error: io::Error) -> Self {
        match error.downcast::<DriverError>() {
            Ok(named) => {
                let mut own = match named.cause {
                    Cause::Failed(error) => Self::from_unnamed(error),
                    Cause::Broke(what) => Self::new(ErrorKind::Driver, what),
                };
                own.inner.driver = Some(named.driver);
                own
            }
            Err(error) => Self::from_unnamed(error),
        }
    }

    fn from_unnamed(error: io::Error) -> Self {
        use io::ErrorKind as Io;
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(error) => {
                let kind = match error.kind() {
                    Io::NotFound | Io::AddrNotAvailable => ErrorKind::NotFound,
                    Io::PermissionDenied => ErrorKind::Denied,
                    Io::InvalidInput => ErrorKind::Usage,
                    Io::InvalidData => ErrorKind::Protocol,
                    Io::Unsupported => ErrorKind::Unsupported,
                    Io::TimedOut => ErrorKind::TimedOut,
                    Io::ConnectionRefused
                    | Io::ConnectionReset
                    | Io::ConnectionAborted
                    | Io::BrokenPipe
                    | Io::NotConnected
                    | Io::HostUnreachable
                    | Io::NetworkUnreachable
                    | Io::UnexpectedEof => ErrorKind::Lost,
                    _ => ErrorKind::Other,
                };
                let mut own = Self::new(kind, error.to_string());
                own.inner.source = Some(error);
                own
            }
        }
    }

    /// The same once more, without what caused it.
    pub(crate) fn again(&self) -> Self {
        let mut again = Self::new(self.inner.kind, self.inner.what.clone());
        again.inner.driver.clone_from(&self.inner.driver);
        again
    }

    /// The same, of that driver, unless it names one.
    pub(crate) fn of_driver(mut self, driver: &str) -> Self {
        self.inner.driver.get_or_insert_with(|| driver.to_owned());
        self
    }

    /// The same, of that stack, unless it names one.
    pub(crate) fn of_stack(mut self, stack: &str) -> Self {
        self.inner.stack.get_or_insert_with(|| stack.to_owned());
        self
    }

    /// The same, after that many bytes.
    pub(crate) fn after(mut self, bytes: usize) -> Self {
        self.inner.transferred = bytes;
        self
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The driver it comes from; none where it comes from the framework.
    pub fn driver(&self) -> Option<&str> {
        self.inner.driver.as_deref()
    }

    /// The stack, bottom first.
    pub fn stack(&self) -> Option<&str> {
        self.inner.stack.as_deref()
    }

    /// Bytes of the operation that had moved before: they are in the reader's buffer, or with the
    /// driver.
    pub fn transferred(&self) -> usize {
        self.inner.transferred
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { what, driver, stack, .. } = &*self.inner;
        // A name that no driver has may be anything.
        let shown = |name: &Option<String>| name.as_ref().map(|name| name.escape_debug().to_string());
        match (shown(driver), shown(stack)) {
            (Some(driver), Some(stack)) if driver != stack => write!(f, "driver {driver} of the stack {stack}: {what}"),
            (Some(driver), _) => write!(f, "driver {driver}: {what}"),
            (None, Some(stack)) => write!(f, "stack {stack}: {what}"),
            (None, None) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| source as _)
    }
}

impl From<ContactError> for Error {
    fn from(error: ContactError) -> Self {
        Self::new(ErrorKind::Contact, format!("the contact string is malformed: {error}"))
    }
}

/// An error of the operating system or of a driver's protocol.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::from_io(error)
    }
}

/// For a driver that opens others inside a call that has an error of the operating system.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// An error with the name of the driver it comes from, on its way up through a stack.
#[derive(Debug)]
pub(crate) struct DriverError {
    pub(crate) driver: String,
    pub(crate) cause: Cause,
}

/// Why a driver's call failed.
#[derive(Debug)]
pub(crate) enum Cause {
    /// It says so.
    Failed(io::Error),
    /// It broke its contract.
    Broke(String),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Failed(error) => write!(f, "driver {}: {error}", self.driver),
            Cause::Broke(what) => write!(f, "driver {}: {what}", self.driver),
        }
    }
}

impl std::error::Error for DriverError {}
