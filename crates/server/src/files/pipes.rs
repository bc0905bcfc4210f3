//! FIFOs (xDFSM, DFSM-17): a handle is one end of one. What is taken out of it is gone, so nothing here
//! is done twice, and a client that is lost is an error for those at the other end.
//!
//! Nothing waits here: a call takes what is there, or puts in what fits.

use super::call::FileCalls;
use super::shares::Sharing;
use super::{Handle, Object, OpenState, lock, stale};
use crate::authorise::{Authorized, Want};
use crate::descriptor_slots::DescriptorSlot;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use xdfs_io::store::{PipeEnd, PipeRead};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, OpenFile as OpenCall, OpenedFile};
use xdfs_proto::wire::path::ReplyWriter;

/// EPIPE, as errors carry it.
const BROKEN: u16 = 32;

/// One end of a FIFO, behind a handle.
pub(super) struct Pipe {
    end: Mutex<EndState>,
    /// The client closed it, rather than that it was lost.
    closed: AtomicBool,
    /// A client that wrote was lost: what this end reads is not all that was to come.
    cut: AtomicBool,
    _slot: DescriptorSlot,
}

struct EndState {
    end: End,
    /// Bytes that went through this handle.
    passed: u64,
}

/// The descriptor of one end.
enum End {
    /// It is to write, and nobody has the other end open to read.
    Unconnected,
    Open(Arc<PipeEnd>),
    /// The handle has ended, and opens nothing again.
    Closed,
}

impl End {
    fn of(opened: Option<PipeEnd>) -> Self {
        opened.map_or(Self::Unconnected, |end| Self::Open(Arc::new(end)))
    }
}

impl Pipe {
    /// The client closes it.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Handle {
    /// Closes its end of a FIFO; returns the descriptor, which is closed outside of every lock.
    pub(super) fn end_pipe(&self) -> Option<Arc<PipeEnd>> {
        let Object::Pipe(pipe) = &self.object else { return None }; // A file has no end.
        let connected = matches!(lock(&pipe.end).end, End::Open(_));
        if connected && self.opened.sharing.write && !pipe.closed.load(Ordering::Relaxed) {
            // Before the end is closed: whoever finds the end of the data finds this.
            let all = self.reserved.server.handles_of(&self.opened.identity);
            for other in all.iter().filter(|other| other.opened.sharing.read) {
                if let Object::Pipe(pipe) = &other.object {
                    pipe.cut.store(true, Ordering::Relaxed);
                }
            }
        }
        match std::mem::replace(&mut lock(&pipe.end).end, End::Closed) {
            End::Open(end) => Some(end),
            End::Unconnected | End::Closed => None,
        }
    }

    fn pipe(&self, write: bool) -> Result<&Pipe, Error> {
        let Object::Pipe(pipe) = &self.object else {
            return Err(Error::new(ErrorKind::Refused, "the handle is no pipe"));
        };
        match (write, self.opened.sharing.write) {
            (true, false) => Err(Error::new(ErrorKind::Refused, "the handle is not open to write")),
            (false, true) => Err(Error::new(ErrorKind::Refused, "the handle is not open to read")),
            _ => Ok(pipe),
        }
    }
}

impl FileCalls {
    /// Opens one end of a FIFO.
    pub(super) fn open_pipe(&mut self, open: &OpenCall<'_>) -> Result<OpenedFile, Error> {
        let at = self.authorise(open.path, Want::Pipe { write: open.write })?;
        let reserved = self.caller.files.server.reserve(&self.caller.budget, open.path.len())?;
        let slot = self.caller.files.server.slots.take_for(&self.caller.principal)?;
        let opened = at.store().open_pipe(at.path(), open.write)?;
        let identity = opened.identity;
        let sharing = Sharing { read: open.read, write: open.write, deny_read: false, deny_write: false };
        let id = self.caller.files.next_id()?;
        if !lock(&self.caller.files.server.shares).open(&identity, sharing) {
            return Err(Error::new(ErrorKind::Locked, "somebody else has the file open; try again later"));
        }
        let end = Mutex::new(EndState { end: End::of(opened.end), passed: 0 });
        let pipe = Pipe { end, closed: AtomicBool::new(false), cut: AtomicBool::new(false), _slot: slot };
        let opened = OpenState::new(open.path, at.root(), identity, sharing, false);
        self.adopt(Arc::new(Handle::new(&self.caller.files, id, opened, Object::Pipe(pipe), reserved)), None);
        Ok(OpenedFile { handle: id, identity, verifier: self.caller.files.server.verifier, size: 0, change: 0 })
    }

    fn pipe_handle(&self, write: bool) -> Result<(&Handle, &Pipe, Authorized), Error> {
        let handle = self.handle()?;
        let at = self.authorise_open(handle, Want::Pipe { write })?;
        Ok((handle, handle.pipe(write)?, at))
    }

    /// Takes what is there.
    pub(super) fn read_pipe(&self, length: u32, writer: &mut ReplyWriter) -> Result<(), Error> {
        let (handle, pipe, _) = self.pipe_handle(false)?;
        // Status, flags, offset, and the length of the bytes.
        let asked = length as usize + 24;
        if asked > writer.room() {
            let text = format!("the reply has room for {} bytes, and {asked} are requested", writer.room());
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        let mut state = lock(&pipe.end);
        let End::Open(end) = &state.end else { return Err(stale("it is closed")) };
        let (mut bytes, offset) = (vec![0; length as usize], state.passed);
        let found = if length == 0 { PipeRead::Empty } else { end.read(&mut bytes)? };
        let taken = if let PipeRead::Bytes(taken) = found { taken } else { 0 };
        state.passed += taken as u64;
        drop(state);
        if found == PipeRead::End && pipe.cut.swap(false, Ordering::Relaxed) {
            let text = "a client that wrote to the pipe was lost before it closed it";
            return Err(Error::new(ErrorKind::Storage, text).with_errno(BROKEN));
        }
        handle.passed(taken);
        FileAnswer::ReadPipe { offset, data: &bytes[..taken], end: found == PipeRead::End }.tell(writer);
        Ok(())
    }

    /// Puts in what fits, if it is what comes next.
    pub(super) fn write_pipe(&self, offset: u64, data: &[u8]) -> Result<FileAnswer<'static>, Error> {
        let (handle, pipe, at) = self.pipe_handle(true)?;
        let mut state = lock(&pipe.end);
        if let End::Unconnected = state.end {
            let opened = at.store().open_pipe(at.path(), true)?;
            if opened.identity != handle.opened.identity {
                return Err(stale("its name belongs to another file now"));
            }
            state.end = End::of(opened.end);
        }
        let end = match &state.end {
            End::Open(end) => Arc::clone(end),
            End::Unconnected => return Ok(FileAnswer::WrotePipe { open: false, taken: state.passed }),
            End::Closed => return Err(stale("it is closed")),
        };
        if offset == state.passed {
            let mut rest = data;
            while !rest.is_empty() {
                let taken = end.write(rest)?;
                if taken == 0 {
                    break;
                }
                state.passed += taken as u64;
                handle.passed(taken);
                rest = &rest[taken..];
            }
        }
        Ok(FileAnswer::WrotePipe { open: true, taken: state.passed })
    }
}
