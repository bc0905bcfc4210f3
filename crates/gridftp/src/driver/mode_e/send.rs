//! The sending end: blocks go to whichever connection takes them. Connections can be added and ended meanwhile.

use super::watch::Watch;
use crate::mode_e::{HEAD_BYTES, Head, STREAMS_MAX};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use xdfs_xio::{Answer, Below, Command, Contact, Flow, Interest, ReadInfo, WriteInfo};

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum StreamPhase {
    Connecting,
    Open,
}

/// A connection, and what it has not taken of its last block.
struct Stream {
    flow: Box<dyn Flow>,
    phase: StreamPhase,
    /// Its end is marked, or is in what is left: it goes when that is sent.
    ends: bool,
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
    below: Below,
    contact: Contact,
    streams: Vec<Stream>,
    /// Connections so far, with those that have ended: each of them marks its end.
    made: u64,
    watch: Watch,
    block: usize,
    offset: u64,
    /// The connection that is tried first.
    next: usize,
    phase: Phase,
}

impl Sender {
    /// Over so many connections, in blocks of at most so many bytes.
    pub(super) fn new(below: &Below, contact: &Contact, streams: u64, block: usize) -> io::Result<Self> {
        let mut sender = Self {
            below: below.clone(),
            contact: contact.clone(),
            streams: Vec::new(),
            made: 0,
            watch: Watch::new()?,
            block,
            offset: 0,
            next: 0,
            phase: Phase::Open,
        };
        (0..streams).try_for_each(|_| sender.add())?;
        Ok(sender)
    }

    /// Adds a connection, which is not open yet.
    fn add(&mut self) -> io::Result<()> {
        if self.made == u64::from(STREAMS_MAX) {
            let what = format!("a transfer has at most {STREAMS_MAX} connections, those that have ended among them");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let flow = self.below.open(&self.contact).map_err(io::Error::other)?;
        self.watch.add(self.made, flow.descriptor())?;
        self.made += 1;
        self.streams.push(Stream { flow, phase: StreamPhase::Connecting, ends: false, left: Vec::new(), sent: 0 });
        Ok(())
    }

    /// Connections that take blocks.
    fn live(&self) -> u64 {
        self.streams.iter().filter(|stream| !stream.ends).count() as u64
    }

    /// Makes it so many connections that take blocks.
    fn resize(&mut self, wanted: u64) -> io::Result<()> {
        if self.phase == Phase::Marked {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the end was sent already"));
        }
        while self.live() < wanted {
            self.add()?;
        }
        let surplus = usize::try_from(self.live() - wanted).unwrap_or(0);
        for stream in self.streams.iter_mut().rev().filter(|stream| !stream.ends).take(surplus) {
            stream.ends = true;
            stream.left.extend_from_slice(&Head::End.encode());
        }
        self.let_go()
    }

    /// Ends the connections that have nothing left to send.
    fn let_go(&mut self) -> io::Result<()> {
        let mut at = 0;
        while let Some(stream) = self.streams.get_mut(at) {
            match if stream.ends { stream.end() } else { Err(io::ErrorKind::WouldBlock.into()) } {
                Ok(()) => {
                    let ended = self.streams.swap_remove(at);
                    ended.flow.descriptor().into_iter().for_each(|descriptor| self.watch.remove(descriptor));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => at += 1,
                Err(error) => return Err(error),
            }
        }
        self.watch_new()
    }

    /// Whoever tries the next address of a name has another descriptor.
    fn watch_new(&self) -> io::Result<()> {
        let new = self.streams.iter().filter(|stream| stream.phase == StreamPhase::Connecting);
        (0..).zip(new).try_for_each(|(number, stream)| self.watch.add(number, stream.flow.descriptor()))
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
        self.watch_new()?;
        waits.map_or(Ok(()), Err)
    }
}

impl Stream {
    /// Goes on connecting, if need be.
    fn connect(&mut self) -> io::Result<()> {
        if self.phase == StreamPhase::Connecting {
            self.flow.connected()?;
            self.phase = StreamPhase::Open;
        }
        Ok(())
    }

    /// Sends all that is left, and the end.
    fn end(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.flow.finish_sending()
    }

    /// Passes on what is left of the last block.
    fn pass_on(&mut self) -> io::Result<()> {
        self.connect()?;
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
        self.let_go()?;
        for tried in 0..=1 {
            for step in 0..self.streams.len() {
                let at = (self.next + step) % self.streams.len();
                let stream = &mut self.streams[at];
                if stream.ends {
                    continue;
                }
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
            self.watch_new()?;
            if tried == 0 {
                // What changes from here on wakes the waiter; each is tried once more for what changed
                // before.
                self.watch.changed()?;
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn connected(&mut self) -> io::Result<()> {
        self.all(Stream::connect)
    }

    /// `streams=NUMBER` changes how many connections the blocks are spread over, and `streams` asks for it.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        if command.name != "streams" {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if let Some(text) = &command.value {
            let wanted = text.parse().ok().filter(|number| (1..=u64::from(STREAMS_MAX)).contains(number));
            let wanted = wanted.ok_or_else(|| {
                let what = format!("'streams' needs a number from 1 to {STREAMS_MAX}, not '{}'", text.escape_debug());
                io::Error::new(io::ErrorKind::InvalidInput, what)
            })?;
            self.resize(wanted)?;
        }
        Ok(Answer::Number(self.live()))
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
            let mut mark = Head::File { ends: self.made, last: true };
            for stream in self.streams.iter_mut().filter(|stream| !stream.ends) {
                stream.left.extend_from_slice(&mark.encode());
                mark = Head::End;
            }
        }
        self.all(Stream::end)
    }

    fn ready_to_close(&mut self) -> io::Result<()> {
        self.all(|stream| stream.flow.ready_to_close())
    }
}
