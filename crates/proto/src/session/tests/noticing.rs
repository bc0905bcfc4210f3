//! NOTICE: said by the server alone; a client that does not take it costs a bounded amount.

use super::recalling::{heard, said, session};
use crate::base::{ChannelId, Instant, Level, OperationId};
use crate::notices::NAMES_MAX;
use crate::session::{Fault, Output, Payload, Role, Session, SessionEvent};
use crate::wire::notice::{Changes, Notice};
use crate::wire::{Control, Event, Flags, Head};
use alloc::format;
use alloc::vec::Vec;

fn changed(watch: u64, name: &str) -> Notice {
    Notice { watch, changes: Changes::CONTENT, name: name.as_bytes().to_vec() }
}

fn told(client: &mut Session) -> Vec<Notice> {
    let mut all = Vec::new();
    while let Some(output) = client.poll(Instant(4)) {
        if let Output::Event(SessionEvent::Noticed { notices }) = output {
            all.extend(notices);
        }
    }
    all
}

#[test]
fn changes_arrive_once_each_without_an_operation() {
    let (mut server, mut client) = (session(Role::Server), session(Role::Client));
    for number in 0..200 {
        server.notice(changed(1, &format!("{number:03}")));
    }
    let messages = said(&mut server);
    assert_eq!(messages.len(), 2);
    for (head, payload) in &messages {
        assert_eq!((head.event, head.operation, head.level), (Event::Notice as u8, OperationId(0), Level::Private));
        assert_eq!(heard(&mut client, head, payload), Ok(()));
    }
    let all = told(&mut client);
    assert_eq!(all, (0..200).map(|number| changed(1, &format!("{number:03}"))).collect::<Vec<_>>());
    assert!(said(&mut server).is_empty() && !server.is_at_work());
}

#[test]
fn what_a_client_does_not_take_is_gathered_and_told_when_it_does() {
    let mut server = session(Role::Server);
    server.notice(changed(1, "first"));
    let channel = ChannelId(1);
    let Some(Output::Send { head, payload: Payload::Control(first), .. }) = server.poll_idle(Instant(2)) else {
        panic!("nothing to send")
    };
    // It is not with the transport yet, and more and more happens.
    for number in 0..100_000 {
        server.notice(changed(1 + number % 2, &format!("{number}")));
        assert!(server.poll_idle(Instant(2)).is_none());
    }
    server.on_sent(channel, Instant(3));
    let messages = said(&mut server);
    let mut client = session(Role::Client);
    heard(&mut client, &head, &first).unwrap();
    messages.iter().for_each(|(head, payload)| heard(&mut client, head, payload).unwrap());
    let all = told(&mut client);
    assert!(all.len() <= NAMES_MAX + 3 && messages.len() <= 3);
    let again = |watch| all.iter().any(|notice| notice.watch == watch && notice.changes.has(Changes::LOOK_AGAIN));
    assert!(again(1) && again(2));
}

#[test]
fn a_client_that_tells_of_changes_is_at_fault() {
    let payload = Control::Notice { notices: alloc::vec![Notice::of_all()] }.encode();
    let head = Head {
        event: Event::Notice as u8,
        level: Level::Private,
        epoch: 0,
        operation: OperationId(0),
        sequence: 0,
        offset: 0,
        length: payload.len() as u32,
        flags: Flags::NONE,
    };
    assert_eq!(heard(&mut session(Role::Server), &head, &payload), Err(Fault::WrongSide("NOTICE")));
}
