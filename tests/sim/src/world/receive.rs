//! Bytes in: heads judged, payloads checked and written, each at the moment at which a driver has to.

use super::{Around, Notice, World};
use crate::calls;
use crate::network::Side;
use crate::port::{Arriving, Incoming, Route};
use crate::schedule::{Event, Job};
use crate::transition::OperationPlan;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Level, OperationId};
use xdfs_proto::limits;
use xdfs_proto::session::{Fault, HeadVerdict};
use xdfs_proto::wire::head::TAG_BYTES;
use xdfs_proto::wire::{Event as WireEvent, Flags, HEAD_BYTES, Head};

/// Bytes that a wake-up reads at most, so that no channel starves the others.
const READ_BUDGET: usize = 512 << 10;

impl World {
    /// The wire has bytes or the end of the stream.
    pub fn on_readable(&mut self, channel: ChannelId, around: &mut Around) {
        let mut budget = READ_BUDGET;
        while let Some(port) = self.ports.get_mut(&channel) {
            let wanted = port.wanted().min(budget);
            if wanted == 0 {
                // Parked, or enough for now: what is left stays with the transport.
                if !matches!(port.incoming, Incoming::Parked(_)) {
                    let wake = crate::network::Wake::Readable(self.who.side, channel);
                    around.soon(Event::Wake(wake));
                }
                return;
            }
            let read = around.network.read(around.now, channel, self.who.side, wanted);
            let count: usize = read.pieces.iter().map(|(_, range)| range.len()).sum();
            if count == 0 {
                if read.end {
                    self.on_end_of_stream(channel, around);
                }
                return;
            }
            budget -= count;
            port.heard_at = around.now;
            let (heard_at, sent_at) = (port.heard_at, port.sent_at);
            self.session.on_progress(channel, heard_at, sent_at);
            for (bytes, range) in read.pieces {
                self.take(channel, &bytes[range], around);
            }
        }
    }

    fn on_end_of_stream(&mut self, channel: ChannelId, around: &mut Around) {
        // Behind EOFT the end is in order; the rest of the way out is still open.
        if self.ports.get(&channel).is_some_and(|port| !port.ended) {
            self.lose(channel, ErrorKind::ConnectionLost, "the connection ended without EOFT", around);
        }
    }

    /// The connection is reset.
    pub fn on_broken(&mut self, channel: ChannelId, around: &mut Around) {
        self.lose(channel, ErrorKind::ConnectionLost, "connection reset", around);
    }

    pub(super) fn lose(&mut self, channel: ChannelId, kind: ErrorKind, why: &str, around: &mut Around) {
        let Some(port) = self.ports.get(&channel) else { return };
        around.trace.remark(around.now, || format!("{:?} loses channel {channel}: {why}", self.who));
        if !port.up {
            self.ports.remove(&channel);
            around.network.close(around.now, channel, self.who.side, true);
            if self.ports.is_empty() && self.who.side == Side::Client {
                // A pipeline without any channel would be waited for without end.
                self.session.end(Some(Error::new(kind, "no channel could be made")));
                self.pump(around);
            }
            return;
        }
        self.session.on_lost(channel, Error::new(kind, why));
        self.pump(around);
    }

    /// Bytes for the next step, never more than it wants.
    fn take(&mut self, channel: ChannelId, bytes: &[u8], around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        match &mut port.incoming {
            Incoming::Join(have) | Incoming::Answer(have) | Incoming::Head(have) => have.extend_from_slice(bytes),
            Incoming::Payload(arriving) => {
                arriving.left -= bytes.len();
                match arriving.route {
                    Route::Direct(id, extent) if !arriving.failed => {
                        let offset = extent.end() - (arriving.left + bytes.len()) as u64;
                        if let Err(error) = around.disk(self.who).write(id, offset, bytes) {
                            arriving.failed = true;
                            self.session.on_written(id, extent, Err(error), around.now);
                            self.pump(around);
                        }
                    }
                    Route::Direct(..) => {}
                    Route::Skip if arriving.opened => {}
                    _ => arriving.headed.extend_from_slice(bytes),
                }
            }
            Incoming::Parked(_) | Incoming::Taken => unreachable!("nothing is read while a channel is parked"),
        }
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if port.wanted() > 0 {
            return;
        }
        match std::mem::replace(&mut port.incoming, Incoming::Taken) {
            Incoming::Join(have) => self.on_join(channel, &have, around),
            Incoming::Answer(_) => {
                port.incoming = Incoming::Head(Vec::new());
                self.up(channel, around);
            }
            Incoming::Head(have) => self.on_head(channel, &have, around),
            Incoming::Payload(arriving) => self.on_payload(channel, arriving, around),
            Incoming::Parked(_) | Incoming::Taken => {}
        }
    }

    fn on_join(&mut self, channel: ChannelId, bytes: &[u8], around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if !port.answer_join(bytes) {
            return self.lose(channel, ErrorKind::SessionUnknown, "JOIN without proof", around);
        }
        port.incoming = Incoming::Head(Vec::new());
        self.flush(channel, around);
        self.up(channel, around);
    }

    /// Head and tag are complete.
    fn on_head(&mut self, channel: ChannelId, bytes: &[u8], around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        let Some((head_bytes, tag)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return };
        let mut tag_bytes = [0; TAG_BYTES];
        tag_bytes.copy_from_slice(tag);
        let Ok(head) = Head::decode(head_bytes) else {
            return self.lose(channel, ErrorKind::Protocol, "unreadable head", around);
        };
        let mut arriving = Box::new(Arriving {
            head,
            headed: head_bytes.to_vec(),
            tag: tag_bytes,
            route: Route::Control,
            left: head.length as usize,
            opened: false,
            failed: false,
        });
        if head.level == Level::Clear {
            if port.opener.open_clear(head_bytes, &tag_bytes).is_err() {
                return self.lose(channel, ErrorKind::Protocol, "wrong tag", around);
            }
            arriving.opened = true;
        } else if head.level == Level::Private || head.length > limits::BLOCK_BYTES_MAX {
            // What cannot be collected cannot be checked, so it cannot be blamed on the peer.
            return self.lose(channel, ErrorKind::Protocol, "unreadable head", around);
        }
        let block = WireEvent::from_code(head.event).is_some_and(WireEvent::carries_block);
        if block && !head.flags.has(Flags::REQUEST) {
            return self.judge_block(channel, arriving, around);
        }
        if head.length as usize > limits::CONTROL_BYTES_MAX {
            return self.lose(channel, ErrorKind::Protocol, "unreadable head", around);
        }
        self.expect(channel, arriving, around);
    }

    /// Waits for the payload, or goes on at once where there is none.
    fn expect(&mut self, channel: ChannelId, arriving: Box<Arriving>, around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if arriving.left == 0 {
            return self.on_payload(channel, arriving, around);
        }
        port.incoming = Incoming::Payload(arriving);
    }

    fn judge_block(&mut self, channel: ChannelId, mut arriving: Box<Arriving>, around: &mut Around) {
        let verdict = self.session.on_head(channel, &arriving.head, around.now);
        around.trace.note(around.now, self.who, &(channel, arriving.head, verdict));
        match verdict {
            Err(fault) if arriving.opened => return self.blame(channel, fault, around),
            Err(fault) => arriving.route = Route::Doubtful(fault),
            Ok(HeadVerdict::Park) => {
                if let Some(port) = self.ports.get_mut(&channel) {
                    port.incoming = Incoming::Parked(arriving);
                }
                return;
            }
            Ok(HeadVerdict::Skip | HeadVerdict::Control | HeadVerdict::Calls { .. }) => arriving.route = Route::Skip,
            Ok(HeadVerdict::Block { operation, offset, length }) => {
                let extent = Extent::new(offset, length.into()).expect("the machine has checked it");
                // What is hashed arrives whole, as in the engine.
                let hashed = wish_of(operation, around).is_some_and(|(index, wish)| wish.is_hashed(index));
                let direct = arriving.opened && !hashed && !around.disk(self.who).is_in_order(operation);
                arriving.route =
                    if direct { Route::Direct(operation, extent) } else { Route::Buffered(operation, extent) };
            }
        }
        self.pump(around);
        self.expect(channel, arriving, around);
    }

    /// A parked head may be judged again.
    pub fn on_resume(&mut self, channel: ChannelId, around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        match std::mem::replace(&mut port.incoming, Incoming::Taken) {
            Incoming::Parked(arriving) if arriving.route == Route::Control && arriving.left == 0 => {
                self.on_message(channel, arriving, around);
            }
            Incoming::Parked(arriving) => self.judge_block(channel, arriving, around),
            other => port.incoming = other,
        }
        self.on_readable(channel, around);
    }

    /// Head, tag and payload are complete.
    fn on_payload(&mut self, channel: ChannelId, mut arriving: Box<Arriving>, around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if !arriving.opened {
            let level = arriving.head.level;
            if port.opener.open(level, &mut arriving.headed, &arriving.tag).is_err() {
                return self.lose(channel, ErrorKind::Protocol, "wrong tag", around);
            }
            arriving.opened = true;
        }
        port.incoming = Incoming::Head(Vec::new());
        let result = match arriving.route {
            Route::Doubtful(fault) => Err(fault),
            Route::Control => return self.on_message(channel, arriving, around),
            Route::Skip => self.session.on_skipped(channel).map(|()| false),
            Route::Buffered(..) | Route::Direct(..) => self.session.on_block(channel),
        };
        let wanted = match result {
            Ok(wanted) => wanted,
            Err(fault) => return self.blame(channel, fault, around),
        };
        let block = matches!(arriving.route, Route::Buffered(..) | Route::Direct(..));
        around.oracle.processed(self.who.side, channel, block);
        if block {
            around.notice(self.who, Notice::Block);
        }
        self.pump(around);
        match arriving.route {
            _ if !wanted => {}
            Route::Direct(id, extent) if !arriving.failed => {
                around.disk(self.who).complete(id, extent);
                self.session.on_written(id, extent, Ok(()), around.now);
                self.pump(around);
            }
            Route::Buffered(id, extent) => {
                let bytes = arriving.payload().to_vec();
                if around.plan.writer_thread {
                    around.job(self.who, Job::Write(id, extent, bytes));
                } else {
                    self.write(id, extent, bytes, around);
                }
            }
            _ => {}
        }
    }

    pub(super) fn write(&mut self, id: OperationId, extent: Extent, bytes: Vec<u8>, around: &mut Around) {
        let disk = around.disk(self.who);
        let completed = if disk.is_in_order(id) {
            disk.write_in_order(id, extent, bytes)
        } else {
            vec![(extent, disk.write(id, extent.offset(), &bytes))]
        };
        let held = disk.held(id);
        let wish = around.ids.get(&id).map(|index| &around.plan.operations[*index]);
        let room = wish.and_then(|wish| wish.in_order.map(|blocks| blocks.max(wish.credit_blocks)));
        if room.is_some_and(|room| held as u64 > room) {
            around.oracle.violation(|| format!("{held} blocks are held for a target that holds {room:?}"));
        }
        for (extent, result) in completed {
            if result.is_ok() {
                around.disk(self.who).complete(id, extent);
            }
            self.session.on_written(id, extent, result, around.now);
            self.pump(around);
        }
    }

    /// A control message is complete and checked.
    fn on_message(&mut self, channel: ChannelId, arriving: Box<Arriving>, around: &mut Around) {
        let verdict = self.session.on_head(channel, &arriving.head, around.now);
        around.trace.note(around.now, self.who, &(channel, arriving.head, verdict));
        let Some(port) = self.ports.get_mut(&channel) else { return };
        let result = match verdict {
            Ok(HeadVerdict::Park) => {
                port.incoming = Incoming::Parked(arriving);
                return self.pump(around);
            }
            Ok(HeadVerdict::Skip) => self.session.on_skipped(channel),
            Ok(HeadVerdict::Calls { operation, length }) => {
                let request = arriving.head.flags.has(Flags::REQUEST);
                if arriving.payload() != calls::content(operation, request, length) {
                    around.oracle.violation(|| format!("calls of operation {operation} arrive as others"));
                }
                let taken = self.session.on_calls(channel, around.now);
                if taken == Ok(true) && !request {
                    around.calls.on_reply(operation);
                }
                taken.map(drop)
            }
            Ok(_) => {
                port.ended |= arriving.head.event == WireEvent::EndOfTransfer as u8;
                let result = self.session.on_control(channel, arriving.payload(), around.now);
                if result.is_ok() && arriving.head.event == WireEvent::Rekey as u8 {
                    port.opener.rekey().expect("the machine has checked it");
                    around.oracle.rekeyed += 1;
                }
                result
            }
            Err(fault) => Err(fault),
        };
        port.incoming = Incoming::Head(Vec::new());
        if let Err(fault) = result {
            return self.blame(channel, fault, around);
        }
        around.oracle.processed(self.who.side, channel, false);
        self.pump(around);
    }

    /// The peer broke the protocol: both ends are real machines, so one of them is wrong.
    fn blame(&mut self, channel: ChannelId, fault: Fault, around: &mut Around) {
        around.oracle.violation(|| format!("{:?}, channel {channel}: {fault} ({fault:?})", self.who));
        self.session.on_fault(fault);
        self.pump(around);
    }
}

/// The operation's place in the plan, and what was wished.
pub(super) fn wish_of(id: OperationId, around: &Around) -> Option<(usize, &OperationPlan)> {
    let index = *around.ids.get(&id)?;
    Some((index, &around.plan.operations[index]))
}
