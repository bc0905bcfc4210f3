//! Messages that begin and are never whole: what a server holds of them while it waits for the rest.

use super::raw::{head, open, wishes};
use super::support::serving::Serving;
use super::{MIB, alone, in_its_own_process};
use std::io::Write;
use xdfs_io::host::resident_bytes;
use xdfs_proto::base::Level;
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
