//! Compares what storage returns of a transfer with what arrived: read from end to end, slice by
//! slice.

use super::hashing::{Hashing, Pieces, buffer, leaf};
use crate::blocking::Slice;
use std::sync::Arc;
use std::task::Poll;
use xdfs_io::store::{ReadBack, Stage};
use xdfs_proto::base::{Error, Extent};
use xdfs_proto::session::{Comparison, Mismatch};
use xdfs_secure::content::Tree;

/// Compares what storage returns of a transfer with what arrived, slice by slice.
#[derive(Debug)]
pub struct StoredCheck {
    hashing: Arc<Hashing>,
    stage: Arc<Stage>,
    length: u64,
    reading: Option<StoredRead>,
}

#[derive(Debug)]
struct StoredRead {
    back: ReadBack,
    tree: Tree,
    pieces: Pieces,
}

impl StoredCheck {
    /// A check that has read nothing yet.
    pub fn new(hashing: Arc<Hashing>, stage: Arc<Stage>, length: u64) -> Self {
        Self { hashing, stage, length, reading: None }
    }

    /// Continues reading until the slice is over.
    pub fn advance(&mut self, slice: &Slice) -> Result<Poll<Comparison>, Error> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let back = self.stage.read_back(true)?;
                let (tree, pieces) =
                    (self.hashing.empty_tree(), Pieces::of(Extent::new(0, self.length).unwrap_or_default()));
                none.insert(StoredRead { back, tree, pieces })
            }
        };
        let mut buffer = buffer()?;
        for extent in reading.pieces.by_ref() {
            let count = extent.length() as usize;
            reading.back.read(&mut buffer, count, extent.offset())?;
            reading.tree.add(leaf(&buffer.payload()[..count], extent.offset())?);
            if slice.is_over() {
                return Ok(Poll::Pending);
            }
        }
        let found: Vec<_> = reading.tree.subtrees().collect();
        let (root, bad) = (reading.tree.root(self.length, &[]), self.hashing.differing(&found));
        Ok(Poll::Ready(Comparison { root, bad, place: Mismatch::InStorage }))
    }
}
