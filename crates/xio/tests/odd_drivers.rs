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
    Answer, AttributeInfo, Attributes, Below, Command, Completed, Contact, Driver, ErrorKind, Flow, Handle, Kind,
    Listener, Options, ReadInfo, Registry, Room, Server, Stack, Timeouts, WriteInfo,
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
    /// Its listener cannot be waited for.
    HasNoDescriptor,
}

impl Odd {
    fn may_panic(&self, method: &str) {
        if matches!(self, Self::PanicsIn(odd) if *odd == method) {
            panic!("a bug in {method}");
        }
    }
}

/// A transform that is odd.
struct OddDriver(Odd);

impl Driver for OddDriver {
    fn kind(&self) -> Kind {
        self.0.may_panic("kind");
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        self.0.may_panic("attributes");
        &[]
    }

    fn open(&self, below: &Below, contact: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Flow>> {
        self.0.may_panic("open");
        Ok(Box::new(OddFlow {
            odd: self.0.clone(),
            below: below.open(contact)?,
            again: None,
            due: Some(Instant::now()),
        }))
    }

    fn listen(&self, below: &Below, contact: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Listener>> {
        self.0.may_panic("listen");
        Ok(Box::new(OddListener { odd: self.0.clone(), below: below.listen(contact)? }))
    }
}

struct OddListener {
    odd: Odd,
    below: Box<dyn Listener>,
}

impl Listener for OddListener {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        self.odd.may_panic("accept");
        Ok(Box::new(OddFlow {
            odd: self.odd.clone(),
            below: self.below.accept()?,
            again: None,
            due: Some(Instant::now()),
        }))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.odd.may_panic("listener's descriptor");
        if matches!(self.odd, Odd::HasNoDescriptor) { None } else { self.below.descriptor() }
    }

    fn contact(&self) -> io::Result<String> {
        self.odd.may_panic("contact");
        self.below.contact()
    }
}

impl Drop for OddListener {
    fn drop(&mut self) {
        self.odd.may_panic("listener's drop");
    }
}

struct OddFlow {
    odd: Odd,
    below: Box<dyn Flow>,
    /// When the next flush succeeds.
    again: Option<Instant>,
    due: Option<Instant>,
}

impl Flow for OddFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        self.odd.may_panic("receive");
        match self.odd {
            Odd::NeverDone => Err(io::ErrorKind::Interrupted.into()),
            Odd::Claims(bytes) => Ok(bytes),
            _ => self.below.receive(into, info),
        }
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.odd.may_panic("send");
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
        self.odd.may_panic("holds_back");
        true
    }

    fn connected(&mut self) -> io::Result<()> {
        self.odd.may_panic("connected");
        self.below.connected()
    }

    fn room(&self) -> Option<Room> {
        self.odd.may_panic("room");
        self.below.room()
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.odd.may_panic("direct");
        self.below.direct()
    }

    fn moved_directly(&mut self, bytes: u64) {
        self.odd.may_panic("moved_directly");
        self.below.moved_directly(bytes);
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.odd.may_panic("finish_sending");
        self.below.finish_sending()
    }

    fn ready_to_close(&mut self) -> io::Result<()> {
        self.odd.may_panic("ready_to_close");
        self.below.ready_to_close()
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        self.odd.may_panic("control");
        self.below.control(command)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.odd.may_panic("flush");
        if matches!(self.odd, Odd::Keeps { .. }) && self.again.is_none() {
            self.again = Some(Instant::now());
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.below.flush()
    }

    fn holds(&self) -> bool {
        self.odd.may_panic("holds");
        self.below.holds()
    }

    fn wants(&self, asked: xdfs_xio::Interest) -> xdfs_xio::Interest {
        self.odd.may_panic("wants");
        self.below.wants(asked)
    }

    fn deadline(&self) -> Option<Instant> {
        self.odd.may_panic("deadline");
        // Of one that panics when it is told, a time that is there soon.
        if matches!(self.odd, Odd::PanicsIn("on_deadline")) { self.due } else { self.again }
    }

    fn on_deadline(&mut self) {
        self.odd.may_panic("on_deadline");
        self.below.on_deadline();
    }

    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.odd.may_panic("sending_descriptor");
        self.below.sending_descriptor()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.odd.may_panic("descriptor");
        self.below.descriptor()
    }
}

impl Drop for OddFlow {
    fn drop(&mut self) {
        self.odd.may_panic("drop");
    }
}

fn options(read: Duration) -> Options {
    let timeouts = Timeouts { open: Some(PATIENCE), read: Some(read), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

/// A connection whose first end has the odd driver above `tcp`.
fn pair(odd: &Odd, options: &Options) -> xdfs_xio::Result<(Handle, Handle)> {
    let stack = odd_stack(odd)?;
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

/// A stack of `tcp` and the odd driver.
fn odd_stack(odd: &Odd) -> xdfs_xio::Result<Stack> {
    let mut registry = Registry::built_in();
    registry.add("odd", Arc::new(OddDriver(odd.clone()))).unwrap();
    Stack::of(Arc::new(registry)).push_all("tcp,odd")
}

/// The driver broke its contract, and is named with its stack.
fn is_odd(what: &str, error: &xdfs_xio::Error) {
    let named = (error.kind(), error.driver(), error.stack());
    assert_eq!(named, (ErrorKind::Driver, Some("odd"), Some("tcp,odd")), "{what}: {error}");
}

/// Connections without the odd driver go on.
fn others_go_on(after: &str) {
    let (client, server) = pair(&Odd::PanicsIn("nothing"), &options(PATIENCE)).unwrap();
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap().bytes).unwrap();
    server.register_read(vec![0; 4], 4, done).unwrap();
    client.write(b"fine").unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(4), "after a panic in {after}");
}

#[test]
fn a_panic_in_any_method_stays_with_its_own_handle() {
    let methods = [
        "receive",
        "send",
        "holds_back",
        "holds",
        "wants",
        "deadline",
        "on_deadline",
        "descriptor",
        "connected",
        "sending_descriptor",
        "flush",
        "finish_sending",
        "ready_to_close",
        "control",
        "drop",
    ];
    for method in methods {
        // A read that ends at its time has not received.
        let time = if method == "receive" { PATIENCE } else { SHORT };
        let errors = match pair(&Odd::PanicsIn(method), &options(time)) {
            Err(error) => vec![error],
            Ok((handle, _peer)) => everything(method, &handle),
        };
        let (odd, other): (Vec<_>, Vec<_>) = errors.iter().partition(|error| error.driver().is_some());
        odd.iter().for_each(|error| is_odd(method, error));
        assert!(other.iter().all(|error| error.kind() == ErrorKind::TimedOut), "{method}: {other:?}");
        // Of what panics when it is dropped, nobody is left to hear.
        assert_eq!(odd.is_empty(), method == "drop", "{method}: {errors:?}");
        others_go_on(method);
    }
}

/// Registers all that can be asked for; the errors that are told.
fn everything(method: &str, handle: &Handle) -> Vec<xdfs_xio::Error> {
    let (tell, told) = sync_channel(4);
    let wait = || told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{method}: the reactor is gone"));
    let telling = || {
        let tell = tell.clone();
        move |_: &Handle, done: Completed| tell.send(done.result.map(drop)).unwrap()
    };
    handle.register_read(vec![0; 8], 8, telling()).unwrap();
    let read = wait();
    handle.register_write(vec![0; 8], WriteInfo::default(), telling()).unwrap();
    let write = wait();
    // That nobody knows it is no failure of anybody's.
    let control = handle.control(None, "no_such_command", None).map(drop);
    let control = control.or_else(|error| if error.kind() == ErrorKind::Unsupported { Ok(()) } else { Err(error) });
    let tell = tell.clone();
    handle.register_close(move |closed| tell.send(closed).unwrap()).unwrap();
    [read, write, control, wait()].into_iter().filter_map(Result::err).collect()
}

#[test]
fn a_panic_before_there_is_an_element_is_an_error_of_whoever_asked() {
    for method in ["kind", "attributes"] {
        is_odd(method, &odd_stack(&Odd::PanicsIn(method)).unwrap_err());
        others_go_on(method);
    }
    let stack = odd_stack(&Odd::PanicsIn("open")).unwrap();
    is_odd("open", &Handle::open(&stack, "127.0.0.1:1", &options(SHORT)).unwrap_err());
    let (tell, told) = sync_channel(1);
    let opened = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(opened.unwrap_err()).unwrap();
    let _opening = Handle::register_open(&stack, "127.0.0.1:1", &options(SHORT), opened).unwrap();
    is_odd("open", &told.recv_timeout(PATIENCE).unwrap());
    others_go_on("open");
}

#[test]
fn a_listener_that_breaks_its_contract_is_an_error_and_keeps_nobody_waiting() {
    let panicking = |method| odd_stack(&Odd::PanicsIn(method)).unwrap();
    is_odd("listen", &Server::listen(&panicking("listen"), "127.0.0.1:0").unwrap_err());
    let no_descriptor = ("no descriptor", odd_stack(&Odd::HasNoDescriptor).unwrap());
    let methods = ["accept", "contact", "listener's descriptor"].map(|method| (method, panicking(method)));
    for (method, stack) in methods.into_iter().chain([no_descriptor]) {
        let server = Arc::new(Server::listen(&stack, "127.0.0.1:0").unwrap());
        match server.contact() {
            Err(error) => is_odd(method, &error),
            Ok(_) => assert_ne!(method, "contact"),
        }
        // Without a limit of time; the second finds what the first left.
        let (tell, told) = sync_channel(2);
        let accepting = server.clone();
        thread::spawn(move || (0..2).for_each(|_| tell.send(accepting.accept(None).unwrap_err()).unwrap()));
        for _ in 0..2 {
            is_odd(method, &told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{method}: it waits")));
        }
        server.close();
        others_go_on(method);
    }
    let server = Server::listen(&panicking("listener's drop"), "127.0.0.1:0").unwrap();
    server.close();
    assert_eq!(server.accept(None).unwrap_err().kind(), ErrorKind::Closed);
    others_go_on("the listener's drop");
}

#[test]
fn a_panic_in_what_only_the_layers_above_ask_is_told_by_the_next_call() {
    for method in ["room", "direct", "moved_directly"] {
        let stack = odd_stack(&Odd::PanicsIn(method)).unwrap();
        let mut element = stack.over(Box::new(Silent), "nobody.invalid:1").unwrap();
        element.connected().unwrap();
        assert!(element.room().is_none() && element.direct().is_none());
        element.moved_directly(1);
        let next = element.receive(&mut [IoSliceMut::new(&mut [0; 8])], &mut ReadInfo::default()).unwrap_err();
        let next = xdfs_xio::Error::from(next);
        assert_eq!((next.kind(), next.driver()), (ErrorKind::Driver, Some("odd")), "{method}: {next}");
    }
}

/// An element below others on which nothing ever moves.
struct Silent;

impl Flow for Silent {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send(&mut self, _: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}
