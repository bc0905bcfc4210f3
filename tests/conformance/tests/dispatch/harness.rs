//! What the suite needs of an implementation: dispatchers, connected links, a broken connection. And the few words in
//! which the tests are written.

use rustix::net::sockopt;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{
    Body, Completion, Dispatch, Epoll, Faults, HEAD_BYTES, Network, Op, Poll, Sim, SimLink, SocketId,
};
use xdfs_io::transport::{self, Address, Link, TransportOptions};
use xdfs_proto::base::Duration;
use xdfs_xio::{Accepting, Flow, Over, Stack};

/// An implementation under test.
pub(crate) trait Member: Sized {
    type Link: Debug + Send + 'static;
    type Dispatcher: Dispatch<Link = Self::Link>;

    /// Its links hold little and fill up soon, which is what several tests are about.
    fn new() -> Self;

    /// Its links hold some megabytes.
    fn roomy() -> Self;

    fn dispatcher(&self) -> Self::Dispatcher;

    /// A listening link, and a way to it.
    fn listen(&self) -> Self::Link;

    /// Starts connecting to what `listen` last gave out.
    fn connect(&self, listener: &Self::Link) -> Self::Link;

    /// Starts connecting to where nobody listens.
    fn connect_to_nobody(&self) -> Self::Link;

    /// Breaks a connection, without a FIN.
    fn break_off(&self, link: Self::Link);

    /// Whether a link that is dropped always tells its peer of the end. What passes through layers may
    /// have no room for that, and its end is then one without a farewell.
    const TELLS_THE_END: bool = true;

    /// What becomes of an accepted link before it is used.
    fn accepted(&self, link: Self::Link) -> Self::Link {
        link
    }

    /// Two ends of a connection.
    fn pair(&self) -> (Self::Link, Self::Link) {
        let listener = self.listen();
        let mut dispatcher = self.dispatcher();
        let calling = dispatcher.attach(self.connect(&listener), &[]).unwrap();
        let listening = dispatcher.attach(listener, &[]).unwrap();
        dispatcher.submit(Op::Connect { socket: calling });
        dispatcher.submit(Op::Accept { socket: listening });
        let mut accepted = None;
        for _ in 0..2 {
            match next(&mut dispatcher) {
                Completion::Connected { .. } => {}
                Completion::Accepted { link, .. } => accepted = Some(link),
                other => panic!("{other:?}"),
            }
        }
        (dispatcher.detach(calling, &mut Vec::new()).link, self.accepted(accepted.unwrap()))
    }
}

/// Both ends of a connection in one dispatcher, for tests in one thread.
pub(crate) struct Scene<M: Member> {
    pub(crate) implementation: M,
    pub(crate) dispatcher: M::Dispatcher,
}

impl<M: Member> Scene<M> {
    pub(crate) fn new() -> Self {
        let implementation = M::new();
        let dispatcher = implementation.dispatcher();
        Self { implementation, dispatcher }
    }

    /// Two connected sockets.
    pub(crate) fn pair(&mut self) -> (SocketId, SocketId) {
        let (one, other) = self.implementation.pair();
        (self.dispatcher.attach(one, &[]).unwrap(), self.dispatcher.attach(other, &[]).unwrap())
    }

    pub(crate) fn submit(&mut self, op: Op) {
        self.dispatcher.submit(op);
    }

    pub(crate) fn next(&mut self) -> Completion<M::Link> {
        next(&mut self.dispatcher)
    }

    /// Sends and waits until it is sent.
    pub(crate) fn send(&mut self, socket: SocketId, head: Option<[u8; HEAD_BYTES]>, body: Body) -> Option<Buffer> {
        self.submit(Op::Send { socket, head, body });
        match self.next() {
            Completion::Sent { socket: of, buffer, short_by: 0 } if of == socket => buffer,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn head(&mut self, socket: SocketId) -> [u8; HEAD_BYTES] {
        self.submit(Op::Head { socket });
        match self.next() {
            Completion::Head { socket: of, head } if of == socket => head,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn small(&mut self, socket: SocketId, length: usize) -> Vec<u8> {
        self.submit(Op::Small { socket, length });
        match self.next() {
            Completion::Small { socket: of, bytes } if of == socket => bytes,
            other => panic!("{other:?}"),
        }
    }

    /// Fills a new buffer with `length` bytes.
    pub(crate) fn fill(&mut self, socket: SocketId, length: usize) -> Buffer {
        self.submit(Op::Fill { socket, buffer: Buffer::new(length).unwrap(), from: 0, to: length });
        match self.next() {
            Completion::Filled { socket: of, buffer } if of == socket => buffer,
            other => panic!("{other:?}"),
        }
    }

    /// Works until `socket` received `bytes` in all, without a completion.
    pub(crate) fn until_received(&mut self, socket: SocketId, bytes: u64) {
        while self.dispatcher.progress(socket).received < bytes {
            let soon = self.dispatcher.now().after(Duration::from_millis(1));
            assert!(matches!(self.dispatcher.next(Some(soon)).unwrap(), Completion::Deadline));
        }
    }

    /// Nothing completes.
    pub(crate) fn quiet(&mut self) {
        let soon = self.dispatcher.now().after(Duration::from_millis(2));
        match self.dispatcher.next(Some(soon)).unwrap() {
            Completion::Deadline => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The next completion. Ten seconds without one are a failure: nothing here takes long.
pub(crate) fn next<D: Dispatch<Link: Debug>>(dispatcher: &mut D) -> Completion<D::Link> {
    let deadline = dispatcher.now().after(Duration::from_secs(10));
    match dispatcher.next(Some(deadline)).unwrap() {
        Completion::Deadline => panic!("nothing completed in ten seconds"),
        completion => completion,
    }
}

/// A file of those bytes, without a name.
pub(crate) fn file(bytes: &[u8]) -> OwnedFd {
    let file = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut at = 0;
    while at < bytes.len() {
        at += rustix::io::pwrite(&file, &bytes[at..], at as u64).unwrap();
    }
    file
}

/// Bytes that differ at every place of a stream, as far as a test can tell.
pub(crate) fn pattern(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(|place| (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// A head of one byte, over and over.
pub(crate) fn head(byte: u8) -> [u8; HEAD_BYTES] {
    [byte; HEAD_BYTES]
}

fn tcp_listen(options: &TransportOptions) -> Link {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    transport::listen(&any.into(), options).unwrap()
}

fn tcp_to_nobody(options: &TransportOptions) -> Link {
    // A port that was free a moment ago and that a listener holds no more.
    let address: Address = tcp_listen(options).local().unwrap();
    transport::connect(&address, options).unwrap()
}

fn tcp_break_off(link: Link) {
    sockopt::set_socket_linger(&link, Some(Duration::ZERO)).unwrap();
    drop(link);
}

macro_rules! kernel_member {
    ($name:ident, $dispatcher:ty) => {
        pub(crate) struct $name(TransportOptions);

        impl Member for $name {
            type Link = Link;
            type Dispatcher = $dispatcher;

            fn new() -> Self {
                Self(TransportOptions { window: Some(64 * 1024), ..TransportOptions::default() })
            }

            fn roomy() -> Self {
                Self(TransportOptions { window: Some(2 << 20), ..TransportOptions::default() })
            }

            fn dispatcher(&self) -> $dispatcher {
                <$dispatcher>::new().unwrap()
            }

            fn listen(&self) -> Link {
                tcp_listen(&self.0)
            }

            fn connect(&self, listener: &Link) -> Link {
                transport::connect(&listener.local().unwrap(), &self.0).unwrap()
            }

            fn connect_to_nobody(&self) -> Link {
                tcp_to_nobody(&self.0)
            }

            fn break_off(&self, link: Link) {
                tcp_break_off(link);
            }
        }
    };
}

kernel_member!(KernelEpoll, Epoll);
kernel_member!(KernelPoll, Poll);

/// Drivers above the sockets of links, and how they stand on an accepted one.
#[derive(Debug)]
struct Drivers {
    stack: Stack,
    accepts: Option<Mutex<Accepting>>,
}

impl Over for Drivers {
    fn over(&self, socket: Box<dyn Flow>) -> io::Result<Box<dyn Flow>> {
        match &self.accepts {
            Some(accepts) => accepts.lock().unwrap().accept(socket),
            None => Ok(self.stack.over(socket, "127.0.0.1:1")?),
        }
    }
}

/// An implementation over the kernel's sockets, whose bytes pass through drivers.
pub(crate) struct Layered<M> {
    below: M,
    calling: Drivers,
    accepting: Drivers,
}

impl<M: Member<Link = Link>> Layered<M> {
    fn over(below: M) -> Self {
        // Little at a time, late, not when it is ready, and never what the socket carries.
        let stack = Stack::new().push_all("tcp,fault:seed=7,zstd:level=1,fault:seed=8;delay=1ms").unwrap();
        let accepts = Some(Mutex::new(stack.accepting().unwrap()));
        let accepting = Drivers { stack: stack.clone(), accepts };
        Self { below, calling: Drivers { stack, accepts: None }, accepting }
    }
}

impl<M: Member<Link = Link>> Member for Layered<M> {
    const TELLS_THE_END: bool = false;
    type Link = Link;
    type Dispatcher = M::Dispatcher;

    fn new() -> Self {
        Self::over(M::new())
    }

    fn roomy() -> Self {
        Self::over(M::roomy())
    }

    fn dispatcher(&self) -> M::Dispatcher {
        self.below.dispatcher()
    }

    fn listen(&self) -> Link {
        self.below.listen()
    }

    fn connect(&self, listener: &Link) -> Link {
        self.below.connect(listener).layered(&self.calling).unwrap()
    }

    fn connect_to_nobody(&self) -> Link {
        self.below.connect_to_nobody().layered(&self.calling).unwrap()
    }

    fn break_off(&self, link: Link) {
        self.below.break_off(link);
    }

    fn accepted(&self, link: Link) -> Link {
        link.layered(&self.accepting).unwrap()
    }
}

/// The simulated implementation, with a network that delays and shortens.
pub(crate) struct Simulated(Network);

impl Simulated {
    const PORT: u16 = 1;

    pub(crate) fn faults() -> Faults {
        use xdfs_io::dispatch::Chance;
        Faults {
            latency: Duration::from_micros(100),
            jitter: Duration::from_micros(50),
            capacity: 64 * 1024,
            short_receive: Chance::percent(20),
            short_send: Chance::percent(20),
            stall: Chance::percent(1),
            stall_max: Duration::from_micros(500),
            ..Faults::default()
        }
    }
}

impl Member for Simulated {
    type Link = SimLink;
    type Dispatcher = Sim;

    fn new() -> Self {
        Self(Network::new(1, Self::faults()))
    }

    fn roomy() -> Self {
        Self(Network::new(1, Faults { capacity: 2 << 20, ..Faults::default() }))
    }

    fn dispatcher(&self) -> Sim {
        Sim::new(&self.0).unwrap()
    }

    fn listen(&self) -> SimLink {
        self.0.listen(Self::PORT).unwrap()
    }

    fn connect(&self, _listener: &SimLink) -> SimLink {
        self.0.connect(Self::PORT)
    }

    fn connect_to_nobody(&self) -> SimLink {
        self.0.connect(Self::PORT + 1)
    }

    // Not through a dispatcher of its own: time would wait for the other one to look.
    fn pair(&self) -> (SimLink, SimLink) {
        self.0.pair()
    }

    fn break_off(&self, link: SimLink) {
        self.0.cut(&link);
    }
}
