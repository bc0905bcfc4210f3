//! `mode_e`: a driver that carries one stream of bytes over several connections of the stack below
//! it, with the blocks of Mode E (GFD.20), as Globus XIO's driver of that name does.
//!
//! - It is one-way: the end that connects sends, the end that listens receives.
//! - The sender's command `streams` adds connections during a transfer, and ends some. At most 64 are made in one.
//! - Bytes are received with their offsets, in whatever order the connections bring them; the driver
//!   `ordering` above it restores the order.
//! - The connections of a listener belong to one transfer at a time: who connects while one is under
//!   way is taken for a further connection of it. The next transfer begins when its element is
//!   dropped.

mod receive;
mod send;
#[cfg(test)]
mod tests;
mod watch;

use receive::{Gate, Listening};
use send::Sender;
use std::sync::Arc;
use xdfs_xio::{AttributeInfo, Attributes, Below, Contact, Driver, Flow, Kind, Listener, Result, ValueKind};

use super::within;
use crate::mode_e::STREAMS_MAX;

/// File bytes of a block, unless told otherwise.
const BLOCK_BYTES: u64 = 256 << 10;
/// At most: what a connection does not take at once is kept.
const BLOCK_BYTES_MAX: u64 = 4 << 20;

/// The driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModeE;

impl Driver for ModeE {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                AttributeInfo {
                    name: "streams",
                    kind: ValueKind::Number,
                    about: "Connections over which a sender spreads its blocks, 1 to 64; without it 1.",
                },
                AttributeInfo {
                    name: "block",
                    kind: ValueKind::Bytes,
                    about: "Most bytes of a block, up to 4MiB; without it 256KiB.",
                },
            ]
        }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let streams = within("streams", attributes.number("streams").unwrap_or(1), u64::from(STREAMS_MAX))?;
        let block = within("block", attributes.number("block").unwrap_or(BLOCK_BYTES), BLOCK_BYTES_MAX)?;
        Ok(Box::new(Sender::new(below, contact, streams, usize::try_from(block).unwrap_or(usize::MAX))?))
    }

    fn listen(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Listener>> {
        let gate = Gate::new(below.listen(contact)?)?;
        Ok(Box::new(Listening::new(Arc::new(gate))))
    }
}
