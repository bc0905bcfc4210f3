//! A driver as the suite sees it: how both ends of it are opened, and what it can do.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use xdfs_xio::{Handle, Options, Registry, Server, Stack, Timeouts};

/// Nothing that is waited for takes this long, unless it never comes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a driver can do beside what all can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// Bytes without limits between them.
    Stream,
    /// Messages.
    Messages,
    /// A reader waits for what is not there yet.
    Wait,
    /// The end of what is written is told.
    End,
    /// Each end writes to the other.
    BothWays,
}

/// Opens both ends of a stack.
type Opening = Box<dyn Fn(&Stack, &Options) -> Ends>;

/// What a driver cannot do, and why not.
pub type Lack = (Ability, &'static str);

/// A driver as the suite sees it. What it is not said to lack, it is tested for.
pub struct Subject {
    pub name: &'static str,
    pub is_transform: bool,
    registry: Arc<Registry>,
    stack: String,
    opening: Opening,
    lacks: &'static [Lack],
}

impl Subject {
    /// The driver `name` of `registry`, in that stack.
    pub fn new(
        registry: Arc<Registry>,
        name: &'static str,
        stack: &str,
        lacks: &'static [Lack],
        opening: impl Fn(&Stack, &Options) -> Ends + 'static,
    ) -> Self {
        let is_transform = stack.contains(',');
        Self { name, is_transform, registry, stack: stack.to_owned(), opening: Box::new(opening), lacks }
    }

    pub fn can(&self, ability: Ability) -> bool {
        self.lacks.iter().all(|(lacking, _)| *lacking != ability)
    }

    pub fn empty_stack(&self) -> Stack {
        Stack::of(self.registry.clone())
    }

    pub fn stack(&self) -> Stack {
        self.empty_stack().push_all(&self.stack).unwrap()
    }

    /// Opens both ends.
    pub fn ends(&self, options: &Options) -> Ends {
        (self.opening)(&self.stack(), options)
    }
}

/// Both ends of a connection, which may be one.
pub struct Ends {
    pub writer: Handle,
    reader: OnceLock<Handle>,
    /// Where the reader is opened only when somebody reads.
    open_reader: Box<dyn Fn() -> Handle + Sync>,
    /// The writer is the reader: its end is told by a command.
    is_one: bool,
    kept: Vec<Box<dyn Any + Sync>>,
}

impl Ends {
    /// Two that are open.
    pub fn two(writer: Handle, reader: Handle) -> Self {
        let open_reader = Box::new(|| unreachable!("it is open"));
        Self { writer, reader: reader.into(), open_reader, is_one: false, kept: Vec::new() }
    }

    /// One that reads what it wrote.
    pub fn one(handle: Handle) -> Self {
        Self { is_one: true, ..Self::two(handle.clone(), handle) }
    }

    /// A writer, and how the reader is opened when somebody reads.
    pub fn later(writer: Handle, open_reader: impl Fn() -> Handle + Sync + 'static) -> Self {
        Self { writer, reader: OnceLock::new(), open_reader: Box::new(open_reader), is_one: false, kept: Vec::new() }
    }

    /// The same, with something that lives as long.
    pub fn with(mut self, kept: impl Any + Sync) -> Self {
        self.kept.push(Box::new(kept));
        self
    }

    /// No more is written before what was is read: where the reader is opened only then, the writer ends.
    pub fn settle(&self) {
        if self.reader.get().is_none() {
            self.finish();
        }
    }

    pub fn reader(&self) -> &Handle {
        self.reader.get_or_init(|| (self.open_reader)())
    }

    /// The writer writes no more.
    pub fn finish(&self) {
        if self.is_one {
            self.writer.control(None, "finish_sending", None).unwrap();
        } else {
            self.writer.close().unwrap();
        }
    }
}

pub fn patient() -> Options {
    let time = Some(PATIENCE);
    Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } }
}

/// A client, and what a server accepted.
pub fn connect(client: &Stack, server: &Stack, contact: &str, options: &Options) -> (Handle, Handle) {
    let server = Server::listen(server, contact).unwrap();
    let contact = server.contact().unwrap();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| server.accept(Some(PATIENCE)).unwrap().open(options).unwrap());
        (Handle::open(client, &contact, options).unwrap(), accepting.join().unwrap())
    })
}

/// A server of the stack at a free port, and a client.
pub fn over_loopback(stack: &Stack, options: &Options) -> Ends {
    let (writer, reader) = connect(stack, stack, "127.0.0.1:0", options);
    Ends::two(writer, reader)
}
