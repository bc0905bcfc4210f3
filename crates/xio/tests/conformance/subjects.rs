//! The drivers of this crate, and those that are loaded.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use tempfile::TempDir;
use xdfs_xio::{Handle, Options, Registry, Server, Stack};

use crate::certificate::tls;
use crate::compiled::loaded;
use crate::grid::Grid;
use crate::subject::{Ability, Ends, Lack, PATIENCE, Subject, connect, over_loopback};
use Ability::{BothWays, End, Messages, Stream as Bytes, Wait};

/// What none of them can.
pub const LACKING: &[Ability] = &[];

/// Those that come as files.
pub const LOADED: &[&str] = &["skeleton", "skeleton_rust", "skeleton_block", "udt_ref"];

const NO_MESSAGES: Lack = (Messages, "it carries bytes without limits between them");
const STREAM: &[Lack] = &[NO_MESSAGES];
const DATAGRAMS: &[Lack] =
    &[(Bytes, "each read has one datagram and not the next"), (End, "nothing tells that no datagram follows")];
const PROGRAM: &[Lack] = &[NO_MESSAGES, (BothWays, "both ends of a program are one handle")];
const FILE: &[Lack] = &[
    NO_MESSAGES,
    (Wait, "a reader at the end of a file is at the end"),
    (BothWays, "what either end writes is the same file"),
];

fn subject(
    name: &'static str,
    stack: &str,
    lacks: &'static [Lack],
    opening: impl Fn(&Stack, &Options) -> Ends + 'static,
) -> Subject {
    Subject::new(registry(), name, stack, lacks, opening)
}

fn registry() -> Arc<Registry> {
    loaded().0
}

/// All drivers.
pub fn subjects() -> Vec<Subject> {
    let over_tcp = |name, stack: &str| subject(name, &format!("tcp,{stack}"), STREAM, over_loopback);
    let client_of_tcp = |writes| subject("skeleton_block", "skeleton_block", STREAM, client_of_tcp(writes));
    let mut all = vec![
        subject("tcp", "tcp", STREAM, over_loopback),
        subject("unix", "unix", STREAM, over_socket),
        subject("udp", "udp", DATAGRAMS, datagrams),
        subject("pipe", "pipe", STREAM, pipes),
        subject("popen", "popen:/bin/cat", PROGRAM, program),
        subject("file", "file:create", FILE, file),
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
        subject("skeleton_block", "skeleton_block", STREAM, over_loopback),
        client_of_tcp(true),
        client_of_tcp(false),
    ];
    if loaded().1 {
        all.push(subject("udt_ref", "udt_ref", STREAM, over_loopback));
    }
    all
}

fn over_socket(stack: &Stack, options: &Options) -> Ends {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = connect(stack, stack, &at(&directory, "socket"), options);
    Ends::two(writer, reader).with(directory)
}

/// A server of `tcp`, and a client of the driver; it writes, or else reads.
fn client_of_tcp(writes: bool) -> impl Fn(&Stack, &Options) -> Ends {
    move |stack, options| {
        let (client, server) = connect(stack, &Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0", options);
        if writes { Ends::two(client, server) } else { Ends::two(server, client) }
    }
}

/// A socket that hears everybody, and one that talks to it.
fn datagrams(stack: &Stack, options: &Options) -> Ends {
    let server = Server::listen(stack, "127.0.0.1:0").unwrap();
    let reader = server.accept(Some(PATIENCE)).unwrap().open(options).unwrap();
    Ends::two(Handle::open(stack, &server.contact().unwrap(), options).unwrap(), reader)
}

/// Two named pipes.
fn pipes(_: &Stack, options: &Options) -> Ends {
    let directory = tempfile::tempdir().unwrap();
    let (there, back) = (fifo(directory.path(), "there"), fifo(directory.path(), "back"));
    let open =
        |attributes: String| Handle::open(&Stack::new().push("pipe", &attributes).unwrap(), "-", options).unwrap();
    let (writer, reader) = thread::scope(|scope| {
        let reader = scope.spawn(|| open(format!("input={there};output={back}")));
        (open(format!("output={there};input={back}")), reader.join().unwrap())
    });
    Ends::two(writer, reader).with(directory)
}

/// A program that gives back what it gets.
fn program(stack: &Stack, options: &Options) -> Ends {
    Ends::one(Handle::open(stack, "/bin/cat", options).unwrap())
}

/// A file that is opened twice.
fn file(stack: &Stack, options: &Options) -> Ends {
    let directory = tempfile::tempdir().unwrap();
    let open = || Handle::open(stack, &at(&directory, "file"), options).unwrap();
    Ends::two(open(), open()).with(directory)
}

fn at(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).to_str().unwrap().to_owned()
}

fn fifo(directory: &Path, name: &str) -> String {
    let path = directory.join(name);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    path.to_str().unwrap().to_owned()
}
