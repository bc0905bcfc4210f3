//! RECALL: said by the server alone, once, in messages that are not too long.

use crate::base::{ChannelId, Instant, Level, OperationId, PipelineId};
use crate::limits;
use crate::session::{Fault, Output, Payload, Role, Session, SessionEvent, SessionLimits};
use crate::wire::{Control, Event, Flags, Head};
use alloc::vec::Vec;

const CHANNEL: ChannelId = ChannelId(1);

pub(super) fn session(role: Role) -> Session {
    let mut session = Session::new(role, PipelineId(0), SessionLimits::default());
    session.on_channel(CHANNEL, Instant(1));
    session
}

/// Every message that it sends now.
pub(super) fn said(session: &mut Session) -> Vec<(Head, Vec<u8>)> {
    let mut said = Vec::new();
    while let Some(output) = session.poll(Instant(2)) {
        if let Output::Send { channel, head, payload: Payload::Control(bytes) } = output {
            session.on_sent(channel, Instant(2));
            said.push((head, bytes.to_vec()));
        }
    }
    said
}

pub(super) fn heard(session: &mut Session, head: &Head, payload: &[u8]) -> Result<(), Fault> {
    session.on_head(CHANNEL, head, Instant(3))?;
    session.on_control(CHANNEL, payload, Instant(3))
}

#[test]
fn handles_whose_leases_are_recalled_arrive_once_each_without_an_operation() {
    let (mut server, mut client) = (session(Role::Server), session(Role::Client));
    (1..=300).for_each(|handle| server.recall(handle));
    let messages = said(&mut server);
    assert_eq!(messages.len(), 300_usize.div_ceil(limits::RECALLS_MAX));
    for (head, payload) in &messages {
        assert_eq!((head.event, head.operation, head.level), (Event::Recall as u8, OperationId(0), Level::Private));
        assert_eq!(heard(&mut client, head, payload), Ok(()));
    }
    let mut recalled = Vec::new();
    while let Some(output) = client.poll(Instant(4)) {
        if let Output::Event(SessionEvent::Recalled { handles }) = output {
            recalled.extend(handles);
        }
    }
    assert_eq!(recalled, (1..=300).collect::<Vec<u64>>());
    assert!(said(&mut server).is_empty() && !server.is_at_work());
}

#[test]
fn a_client_that_recalls_is_at_fault() {
    let payload = Control::Recall { handles: alloc::vec![1] }.encode();
    let head = Head {
        event: Event::Recall as u8,
        level: Level::Private,
        epoch: 0,
        operation: OperationId(0),
        sequence: 0,
        offset: 0,
        length: payload.len() as u32,
        flags: Flags::NONE,
    };
    assert_eq!(heard(&mut session(Role::Server), &head, &payload), Err(Fault::WrongSide("RECALL")));
}
