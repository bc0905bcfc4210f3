//! Handles without a descriptor, whose calls take as long as a disk does: nobody waits for that but who
//! asked for it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use xdfs_xio::{
    Attributes, Below, Completed, Contact, Driver, ErrorKind, Flow, Handle, Kind, Options, ReadInfo, Registry, Server,
    Stack, WriteInfo,
};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file on a disk that works when the test says so.
struct Disk(Mutex<Option<DiskFlow>>);

struct DiskFlow {
    /// A call has begun.
    begun: SyncSender<()>,
    /// It may go on.
    go_on: Receiver<()>,
}

impl Driver for Disk {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(&self, _: &Below, _: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Flow>> {
        Ok(Box::new(self.0.lock().unwrap().take().unwrap()))
    }
}

impl DiskFlow {
    fn work(&self) {
        self.begun.send(()).unwrap();
        self.go_on.recv_timeout(PATIENCE).unwrap();
    }
}

impl Flow for DiskFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        self.work();
        into[0][..4].copy_from_slice(b"disk");
        Ok(4)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        self.work();
        Ok(from[0].len())
    }
}

/// An open file, what tells of its calls, and what lets them go on.
fn disk() -> (Handle, Receiver<()>, SyncSender<()>) {
    let (begun, beginnings) = sync_channel(16);
    let (release, go_on) = sync_channel(16);
    let mut registry = Registry::built_in();
    registry.add("disk", Arc::new(Disk(Mutex::new(Some(DiskFlow { begun, go_on }))))).unwrap();
    let stack = Stack::of(Arc::new(registry)).push_all("disk,noop").unwrap();
    (Handle::open(&stack, "/file", &Options::default()).unwrap(), beginnings, release)
}

fn pair() -> (Handle, Handle) {
    let stack = Stack::new().push("tcp", "").unwrap();
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let client = Handle::open(&stack, &server.contact().unwrap(), &Options::default()).unwrap();
    (client, server.accept(Some(PATIENCE)).unwrap().open(&Options::default()).unwrap())
}

/// Where a callback tells how its operation ended, and what its buffer has.
type Told = Receiver<(Result<usize, ErrorKind>, usize, Vec<u8>)>;

fn telling() -> (impl Fn(&Handle, Completed) + Clone + Send + 'static, Told) {
    let (tell, told) = sync_channel(16);
    let done = move |_: &Handle, done: Completed| {
        let moved = done.result.as_ref().map_or_else(xdfs_xio::Error::transferred, |received| received.bytes);
        let result = done.result.map(|received| received.bytes).map_err(|error| error.kind());
        tell.send((result, moved, done.buffers.into_one())).unwrap();
    };
    (done, told)
}

#[test]
fn callbacks_that_use_a_file_do_not_wait_for_its_disk() {
    let (file, begun, release) = disk();
    let (client, server) = pair();
    let (done, of_file) = telling();
    file.register_read(vec![0; 4], 4, done.clone()).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    let (tell, told) = sync_channel(1);
    let in_callback = {
        let file = file.clone();
        move |_: &Handle, _: Completed| {
            let write = file.register_write(b"later".to_vec(), WriteInfo::default(), |_, _| ()).unwrap();
            assert!(file.cancel(write));
            tell.send(()).unwrap();
        }
    };
    server.register_read(vec![0; 4], 4, in_callback).unwrap();
    client.write(b"fast").unwrap();
    assert_eq!(told.recv_timeout(PATIENCE / 2), Ok(()), "the callback waits for the disk");
    let (done, of_server) = telling();
    server.register_read(vec![0; 4], 4, done).unwrap();
    client.write(b"next").unwrap();
    assert_eq!(of_server.recv_timeout(PATIENCE / 2).unwrap().0, Ok(4), "the reactor waits for the disk");
    release.send(()).unwrap();
    assert_eq!(of_file.recv_timeout(PATIENCE), Ok((Ok(4), 4, b"disk".to_vec())));
}

#[test]
fn what_is_cancelled_while_the_disk_works_keeps_what_it_read() {
    let (file, begun, release) = disk();
    let (done, told) = telling();
    let first = file.register_read(vec![0; 8], 8, done.clone()).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    assert!(file.cancel(first) && !file.cancel(first));
    // Those of other threads wait, and so does a command.
    let (reading, asking) = (file.clone(), file.clone());
    let reading = thread::spawn(move || {
        let mut bytes = [0; 4];
        reading.read(&mut bytes, 0).map(|received| (received.bytes, bytes))
    });
    let asking = thread::spawn(move || asking.control(None, "anything", None).unwrap_err().kind());
    // Both calls at once: the blocking one holds the lock meanwhile, and the callback may have to wait for it.
    (0..2).for_each(|_| release.send(()).unwrap());
    assert_eq!(told.recv_timeout(PATIENCE), Ok((Err(ErrorKind::Cancelled), 4, b"disk\0\0\0\0".to_vec())));
    begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(reading.join().unwrap().unwrap(), (4, *b"disk"));
    assert_eq!(asking.join().unwrap(), ErrorKind::Unsupported);
}

#[test]
fn a_close_waits_until_the_disk_is_done_and_is_told_last() {
    for registered in [false, true] {
        let (file, begun, release) = disk();
        let (tell, told) = sync_channel(4);
        let tell_read = tell.clone();
        let done = move |_: &Handle, done: Completed| tell_read.send(done.result.map(drop)).unwrap();
        file.register_read(vec![0; 8], 8, done).unwrap();
        begun.recv_timeout(PATIENCE).unwrap();
        let closing = file.clone();
        if registered {
            closing.register_close(move |closed| tell.send(closed).unwrap()).unwrap();
        } else {
            thread::spawn(move || tell.send(closing.close()).unwrap());
        }
        while !matches!(file.register_write(vec![1], WriteInfo::default(), |_, _| ()), Err(error) if error.kind() == ErrorKind::Closed)
        {
            thread::yield_now();
        }
        assert!(told.try_recv().is_err(), "its buffer is with the driver");
        release.send(()).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        told.recv_timeout(PATIENCE).unwrap().unwrap();
    }
}
