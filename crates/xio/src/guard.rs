//! What stands around each driver's element: it catches panics, checks what the driver claims, and
//! puts the driver's name on errors. It costs one call an operation and touches no bytes.

use crate::error::{Cause, DriverError, Error, ErrorKind, Result};
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, Room, WriteInfo};

/// An element and its driver's name.
pub(crate) struct Guard {
    flow: Box<dyn Flow>,
    /// It panicked: nothing is known of its state, and it is not called again.
    broken: Cell<bool>,
    name: Arc<str>,
}

impl Guard {
    pub(crate) fn new(flow: Box<dyn Flow>, name: Arc<str>) -> Self {
        Self { flow, broken: Cell::new(false), name }
    }

    fn named(&self, cause: Cause) -> io::Error {
        io::Error::other(DriverError { driver: self.name.to_string(), cause })
    }

    /// What becomes of a call that did not succeed.
    #[cold]
    fn judge<T>(&mut self, outcome: std::thread::Result<io::Error>) -> io::Result<T> {
        match outcome {
            Ok(error) => Err(failed(error, &self.name)),
            Err(panic) => {
                self.broken.set(true);
                Err(self.named(Cause::Broke(format!("it panicked: {}", panic_text(&*panic)))))
            }
        }
    }

    #[cold]
    fn refuse<T>(&self) -> io::Result<T> {
        Err(self.named(Cause::Broke("it broke its contract before and is not called again".to_owned())))
    }

    #[cold]
    fn too_much(&mut self, claimed: usize, asked: usize) -> io::Error {
        self.broken.set(true);
        self.named(Cause::Broke(format!("it claims to have moved {claimed} bytes of {asked}")))
    }

    /// Whoever waits for bytes would ask such an element again and again.
    #[cold]
    fn nothing(&mut self) -> io::Error {
        self.broken.set(true);
        self.named(Cause::Broke("it claims to have received, but neither bytes nor an end".to_owned()))
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Flow) -> io::Result<T>) -> io::Result<T> {
        if self.broken.get() {
            return self.refuse();
        }
        match catch_unwind(AssertUnwindSafe(|| call(&mut *self.flow))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => self.judge(Ok(error)),
            Err(panic) => self.judge(Err(panic)),
        }
    }

    /// Asks for something that cannot fail. A panic is told by the next call that can.
    #[inline]
    fn ask<'a, T>(&'a self, otherwise: T, ask: impl FnOnce(&'a dyn Flow) -> T) -> T {
        if self.broken.get() {
            return otherwise;
        }
        catch_unwind(AssertUnwindSafe(|| ask(&*self.flow))).unwrap_or_else(|_| {
            self.broken.set(true);
            otherwise
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let flow = std::mem::replace(&mut self.flow, Box::new(Gone));
        // Nobody is left to be told of a panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(flow)));
    }
}

/// What is left of an element that was dropped.
struct Gone;

impl Flow for Gone {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn send(&mut self, _: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Err(io::ErrorKind::NotConnected.into())
    }
}

impl Flow for Guard {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let asked = if let [only] = &*into { only.len() } else { into.iter().map(|slice| slice.len()).sum() };
        match self.call(|flow| flow.receive(into, info)) {
            Ok(bytes) if bytes > asked => Err(self.too_much(bytes, asked)),
            Ok(0) if asked > 0 && !info.end && !info.end_of_message => Err(self.nothing()),
            result => result,
        }
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let asked = if let [only] = from { only.len() } else { from.iter().map(|slice| slice.len()).sum() };
        match self.call(|flow| flow.send(from, info)) {
            Ok(bytes) if bytes > asked => Err(self.too_much(bytes, asked)),
            result => result,
        }
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.flow)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.flow)
    }

    fn connected(&mut self) -> io::Result<()> {
        self.call(|flow| flow.connected())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(|flow| flow.flush())
    }

    fn room(&self) -> Option<Room> {
        self.ask(None, |flow| flow.room())
    }

    fn holds(&self) -> bool {
        self.ask(false, |flow| flow.holds())
    }

    fn wants(&self, asked: Interest) -> Interest {
        self.ask(asked, |flow| flow.wants(asked))
    }

    fn deadline(&self) -> Option<Instant> {
        self.ask(None, |flow| flow.deadline())
    }

    fn on_deadline(&mut self) {
        // A panic here is told by the next call.
        let _ = self.call(|flow| {
            flow.on_deadline();
            Ok(())
        });
    }

    fn holds_back(&self) -> bool {
        self.ask(false, |flow| flow.holds_back())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ask(None, |flow| flow.descriptor())
    }

    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ask(None, |flow| flow.sending_descriptor())
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.ask(None, |flow| flow.direct())
    }

    fn moved_directly(&mut self, bytes: u64) {
        let _ = self.call(|flow| {
            flow.moved_directly(bytes);
            Ok(())
        });
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.call(|flow| flow.finish_sending())
    }

    fn ready_to_close(&mut self) -> io::Result<()> {
        self.call(|flow| flow.ready_to_close())
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        let mine = command.driver.as_deref().is_none_or(|driver| driver == &*self.name);
        if mine {
            match self.call(|flow| flow.control(command)) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                result => return result,
            }
        }
        // What it says is left as it is: that nobody knows the command is for the handle to say.
        self.call(|flow| Ok(flow.below_mut().map(|below| below.control(command))))?
            .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }
}

/// The error with the driver's name, unless it is none or a driver below has put its name on it.
pub(crate) fn failed(error: io::Error, driver: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => error,
        _ if error.get_ref().is_some_and(|inner| inner.is::<DriverError>()) => error,
        _ if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => Error::from_io(error).of_driver(driver).into(),
        kind => io::Error::new(kind, DriverError { driver: driver.to_owned(), cause: Cause::Failed(error) }),
    }
}

/// Runs a driver's code, and makes a panic of it an error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Error::new(ErrorKind::Driver, format!("it panicked: {}", panic_text(&*panic)))))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
