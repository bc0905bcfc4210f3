//! The receiving end: the connections of one transfer, as they come and go, and the listener whose
//! connections they are.

use super::watch::Watch;
use crate::mode_e::{BlockError, HEAD_BYTES, Head, STREAMS_MAX};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use xdfs_xio::{Flow, Interest, Listener, ReadInfo, WriteInfo};

/// The number of the listener among what a transfer watches; connections have those from 0 on.
const LISTENER: u64 = u64::MAX;
/// Heads that one call reads: a peer that sends blocks without bytes stops nobody.
const HEADS_PER_CALL: usize = 64;

/// The listener below, and who may accept from it: the driver's listener, or the transfer that is
/// under way.
pub(super) struct Gate {
    listener: Mutex<(Box<dyn Listener>, Accepts)>,
    watch: Watch,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Accepts {
    Transfers,
    Connections,
}

type Held<'a> = MutexGuard<'a, (Box<dyn Listener>, Accepts)>;

impl Gate {
    pub(super) fn new(listener: Box<dyn Listener>) -> io::Result<Self> {
        let watch = Watch::new()?;
        watch.add(LISTENER, listener.descriptor())?;
        Ok(Self { listener: Mutex::new((listener, Accepts::Transfers)), watch })
    }

    fn lock(&self) -> Held<'_> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The passive end.
pub(super) struct Listening {
    gate: Arc<Gate>,
}

impl Listening {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }
}

impl Listener for Listening {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        // What changes from here on wakes the waiter again.
        self.gate.watch.changed()?;
        let mut held = self.gate.lock();
        if held.1 == Accepts::Connections {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let first = held.0.accept()?;
        let receiver = Receiver::new(Arc::clone(&self.gate), &held, first)?;
        held.1 = Accepts::Connections;
        Ok(Box::new(receiver))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.gate.watch.as_fd())
    }

    fn contact(&self) -> io::Result<String> {
        self.gate.lock().0.contact()
    }
}

/// What comes next on a connection.
enum Next {
    /// Nothing yet: it is not open.
    Opening,
    /// The rest of a head, of which so many bytes are there.
    Head([u8; HEAD_BYTES], usize),
    /// Bytes of a block.
    Data { offset: u64, left: u64, last: bool },
    /// Nothing: its end was marked.
    Nothing,
}

impl Next {
    const HEAD: Self = Self::Head([0; HEAD_BYTES], 0);

    fn after_block(last: bool) -> Self {
        if last { Self::Nothing } else { Self::HEAD }
    }
}

/// A connection.
struct Stream {
    flow: Box<dyn Flow>,
    next: Next,
    /// It may have something: it has not said `WouldBlock` since its last change.
    is_ready: bool,
}

/// An element that receives.
pub(super) struct Receiver {
    gate: Arc<Gate>,
    watch: Watch,
    streams: Vec<Stream>,
    /// The connection that is tried first.
    first: usize,
    /// How many connections end, once that was said, and how many have.
    ends: Option<u64>,
    ended: u64,
}

fn refused(error: BlockError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Receiver {
    fn new(gate: Arc<Gate>, held: &Held<'_>, first: Box<dyn Flow>) -> io::Result<Self> {
        let watch = Watch::new()?;
        watch.add(LISTENER, held.0.descriptor())?;
        let mut receiver = Self { gate, watch, streams: Vec::new(), first: 0, ends: None, ended: 0 };
        receiver.add(first)?;
        Ok(receiver)
    }

    fn add(&mut self, flow: Box<dyn Flow>) -> io::Result<()> {
        if self.streams.len() >= usize::from(STREAMS_MAX) {
            return Err(refused(BlockError::Connections(STREAMS_MAX)));
        }
        self.watch.add(self.streams.len() as u64, flow.descriptor())?;
        self.streams.push(Stream { flow, next: Next::Opening, is_ready: true });
        Ok(())
    }

    /// Learns what has changed, and takes further connections.
    fn look(&mut self) -> io::Result<()> {
        for number in self.watch.changed()? {
            if let Some(stream) = usize::try_from(number).ok().and_then(|at| self.streams.get_mut(at)) {
                stream.is_ready = true;
                continue;
            }
            loop {
                let accepted = self.gate.lock().0.accept();
                match accepted {
                    Ok(flow) => self.add(flow)?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ends == Some(self.ended)
    }

    /// A head is complete.
    fn on_head(&mut self, at: usize, head: Head) -> Result<(), BlockError> {
        self.streams[at].next = match head {
            Head::Data { count: 0, last, .. } => Next::after_block(last),
            Head::Data { count, offset, last } => {
                offset.checked_add(count).ok_or(BlockError::Outside { count, offset })?;
                Next::Data { offset, left: count, last }
            }
            Head::End => Next::Nothing,
            Head::File { ends, last } => {
                if !(1..=u64::from(STREAMS_MAX)).contains(&ends) {
                    return Err(BlockError::Ends(ends));
                }
                if self.ends.replace(ends).is_some() {
                    return Err(BlockError::EndTwice);
                }
                Next::after_block(last)
            }
        };
        self.count_end(at)
    }

    /// Counts the end of a connection that has just been marked.
    fn count_end(&mut self, at: usize) -> Result<(), BlockError> {
        self.ended += u64::from(matches!(self.streams[at].next, Next::Nothing));
        match self.ends {
            Some(ends) if self.ended > ends => Err(BlockError::MoreEnds(ends)),
            _ => Ok(()),
        }
    }

    /// Receives from one connection; `None` if it has no file bytes now.
    fn receive_one(&mut self, at: usize, into: &mut [u8], heads: &mut usize) -> io::Result<Option<(u64, usize)>> {
        loop {
            let stream = &mut self.streams[at];
            let mut info = ReadInfo::default();
            match &mut stream.next {
                Next::Opening => {
                    stream.flow.connected()?;
                    stream.next = Next::HEAD;
                }
                Next::Nothing => return Err(io::ErrorKind::WouldBlock.into()),
                Next::Head(bytes, have) => {
                    let got = stream.flow.receive(&mut [IoSliceMut::new(&mut bytes[*have..])], &mut info)?;
                    *have += got;
                    if *have < HEAD_BYTES {
                        match (got, info.end, *have) {
                            // Whoever connects and says nothing is no part of the transfer.
                            (0, true, 0) => stream.next = Next::Nothing,
                            (0, true, _) => return Err(refused(BlockError::Cut)),
                            (0, false, _) => return Err(io::ErrorKind::WouldBlock.into()),
                            _ => {}
                        }
                        continue;
                    }
                    let head = Head::decode(bytes).map_err(refused)?;
                    self.on_head(at, head).map_err(refused)?;
                    *heads += 1;
                    if *heads >= HEADS_PER_CALL {
                        return Ok(None);
                    }
                }
                Next::Data { offset, left, last } => {
                    let room = usize::try_from(*left).map_or(into.len(), |left| left.min(into.len()));
                    let got = stream.flow.receive(&mut [IoSliceMut::new(&mut into[..room])], &mut info)?;
                    if got == 0 {
                        let cut = if info.end { refused(BlockError::Cut) } else { io::ErrorKind::WouldBlock.into() };
                        return Err(cut);
                    }
                    let (place, last) = (*offset, *last);
                    (*offset, *left) = (place + got as u64, *left - got as u64);
                    if *left == 0 {
                        stream.next = Next::after_block(last);
                        self.count_end(at).map_err(refused)?;
                    }
                    return Ok(Some((place, got)));
                }
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut held = self.gate.lock();
        if let Some(descriptor) = held.0.descriptor() {
            self.watch.remove(descriptor);
            // Who has connected meanwhile begins the next transfer: the waiter hears of it again.
            self.gate.watch.remove(descriptor);
        }
        held.1 = Accepts::Transfers;
        let _ = self.gate.watch.add(LISTENER, held.0.descriptor());
    }
}

impl Flow for Receiver {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        if self.is_complete() {
            info.end = true;
            return Ok(0);
        }
        let Some(into) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let mut heads = 0;
        for looked in [false, true] {
            if looked {
                self.look()?;
            }
            for step in 0..self.streams.len() {
                let at = (self.first + step) % self.streams.len();
                if !self.streams[at].is_ready {
                    continue;
                }
                match self.receive_one(at, into, &mut heads) {
                    Ok(Some((offset, got))) => {
                        // The others have their turn, too.
                        self.first = (at + 1) % self.streams.len();
                        info.offset = Some(offset);
                        info.end = self.is_complete();
                        return Ok(got);
                    }
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.streams[at].is_ready = false,
                    Err(error) => return Err(error),
                }
                if self.is_complete() {
                    info.end = true;
                    return Ok(0);
                }
                if heads >= HEADS_PER_CALL {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send(&mut self, _: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        let what = "mode_e is one-way: the end that connects sends, the end that listens receives";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    fn connected(&mut self) -> io::Result<()> {
        self.look()?;
        let stream = &mut self.streams[0];
        stream.flow.connected()?;
        if let Next::Opening = stream.next {
            stream.next = Next::HEAD;
        }
        Ok(())
    }

    fn holds(&self) -> bool {
        // A change that was taken from the watch and not followed up, or what a connection holds.
        !self.is_complete() && self.streams.iter().any(|stream| stream.is_ready)
    }

    fn wants(&self, asked: Interest) -> Interest {
        if asked == Interest::NONE { Interest::NONE } else { Interest::READ }
    }

    fn deadline(&self) -> Option<Instant> {
        self.streams.iter().filter_map(|stream| stream.flow.deadline()).min()
    }

    fn on_deadline(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.flow.on_deadline());
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }
}
