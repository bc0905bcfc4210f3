//! Staying with a socket that blocks in the middle of its turn, instead of going on to the next one at once.
//!
//! Where the path is short, the other end works on the same bytes at this very moment and the socket is ready again
//! within microseconds. Two ends that stay with one socket make long calls on bytes that are still in the cache; two
//! ends that go round make short calls on cold ones (measured over loopback: 8 sockets 0.86 of the rate of one, 1000
//! sockets 0.73; with lingering 1.0 and 0.98). On a long path it would only lose time, so every socket's patience is
//! learnt: a wait in vain doubles the number of turns until the next one is tried.
//!
//! It knows neither operations nor bytes, and never waits longer than [`LINGER`].

use super::wait::Interest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest stay. Shorter ones were measured to end before the other end has woken, longer ones to gain nothing.
pub(super) const LINGER: Duration = Duration::from_micros(100);

/// After so many waits in vain in a row, the next one is tried 2^10 turns later.
const MISSES_MAX: u8 = 10;

/// What one direction of a socket has taught about staying with it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LingerPolicy {
    /// Waits in vain, in a row.
    misses: u8,
    /// Turns that go by without waiting.
    skip: u16,
}

impl LingerPolicy {
    /// Whether to stay this time.
    pub(super) fn stays(&mut self) -> bool {
        let stays = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        stays
    }

    /// How a stay ended: with a ready socket or in vain.
    pub(super) fn learn(&mut self, ready: bool) {
        if ready {
            *self = Self::default();
        } else {
            self.misses = (self.misses + 1).min(MISSES_MAX);
            self.skip = 1 << self.misses;
        }
    }
}

/// Waits for one socket alone, at most [`LINGER`]; whether it is ready. Errors count as readiness nowhere: the common
/// wait tells them.
pub(super) fn ready_soon(link: &impl AsFd, interest: Interest) -> bool {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, interest.readable);
    flags.set(PollFlags::OUT, interest.writable);
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(LINGER.subsec_nanos()) };
    let mut entry = [PollFd::new(link, flags)];
    matches!(poll(&mut entry, Some(&time)), Ok(1)) && entry[0].revents().intersects(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns until the next stay.
    fn pause(patience: &mut LingerPolicy) -> usize {
        (0..).find(|_| patience.stays()).unwrap()
    }

    #[test]
    fn waits_in_vain_become_rare_and_one_success_makes_them_frequent_again() {
        let mut patience = LingerPolicy::default();
        assert_eq!(pause(&mut patience), 0, "a new socket is given a chance at once");
        for turns in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024] {
            patience.learn(false);
            assert_eq!(pause(&mut patience), turns);
        }
        patience.learn(true);
        assert_eq!(pause(&mut patience), 0);
        patience.learn(false);
        assert_eq!(pause(&mut patience), 2, "what was learnt before is forgotten");
    }

    #[test]
    fn a_socket_without_bytes_is_left_and_one_with_bytes_is_not() {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let readable = Interest { readable: true, writable: false };
        assert!(!ready_soon(&here, readable));
        std::io::Write::write_all(&mut &there, b"x").unwrap();
        assert!(ready_soon(&here, readable));
        assert!(ready_soon(&here, Interest { readable: false, writable: true }));
    }
}
