//! Messages and blocks that begin and are never whole: what a server holds of them while it waits for the rest.

use super::raw::{head, open, wishes};
use super::support::serving::Serving;
use super::{MIB, alone, in_its_own_process};
use std::io::Write;
use xdfs_io::host::resident_bytes;
use xdfs_proto::base::Level;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::handshake::Open;
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags, Head};
use xdfs_server::LogEvent;

/// Channels of the session. On all but the first one a message begins.
const CHANNELS: u16 = 1000;
/// The longest message that there is.
const LONG: usize = 64 << 10;

#[test]
fn long_messages_that_are_never_whole_are_read_a_few_at_a_time() {
    let _one = alone();
    if !in_its_own_process("announced::long_messages_that_are_never_whole_are_read_a_few_at_a_time") {
        return;
    }
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(CHANNELS)).unwrap();
    let mut channels: Vec<_> = (2..=CHANNELS).map(|number| session.join(&serving, number).unwrap()).collect();
    channels.iter_mut().for_each(|channel| channel.ping());
    let before = resident_bytes().unwrap();
    let request = Head { flags: Flags::REQUEST, ..head(Event::Upload, Level::Private, 1) };
    let begun = vec![7; LONG];
    let mut wrong = 0;
    for channel in &mut channels {
        // All but the last byte.
        channel.record(request, &begun, |bytes| wrong = !bytes.split_off(47 + LONG)[0]);
    }
    // The server has been to every channel since.
    (0..10).for_each(|_| first.ping());
    let grown = resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 16 * MIB, "{} MiB for {CHANNELS} messages of 64 KiB", grown / MIB);
    // Whoever gives up makes room for the others: the last message is read, and is not the client's.
    let mut last = channels.pop().unwrap();
    drop(channels);
    last.stream.write_all(&[wrong]).unwrap();
    let lost = |event: &LogEvent| matches!(event, LogEvent::ChannelLost { channel: CHANNELS, .. }).then_some(());
    serving.heard("the last channel", lost);
}

/// The largest blocks that there are, uploads, and blocks of each: a channel for every block.
const LARGEST: usize = 4 << 20;
const UPLOADS: u32 = 4;
const BLOCKS: u16 = 16;

#[test]
fn blocks_of_the_largest_size_that_are_never_whole_are_read_a_few_at_a_time() {
    let _one = alone();
    if !in_its_own_process("announced::blocks_of_the_largest_size_that_are_never_whole_are_read_a_few_at_a_time") {
        return;
    }
    let serving = Serving::start();
    let amount = UPLOADS as u16 * BLOCKS;
    let (session, mut first) = open(&serving, Open { block: LARGEST as u32, ..wishes(amount + 1) }).unwrap();
    let request = |operation: u32| Request {
        name: format!("data/{operation}").into_bytes(),
        length: Some(u64::from(BLOCKS) * LARGEST as u64),
        level: Level::Clear,
        block: LARGEST as u32,
        ..Request::default()
    };
    for operation in 1..=UPLOADS {
        first.request(true, operation, &request(operation));
        let granted = first.until("GRANT", |_, control| match control {
            Control::Grant(grant) => Some((grant.block as usize, grant.credit_limit)),
            _ => None,
        });
        assert_eq!(granted.0, LARGEST);
        assert!(granted.1 >= u64::from(BLOCKS) * LARGEST as u64, "{granted:?}");
    }
    // A message comes on any channel: so far there is one.
    let mut channels: Vec<_> = (2..=amount + 1).map(|number| session.join(&serving, number).unwrap()).collect();
    channels.iter_mut().for_each(|channel| channel.ping());
    let payload = vec![7; LARGEST];
    let before = resident_bytes().unwrap();
    for (index, channel) in channels.iter_mut().enumerate() {
        let (operation, block) = (index as u32 / u32::from(BLOCKS) + 1, index % usize::from(BLOCKS));
        // As much as the kernel takes.
        channel.stream.set_nonblocking(true).unwrap();
        let offset = (block * LARGEST) as u64;
        let head = Head { offset, ..head(Event::Upload, Level::Clear, operation) };
        channel.record(head, &payload, |bytes| bytes.truncate(bytes.len() - 1));
        // The server has been to this channel since.
        first.ping();
    }
    (0..10).for_each(|_| first.ping());
    let grown = resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 32 * MIB, "{} MiB for {amount} blocks of 4 MiB", grown / MIB);
    drop(channels);
    first.ping();
}
