//! Bytes out: records sealed, sources read, what the transport takes.

use super::{Around, Notice, World};
use crate::calls;
use crate::disk;
use crate::port::Outgoing;
use crate::schedule::Event;
use crate::transition::{Fault, Milestone, Task};
use std::rc::Rc;
use xdfs_proto::base::{ChannelId, ErrorKind, Extent, Level, OperationId};
use xdfs_proto::session::Payload;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::head::TAG_BYTES;
use xdfs_proto::wire::{Event as WireEvent, Flags, HEAD_BYTES, Head};

/// Bytes that the direct route reads at a time.
const DIRECT_BYTES: u64 = 16 << 10;

impl World {
    /// The transport has taken a whole record.
    pub fn on_sent(&mut self, channel: ChannelId, around: &mut Around) {
        if self.ports.contains_key(&channel) {
            self.session.on_sent(channel, around.now);
            self.pump(around);
        }
    }

    /// There is room again.
    pub fn on_writable(&mut self, channel: ChannelId, around: &mut Around) {
        self.flush(channel, around);
        self.pump(around);
    }

    /// Writes what the transport takes.
    pub(super) fn flush(&mut self, channel: ChannelId, around: &mut Around) {
        let mut trouble = None;
        while let Some(port) = self.ports.get_mut(&channel) {
            let Some(outgoing) = port.out.front_mut() else { break };
            if outgoing.at == outgoing.bytes.len() {
                let Some((id, rest)) = outgoing.rest.take() else {
                    if outgoing.record {
                        around.soon(Event::Sent(self.who, channel));
                    }
                    port.out.pop_front();
                    continue;
                };
                // The direct route: bytes are read when there is room for them.
                let count = rest.length().min(DIRECT_BYTES);
                let (now, later) = split(rest, count);
                let mut bytes = Vec::with_capacity(count as usize);
                if let Err(unreadable) = around.disks[self.who.side.index()].read(id, now, &mut bytes) {
                    trouble = Some((id, unreadable));
                }
                *outgoing =
                    Outgoing { bytes: Rc::new(bytes), at: 0, rest: later.map(|later| (id, later)), record: true };
            }
            if trouble.as_ref().is_some_and(|(_, unreadable)| unreadable.after_check) {
                break;
            }
            let count = around.network.write(around.now, channel, self.who.side, &outgoing.bytes, outgoing.at);
            if count == 0 {
                break;
            }
            outgoing.at += count;
            port.sent_at = around.now;
            let (heard_at, sent_at) = (port.heard_at, port.sent_at);
            if port.up {
                self.session.on_progress(channel, heard_at, sent_at);
            }
        }
        if let Some((id, unreadable)) = trouble {
            self.unreadable(channel, id, unreadable, around);
        }
    }

    /// A source did not give what was promised. Zeros went out in its place, and the receiver hears why; but once FINISH
    /// may be on its way zeros would count, so the record is not finished at all: its channel is given up.
    fn unreadable(&mut self, channel: ChannelId, id: OperationId, what: disk::Unreadable, around: &mut Around) {
        self.session.on_checked(id, Err(what.error));
        if what.after_check {
            around.oracle.wire_fault(channel, Fault::SourceChanged);
            self.lose(channel, ErrorKind::SourceChanged, "the source changed after its last check", around);
        }
    }

    pub(super) fn send(&mut self, channel: ChannelId, head: &Head, payload: Payload, around: &mut Around) {
        let stream = self.is_stream(head.operation, around);
        let Some(port) = self.ports.get_mut(&channel).filter(|port| port.up) else {
            return around.oracle.violation(|| format!("{:?} uses channel {channel}, which is closed", self.who));
        };
        if port.is_busy() {
            around.oracle.violation(|| format!("{:?} sends on channel {channel} while it is busy", self.who));
        }
        let flip = around.network.flip_due(channel, self.who.side, head.length as usize + HEAD_BYTES + TAG_BYTES);
        let flip = flip.then(|| around.random.bits());
        let mut trouble = None;
        match payload {
            Payload::Control(bytes) => {
                port.queue_record(head, &bytes, None, flip);
                self.observe(head, &bytes, around);
            }
            Payload::Calls => {
                let bytes = calls::content(head.operation, head.flags.has(Flags::REQUEST), head.length);
                port.queue_record(head, &bytes, None, flip);
            }
            // A source that is read in order is in memory, and may be forgotten while a repetition is under way.
            Payload::Block(extent) if flip.is_some_and(|bits| bits % 8 > 0) && may_alter(head, around) => {
                // The tag says nothing about the payload: only the hash sees this.
                let mut bytes = Vec::with_capacity(extent.length() as usize);
                trouble = around.disks[self.who.side.index()].read(head.operation, extent, &mut bytes).err();
                let bit = (flip.unwrap_or(0) >> 3) % (bytes.len().max(1) as u64 * 8);
                if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                    *byte ^= 1 << (bit % 8);
                }
                port.queue_record(head, &bytes, None, None);
                around.oracle.block(self.who, head);
            }
            Payload::Block(extent) if head.level == Level::Clear && !stream => {
                port.queue_record(head, &[], Some((head.operation, extent)), flip);
                around.oracle.block(self.who, head);
            }
            Payload::Block(extent) => {
                let mut bytes = Vec::with_capacity(extent.length() as usize);
                trouble = around.disks[self.who.side.index()].read(head.operation, extent, &mut bytes).err();
                port.queue_record(head, &bytes, None, flip);
                around.oracle.block(self.who, head);
            }
        }
        match trouble {
            Some(unreadable) if unreadable.after_check => {
                self.unreadable(channel, head.operation, unreadable, around);
            }
            other => {
                self.flush(channel, around);
                if let Some(unreadable) = other {
                    self.unreadable(channel, head.operation, unreadable, around);
                }
            }
        }
    }

    fn is_stream(&self, id: OperationId, around: &Around) -> bool {
        let wish = around.ids.get(&id).map(|index| &around.plan.operations[*index]);
        wish.is_some_and(|wish| wish.task == Task::UploadStream)
    }

    /// A control message leaves: the oracle looks at it, and some are moments that faults wait for.
    fn observe(&mut self, head: &Head, bytes: &[u8], around: &mut Around) {
        if head.flags.has(Flags::REQUEST) {
            return;
        }
        let Some(event) = WireEvent::from_code(head.event) else { return };
        let Ok(Some(control)) = Control::decode(event, bytes) else {
            return around.oracle.violation(|| format!("{:?} sends {event:?} that cannot be read", self.who));
        };
        let ports = &self.ports;
        around.oracle.control(self.who, head, &control, |channel| ports.contains_key(&channel));
        if matches!(control, Control::Finish { .. }) {
            around.notice(self.who, Notice::Milestone(head.operation, Milestone::Finish));
        }
    }
}

/// Whether a block may become another on its way without its channel noticing.
fn may_alter(head: &Head, around: &Around) -> bool {
    let wish = super::receive::wish_of(head.operation, around);
    head.level == Level::Clear && wish.is_some_and(|(index, wish)| wish.is_hashed(index))
}

/// The first `count` bytes of `extent`, and the rest.
fn split(extent: Extent, count: u64) -> (Extent, Option<Extent>) {
    let first = Extent::new(extent.offset(), count).expect("within the extent");
    let rest = Extent::new(extent.offset() + count, extent.length() - count).expect("within the extent");
    (first, (!rest.is_empty()).then_some(rest))
}
