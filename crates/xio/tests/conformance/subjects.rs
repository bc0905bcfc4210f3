//! The drivers, each with how both ends of it are opened and what it can do.

use std::any::Any;
use std::path::Path;
use std::thread;
use std::time::Duration;

use xdfs_xio::{Handle, Options, Server, Stack, Timeouts};

use crate::certificate::tls;
use crate::compiled::skeletons;
use crate::grid::Grid;

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

use Ability::{BothWays, End, Messages, Stream as Bytes, Wait};

/// How the two ends come about.
#[derive(Clone, Copy)]
enum Opening {
    /// A server at that contact, with `@` for a scratch directory, and a client.
    Connect(&'static str),
    /// A server of `tcp`, and a client of the driver; it writes, or else reads.
    Client { writes: bool },
    /// A socket that hears everybody, and one that talks to it.
    Datagrams,
    /// Two named pipes.
    Pipes,
    /// A program that gives back what it gets.
    Program,
    /// A file that is opened twice.
    File,
}

/// A driver as the suite sees it.
pub struct Subject {
    pub name: &'static str,
    pub is_transform: bool,
    stack: String,
    opening: Opening,
    abilities: &'static [Ability],
}

/// Both ends of a connection, which may be one.
pub struct Ends {
    pub writer: Handle,
    pub reader: Handle,
    /// The writer is the reader: its end is told by a command.
    is_one: bool,
    _kept: Box<dyn Any + Sync>,
}

impl Ends {
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

/// All drivers.
pub fn subjects() -> Vec<Subject> {
    const STREAM: &[Ability] = &[Bytes, Wait, End, BothWays];
    let subject = |name, stack: &str, opening, abilities| {
        let is_transform = stack.contains(',');
        Subject { name, is_transform, stack: stack.to_owned(), opening, abilities }
    };
    let over_tcp = |name, stack: &str| subject(name, &format!("tcp,{stack}"), Opening::Connect("127.0.0.1:0"), STREAM);
    vec![
        subject("tcp", "tcp", Opening::Connect("127.0.0.1:0"), STREAM),
        subject("unix", "unix", Opening::Connect("@/socket"), STREAM),
        subject("udp", "udp", Opening::Datagrams, &[Messages, Wait]),
        subject("pipe", "pipe", Opening::Pipes, STREAM),
        subject("popen", "popen:/bin/cat", Opening::Program, &[Bytes, Wait, End]),
        subject("file", "file:create", Opening::File, &[Bytes, End]),
        over_tcp("noop", "noop"),
        over_tcp("rate", "rate=1GB/s"),
        over_tcp("fault", "fault:seed=1;blocked=300;short=300;late=300"),
        over_tcp("verify", "fault:seed=2;blocked=300;short=300;late=300,verify"),
        over_tcp("bounce", "bounce=700"),
        over_tcp("op", "op"),
        over_tcp("queue", "queue=5000"),
        over_tcp("telnet", "telnet"),
        over_tcp("ordering", "ordering"),
        over_tcp("trace", "trace=/dev/null"),
        over_tcp("zstd", "zstd"),
        over_tcp("http", "http=POST"),
        over_tcp("tls", tls()),
        over_tcp("gsi", &Grid::of_process().gsi("credential=@host")),
        // Those that are loaded.
        over_tcp("skeleton", "skeleton=7"),
        over_tcp("skeleton_rust", "skeleton_rust=7"),
        subject("skeleton_block", "skeleton_block", Opening::Connect("127.0.0.1:0"), STREAM),
        subject("skeleton_block", "skeleton_block", Opening::Client { writes: true }, STREAM),
        subject("skeleton_block", "skeleton_block", Opening::Client { writes: false }, STREAM),
    ]
}

impl Subject {
    pub fn can(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }

    pub fn stack(&self) -> Stack {
        Stack::of(skeletons()).push_all(&self.stack).unwrap()
    }

    /// Opens both ends.
    pub fn ends(&self, options: &Options) -> Ends {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (writer, reader, is_one) = match self.opening {
            Opening::Connect(contact) => {
                let (writer, reader) = connect(&self.stack(), &self.stack(), &contact.replace("@/", &at("")), options);
                (writer, reader, false)
            }
            Opening::Client { writes } => {
                let (client, server) =
                    connect(&self.stack(), &Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0", options);
                if writes { (client, server, false) } else { (server, client, false) }
            }
            Opening::Datagrams => {
                let server = Server::listen(&self.stack(), "127.0.0.1:0").unwrap();
                let reader = server.accept(Some(PATIENCE)).unwrap().open(options).unwrap();
                (Handle::open(&self.stack(), &server.contact().unwrap(), options).unwrap(), reader, false)
            }
            Opening::Pipes => {
                let (there, back) = (fifo(directory.path(), "there"), fifo(directory.path(), "back"));
                let open = |attributes: String| {
                    Handle::open(&Stack::new().push("pipe", &attributes).unwrap(), "-", options).unwrap()
                };
                thread::scope(|scope| {
                    let reader = scope.spawn(|| open(format!("input={there};output={back}")));
                    (open(format!("output={there};input={back}")), reader.join().unwrap(), false)
                })
            }
            Opening::Program => {
                let program = Handle::open(&self.stack(), "/bin/cat", options).unwrap();
                (program.clone(), program, true)
            }
            Opening::File => {
                let open = || Handle::open(&self.stack(), &at("file"), options).unwrap();
                (open(), open(), false)
            }
        };
        Ends { writer, reader, is_one, _kept: Box::new(directory) }
    }
}

/// A client and what a server accepted.
fn connect(client: &Stack, server: &Stack, contact: &str, options: &Options) -> (Handle, Handle) {
    let server = Server::listen(server, contact).unwrap();
    let contact = server.contact().unwrap();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| server.accept(Some(PATIENCE)).unwrap().open(options).unwrap());
        (Handle::open(client, &contact, options).unwrap(), accepting.join().unwrap())
    })
}

fn fifo(directory: &Path, name: &str) -> String {
    let path = directory.join(name);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    path.to_str().unwrap().to_owned()
}
