//! What Eve says in her own session: records under her own keys, in an order that no honest client has.

use super::action::Word;
use super::drive::after;
use super::oracle::Seen;
use super::setting::Setting;
use super::symbol::{End, Sealed, Who};
use super::world::World;
use crate::marked::Marked;
use crate::world::{BLOCK, NOW};
use xdfs_proto::base::{ChannelId, Extent, Level, OperationId};
use xdfs_proto::session::{HeadVerdict, Payload};
use xdfs_proto::wire::control::{Ack, Control, Finish, Grant, Safety};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags, Head};

/// Her channel.
const CHANNEL: ChannelId = ChannelId(1);

impl World {
    /// She says a record. It is sealed as it must be: what is wrong with it is what it says.
    pub(super) fn say(&mut self, setting: &Setting, word: Word) {
        self.words -= 1;
        let Some(key) = self.eves.key else { return };
        let (epoch, sequence) = self.eves_nonce;
        let control = |control: &Control| (control.event(), Level::Private, Flags::NONE, control.encode());
        let (event, level, flags, bytes) = match word {
            Word::Request => (Event::Upload, Level::Private, Flags::REQUEST, request().encode()),
            Word::Block(level) => (Event::Upload, level, Flags::NONE, Vec::new()),
            Word::Finish => control(&Control::Finish(Finish { length: BLOCK, ..Finish::default() })),
            Word::Ack => {
                let ack = Ack {
                    safety: Safety::Written,
                    contiguous: BLOCK,
                    credit_limit: BLOCK,
                    ranges: Vec::new(),
                    round: 0,
                };
                control(&Control::Ack(ack))
            }
            Word::Grant => control(&Control::Grant(grant())),
            Word::EndOfRange => control(&Control::EndOfRange { blocks: 1 }),
            Word::Rekey => control(&Control::Rekey),
            Word::Fence => control(&Control::Fence { channel: ChannelId(2), processed: 0 }),
        };
        let session = matches!(word, Word::Rekey | Word::Fence);
        let block = matches!(word, Word::Block(_));
        let length = if block { BLOCK as u32 } else { bytes.len() as u32 };
        let operation = OperationId(if session { 0 } else { 1 });
        let head = Head { event: event as u8, level, epoch, operation, sequence, offset: 0, length, flags };
        let whole = Extent::new(0, BLOCK).unwrap_or_default();
        let payload = if block { Payload::Block(whole) } else { Payload::Control(bytes) };
        let record = Sealed { key: (key, End::Client), nonce: (epoch, sequence), head, payload, altered: false };
        self.oracle.on_sealed(&record);
        self.eves_nonce = after(self.eves_nonce, &record);
        self.eves.queue.push_back(Marked::new(record));
        if !self.eves.parked && self.eves.queue.len() == 1 {
            // Nothing else hears of it, so when it arrives makes no difference.
            self.hear(setting);
        }
    }

    /// What she said first arrives at the server.
    pub(super) fn hear(&mut self, setting: &Setting) {
        let Some(record) = self.eves.queue.front().cloned() else { return };
        debug_assert!(record.opens(super::drive::eves_key(setting), End::Client, self.eves.due));
        let judged = self.machine(Who::Eve, End::Server).map(|session| session.on_head(CHANNEL, &record.head, NOW));
        let result = match judged {
            None => return,
            Some(Ok(HeadVerdict::Park)) => {
                self.eves.parked = true;
                return;
            }
            Some(Err(fault)) => Err(fault),
            Some(Ok(verdict)) => {
                self.eves.queue.pop_front();
                self.eves.due = after(self.eves.due, &record);
                self.complete(setting, Who::Eve, End::Server, &record, CHANNEL, verdict)
            }
        };
        if let Err(fault) = result {
            self.oracle.seen.insert(Seen::EveAtFault);
            self.input(setting, Who::Eve, End::Server, |session| session.on_fault(fault));
        }
    }
}

fn request() -> Request {
    Request { name: b"e/eve".to_vec(), length: Some(BLOCK), level: Level::Clear, ..Request::default() }
}

fn grant() -> Grant {
    Grant { level: Level::Clear, block: BLOCK as u32, credit_limit: BLOCK, length: Some(BLOCK), ..Grant::default() }
}
