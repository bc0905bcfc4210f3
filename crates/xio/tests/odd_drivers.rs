//! What the framework does with drivers that are never done, that panic, or that keep what they were
//! given: the handle's own promises hold, and no other handle suffers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use xdfs_xio::{
    Attributes, Below, Completed, Contact, Driver, ErrorKind, Flow, Handle, Kind, Options, ReadInfo, Registry, Server,
    Stack, Timeouts, WriteInfo,
};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(50);

/// A way to be odd.
#[derive(Clone)]
enum Odd {
    /// A call of it is interrupted again and again.
    NeverDone,
    /// Keeps what it is given until the second flush, and counts how often it is given something.
    Keeps { sends: Arc<AtomicUsize> },
    /// Claims to have moved so many bytes, whatever it is asked for.
    Claims(usize),
    /// Panics in this method.
    PanicsIn(&'static str),
}

/// A transform that is odd.
struct OddDriver(Odd);

impl Driver for OddDriver {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn open(&self, below: &Below, contact: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Flow>> {
        Ok(Box::new(OddFlow { odd: self.0.clone(), below: below.open(contact)?, again: None }))
    }
}

struct OddFlow {
    odd: Odd,
    below: Box<dyn Flow>,
    /// When the next flush succeeds.
    again: Option<Instant>,
}

impl OddFlow {
    fn may_panic(&self, method: &str) {
        if matches!(self.odd, Odd::PanicsIn(odd) if odd == method) {
            panic!("a bug in {method}");
        }
    }
}

impl Flow for OddFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        self.may_panic("receive");
        match self.odd {
            Odd::NeverDone => Err(io::ErrorKind::Interrupted.into()),
            Odd::Claims(bytes) => Ok(bytes),
            _ => self.below.receive(into, info),
        }
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.may_panic("send");
        if let Odd::Keeps { sends } = &self.odd {
            sends.fetch_add(1, Ordering::Relaxed);
        }
        if let Odd::Claims(bytes) = self.odd {
            return Ok(bytes);
        }
        self.below.send(from, info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds_back(&self) -> bool {
        self.may_panic("holds_back");
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        if matches!(self.odd, Odd::Keeps { .. }) && self.again.is_none() {
            self.again = Some(Instant::now());
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.below.flush()
    }

    fn holds(&self) -> bool {
        self.may_panic("holds");
        self.below.holds()
    }

    fn wants(&self, asked: xdfs_xio::Interest) -> xdfs_xio::Interest {
        self.may_panic("wants");
        self.below.wants(asked)
    }

    fn deadline(&self) -> Option<Instant> {
        self.may_panic("deadline");
        self.again
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.may_panic("descriptor");
        self.below.descriptor()
    }
}

impl Drop for OddFlow {
    fn drop(&mut self) {
        self.may_panic("drop");
    }
}

fn options(read: Duration) -> Options {
    let timeouts = Timeouts { open: Some(PATIENCE), read: Some(read), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

/// A connection whose first end has the odd driver above `tcp`.
fn pair(odd: &Odd, options: &Options) -> xdfs_xio::Result<(Handle, Handle)> {
    let mut registry = Registry::built_in();
    registry.add("odd", Arc::new(OddDriver(odd.clone()))).unwrap();
    let stack = Stack::of(Arc::new(registry)).push_all("tcp,odd").unwrap();
    let server = Server::listen(&Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0").unwrap();
    let handle = Handle::open(&stack, &server.contact().unwrap(), options)?;
    let peer = server.accept(Some(PATIENCE)).unwrap().open(options).unwrap();
    Ok((handle, peer))
}

#[test]
fn an_operation_ends_in_time_though_its_driver_never_lets_it_wait() {
    let (handle, _peer) = pair(&Odd::NeverDone, &options(SHORT)).unwrap();
    let (tell, told) = sync_channel(4);
    let (reading, tell_read) = (handle.clone(), tell.clone());
    thread::spawn(move || tell_read.send(reading.read(&mut [0; 8], 8).unwrap_err().kind()).unwrap());
    assert_eq!(told.recv_timeout(PATIENCE), Ok(ErrorKind::TimedOut));
    let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap_err().kind()).unwrap();
    handle.register_read(vec![0; 8], 8, done).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(ErrorKind::TimedOut));
}

#[test]
fn others_cancel_what_never_waits() {
    let (handle, _peer) = pair(&Odd::NeverDone, &options(PATIENCE)).unwrap();
    let (tell, told) = sync_channel(1);
    let reading = handle.clone();
    thread::spawn(move || tell.send(reading.read(&mut [0; 8], 8).unwrap_err().kind()).unwrap());
    let until = Instant::now() + PATIENCE / 2;
    while handle.cancel_reads() == 0 {
        assert!(Instant::now() < until, "the read never began");
        thread::yield_now();
    }
    assert_eq!(told.recv_timeout(PATIENCE / 2), Ok(ErrorKind::Cancelled));
}

#[test]
fn an_empty_message_is_sent_once_though_its_flush_has_to_wait() {
    let sends = Arc::new(AtomicUsize::new(0));
    let (handle, _peer) = pair(&Odd::Keeps { sends: sends.clone() }, &options(PATIENCE)).unwrap();
    assert_eq!(handle.write(b"").unwrap(), 0);
    assert_eq!(sends.load(Ordering::Relaxed), 1);
}

#[test]
fn a_claim_that_cannot_be_is_an_error_that_names_the_driver_and_the_stack() {
    let broke = |error: &xdfs_xio::Error, word: &str| {
        let named = (error.kind(), error.driver(), error.stack());
        assert_eq!(named, (ErrorKind::Driver, Some("odd"), Some("tcp,odd")), "{error}");
        assert!(error.to_string().contains(word) && error.transferred() == 0, "{error}");
    };
    for claimed in [9, usize::MAX] {
        let (handle, _peer) = pair(&Odd::Claims(claimed), &options(PATIENCE)).unwrap();
        broke(&handle.read(&mut [0; 8], 8).unwrap_err(), "bytes of 8");
        broke(&handle.write(&[0; 8]).unwrap_err(), "broke its contract before");
        let (handle, _peer) = pair(&Odd::Claims(claimed), &options(PATIENCE)).unwrap();
        broke(&handle.write(&[0; 8]).unwrap_err(), "bytes of 8");
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap_err()).unwrap();
        handle.register_read(vec![0; 8], 8, done).unwrap();
        broke(&told.recv_timeout(PATIENCE).unwrap(), "broke its contract before");
    }
    let (handle, _peer) = pair(&Odd::Claims(0), &options(PATIENCE)).unwrap();
    broke(&handle.read(&mut [0; 8], 8).unwrap_err(), "neither bytes nor an end");
}

#[test]
fn a_panic_in_any_method_stays_with_its_own_handle() {
    for method in ["receive", "send", "holds_back", "holds", "wants", "deadline", "descriptor", "drop"] {
        match pair(&Odd::PanicsIn(method), &options(SHORT)) {
            Err(error) => assert_eq!(error.driver(), Some("odd"), "{method}: {error}"),
            Ok((handle, _peer)) => {
                let (tell, told) = sync_channel(4);
                let tell_write = tell.clone();
                let read = move |_: &Handle, done: Completed| tell.send(done.result.unwrap_err().to_string()).unwrap();
                handle.register_read(vec![0; 8], 8, read).unwrap();
                let error = told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{method}: the reactor is gone"));
                let late = error.contains("timeout");
                assert!(late || error.contains("driver odd"), "{method}: {error}");
                let wrote = move |_: &Handle, done: Completed| {
                    let text = done.result.err().map(|error| error.to_string()).unwrap_or_default();
                    tell_write.send(text).unwrap();
                };
                handle.register_write(vec![0; 8], WriteInfo::default(), wrote).unwrap();
                let error = told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{method}: the reactor is gone"));
                assert!(error.is_empty() || error.contains("driver odd"), "{method}: {error}");
            }
        }
        let (client, server) = pair(&Odd::PanicsIn("nothing"), &options(PATIENCE)).unwrap();
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap().bytes).unwrap();
        server.register_read(vec![0; 4], 4, done).unwrap();
        client.write(b"fine").unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(4), "after a panic in {method}");
    }
}
