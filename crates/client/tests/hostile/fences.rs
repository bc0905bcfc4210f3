//! FENCE as a lever: a few bytes that name a channel must not make the server say everything again.

use super::raw::{RawChannel, RawSession, head, open, wishes};
use super::support::pattern;
use super::support::serving::Serving;
use xdfs_client::Level;
use xdfs_proto::base::ChannelId;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::{Event, Flags, Head};

/// Replies that the server keeps, since nobody says that they arrived, and the length of each.
const REPLIES: u32 = 20;
const REPLY_BYTES: usize = 40_000;
const CHANNELS: u16 = 64;
/// How often one outcome may be told again for fences, and for silence (P-39, P-48).
const AGAIN: usize = 8 + 7;

/// What comes until the server has taken in everything: fences, replies, and bytes of all records.
fn what_comes(channel: &mut RawChannel) -> (usize, usize, usize) {
    let ask = Head { flags: Flags::ASK, ..head(Event::Nothing, Level::Private, 0) };
    channel.record(ask, &[], |_| {});
    let (mut fences, mut replies, mut bytes) = (0, 0, 0);
    while let Some((head, payload)) = channel.read() {
        bytes += 48 + payload.len();
        match Event::from_code(head.event) {
            Some(Event::Nothing) => return (fences, replies, bytes),
            Some(Event::Fence) => fences += 1,
            Some(Event::Path) => replies += 1,
            _ => {}
        }
    }
    panic!("the server closed");
}

/// A session whose server keeps replies.
fn session_with_replies(serving: &Serving) -> (RawSession, RawChannel) {
    serving.directory.write("file", &pattern(REPLY_BYTES, 1));
    let (session, mut channel) = open(serving, wishes(CHANNELS)).unwrap();
    for operation in 1..=REPLIES {
        assert!(channel.fetch(operation, "file", REPLY_BYTES as u32));
    }
    (session, channel)
}

fn fence(channel: &mut RawChannel, lost: u16) {
    channel.control(0, &Control::Fence { channel: ChannelId(lost), processed: 0 });
}

#[test]
fn a_fence_of_a_channel_that_never_joined_is_answered_once_and_brings_no_outcome_again() {
    let serving = Serving::start();
    let (_session, mut channel) = session_with_replies(&serving);
    for round in 0..2 {
        let (mut fences, mut replies, mut bytes) = (0, 0, 0);
        for lost in 2..=CHANNELS {
            fence(&mut channel, lost);
            let came = what_comes(&mut channel);
            (fences, replies, bytes) = (fences + came.0, replies + came.1, bytes + came.2);
        }
        assert_eq!(fences, if round == 0 { usize::from(CHANNELS) - 1 } else { 0 }, "round {round}");
        // However slow this machine is: what silence brings again is bounded by itself.
        assert!(replies <= REPLIES as usize * 7, "{replies} replies again for {} fences", CHANNELS - 1);
        let said = usize::from(CHANNELS) * (50 + 48);
        assert!(bytes <= 2 * said + replies * (REPLY_BYTES + 100), "{bytes} bytes for {said}");
    }
}

#[test]
fn fences_of_channels_that_joined_bring_an_outcome_again_a_few_times() {
    let serving = Serving::start();
    let (session, mut channel) = session_with_replies(&serving);
    let mut all = 0;
    for lost in 2..=CHANNELS {
        drop(session.join(&serving, lost).unwrap());
        fence(&mut channel, lost);
        all += what_comes(&mut channel).1;
    }
    assert!(all <= REPLIES as usize * AGAIN, "{all} replies again for {} channels", CHANNELS - 1);
}
