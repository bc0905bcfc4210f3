//! A connection of which one end fails now and then: each operation is seen to fail, and to succeed when it is done
//! again.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use xdfs_xio::{Accepted, Completed, Error, Handle, Stack, WriteInfo};

use super::{PATIENCE, listen, patient, stack};

/// Rounds in which both ends write, at least.
const ROUNDS: usize = 20;
const PIECE: usize = 1000;

/// What was seen to fail: an operation, and whether it was registered.
type Seen = BTreeSet<(&'static str, bool)>;

/// One end.
struct End<'a> {
    handle: Handle,
    /// It is the one that fails.
    faulty: bool,
    stack: &'a str,
}

impl End<'_> {
    /// Something failed, which is to be done again.
    fn note(&self, seen: &mut Seen, what: &'static str, registered: bool, error: &Error) {
        assert!(self.faulty && error.driver() == Some("fault"), "{}: {what}: {error}", self.stack);
        seen.insert((what, registered));
    }

    fn write(&self, mut bytes: &[u8], registered: bool, seen: &mut Seen) {
        while let Err(error) = self.write_once(bytes, registered) {
            self.note(seen, "write", registered, &error);
            bytes = &bytes[error.transferred()..];
        }
    }

    fn write_once(&self, bytes: &[u8], registered: bool) -> Result<(), Error> {
        if !registered {
            return self.handle.write(bytes).map(drop);
        }
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, done: Completed| tell.send(done.result).unwrap();
        self.handle.register_write(bytes.to_vec(), WriteInfo::default(), done)?;
        told.recv_timeout(PATIENCE).unwrap().map(drop)
    }

    fn read(&self, length: usize, registered: bool, seen: &mut Seen) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < length {
            let mut bytes = vec![0; length - all.len()];
            let result = if registered {
                let (tell, told) = sync_channel(1);
                let (wanted, done) = (bytes.len(), move |_: &Handle, done: Completed| tell.send(done).unwrap());
                self.handle.register_read(bytes, wanted, done).unwrap();
                let done = told.recv_timeout(PATIENCE).unwrap();
                bytes = done.buffers.into_one();
                done.result
            } else {
                let wanted = bytes.len();
                self.handle.read(&mut bytes, wanted)
            };
            let moved = match &result {
                Ok(received) => received.bytes,
                Err(error) => {
                    self.note(seen, "read", registered, error);
                    error.transferred()
                }
            };
            all.extend_from_slice(&bytes[..moved]);
        }
        all
    }
}

fn open(stack: &Stack, contact: &str, registered: bool) -> Result<Handle, Error> {
    if !registered {
        return Handle::open(stack, contact, &patient());
    }
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(opened).unwrap();
    let handle = Handle::register_open(stack, contact, &patient(), done)?;
    told.recv_timeout(PATIENCE).unwrap().map(|()| handle)
}

fn open_accepted(accepted: Accepted, registered: bool) -> Result<Handle, Error> {
    if !registered {
        return accepted.open(&patient());
    }
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(opened).unwrap();
    let handle = accepted.register_open(&patient(), done)?;
    told.recv_timeout(PATIENCE).unwrap().map(|()| handle)
}

/// Two ends with these stacks, of which one has `fault`.
pub fn fails_and_goes_on(client: &str, server: &str) {
    let (until, mut seen) = (Instant::now() + PATIENCE, Seen::new());
    let (listener, contact) = listen(server);
    // One stack, whose elements draw one after the other.
    let opening = stack(client);
    let mut registered = false;
    let ends = loop {
        registered = !registered;
        assert!(Instant::now() < until, "{client} to {server}: it never opens, or never fails: {seen:?}");
        let (one, other) = thread::scope(|scope| {
            let accepting = scope.spawn(|| open_accepted(listener.accept(Some(PATIENCE)).unwrap(), registered));
            (open(&opening, &contact, registered), accepting.join().unwrap())
        });
        for (result, text) in [(&one, client), (&other, server)] {
            // The other end hears that it was lost.
            if let (Err(error), true) = (result, text.contains("fault")) {
                assert_eq!(error.driver(), Some("fault"), "{text}: {error}");
                seen.insert(("open", registered));
            }
        }
        if let (Ok(one), Ok(other), 2) = (one, other, seen.len()) {
            break [(one, client), (other, server)];
        }
    };
    let [one, other] = ends.map(|(handle, stack)| End { handle, faulty: stack.contains("fault"), stack });
    for round in 0.. {
        assert!(Instant::now() < until, "{client} to {server}: it never fails: {seen:?}");
        let content: Vec<u8> = (0..PIECE).map(|at| (at * 7 + round) as u8).collect();
        for (from, to) in [(&one, &other), (&other, &one)] {
            from.write(&content, round % 2 == 0, &mut seen);
            assert!(to.read(content.len(), round % 2 == 0, &mut seen) == content, "{client} to {server}");
        }
        if round >= ROUNDS && seen.len() == 6 {
            break;
        }
    }
}
