//! The sending end: blocks go to whichever connection takes them.

use super::watch::Watch;
use crate::mode_e::{HEAD_BYTES, Head};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use xdfs_xio::{Flow, Interest, ReadInfo, WriteInfo};

/// A connection, and what it has not taken of its last block.
struct Stream {
    flow: Box<dyn Flow>,
    left: Vec<u8>,
    sent: usize,
}

/// How far the end is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// Blocks follow.
    Open,
    /// The marks of the end are written, or are in what is left.
    Marked,
}

/// An element that sends.
pub(super) struct Sender {
    streams: Vec<Stream>,
    watch: Watch,
    block: usize,
    offset: u64,
    /// The connection that is tried first.
    next: usize,
    phase: Phase,
}

impl Sender {
    /// Over these connections, which are not open yet, in blocks of at most so many bytes.
    pub(super) fn new(flows: Vec<Box<dyn Flow>>, block: usize) -> io::Result<Self> {
        let watch = Watch::new()?;
        for (number, flow) in (0..).zip(&flows) {
            watch.add(number, flow.descriptor())?;
        }
        let streams = flows.into_iter().map(|flow| Stream { flow, left: Vec::new(), sent: 0 }).collect();
        Ok(Self { streams, watch, block, offset: 0, next: 0, phase: Phase::Open })
    }

    /// Calls each connection; `WouldBlock` if one has to wait.
    fn all(&mut self, mut call: impl FnMut(&mut Stream) -> io::Result<()>) -> io::Result<()> {
        // What changes from here on wakes the waiter again.
        self.watch.changed()?;
        let mut waits = None;
        for stream in &mut self.streams {
            match call(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => waits = Some(error),
                outcome => outcome?,
            }
        }
        waits.map_or(Ok(()), Err)
    }
}

impl Stream {
    /// Passes on what is left of the last block.
    fn pass_on(&mut self) -> io::Result<()> {
        while self.sent < self.left.len() {
            self.sent += self.flow.send(&[IoSlice::new(&self.left[self.sent..])], &WriteInfo::default())?;
        }
        self.left.clear();
        self.sent = 0;
        Ok(())
    }

    /// Begins a block; what the connection does not take is kept. It has nothing left of the last
    /// one.
    fn begin(&mut self, head: &[u8; HEAD_BYTES], bytes: &[IoSlice<'_>]) -> io::Result<()> {
        let mut slices = Vec::with_capacity(bytes.len() + 1);
        slices.push(IoSlice::new(head));
        slices.extend(bytes.iter().map(|slice| IoSlice::new(slice)));
        let mut taken = self.flow.send(&slices, &WriteInfo::default())?;
        for slice in &slices {
            let skipped = taken.min(slice.len());
            self.left.extend_from_slice(&slice[skipped..]);
            taken -= skipped;
        }
        Ok(())
    }
}

/// The first bytes of these slices, at most so many, and how many they are.
fn first<'a>(from: &'a [IoSlice<'_>], most: usize) -> (Vec<IoSlice<'a>>, usize) {
    let (mut taken, mut count) = (Vec::new(), 0);
    for slice in from.iter().filter(|slice| !slice.is_empty()) {
        let part = slice.len().min(most - count);
        if part == 0 {
            break;
        }
        taken.push(IoSlice::new(&slice[..part]));
        count += part;
    }
    (taken, count)
}

impl Flow for Sender {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        let what = "mode_e is one-way: the end that connects sends, the end that listens receives";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let (bytes, count) = first(from, self.block);
        if count == 0 {
            return Ok(0);
        }
        if self.phase == Phase::Marked {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the end was sent already"));
        }
        let offset = info.offset.unwrap_or(self.offset);
        let end = offset.checked_add(count as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let head = Head::Data { count: count as u64, offset, last: false }.encode();
        for tried in 0..=1 {
            for step in 0..self.streams.len() {
                let at = (self.next + step) % self.streams.len();
                let stream = &mut self.streams[at];
                match stream.pass_on().and_then(|()| stream.begin(&head, &bytes)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    outcome => {
                        outcome?;
                        self.next = (at + 1) % self.streams.len();
                        self.offset = end;
                        return Ok(count);
                    }
                }
            }
            if tried == 0 {
                // What changes from here on wakes the waiter; each is tried once more for what changed
                // before.
                self.watch.changed()?;
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn connected(&mut self) -> io::Result<()> {
        let outcome = self.all(|stream| stream.flow.connected());
        // Whoever tries the next address of a name has another descriptor.
        for (number, stream) in (0..).zip(&self.streams) {
            self.watch.add(number, stream.flow.descriptor())?;
        }
        outcome
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        self.all(|stream| stream.pass_on().and_then(|()| stream.flow.flush()))
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

    fn finish_sending(&mut self) -> io::Result<()> {
        if self.phase == Phase::Open {
            self.phase = Phase::Marked;
            let mut mark = Head::File { ends: self.streams.len() as u64, last: true };
            for stream in &mut self.streams {
                stream.left.extend_from_slice(&mark.encode());
                mark = Head::End;
            }
        }
        self.all(|stream| stream.pass_on().and_then(|()| stream.flow.finish_sending()))
    }
}
