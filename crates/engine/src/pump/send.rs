//! Outgoing records: sealed, then passed to the dispatcher by the route that was chosen when the
//! source was opened.

use super::channel_io::{Arriving, BufferOrigin, SendState, SendingBlock};
use super::hashing::{hash_outgoing, passed};
use super::storage::stream_of;
use super::{Host, Pump};
use crate::control;
use crate::record::with_tag;
use crate::transfer::{Phase, ReadMode, Transfer};
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{Body, Dispatch, Op, Side, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Level, OperationId};
use xdfs_proto::session::{CallService, Payload};
use xdfs_proto::wire::{Event, Head};
use xdfs_secure::record::Tag;

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    pub(super) fn on_send(&mut self, channel: ChannelId, head: Head, payload: Payload) {
        if let Some(io) = self.channels.by_id.get_mut(&channel) {
            io.sending = SendState::Record;
        }
        match payload {
            Payload::Control(payload) => self.send_control(channel, &head, &payload),
            Payload::Block(extent) => self.send_block(channel, head, extent),
            Payload::Calls => {
                self.limit(channel, Side::Send, &head);
                self.send_calls(channel, head);
            }
        }
    }

    fn send_control(&mut self, channel: ChannelId, head: &Head, payload: &[u8]) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        let sealer = &mut io.records.sealer;
        if let Err(error) = control::send(&mut self.dispatch, io.socket, sealer, head, payload) {
            self.lose(channel, error);
        }
    }

    fn send_block(&mut self, channel: ChannelId, head: Head, extent: Extent) {
        self.limit(channel, Side::Send, &head);
        let Some(transfer) = self.transfers.get_mut(&head.operation) else {
            return self.abandon_send(channel);
        };
        let Transfer { hashed, phase: Phase::Reading(reading), .. } = transfer else {
            return self.abandon_send(channel);
        };
        let hashed = hashed.as_ref();
        let by_kernel = head.level == Level::Clear && !reading.buffered;
        match &mut reading.mode {
            ReadMode::Direct { file, offset, .. } if by_kernel => {
                let body = Body::File { file: *file, offset: *offset + extent.offset(), length: extent.length() };
                passed(hashed, extent);
                self.send_clear(channel, &head, extent, body);
            }
            ReadMode::Zero if by_kernel => {
                passed(hashed, extent);
                self.send_clear(channel, &head, extent, Body::Zero { length: extent.length() });
            }
            ReadMode::Stream(stream) => {
                let held = stream.held.get_mut(&extent.offset()).and_then(|(buffer, _)| buffer.take());
                match held {
                    Some(buffer) => {
                        // A buffer's capacity is a block: the length fits.
                        let hashed = hash_outgoing(hashed, extent, &buffer.payload()[..extent.length() as usize]);
                        if let Err(error) = hashed {
                            self.session.on_checked(head.operation, Err(error));
                        }
                        self.send_buffer(channel, &head, extent, BufferOrigin::Stream, buffer);
                    }
                    // Its other copy is still with a transport: this one would be identical.
                    None => self.lose(channel, Error::new(ErrorKind::ConnectionLost, "a block went twice")),
                }
            }
            _ if self.buffers.want_send.is_empty() => match self.buffers.send.take() {
                Some(mut buffer) => {
                    let read = read_block(Some(transfer), extent, &mut buffer);
                    self.send_read(channel, &head, extent, buffer, read);
                }
                None => self.buffers.want_send.push_back((channel, head, extent)),
            },
            _ => self.buffers.want_send.push_back((channel, head, extent)),
        }
    }

    /// A block whose transfer ended after the machine scheduled it: the record was counted, so the
    /// channel cannot continue without it.
    pub(super) fn abandon_send(&mut self, channel: ChannelId) {
        self.lose(channel, Error::new(ErrorKind::Cancelled, "the transfer ended while a record was prepared"));
    }

    fn send_clear(&mut self, channel: ChannelId, head: &Head, extent: Extent, body: Body) {
        // It was closed in this turn.
        let Some(io) = self.channels.by_id.get_mut(&channel) else { return };
        let bytes = head.encode();
        let sealed = io.records.sealer.seal_clear(&bytes).map_err(Error::from);
        let sending = SendingBlock { operation: head.operation, extent, origin: BufferOrigin::Nowhere };
        self.submit_sealed(channel, &bytes, sending, sealed, body);
    }

    pub(super) fn send_buffer(
        &mut self,
        channel: ChannelId,
        head: &Head,
        extent: Extent,
        origin: BufferOrigin,
        mut buffer: Buffer,
    ) {
        let sending = SendingBlock { operation: head.operation, extent, origin };
        let Some(io) = self.channels.by_id.get_mut(&channel) else {
            return self.return_sent(sending, buffer);
        };
        let length = extent.length() as usize;
        let bytes = head.encode();
        let headed = buffer.headed(length);
        headed[..32].copy_from_slice(&bytes);
        let sealed = io.records.sealer.seal(head.level, headed).map_err(Error::from);
        self.submit_sealed(channel, &bytes, sending, sealed, Body::Buffer { buffer, from: 0, to: length });
    }

    /// Passes a record to the transport. If it cannot be sealed, its channel is closed: the record
    /// was counted.
    fn submit_sealed(
        &mut self,
        channel: ChannelId,
        head: &[u8; 32],
        sending: SendingBlock,
        sealed: Result<Tag, Error>,
        body: Body,
    ) {
        match (self.channels.by_id.get_mut(&channel), sealed) {
            (Some(io), Ok(tag)) => {
                io.sending = SendState::Block(sending);
                self.dispatch.submit(Op::Send { socket: io.socket, head: Some(with_tag(head, &tag)), body });
            }
            (_, sealed) => {
                if let Body::Buffer { buffer, .. } = body {
                    self.return_sent(sending, buffer);
                }
                if let Err(error) = sealed {
                    self.lose(channel, error);
                }
            }
        }
    }

    /// A block, or a batch of calls, that waited for a buffer.
    fn read_and_send(&mut self, channel: ChannelId, head: &Head, extent: Extent, mut buffer: Buffer) {
        if Event::from_code(head.event).and_then(CallService::of).is_some() {
            return self.fill_calls(channel, head, extent, buffer);
        }
        let read = read_block(self.transfers.get(&head.operation), extent, &mut buffer);
        self.send_read(channel, head, extent, buffer, read);
    }

    fn send_read(
        &mut self,
        channel: ChannelId,
        head: &Head,
        extent: Extent,
        mut buffer: Buffer,
        read: Result<(), Error>,
    ) {
        if let Err(error) = read {
            // The record was announced to the machine: zeros are sent instead, and the operation
            // fails.
            buffer.payload_mut()[..extent.length() as usize].fill(0);
            self.session.on_checked(head.operation, Err(error));
        }
        self.send_buffer(channel, head, extent, BufferOrigin::Pool, buffer);
    }

    /// Buffers were returned: blocks that wait for one are read.
    pub(super) fn serve_waiting_sends(&mut self) {
        while !self.buffers.want_send.is_empty() {
            // The others wait, too.
            let Some(buffer) = self.buffers.send.take() else { return };
            // Cannot fail: it is not empty.
            let Some((channel, head, extent)) = self.buffers.want_send.pop_front() else { return };
            self.read_and_send(channel, &head, extent, buffer);
        }
    }

    pub(super) fn on_sent(&mut self, socket: SocketId, buffer: Option<Buffer>, short_by: u64) {
        // It was closed by what came before in this turn.
        let Some((channel, io)) = self.channels.of_socket(socket) else { return };
        if let SendState::Block(sending) = std::mem::take(&mut io.sending) {
            let mut ended = None;
            if let Some(transfer) = self.transfers.get_mut(&sending.operation) {
                transfer.stats.add(channel, sending.extent.length());
                self.host.moved(sending.operation, sending.extent.length());
                ended = transfer.closing();
            }
            if let Some(file) = ended {
                self.close_when_sent(sending.operation, file);
            }
            if short_by > 0 {
                let text = "the source became shorter while it was sent";
                self.session.on_checked(sending.operation, Err(Error::new(ErrorKind::SourceChanged, text)));
            }
            if let Some(buffer) = buffer {
                self.return_sent(sending, buffer);
            }
        }
        self.session.on_sent(channel, self.dispatch.now());
        if !self.end_if_abandoned() {
            self.serve_waiting_sends();
        }
    }

    /// The transport returns a buffer: to the stream that still needs its bytes, or to the pool.
    pub(super) fn return_sent(&mut self, sending: SendingBlock, buffer: Buffer) {
        match sending.origin {
            BufferOrigin::Pool => self.buffers.send.give(buffer),
            BufferOrigin::Stream => self.return_to_stream(sending.operation, sending.extent, buffer),
            BufferOrigin::Nowhere => drop(buffer),
        }
    }

    fn return_to_stream(&mut self, operation: OperationId, extent: Extent, buffer: Buffer) {
        // A stream whose operation has ended needs no buffers any more.
        let Some(stream) = stream_of(self.transfers.get_mut(&operation)) else { return };
        match stream.held.get_mut(&extent.offset()) {
            Some((place, _)) => *place = Some(buffer),
            // It was acknowledged while the transport still held it.
            None => stream.recycle(buffer),
        }
    }

    /// Returns a buffer that a socket's operation held when the socket ended.
    pub(super) fn give_back(&mut self, channel: ChannelId, side: Side, buffer: Option<Buffer>) {
        let io = self.channels.by_id.get_mut(&channel);
        match side {
            Side::Receive => {
                // The completion ended the operation too: nothing is arriving any more.
                if let Some(io) = io {
                    io.arriving = Arriving::Nothing;
                }
                if let Some(buffer) = buffer {
                    self.buffers.receive.give(buffer);
                }
            }
            Side::Send => {
                // Otherwise a control message, which holds nothing.
                let left = io.map(|io| std::mem::take(&mut io.sending));
                let Some(SendState::Block(sending)) = left else { return };
                if let Some(buffer) = buffer {
                    self.return_sent(sending, buffer);
                }
                self.on_record_left(sending.operation);
            }
        }
    }
}

/// Reads a block into its buffer, and hashes it if it is hashed as it leaves.
fn read_block(transfer: Option<&Transfer>, extent: Extent, buffer: &mut Buffer) -> Result<(), Error> {
    let ended = || Error::new(ErrorKind::Cancelled, "the transfer has ended");
    let (transfer, reading) = transfer.and_then(|transfer| Some((transfer, transfer.reading()?))).ok_or_else(ended)?;
    let bytes = &mut buffer.payload_mut()[..extent.length() as usize];
    match &reading.mode {
        ReadMode::Buffered { source, offset } | ReadMode::Direct { source, offset, .. } => {
            source.read_exact_at(bytes, *offset + extent.offset())?;
        }
        ReadMode::Zero => bytes.fill(0),
        // Its blocks wait for no buffer: they are in those of the reader thread.
        ReadMode::Stream(_) => return Err(ended()),
    }
    hash_outgoing(transfer.hashed.as_ref(), extent, bytes)
}
