//! Whose memory bytes are in on their way: a pointer to the caller's own buffer reaches the lowest driver, nothing
//! between them copies or touches the bytes, and a callback gets back the buffer that was given.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use xdfs_xio::{
    Attributes, Below, Buffers, Completed, Contact, Driver, Flow, Handle, Kind, Options, ReadInfo, Registry, Stack,
    WriteInfo,
};

/// Nothing that is waited for takes this long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of one call of the lowest driver, so that operations take several.
const PIECE: usize = 5;

/// Where a slice is, and what was in it when the driver was called.
type Seen = (usize, Vec<u8>);

/// The lowest driver: notes which memory it is given.
#[derive(Clone, Default)]
struct Spy {
    calls: Arc<Mutex<Vec<Vec<Seen>>>>,
    /// It has no descriptor, as a file has none: registered operations run on the pool.
    is_file: bool,
    /// It takes all that it is given.
    takes_all: bool,
}

struct SpyFlow {
    spy: Spy,
    descriptor: OwnedFd,
    received: u8,
}

impl Driver for Spy {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(&self, _: &Below, _: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Flow>> {
        let descriptor = eventfd(1, EventfdFlags::CLOEXEC).map_err(io::Error::from)?;
        Ok(Box::new(SpyFlow { spy: self.clone(), descriptor, received: 0 }))
    }
}

impl Spy {
    fn note(&self, slices: impl Iterator<Item = Seen>) {
        self.calls.lock().unwrap().push(slices.filter(|(_, bytes)| !bytes.is_empty()).collect());
    }

    /// The calls since the last time.
    fn taken(&self) -> Vec<Vec<Seen>> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// Sees that the calls were given these buffers, each call the front of what the ones before it had left.
    #[track_caller]
    fn was_given(&self, buffers: &[(usize, usize)], what: &str) {
        let mut places: Vec<_> = buffers.iter().flat_map(|(start, length)| *start..start + length).collect();
        for call in self.taken() {
            let given: Vec<_> = call.iter().flat_map(|(start, bytes)| *start..start + bytes.len()).collect();
            assert!(!given.is_empty() && places.starts_with(&given), "{what}: not the caller's own: {call:?}");
            places.drain(..PIECE.min(given.len()));
        }
        assert!(places.is_empty(), "{what}: {} bytes were not asked for", places.len());
    }
}

impl Flow for SpyFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        self.spy.note(into.iter().map(|slice| (slice.as_ptr() as usize, slice.to_vec())));
        let mut moved = 0;
        for byte in into.iter_mut().flat_map(|slice| slice.iter_mut()).take(PIECE) {
            self.received += 1;
            *byte = self.received;
            moved += 1;
        }
        Ok(moved)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        self.spy.note(from.iter().map(|slice| (slice.as_ptr() as usize, slice.to_vec())));
        let most = if self.spy.takes_all { usize::MAX } else { PIECE };
        Ok(from.iter().map(|slice| slice.len()).sum::<usize>().min(most))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.spy.is_file).then(|| self.descriptor.as_fd())
    }
}

/// A handle whose stack is the spy, and what stands above it.
fn opened(is_file: bool, above: &str) -> (Spy, Handle) {
    over(Spy { is_file, ..Spy::default() }, above)
}

fn over(spy: Spy, above: &str) -> (Spy, Handle) {
    let mut registry = Registry::built_in();
    registry.add("spy", Arc::new(spy.clone())).unwrap();
    let stack = Stack::of(Arc::new(registry)).push_all(&format!("spy{above}")).unwrap();
    let handle = Handle::open(&stack, "anywhere", &Options::default()).unwrap();
    (spy, handle)
}

fn place(buffer: &[u8]) -> (usize, usize) {
    (buffer.as_ptr() as usize, buffer.len())
}

/// A callback, and where it tells.
fn telling() -> (impl Fn(&Handle, Completed) + Clone + Send + 'static, impl Fn() -> Buffers) {
    let (tell, told) = sync_channel(8);
    let callback = move |_: &Handle, done: Completed| {
        done.result.as_ref().unwrap();
        tell.send(done.buffers).unwrap();
    };
    (callback, move || told.recv_timeout(PATIENCE).unwrap())
}

/// Memory of somebody else's, which does not move when its owner does.
struct Foreign(Box<[u8]>);

impl AsRef<[u8]> for Foreign {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Foreign {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Drivers that leave bytes alone.
const STACKS: [&str; 3] = ["", ",noop", ",noop,rate=1GB/s,verify,noop"];

#[test]
fn a_read_fills_the_callers_own_buffer() {
    for (is_file, above) in [false, true].into_iter().flat_map(|is_file| STACKS.map(|above| (is_file, above))) {
        let (spy, handle) = opened(is_file, above);
        let mut buffer = [99; 12];
        assert_eq!(handle.read(&mut buffer, 12).unwrap().bytes, 12, "{above}");
        assert_eq!(buffer, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "{above}");
        spy.was_given(&[place(&buffer)], above);

        let (mut first, mut second) = ([0; 3], [0; 8]);
        let places = [place(&first), place(&second)];
        let mut slices = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(handle.readv(&mut slices, 11).unwrap().bytes, 11, "{above}");
        spy.was_given(&places, above);
        assert_eq!((first, second[7]), ([13, 14, 15], 23), "{above}");
    }
}

#[test]
fn a_write_is_sent_from_the_callers_own_buffer_which_nobody_touches() {
    for (is_file, above) in [false, true].into_iter().flat_map(|is_file| STACKS.map(|above| (is_file, above))) {
        let (spy, handle) = opened(is_file, above);
        let buffer = *b"what is written";
        assert_eq!(handle.write(&buffer).unwrap(), buffer.len(), "{above}");
        let sent = spy.calls.lock().unwrap().clone();
        assert_eq!(sent[0][0].1, buffer, "{above}: as it is");
        spy.was_given(&[place(&buffer)], above);

        let (first, second) = (*b"one", *b"and another");
        let mut slices = [IoSlice::new(&first), IoSlice::new(&second)];
        assert_eq!(handle.writev(&mut slices, &WriteInfo::default()).unwrap(), 14, "{above}");
        spy.was_given(&[place(&first), place(&second)], above);
    }
}

#[test]
fn a_callback_gets_the_buffer_that_was_given() {
    for (is_file, above) in [false, true].into_iter().flat_map(|is_file| STACKS.map(|above| (is_file, above))) {
        let (spy, handle) = opened(is_file, above);
        let (done, told) = telling();

        let buffer = vec![0; 12];
        let given = place(&buffer);
        handle.register_read(buffer, 12, done.clone()).unwrap();
        let Buffers::One(back) = told() else { panic!("{above}: one was given") };
        assert_eq!(place(&back), given, "{above}");
        assert_eq!((back[0], back[11]), (1, 12), "{above}");
        spy.was_given(&[given], above);

        let buffers = vec![vec![7; 4], Vec::new(), vec![8; 9]];
        let given: Vec<_> = buffers.iter().map(|buffer| place(buffer)).collect();
        handle.register_write(buffers, WriteInfo::default(), done.clone()).unwrap();
        let Buffers::Many(back) = told() else { panic!("{above}: several were given") };
        assert_eq!(back.iter().map(|buffer| place(buffer)).collect::<Vec<_>>(), given, "{above}");
        spy.was_given(&[given[0], given[2]], above);

        // As the C library lends its caller's.
        let foreign = Foreign(vec![0; 6].into());
        let given = place(&foreign.0);
        handle.register_read(Buffers::Lent(vec![Box::new(foreign)]), 6, done.clone()).unwrap();
        let Buffers::Lent(back) = told() else { panic!("{above}: it was lent") };
        assert_eq!(place((*back[0]).as_ref()), given, "{above}");
        assert_eq!((*back[0]).as_ref()[5], 18, "{above}");
        spy.was_given(&[given], above);
    }
}

#[test]
fn a_driver_that_adds_a_head_and_an_end_leaves_the_body_where_it_is() {
    let body = *b"what is written";
    let (start, length) = place(&body);
    for attributes in ["method=PUT;target=/;length=15", "method=PUT;target=/"] {
        let (spy, handle) = over(Spy { takes_all: true, ..Spy::default() }, &format!(",http:{attributes}"));
        assert_eq!(handle.write(&body).unwrap(), length);
        let calls = spy.taken();
        assert!(calls[0][0].1.starts_with(b"PUT / HTTP/1.1\r\n"), "{attributes}: {calls:?}");
        let with_body = calls.iter().find(|call| call.iter().any(|(from, _)| *from == start)).expect(attributes);
        let texts: Vec<_> = with_body.iter().map(|(_, bytes)| &bytes[..]).collect();
        if attributes.contains("length") {
            assert_eq!(texts, [&body[..]], "{attributes}");
        } else {
            assert_eq!(texts, [&b"f\r\n"[..], &body, b"\r\n"], "{attributes}: three vectors of one call");
        }
        let copies = calls.iter().flatten().filter(|(from, bytes)| *from != start && bytes.ends_with(&body)).count();
        assert_eq!(copies, 0, "{attributes}: {calls:?}");
    }
}
