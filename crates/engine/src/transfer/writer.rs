//! The writer thread of a pipeline: it writes one block while the next one is received (SRV-65,
//! SRV-66). The kernel holds a lock per file during a buffered write, so a second writer would gain
//! nothing; the gain is the parallel receiving.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use xdfs_io::buf::Buffer;
use xdfs_io::store::Stage;
use xdfs_proto::base::{Error, Extent, OperationId};
use xdfs_secure::content::Leaf;

/// A block that was written, or failed to be; the buffer is returned.
#[derive(Debug)]
pub struct Written {
    /// The operation.
    pub operation: OperationId,
    /// Range of the transfer.
    pub extent: Extent,
    /// Its buffer.
    pub buffer: Buffer,
    /// Its hash, where it is hashed.
    pub leaf: Option<Leaf>,
    /// The result.
    pub result: Result<(), Error>,
}

/// A block to be written to its stage.
#[derive(Debug)]
pub struct Block {
    /// The operation.
    pub operation: OperationId,
    /// Its stage.
    pub stage: Arc<Stage>,
    /// Range of the transfer; its bytes are the first of the buffer.
    pub extent: Extent,
    /// Its buffer.
    pub buffer: Buffer,
    /// Its hash, where it is hashed.
    pub leaf: Option<Leaf>,
}

/// The writer thread of a pipeline. Dropping it ends the thread after the last task.
#[derive(Debug)]
pub struct Writer {
    /// Its queue and the thread itself; none once it is being dropped.
    running: Option<(SyncSender<Block>, JoinHandle<()>)>,
}

impl Writer {
    /// Starts the thread. Whoever gets its results says whether he is still there.
    pub fn start(capacity: usize, written: impl Fn(Written) -> bool + Send + 'static) -> std::io::Result<Self> {
        let (tasks, queue) = sync_channel(capacity);
        let thread = thread::Builder::new().name("xdfs-writer".into()).spawn(move || work(&queue, &written))?;
        Ok(Self { running: Some((tasks, thread)) })
    }

    /// Writes a block. When its [`Written`] arrives the writer thread has released the stage. There
    /// are fewer buffers than places in the queue, so this never waits.
    pub fn write(&self, block: Block) {
        if let Some((tasks, _)) = &self.running {
            // Fails only if the thread has panicked; its pipeline then ends at its stall deadline.
            let _ = tasks.send(block);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some((tasks, thread)) = self.running.take() {
            // The thread ends when its queue does.
            drop(tasks);
            let _ = thread.join();
        }
    }
}

fn work(queue: &Receiver<Block>, written: &impl Fn(Written) -> bool) {
    while let Ok(Block { operation, stage, extent, buffer, leaf }) = queue.recv() {
        // A buffer's capacity is a block: the length fits.
        let result = stage.write(&buffer.payload()[..extent.length() as usize], extent.offset());
        // Before the message: its receiver may need exclusive access to the stage once everything
        // is written.
        drop(stage);
        if !written(Written { operation, extent, buffer, leaf, result }) {
            return;
        }
    }
}
