//! A connection whose calls are several as an element of a stack.

use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// Most calls of the layer below that one becomes: others have their turn behind it.
const CALLS_MAX: usize = 64;

/// A connection whose calls are several.
pub(super) struct BounceFlow {
    below: Box<dyn Flow>,
    piece: usize,
    /// What the layer below failed with behind bytes that were told.
    failed_receiving: Option<io::Error>,
    failed_sending: Option<io::Error>,
    /// The end came behind bytes that were told.
    has_ended: bool,
}

impl BounceFlow {
    pub(super) fn new(below: Box<dyn Flow>, piece: usize) -> Self {
        Self { below, piece, failed_receiving: None, failed_sending: None, has_ended: false }
    }
}

/// Whether nothing is known of the layer below but that it is not its turn.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Flow for BounceFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        if let Some(error) = self.failed_receiving.take() {
            return Err(error);
        }
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let mut moved = 0;
        for _ in 0..CALLS_MAX {
            let end = first.len().min(moved + self.piece);
            let mut came = ReadInfo::default();
            match self.below.receive(&mut [IoSliceMut::new(&mut first[moved..end])], &mut came) {
                Ok(bytes) => {
                    if moved == 0 {
                        *info = came;
                    }
                    moved += bytes;
                    (info.end, info.end_of_message) = (came.end, came.end_of_message);
                    self.has_ended |= came.end;
                    if moved == first.len() || came.end || came.end_of_message {
                        break;
                    }
                }
                Err(error) if moved == 0 => return Err(error),
                Err(error) => {
                    self.failed_receiving = Some(error).filter(|error| !is_later(error));
                    break;
                }
            }
        }
        Ok(moved)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        if let Some(error) = self.failed_sending.take() {
            return Err(error);
        }
        let Some(first) = from.iter().find(|slice| !slice.is_empty()) else { return self.below.send(from, info) };
        let length: usize = from.iter().map(|slice| slice.len()).sum();
        let mut moved = 0;
        for _ in 0..CALLS_MAX {
            let end = first.len().min(moved + self.piece);
            let is_part = end < length;
            let part = WriteInfo {
                offset: info.offset.map(|offset| offset + moved as u64),
                // The message ends with its last part.
                end_of_message: info.end_of_message && !is_part,
                more: info.more || is_part,
                ..*info
            };
            match self.below.send(&[IoSlice::new(&first[moved..end])], &part) {
                Ok(bytes) => moved += bytes,
                Err(error) if moved == 0 => return Err(error),
                Err(error) => {
                    self.failed_sending = Some(error).filter(|error| !is_later(error));
                    break;
                }
            }
            if moved == first.len() {
                break;
            }
        }
        Ok(moved)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds(&self) -> bool {
        self.failed_receiving.is_some() || self.has_ended || self.below.holds()
    }
}
