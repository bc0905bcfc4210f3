//! The reader thread of a stream (standard input, a pipe): it waits for bytes so that the
//! pipeline's thread does not have to.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use xdfs_io::buf::Buffer;
use xdfs_io::store::Source;
use xdfs_proto::base::{Error, ErrorKind, OperationId};

/// A buffer that the thread filled, and what came of it.
#[derive(Debug)]
pub struct Filled {
    /// The operation.
    pub operation: OperationId,
    /// Its buffer.
    pub buffer: Buffer,
    /// What was read into it. After an error nothing follows.
    pub read: Result<ReadBytes, Error>,
}

/// Bytes of a stream that were read into a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadBytes {
    /// How many.
    pub length: usize,
    /// The stream has ended behind them.
    pub ended: bool,
}

/// A stream being sent: blocks are kept until the receiver has them, since the stream cannot be
/// read twice.
#[derive(Debug)]
pub struct Stream {
    empty: SyncSender<Buffer>,
    /// Blocks that were read and are not acknowledged, by offset. None while the transport holds a
    /// copy.
    pub held: BTreeMap<u64, (Option<Buffer>, usize)>,
    /// Bytes read so far.
    pub available: u64,
}

impl Stream {
    /// Starts reading `source` into `buffers`; each is filled completely except the last. Whoever gets them says whether he is
    /// still there.
    pub fn start(
        operation: OperationId,
        source: Source,
        limit: Option<u64>,
        block: usize,
        buffers: Vec<Buffer>,
        filled: impl Fn(Filled) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let (empty, queue) = sync_channel(buffers.len().max(1));
        for buffer in buffers {
            // As many places as buffers.
            let _ = empty.send(buffer);
        }
        // Not joined: a read from a terminal or pipe can last for ever; it ends with the process.
        thread::Builder::new()
            .name("xdfs-reader".into())
            .spawn(move || work(operation, source, limit, block, &queue, &filled))?;
        Ok(Self { empty, held: BTreeMap::new(), available: 0 })
    }

    /// Returns a free buffer to the reader.
    pub fn recycle(&self, buffer: Buffer) {
        let _ = self.empty.send(buffer);
    }

    /// Everything below is acknowledged: its buffers return to the reader, those with the transport
    /// when they come back.
    pub fn forget_below(&mut self, below: u64) {
        while let Some(entry) = self.held.first_entry() {
            let (_, length) = entry.get();
            if entry.key() + *length as u64 > below {
                return;
            }
            if let (Some(buffer), _) = entry.remove() {
                self.recycle(buffer);
            }
        }
    }
}

fn work(
    operation: OperationId,
    mut source: Source,
    limit: Option<u64>,
    block: usize,
    queue: &Receiver<Buffer>,
    filled: &impl Fn(Filled) -> bool,
) {
    let mut left = limit.unwrap_or(u64::MAX);
    while let Ok(mut buffer) = queue.recv() {
        let want = block.min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = match source.read(&mut buffer.payload_mut()[..want]) {
            Ok(length) if length < want && limit.is_some() => {
                Err(Error::new(ErrorKind::OutOfRange, "the input ended before the given length"))
            }
            Ok(length) => {
                left -= length as u64;
                Ok(ReadBytes { length, ended: length < block || left == 0 })
            }
            Err(error) => Err(error),
        };
        let goes_on = matches!(read, Ok(ReadBytes { ended: false, .. }));
        if !filled(Filled { operation, buffer, read }) || !goes_on {
            return;
        }
    }
}
