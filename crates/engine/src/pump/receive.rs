//! Arriving records: read into a control message, a buffer, or piece by piece into the file.

use super::channel_io::{Arriving, ChannelIo, PieceTarget, Pieces, is_long};
use super::hashing::hash_arriving;
use super::{Host, Pump};
use crate::record::{Record, Rejected, wrong_tag};
use crate::transfer::phase::hash_written;
use crate::transfer::{Block, Phase, Transfer, WriteMode};
use crate::{bounds, control};
use std::sync::Arc;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{Dispatch, HEAD_BYTES, Op, Side, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Level};
use xdfs_proto::session::{CallService, HeadVerdict};
use xdfs_proto::wire::{Event, Head};
use xdfs_secure::handshake::tls::{FAREWELL_BYTES, Farewell};

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Waits for the next record of a channel.
    pub(super) fn next_head(&mut self, channel: ChannelId) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        io.arriving = Arriving::Head;
        self.dispatch.submit(Op::Head { socket: io.socket });
    }

    /// Waits for the peer's close_notify of the handshake; its records follow.
    pub(super) fn await_farewell(&mut self, channel: ChannelId, farewell: Farewell) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        io.arriving = Arriving::Farewell(farewell);
        self.dispatch.submit(Op::Small { socket: io.socket, length: FAREWELL_BYTES });
    }

    pub(super) fn on_raw_head(&mut self, socket: SocketId, raw: [u8; HEAD_BYTES]) {
        // It was closed by what came before in this turn.
        let Some((channel, io)) = self.channels.of_socket(socket) else { return };
        let mut record = match Record::decode(raw) {
            Ok(record) => record,
            Err(error) => return self.lose(channel, error),
        };
        match record.verify_head(&mut io.records.opener) {
            Ok(()) => self.judge(channel, record),
            Err(error) => self.lose(channel, error),
        }
    }

    /// A parked head is evaluated again.
    pub(super) fn on_resume(&mut self, channel: ChannelId) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        // The machine resumes only what it has parked.
        if let Arriving::Parked(record) = std::mem::replace(&mut io.arriving, Arriving::Nothing) {
            self.judge(channel, record);
        }
    }

    fn judge(&mut self, channel: ChannelId, record: Record) {
        let now = self.dispatch.now();
        let verdict = record.judge(&mut self.session, channel, now);
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        match verdict {
            Ok(HeadVerdict::Control) if record.head.length == 0 => self.on_control(channel, record, &[]),
            Ok(HeadVerdict::Control) => self.start_control(channel, record),
            Ok(HeadVerdict::Block { .. } | HeadVerdict::Calls { .. }) => self.start_block(channel, record, true),
            Ok(HeadVerdict::Skip) => self.start_block(channel, record, false),
            Ok(HeadVerdict::Park) => io.arriving = Arriving::Parked(record),
            Err(rejected) => self.reject(channel, rejected),
        }
    }

    fn reject(&mut self, channel: ChannelId, rejected: Rejected) {
        match rejected {
            Rejected::Channel(error) => self.lose(channel, error),
            Rejected::Session(fault) => self.session.on_fault(fault),
        }
    }

    /// Reads a control payload; a long one only while those that are arriving leave memory for it.
    fn start_control(&mut self, channel: ChannelId, record: Record) {
        let length = record.head.length as usize;
        let full = is_long(&record) && {
            let arriving: usize = self.channels.by_id.values().map(ChannelIo::long_control_bytes).sum();
            arriving + length > bounds::LONG_CONTROLS_BYTES
        };
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        if full {
            io.arriving = Arriving::Held(record);
            return;
        }
        io.arriving = Arriving::Control(record);
        self.dispatch.submit(Op::Small { socket: io.socket, length });
    }

    /// A long control payload is whole, or its channel is gone: the next one is read.
    pub(super) fn next_held(&mut self) {
        let held = |(channel, io): (&ChannelId, &ChannelIo)| match io.arriving {
            Arriving::Held(record) => Some((*channel, record)),
            _ => None,
        };
        if let Some((channel, record)) = self.channels.by_id.iter().find_map(held) {
            self.start_control(channel, record);
        }
    }

    pub(super) fn on_small(&mut self, socket: SocketId, bytes: &[u8]) {
        // It was closed by what came before in this turn.
        let Some((channel, io)) = self.channels.of_socket(socket) else { return };
        match std::mem::replace(&mut io.arriving, Arriving::Nothing) {
            Arriving::Control(record) => {
                self.on_control(channel, record, bytes);
                if is_long(&record) {
                    self.next_held();
                }
            }
            Arriving::Farewell(farewell) => match farewell.check(bytes) {
                Ok(()) => self.next_head(channel),
                Err(error) => self.lose(channel, error),
            },
            // Cannot happen: a short payload is asked for in no other state.
            _ => {}
        }
    }

    fn on_control(&mut self, channel: ChannelId, record: Record, payload: &[u8]) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        let (now, opener) = (self.dispatch.now(), &mut io.records.opener);
        match control::receive(&mut self.session, opener, channel, &record, payload, now) {
            Ok(()) if self.session.awaits(channel) => self.next_head(channel),
            // Its last record: the peer then closes the connection, which is no loss.
            Ok(()) => {}
            Err(rejected) => self.reject(channel, rejected),
        }
    }

    /// Chooses how a block arrives: whole in a buffer if its tag covers it or the file needs whole
    /// pages, else piece by piece.
    fn start_block(&mut self, channel: ChannelId, record: Record, wanted: bool) {
        self.limit(channel, Side::Receive, &record.head);
        let transfer = if wanted { self.transfers.get(&record.head.operation) } else { None };
        let arrival = transfer.map(Transfer::arrival).unwrap_or_default();
        let whole = record.head.level != Level::Clear || arrival.hashed;
        let to = match wanted {
            true if arrival.discarded => PieceTarget::Discarded,
            true => PieceTarget::File,
            false => PieceTarget::Skipped,
        };
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        let socket = io.socket;
        if record.head.length == 0 {
            return self.on_empty(channel, record);
        }
        if record.head.length as usize > self.buffers.receive.payload_bytes() {
            let text = "a record is longer than the granted block size";
            return self.lose(channel, Error::new(ErrorKind::Protocol, text));
        }
        let to_file = to == PieceTarget::File;
        let may_take = (whole || to_file) && self.buffers.want_receive.is_empty();
        if let Some(buffer) = may_take.then(|| self.buffers.receive.take()).flatten() {
            io.arriving = Arriving::Filling { record, wanted };
            let to = record.head.length as usize;
            return self.dispatch.submit(Op::Fill { socket, buffer, from: 0, to });
        }
        // A lagging writer returns buffers soon, and waiting for it is what slows the sender down.
        // Buffers that other channels are filling may take long: then this block is written as it
        // arrives.
        let soon = self.writer.blocks > 0;
        if whole || (to_file && (arrival.ordered || soon)) {
            io.arriving = Arriving::Waiting { record, wanted };
            return self.buffers.want_receive.push_back(channel);
        }
        io.arriving = Arriving::Pieces(Pieces { record, done: 0, to, carry: Vec::new() });
        let limit = (record.head.length as usize).min(bounds::PIECE_BYTES);
        self.dispatch.submit(Op::Some { socket, limit });
    }

    /// A skippable record without a payload.
    fn on_empty(&mut self, channel: ChannelId, record: Record) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        if !record.proved {
            let mut headed = record.head_bytes();
            if let Err(error) = io.records.opener.open(record.head.level, &mut headed, &record.tag()) {
                return self.lose(channel, wrong_tag(error));
            }
        }
        self.skipped(channel);
    }

    fn skipped(&mut self, channel: ChannelId) {
        match self.session.on_skipped(channel) {
            Ok(()) => self.next_head(channel),
            Err(fault) => self.session.on_fault(fault),
        }
    }

    /// Buffers were returned: the channels that have waited longest get them.
    pub(super) fn serve_waiting(&mut self) {
        while let Some(channel) = self.buffers.want_receive.front().copied() {
            let io = self.channels.by_id.get_mut(&channel);
            // It was closed, or its block needs no buffer any more.
            let Some((io, record, wanted)) = io.and_then(waiting) else {
                self.buffers.want_receive.pop_front();
                continue;
            };
            // The others wait, too.
            let Some(buffer) = self.buffers.receive.take() else { break };
            self.buffers.want_receive.pop_front();
            io.arriving = Arriving::Filling { record, wanted };
            let to = record.head.length as usize;
            self.dispatch.submit(Op::Fill { socket: io.socket, buffer, from: 0, to });
        }
        self.serve_waiting_sends();
    }

    pub(super) fn on_filled(&mut self, socket: SocketId, mut buffer: Buffer) {
        // It was closed by what came before in this turn.
        let Some((channel, io)) = self.channels.of_socket(socket) else { return };
        // Cannot fail: a buffer is filled in no other state.
        let Arriving::Filling { record, wanted } = std::mem::replace(&mut io.arriving, Arriving::Nothing) else {
            return;
        };
        if !record.proved {
            let headed = buffer.headed(record.head.length as usize);
            headed[..32].copy_from_slice(&record.raw[..32]);
            if let Err(error) = io.records.opener.open(record.head.level, headed, &record.tag()) {
                self.buffers.receive.give(buffer);
                return self.lose(channel, wrong_tag(error));
            }
        }
        if !wanted {
            self.buffers.receive.give(buffer);
            self.skipped(channel);
            return self.serve_waiting();
        }
        if Event::from_code(record.head.event).and_then(CallService::of).is_some() {
            return self.on_calls_filled(channel, &record.head, buffer);
        }
        match self.session.on_block(channel) {
            Ok(wanted) => {
                io.arriving = Arriving::Head;
                self.dispatch.submit(Op::Head { socket });
                self.place(channel, &record.head, wanted, buffer);
            }
            Err(fault) => {
                self.buffers.receive.give(buffer);
                self.session.on_fault(fault);
            }
        }
    }

    /// A block is complete and verified: it is counted, and written to the file if it is wanted.
    fn place(&mut self, channel: ChannelId, head: &Head, wanted: bool, buffer: Buffer) {
        if let Some(buffer) = self.take_block(channel, head, wanted, buffer) {
            self.buffers.receive.give(buffer);
        }
        self.serve_waiting();
    }

    /// Returns the buffer if nobody else needs it.
    fn take_block(&mut self, channel: ChannelId, head: &Head, wanted: bool, buffer: Buffer) -> Option<Buffer> {
        let (now, operation) = (self.dispatch.now(), head.operation);
        // It ended while the block arrived.
        let Some(transfer) = self.transfers.get_mut(&operation) else { return Some(buffer) };
        transfer.stats.add(channel, head.length.into());
        self.host.moved(operation, head.length.into());
        let Transfer { hashed, phase, .. } = transfer;
        let hashed = hashed.as_ref();
        // It ended, or this is a second copy of a block and everything is written.
        let Phase::Writing(writing) = phase else { return Some(buffer) };
        // The machine has checked the range, and a block's length is bounded by its buffer.
        let extent = Extent::new(head.offset, head.length.into()).ok().filter(|_| wanted);
        let Some(extent) = extent else { return Some(buffer) };
        let bytes = &buffer.payload()[..extent.length() as usize];
        let leaf = match hash_arriving(hashed, extent, bytes) {
            Ok(leaf) => leaf,
            Err(error) => {
                self.session.fail(operation, error);
                return Some(buffer);
            }
        };
        match &mut writing.mode {
            WriteMode::Inline(stage) => {
                let result = stage.write(bytes, extent.offset());
                hash_written(hashed, leaf.filter(|_| result.is_ok()));
                self.session.on_written(operation, extent, result, now);
                if let Some((stage, share)) = transfer.begin_checkpoint(now) {
                    self.checkpoint(operation, stage, &share);
                }
                Some(buffer)
            }
            WriteMode::Beside { stage, writer } => {
                writer.write(Block { operation, stage: Arc::clone(stage), extent, buffer, leaf });
                writing.at_writer += 1;
                self.writer.blocks += 1;
                None
            }
            WriteMode::Ordered { next, waiting, .. } => {
                if extent.offset() < *next || waiting.contains_key(&extent.offset()) {
                    return Some(buffer);
                }
                waiting.insert(extent.offset(), (buffer, extent.length() as usize, leaf));
                self.writer.blocks += writing.write_in_order(operation);
                None
            }
            WriteMode::Discard(_) => {
                hash_written(hashed, leaf);
                self.session.on_written(operation, extent, Ok(()), now);
                Some(buffer)
            }
        }
    }

    /// Some bytes of a block at level clear are in the dispatcher's scratch area.
    pub(super) fn on_piece(&mut self, socket: SocketId, length: usize) {
        // It was closed by what came before in this turn.
        let Some((channel, io)) = self.channels.of_socket(socket) else { return };
        // Cannot fail: a piece is asked for in no other state.
        let Arriving::Pieces(pieces) = &mut io.arriving else { return };
        let Pieces { record, done, to, carry } = pieces;
        let (head, last) = (record.head, *done as usize + length == record.head.length as usize);
        if *to == PieceTarget::File {
            let written_to = head.offset + u64::from(*done) - carry.len() as u64;
            let result = match self.transfers.get(&head.operation).and_then(Transfer::writing) {
                Some(writing) => write_pages(writing.mode.stage(), written_to, carry, self.dispatch.scratch(), last),
                // It ended, or another copy of the block was written.
                None => Ok(()),
            };
            if let Err(error) = result {
                *to = PieceTarget::Skipped;
                self.session.fail(head.operation, error);
            }
        }
        *done += length as u32;
        if last {
            let to = *to;
            return self.on_pieces_done(channel, &head, to);
        }
        let limit = (head.length - *done) as usize;
        self.dispatch.submit(Op::Some { socket, limit: limit.min(bounds::PIECE_BYTES) });
    }

    fn on_pieces_done(&mut self, channel: ChannelId, head: &Head, to: PieceTarget) {
        let now = self.dispatch.now();
        if to == PieceTarget::Skipped {
            return self.skipped(channel);
        }
        let wanted = match self.session.on_block(channel) {
            Ok(wanted) => wanted,
            Err(fault) => return self.session.on_fault(fault),
        };
        if let Some(transfer) = self.transfers.get_mut(&head.operation) {
            transfer.stats.add(channel, head.length.into());
            self.host.moved(head.operation, head.length.into());
            if let Some(extent) = Extent::new(head.offset, head.length.into()).ok().filter(|_| wanted) {
                self.session.on_written(head.operation, extent, Ok(()), now);
                if let Some((stage, share)) = transfer.begin_checkpoint(now) {
                    self.checkpoint(head.operation, stage, &share);
                }
            }
        }
        self.next_head(channel);
    }
}

/// Writes carried and new bytes up to the last whole page, or all of them at the end of a block;
/// the rest is carried. Pieces that do not end at a page were measured to cost a fifth of the rate
/// on ext4.
fn write_pages(
    stage: &xdfs_io::store::Stage,
    offset: u64,
    carry: &mut Vec<u8>,
    piece: &[u8],
    last: bool,
) -> Result<(), Error> {
    let mut offset = offset;
    let mut piece = piece;
    if !carry.is_empty() {
        let missing = (bounds::PAGE_BYTES - carry.len() % bounds::PAGE_BYTES) % bounds::PAGE_BYTES;
        let (fill, rest) = piece.split_at(missing.min(piece.len()));
        carry.extend_from_slice(fill);
        piece = rest;
        if carry.len() < bounds::PAGE_BYTES && !last {
            return Ok(());
        }
        stage.write(carry, offset)?;
        offset += carry.len() as u64;
        carry.clear();
    }
    let whole = if last { piece.len() } else { piece.len() - piece.len() % bounds::PAGE_BYTES };
    if whole > 0 {
        stage.write(&piece[..whole], offset)?;
    }
    carry.extend_from_slice(&piece[whole..]);
    Ok(())
}

/// The record of a channel that waits for a buffer, and whether its block is wanted.
fn waiting(io: &mut ChannelIo) -> Option<(&mut ChannelIo, Record, bool)> {
    match io.arriving {
        Arriving::Waiting { record, wanted } => Some((io, record, wanted)),
        _ => None,
    }
}
