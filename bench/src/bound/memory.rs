//! Memory to memory over n connections: one level-triggered epoll loop and one shared buffer a side.
//!
//! The shared buffer is the point: it stays in the cache however many connections there are. One call of at most one
//! block per ready connection and turn keeps the connections equal; edge-triggered reading until empty starves half.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::{Context, Error, Result};

/// Events taken per wait: enough to spread one system call over many connections.
const EVENTS: usize = 256;

/// Sends `total` zero bytes, divided evenly over the streams, and ends each stream after its share.
pub(super) fn send(streams: &[TcpStream], total: u64, block: usize) -> Result<()> {
    let buffer = vec![0_u8; block];
    let count = streams.len() as u64;
    let mut left: Vec<u64> = (0..count).map(|index| total / count + u64::from(index < total % count)).collect();
    let mut ready = Ready::new(streams, EventFlags::OUT)?;
    // A stream whose share is empty has nothing to wait for.
    for (stream, _) in streams.iter().zip(&left).filter(|(_, left)| **left == 0) {
        ready.forget(stream)?;
        stream.shutdown(Shutdown::Write).context(|| "end a stream".to_owned())?;
    }
    while ready.open > 0 {
        ready.wait()?;
        for position in 0..ready.events.len() {
            let index = ready.index(position);
            let mut stream = &streams[index];
            let want = usize::try_from(left[index]).unwrap_or(usize::MAX).min(block);
            match stream.write(&buffer[..want]) {
                Ok(wrote) => left[index] -= wrote as u64,
                Err(error) if is_transient(&error) => continue,
                Err(error) => return Err(error).context(|| "send".to_owned()),
            }
            if left[index] == 0 {
                ready.forget(stream)?;
                stream.shutdown(Shutdown::Write).context(|| "end a stream".to_owned())?;
            }
        }
    }
    Ok(())
}

/// Receives until every stream has ended; returns the number of bytes. Each one was copied into the buffer.
pub(super) fn receive(streams: &[TcpStream], block: usize) -> Result<u64> {
    let mut buffer = vec![0_u8; block];
    let mut total = 0;
    let mut ready = Ready::new(streams, EventFlags::IN)?;
    while ready.open > 0 {
        ready.wait()?;
        for position in 0..ready.events.len() {
            let mut stream = &streams[ready.index(position)];
            match stream.read(&mut buffer) {
                Ok(0) => ready.forget(stream)?,
                Ok(got) => total += got as u64,
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error).context(|| "receive".to_owned()),
            }
        }
    }
    Ok(total)
}

/// Tells the other side a number: how much arrived, or how long the file is.
pub(super) fn tell(stream: &TcpStream, number: u64) -> Result<()> {
    stream.set_nonblocking(false).context(|| "acknowledge".to_owned())?;
    (&mut &*stream).write_all(&number.to_be_bytes()).context(|| "acknowledge".to_owned())
}

/// Waits for the number of [`tell`].
pub(super) fn hear(stream: &TcpStream) -> Result<u64> {
    let mut number = [0; 8];
    stream.set_nonblocking(false).context(|| "wait for the acknowledgement".to_owned())?;
    match (&mut &*stream).read_exact(&mut number) {
        Ok(()) => Ok(u64::from_be_bytes(number)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Error::Bound("closed without an answer")),
        Err(error) => Err(error).context(|| "wait for the acknowledgement".to_owned()),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The streams that can move now.
struct Ready {
    epoll: rustix::fd::OwnedFd,
    events: Vec<epoll::Event>,
    /// Streams that have not ended.
    open: usize,
}

impl Ready {
    fn new(streams: &[TcpStream], flags: EventFlags) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context(|| "epoll".to_owned())?;
        for (index, stream) in streams.iter().enumerate() {
            stream.set_nonblocking(true).context(|| "epoll".to_owned())?;
            epoll::add(&epoll, stream, EventData::new_u64(index as u64), flags).context(|| "epoll".to_owned())?;
        }
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS), open: streams.len() })
    }

    fn wait(&mut self) -> Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context(|| "epoll".to_owned()),
        }
    }

    /// Which stream the event at `position` concerns.
    fn index(&self, position: usize) -> usize {
        let data = self.events[position].data;
        data.u64() as usize
    }

    fn forget(&mut self, stream: &TcpStream) -> Result<()> {
        self.open -= 1;
        epoll::delete(&self.epoll, stream).context(|| "epoll".to_owned())
    }
}
