//! Records that leave: sealed, then handed to the dispatcher by the route that was chosen when the source was opened.

use super::{Host, Pump};
use crate::transfer::Reading;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Instant, Level, OperationId};
use xdfs_proto::session::Payload;
use xdfs_proto::wire::Head;
use xdfs_xio::buf::Buffer;
use xdfs_xio::dispatch::{Body, Dispatch, HEAD_BYTES, Op, Side, SocketId};

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    pub(super) fn on_send(&mut self, channel: ChannelId, head: Head, payload: Payload, now: Instant) {
        if let Some(line) = self.lines.get_mut(&channel) {
            line.busy = true;
        }
        match payload {
            Payload::Control(payload) => self.send_control(channel, &head, payload),
            Payload::Block(extent) => self.send_block(channel, head, extent, now),
        }
    }

    fn send_control(&mut self, channel: ChannelId, head: &Head, payload: Vec<u8>) {
        let mut headed = head.encode().to_vec();
        headed.extend_from_slice(&payload);
        let Some(line) = self.lines.get_mut(&channel) else { return };
        let tag = match line.sealer.seal(head.level, &mut headed) {
            Ok(tag) => tag,
            Err(error) => return self.lose(channel, error.into()),
        };
        let sealed = joined(&headed[..32], &tag);
        let body = if payload.is_empty() { Body::None } else { Body::Bytes(headed.split_off(32)) };
        self.dispatch.submit(Op::Send { socket: line.socket, head: Some(sealed), body });
    }

    fn send_block(&mut self, channel: ChannelId, head: Head, extent: Extent, now: Instant) {
        let Some(transfer) = self.transfers.get_mut(&head.operation) else {
            return self.abandon_send(channel, now);
        };
        let clear = head.level == Level::Clear;
        match &mut transfer.reading {
            Some(Reading::Direct { file, offset, .. }) if clear => {
                let body = Body::File { file: *file, offset: *offset + extent.offset(), length: extent.length() };
                self.send_clear(channel, &head, extent, body);
            }
            Some(Reading::Zero) if clear => {
                self.send_clear(channel, &head, extent, Body::Zero { length: extent.length() });
            }
            Some(Reading::Stream(stream)) => {
                let held = stream.held.get_mut(&extent.offset()).and_then(|(buffer, _)| buffer.take());
                match held {
                    Some(buffer) => self.send_buffer(channel, &head, extent, buffer),
                    // Its other copy is still with a transport: this one would say the same.
                    None => self.lose(channel, Error::new(ErrorKind::ConnectionLost, "a block went twice")),
                }
            }
            Some(_) if self.want_send.is_empty() => match self.send_pool.take() {
                Some(buffer) => self.read_and_send(channel, &head, extent, buffer),
                None => self.want_send.push_back((channel, head, extent)),
            },
            Some(_) => self.want_send.push_back((channel, head, extent)),
            None => self.abandon_send(channel, now),
        }
    }

    /// A block whose transfer ended between the machine's decision and now: the record was counted, so the channel cannot
    /// go on without it.
    fn abandon_send(&mut self, channel: ChannelId, _now: Instant) {
        self.lose(channel, Error::new(ErrorKind::Cancelled, "the transfer ended while a record was prepared"));
    }

    fn send_clear(&mut self, channel: ChannelId, head: &Head, extent: Extent, body: Body) {
        let Some(line) = self.lines.get_mut(&channel) else { return };
        let bytes = head.encode();
        let tag = match line.sealer.seal_clear(&bytes) {
            Ok(tag) => tag,
            Err(error) => return self.lose(channel, error.into()),
        };
        line.sending = Some((head.operation, extent));
        self.dispatch.submit(Op::Send { socket: line.socket, head: Some(joined(&bytes, &tag)), body });
    }

    fn send_buffer(&mut self, channel: ChannelId, head: &Head, extent: Extent, mut buffer: Buffer) {
        let length = extent.length() as usize;
        let Some(line) = self.lines.get_mut(&channel) else {
            return self.return_sent(head.operation, extent, buffer);
        };
        let bytes = head.encode();
        let headed = buffer.headed(length);
        headed[..32].copy_from_slice(&bytes);
        match line.sealer.seal(head.level, headed) {
            Ok(tag) => {
                line.sending = Some((head.operation, extent));
                let body = Body::Buffer { buffer, from: 0, to: length };
                self.dispatch.submit(Op::Send { socket: line.socket, head: Some(joined(&bytes, &tag)), body });
            }
            Err(error) => {
                self.return_sent(head.operation, extent, buffer);
                self.lose(channel, error.into());
            }
        }
    }

    fn read_and_send(&mut self, channel: ChannelId, head: &Head, extent: Extent, mut buffer: Buffer) {
        let length = extent.length() as usize;
        let reading = self.transfers.get(&head.operation).and_then(|transfer| transfer.reading.as_ref());
        let result = match reading {
            Some(Reading::Buffered { source, offset } | Reading::Direct { source, offset, .. }) => {
                source.read_exact_at(&mut buffer.payload_mut()[..length], *offset + extent.offset())
            }
            Some(Reading::Zero) => {
                buffer.payload_mut()[..length].fill(0);
                Ok(())
            }
            Some(Reading::Stream(_)) | None => Err(Error::new(ErrorKind::Cancelled, "the transfer has ended")),
        };
        if let Err(error) = result {
            // The record was announced to the machine: zeros take its place, and the operation fails (design rule 7).
            buffer.payload_mut()[..length].fill(0);
            self.session.on_checked(head.operation, Err(error));
        }
        self.send_buffer(channel, head, extent, buffer);
    }

    /// Buffers came back: blocks that wait for one are read.
    pub(super) fn serve_waiting_sends(&mut self) {
        while !self.want_send.is_empty() {
            let Some(buffer) = self.send_pool.take() else { return };
            let Some((channel, head, extent)) = self.want_send.pop_front() else { return };
            self.read_and_send(channel, &head, extent, buffer);
        }
    }

    pub(super) fn on_sent(&mut self, socket: SocketId, buffer: Option<Buffer>, short_by: u64) {
        let Some(channel) = self.channel_of(socket) else { return };
        let Some(line) = self.lines.get_mut(&channel) else { return };
        line.busy = false;
        let sending = line.sending.take();
        if let Some((operation, extent)) = sending {
            if let Some(transfer) = self.transfers.get_mut(&operation) {
                transfer.tally.add(channel, extent.length());
                self.host.moved(operation, extent.length());
            }
            if short_by > 0 {
                let text = "the source became shorter while it was sent";
                self.session.on_checked(operation, Err(Error::new(ErrorKind::SourceChanged, text)));
            }
            if let Some(buffer) = buffer {
                self.return_sent(operation, extent, buffer);
            }
        }
        if !self.closing.is_empty() {
            self.close_finished();
        }
        self.session.on_sent(channel, self.dispatch.now());
        self.serve_waiting_sends();
    }

    /// A buffer comes back from the transport: to the stream that still needs its bytes, or to the pool.
    pub(super) fn return_sent(&mut self, operation: OperationId, extent: Extent, buffer: Buffer) {
        if self.is_stream(operation) {
            self.return_to_stream(operation, extent, buffer);
        } else {
            self.send_pool.give(buffer);
        }
    }

    pub(super) fn is_stream(&self, operation: OperationId) -> bool {
        let reading = self.transfers.get(&operation).and_then(|transfer| transfer.reading.as_ref());
        matches!(reading, Some(Reading::Stream(_)))
    }

    pub(super) fn return_to_stream(&mut self, operation: OperationId, extent: Extent, buffer: Buffer) {
        let reading = self.transfers.get_mut(&operation).and_then(|transfer| transfer.reading.as_mut());
        let Some(Reading::Stream(stream)) = reading else { return };
        match stream.held.get_mut(&extent.offset()) {
            Some((place, _)) => *place = Some(buffer),
            // Acknowledged while the transport still had it.
            None => stream.recycle(buffer),
        }
    }

    /// A buffer that a socket's operation held when the socket ended.
    pub(super) fn give_back(&mut self, channel: ChannelId, side: Side, buffer: Option<Buffer>) {
        let Some(buffer) = buffer else { return };
        match (side, self.lines.get_mut(&channel).and_then(|line| line.sending.take())) {
            (Side::Send, Some((operation, extent))) => self.return_sent(operation, extent, buffer),
            (Side::Send, None) => self.send_pool.give(buffer),
            (Side::Receive, sending) => {
                if let Some(line) = self.lines.get_mut(&channel) {
                    line.sending = sending;
                }
                self.receive_pool.give(buffer);
            }
        }
    }
}

fn joined(head: &[u8], tag: &[u8; 16]) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..32].copy_from_slice(&head[..32]);
    bytes[32..].copy_from_slice(tag);
    bytes
}
