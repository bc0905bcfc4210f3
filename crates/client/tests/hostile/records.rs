//! Records that an honest peer cannot send. Each ends its session with the cause in the log, and no other one.

use super::raw::{Beside, RawChannel, SOON, head, open, wishes};
use super::support::BLOCK;
use super::support::serving::Serving;
use std::io::Write;
use xdfs_client::{ErrorKind, Level};
use xdfs_proto::base::{ChannelId, Extent, OperationId};
use xdfs_proto::wire::control::{Ack, ChannelGrant, Control, Finish, Grant, Safety};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags, Head};
use xdfs_server::LogEvent;

const LENGTH: u64 = 10 * BLOCK as u64;

/// What is done on a session with one channel and an upload of ten blocks as operation 1, and what the log says then.
type Case = (&'static str, &'static str, fn(&mut RawChannel));

fn control(event: Event) -> Head {
    head(event, Level::Private, 0)
}

fn raw_event(channel: &mut RawChannel, code: u8) {
    channel.record(Head { event: code, ..control(Event::Nothing) }, &[], |_| {});
}

fn grant() -> Grant {
    Grant { block: BLOCK as u32, length: Some(0), ranges: vec![Extent::new(0, 0).unwrap()], ..Grant::default() }
}

fn ack(low: u64) -> Control {
    Control::Ack(Ack { safety: Safety::Written, contiguous: low, credit_limit: low, ranges: Vec::new(), round: 0 })
}

/// Asks for a download as operation 2 and waits for its GRANT.
fn download(channel: &mut RawChannel) {
    let request = Request { name: b"memory/zero".to_vec(), length: Some(LENGTH), ..Request::default() };
    channel.request(false, 2, &request);
    channel.until("GRANT", |_, control| matches!(control, Control::Grant(_)).then_some(()));
}

const FRAMES: &[Case] = &[
    ("a sequence from the future", "out of sequence", |c| {
        c.exactly(Head { sequence: 9, ..control(Event::Nothing) }, &[], |_| {});
    }),
    ("a block out of sequence", "out of sequence", |c| {
        c.exactly(Head { length: 5, sequence: 0, ..head(Event::Upload, Level::Clear, 1) }, &[0; 5], |_| {});
    }),
    ("an unknown epoch", "unknown key epoch", |c| {
        c.record(Head { epoch: 1, ..control(Event::Nothing) }, &[], |_| {});
    }),
    ("the old epoch behind REKEY", "unknown key epoch", |c| {
        c.rekey();
        c.record(control(Event::Nothing), &[], |_| {});
    }),
    ("the old key behind REKEY", "tag is wrong", |c| {
        c.record(control(Event::Rekey), &[], |_| {});
        c.exactly(Head { epoch: 1, ..control(Event::Nothing) }, &[], |_| {});
    }),
    ("a new key without REKEY", "tag is wrong", |c| {
        let sequence = c.sequence();
        c.next_key();
        c.exactly(Head { sequence, ..control(Event::Nothing) }, &[], |_| {});
    }),
    ("a new epoch that counts on", "out of sequence", |c| {
        c.rekey();
        c.exactly(Head { epoch: 1, sequence: 5, ..control(Event::Nothing) }, &[], |_| {});
    }),
    ("REKEY at level clear", "below what was granted", |c| c.record(head(Event::Rekey, Level::Clear, 0), &[], |_| {})),
    ("REKEY with a payload", "malformed", |c| c.record(control(Event::Rekey), &[1], |_| {})),
    ("a wrong tag", "tag is wrong", |c| c.record(control(Event::Nothing), &[], |bytes| bytes[40] ^= 1)),
    ("an altered head", "tag is wrong", |c| c.record(control(Event::Nothing), &[], |bytes| bytes[7] ^= 1)),
    ("an altered payload", "tag is wrong", |c| {
        c.record(
            control(Event::Finish),
            &Control::Finish(Finish { length: 1, ..Finish::default() }).encode(),
            |bytes| {
                bytes[48] ^= 1;
            },
        );
    }),
    ("an altered head of a block", "tag is wrong", |c| {
        c.record(head(Event::Upload, Level::Clear, 1), &[0; BLOCK], |bytes| bytes[22] ^= 1);
    }),
    ("a message at level clear", "below what was granted", |c| {
        c.record(head(Event::Nothing, Level::Clear, 0), &[], |_| {});
    }),
    ("a level that is none", "protection level", |c| c.record(control(Event::Nothing), &[], |bytes| bytes[1] = 7)),
    ("flags that are none", "flags", |c| {
        c.record(Head { flags: Flags(0), ..control(Event::Nothing) }, &[], |b| b[28] = 1)
    }),
    ("an unknown event", "event 11 is unknown", |c| raw_event(c, 11)),
    ("event zero", "event 0 is unknown", |c| raw_event(c, 0)),
    ("a reply to nobody", "xPathM from the wrong side", |c| c.record(control(Event::Path), &[2, 0], |_| {})),
    ("an empty batch", "malformed", |c| c.record(batch(), &[], |_| {})),
    ("a batch that is too long", "payload longer", |c| c.record(batch(), &[0; BLOCK + 1], |_| {})),
    ("a batch at level clear", "below what was granted", |c| {
        c.record(Head { level: Level::Clear, ..batch() }, &[0; 9], |_| {});
    }),
    ("a block of an operation of calls", "xFTSMU from the wrong side", |c| {
        c.record(batch(), &[0; 9], |_| {});
        c.block(Event::Upload, 2, 0, &[0; BLOCK]);
    }),
    ("a reply on a file to nobody", "xDFSM from the wrong side", |c| c.record(control(Event::File), &[2, 0], |_| {})),
    ("a hole", "event 24 is unknown or reserved", |c| raw_event(c, 24)),
    ("a message that is too long", "payload longer", |c| c.record(control(Event::Ack), &[0; 65537], |_| {})),
    ("a message cut short", "malformed", |c| c.record(control(Event::Credit), &[0x80], |_| {})),
    ("a message with more behind it", "malformed", |c| c.record(control(Event::Nothing), &[1], |_| {})),
];

/// A batch of calls as operation 2.
fn batch() -> Head {
    Head { flags: Flags::REQUEST, operation: OperationId(2), ..control(Event::Path) }
}

const BLOCKS: &[Case] = &[
    ("a block behind the range", "outside the range", |c| c.block(Event::Upload, 1, LENGTH, &[0; BLOCK])),
    ("a block at the end of numbers", "payload longer", |c| c.block(Event::Upload, 1, u64::MAX, &[0; BLOCK])),
    ("a block off the grid", "block grid", |c| c.block(Event::Upload, 1, 1, &[0; BLOCK])),
    ("a short block in the middle", "block grid", |c| c.block(Event::Upload, 1, 0, &[0; BLOCK - 1])),
    ("a block that is too long", "longer than granted", |c| c.block(Event::Upload, 1, 0, &[0; BLOCK + 1])),
    ("an empty block", "block is empty", |c| c.block(Event::Upload, 1, 0, &[])),
    ("a block beyond the credit", "beyond the granted credit", |c| {
        c.upload(2, "data/open", None);
        c.block(Event::Upload, 2, 1 << 40, &[0; BLOCK]);
    }),
    ("a block of a download from the client", "wrong side", |c| c.block(Event::Download, 1, 0, &[0; BLOCK])),
    ("a block into its own download", "wrong side", |c| {
        download(c);
        c.block(Event::Download, 2, 0, &[0; BLOCK]);
    }),
    ("a continuation of nothing", "not allowed", |c| c.block(Event::Continue, 1, 0, &[0; BLOCK])),
    ("a continuation of something else", "not allowed", |c| {
        c.upload(2, "data/other", Some(LENGTH));
        c.block(Event::Upload, 1, 0, &[0; BLOCK]);
        c.block(Event::Continue, 2, 0, &[0; BLOCK]);
    }),
    ("a block of no operation", "never opened", |c| c.block(Event::Upload, 7, 0, &[0; BLOCK])),
    ("a block of operation zero", "never opened", |c| c.block(Event::Upload, 0, 0, &[0; BLOCK])),
];

const MESSAGES: &[Case] = &[
    ("a server's GRANT", "GRANT from the wrong side", |c| c.control(1, &Control::Grant(grant()))),
    ("a receiver's COMMITTED", "COMMITTED from the wrong side", |c| {
        c.control(1, &Control::Committed { length: 0, safety: Safety::Written, version: vec![], root: None });
    }),
    ("a receiver's CREDIT", "CREDIT from the wrong side", |c| c.control(1, &Control::Credit(5))),
    ("a server's DRAIN", "DRAIN from the wrong side", |c| c.control(0, &Control::Drain { retry_after_ms: 1 })),
    ("a server's CHANNELS", "CHANNELS from the wrong side", |c| {
        c.control(0, &Control::Channels(ChannelGrant { first: 2, count: 1, secret: [0; 32], life_ms: 1 }));
    }),
    ("an ACK of what was never sent", "never sent", |c| {
        download(c);
        c.control(2, &ack(LENGTH + 1));
    }),
    ("a sender's FINISH from a receiver", "FINISH from the wrong side", |c| {
        download(c);
        c.control(2, &Control::Finish(Finish { length: LENGTH, ..Finish::default() }));
    }),
    ("a FINISH of another length", "FINISH does not fit", |c| {
        c.control(1, &Control::Finish(Finish { length: LENGTH - 1, ..Finish::default() }));
    }),
    ("an EOFR that counts wrong", "counts other records", |c| {
        c.block(Event::Upload, 1, 0, &[0; BLOCK]);
        c.control(1, &Control::EndOfRange { blocks: 2 });
    }),
    ("an EOFT that counts wrong", "counts other records", |c| c.control(0, &Control::EndOfTransfer { records: 77 })),
    ("a FENCE that counts wrong", "lost", |c| {
        c.control(0, &Control::Fence { channel: ChannelId(1), processed: 1 << 60 })
    }),
    ("a message about no operation", "never opened", |c| c.control(9, &Control::Cancel)),
    ("a request far ahead", "never opened", |c| c.request(true, 1_000_000, &Request::default())),
    ("a request without a number", "never opened", |c| c.request(true, 0, &Request::default())),
    ("a request of another event", "not|unknown|protocol error", |c| {
        let head = Head { flags: Flags::REQUEST, operation: OperationId(2), ..control(Event::Continue) };
        c.record(head, &Request::default().encode(), |_| {});
    }),
    ("a request that is none", "malformed", |c| {
        let head = Head { flags: Flags::REQUEST, operation: OperationId(2), ..control(Event::Upload) };
        c.record(head, &[0xff; 9], |_| {});
    }),
];

fn each_ends_its_session(cases: &[Case]) {
    let serving = Serving::start();
    let mut beside = Beside::start(&serving);
    for (what, cause, act) in cases {
        let (session, mut channel) = open(&serving, wishes(1)).unwrap();
        channel.upload(1, "data/bad", Some(LENGTH));
        act(&mut channel);
        let error = serving.heard_within(SOON, what, |event| match event {
            LogEvent::SessionEnded { session: id, error, .. } if *id == session.id => Some(error.clone()),
            _ => None,
        });
        let error = error.unwrap_or_else(|| panic!("{what}: the session ended in order"));
        assert!(cause.split('|').any(|cause| error.contains(cause)), "{what}: '{error}' does not say '{cause}'");
        beside.go_on();
    }
    let ended = serving.count(|event| matches!(event, LogEvent::SessionEnded { .. }));
    assert_eq!(ended, cases.len(), "each session alone");
    beside.finish();
}

#[test]
fn a_record_that_is_malformed_or_forged_ends_its_session_with_the_cause() {
    each_ends_its_session(FRAMES);
}

#[test]
fn a_block_that_must_not_be_ends_its_session_with_the_cause() {
    each_ends_its_session(BLOCKS);
}

#[test]
fn a_message_in_the_wrong_state_ends_its_session_with_the_cause() {
    each_ends_its_session(MESSAGES);
}

#[test]
fn a_peer_at_fault_is_told_why_before_the_connection_closes() {
    let serving = Serving::start();
    // Nothing is left unread here: a close with bytes unread is a reset, which may overtake what was said.
    let acts: [fn(&mut RawChannel); 2] =
        [|c| c.control(1, &Control::Grant(grant())), |c| c.control(0, &Control::EndOfTransfer { records: 77 })];
    for (number, act) in acts.into_iter().enumerate() {
        let (_, mut channel) = open(&serving, wishes(1)).unwrap();
        channel.upload(1, "data/bad", Some(LENGTH));
        act(&mut channel);
        let error = channel.until(&format!("EXCEPTION {number}"), |head, control| match control {
            Control::Exception(error) if head.operation.0 == 0 => Some(error),
            _ => None,
        });
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.contains("protocol error"), "{error}");
    }
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn what_an_honest_peer_may_do_twice_or_newly_does_no_harm() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let (_, mut channel) = open(&serving, wishes(1)).unwrap();
    channel.upload(1, "data/good", Some(2 * BLOCK as u64));
    let (one, other) = ([1; BLOCK], [2; BLOCK]);
    for (offset, block) in [(BLOCK as u64, &other), (BLOCK as u64, &other), (0, &one)] {
        channel.block(Event::Upload, 1, offset, block);
        // An event of a later version, with and without a payload, at both levels.
        for (level, payload) in [(Level::Integrity, &[5; 999][..]), (Level::Clear, &[6; 100]), (Level::Integrity, &[])]
        {
            channel.record(Head { event: 200, ..head(Event::Nothing, level, 1) }, payload, |_| {});
        }
    }
    channel.control(1, &Control::Finish(Finish { length: 2 * BLOCK as u64, ..Finish::default() }));
    channel.until("COMMITTED", |_, control| matches!(control, Control::Committed { .. }).then_some(()));
    assert_eq!(serving.directory.read("good"), [one, other].concat());
    std::fs::remove_file(serving.directory.file("good")).unwrap();
    channel.control(1, &Control::EndOfRange { blocks: 3 });
    channel.ping();
    drop(channel);
    beside.finish();
}

#[test]
fn a_block_size_above_the_sessions_is_cut_to_it() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    for level in [Level::Clear, Level::Integrity] {
        let (_, mut channel) = open(&serving, wishes(1)).unwrap();
        let name = b"memory/zero".to_vec();
        let (length, block) = (Some(8 << 20), 4 << 20);
        let request = Request { name, length, level, block, credit: 8 << 20, ..Request::default() };
        channel.request(false, 1, &request);
        let granted = channel.until("GRANT", |_, control| match control {
            Control::Grant(grant) => Some(grant.block),
            _ => None,
        });
        assert_eq!(granted, BLOCK as u32);
        let mut bytes = 0;
        while bytes < 8 << 20 {
            let (head, payload) = channel.read().expect("the whole range comes");
            assert!(payload.len() <= BLOCK);
            bytes += if head.event == Event::Continue as u8 || head.event == Event::Download as u8 {
                payload.len()
            } else {
                0
            };
        }
    }
    beside.finish();
}

/// Credit that comes before the server has granted anything is not an error: it counts from GRANT on.
#[test]
fn a_credit_between_a_request_and_its_grant_counts() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let (_, mut channel) = open(&serving, wishes(1)).unwrap();
    let request = Request { name: b"memory/zero".to_vec(), length: Some(LENGTH), credit: 0, ..Request::default() };
    channel.request(false, 2, &request);
    channel.control(2, &Control::Credit(LENGTH));
    let (mut bytes, mut granted) = (0, false);
    while bytes < LENGTH {
        let (head, payload) = channel.read().expect("the whole range comes");
        granted |= head.event == Event::Grant as u8;
        if [Event::Download as u8, Event::Continue as u8].contains(&head.event) {
            assert!(granted, "no block comes before GRANT");
            bytes += payload.len() as u64;
        }
    }
    channel.ping();
    drop(channel);
    beside.finish();
}

#[test]
fn a_peer_that_falls_silent_in_a_record_or_takes_nothing_is_lost_at_its_deadline() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let impatient = || super::raw::wishes(1);
    let cases: [Case; 3] = [
        ("half a record without an operation", "nothing arrives", |c| {
            // A head that promises more than comes, on a session without an operation.
            let mut bytes = Head { length: 10, ..control(Event::Ack) }.encode().to_vec();
            bytes.extend([0; 20]);
            c.stream.write_all(&bytes).unwrap();
        }),
        ("half a block", "nothing arrives", |c| {
            c.upload(1, "data/half", Some(LENGTH));
            c.record(head(Event::Upload, Level::Clear, 1), &[0; BLOCK], |bytes| bytes.truncate(1000));
        }),
        ("a peer that reads nothing", "takes no bytes", |c| {
            let name = b"memory/zero".to_vec();
            let request = Request { name, length: Some(1 << 30), credit: 64 << 20, ..Request::default() };
            c.request(false, 1, &request);
        }),
    ];
    for (what, cause, act) in cases {
        let (session, mut channel) =
            open(&serving, xdfs_proto::wire::handshake::Open { stall_ms: 400, ..impatient() }).unwrap();
        act(&mut channel);
        let error = serving.heard_within(SOON, what, |event| match event {
            LogEvent::SessionEnded { session: id, error, .. } if *id == session.id => Some(error.clone()),
            _ => None,
        });
        assert!(error.as_ref().is_some_and(|error| error.contains(cause)), "{what}: {error:?}");
    }
    beside.finish();
}
