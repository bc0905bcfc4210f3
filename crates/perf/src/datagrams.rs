//! What xioperf puts at the head of each datagram, and what the receiver finds from it: loss,
//! duplicates, order, and jitter as in RFC 3550, section 6.4.1. Without input or output.
//!
//! Anybody can send datagrams. Those that are not of the run whose first one arrived are counted and
//! have no other effect.

use std::time::Duration;

/// Bytes of the head.
pub(crate) const HEAD: usize = 29;
/// What a head begins with.
const MARK: [u8; 4] = *b"xpf1";
/// Datagrams that say the end, since each of them may be lost.
pub(crate) const ENDS: usize = 10;

/// The head of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Head {
    /// Which run it belongs to: drawn by the sender.
    pub(crate) run: u64,
    /// The first has 0; those that say the end have the number of datagrams before.
    pub(crate) number: u64,
    /// When it was sent, microseconds of the sender's clock.
    pub(crate) sent_us: u64,
    /// No more data follows.
    pub(crate) end: bool,
}

impl Head {
    /// Writes it to the front of `into`, which has room for it.
    pub(crate) fn write(&self, into: &mut [u8]) {
        into[..4].copy_from_slice(&MARK);
        into[4..12].copy_from_slice(&self.run.to_be_bytes());
        into[12..20].copy_from_slice(&self.number.to_be_bytes());
        into[20..28].copy_from_slice(&self.sent_us.to_be_bytes());
        into[28] = u8::from(self.end);
    }

    /// Reads the head of a datagram; none where it is not one of ours.
    pub(crate) fn read(datagram: &[u8]) -> Option<Self> {
        let head = datagram.get(..HEAD)?;
        let number = |at: usize| head[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        let end = match head[28] {
            0 => false,
            1 => true,
            _ => return None,
        };
        (head[..4] == MARK).then_some(())?;
        Some(Self { run: number(4)?, number: number(12)?, sent_us: number(20)?, end })
    }
}

/// What a receiver has found so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Findings {
    run: Option<u64>,
    /// The number that the next one has if none is lost.
    next: u64,
    /// Datagrams with data that arrived.
    pub(crate) received: u64,
    /// Those that came after one with a higher number.
    pub(crate) out_of_order: u64,
    /// Datagrams of somebody else.
    pub(crate) foreign: u64,
    /// Transit time of the last one: the difference of two clocks, of use only by its change.
    transit_us: Option<i64>,
    /// Sixteen times the jitter in microseconds, as the RFC computes it in integers.
    jitter_16: u64,
}

/// What a datagram was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Data of this run.
    Data,
    /// The end of this run.
    End,
    /// Somebody else's.
    Foreign,
}

impl Findings {
    /// A datagram arrived, at `now_us` of the receiver's clock.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now_us: u64) -> Kind {
        let Some(head) = Head::read(datagram).filter(|head| self.run.is_none_or(|run| run == head.run)) else {
            self.foreign += 1;
            return Kind::Foreign;
        };
        self.run = Some(head.run);
        if head.end {
            self.next = self.next.max(head.number);
            return Kind::End;
        }
        self.received += 1;
        if head.number < self.next {
            self.out_of_order += 1;
        }
        self.next = self.next.max(head.number.saturating_add(1));
        let transit = now_us.wrapping_sub(head.sent_us).cast_signed();
        if let Some(before) = self.transit_us.replace(transit) {
            let change = transit.wrapping_sub(before).unsigned_abs();
            // J += (|D| - J) / 16; what nobody would believe is cut off, so that the sum stays in range.
            self.jitter_16 = (self.jitter_16 - (self.jitter_16 + 8) / 16) + change.min(u64::MAX >> 8);
        }
        Kind::Data
    }

    /// Datagrams that did not arrive. A duplicate makes good for a lost one.
    pub(crate) fn lost(&self) -> u64 {
        self.next.saturating_sub(self.received)
    }

    /// Datagrams that were sent, as far as the receiver knows.
    pub(crate) fn sent(&self) -> u64 {
        self.next.max(self.received)
    }

    pub(crate) fn jitter(&self) -> Duration {
        Duration::from_micros(self.jitter_16 / 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(run: u64, number: u64, sent_us: u64, end: bool) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        Head { run, number, sent_us, end }.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_head_comes_back_and_anything_else_is_none() {
        let head = Head { run: 7, number: u64::MAX, sent_us: 3, end: true };
        let mut bytes = [0; HEAD + 5];
        head.write(&mut bytes);
        assert_eq!(Head::read(&bytes), Some(head));
        for length in 0..HEAD {
            assert_eq!(Head::read(&bytes[..length]), None);
        }
        bytes[28] = 2;
        assert_eq!(Head::read(&bytes), None);
        bytes[28] = 1;
        bytes[0] = b'y';
        assert_eq!(Head::read(&bytes), None);
    }

    #[test]
    fn loss_and_order_are_counted_and_the_end_tells_of_the_last_ones() {
        let mut findings = Findings::default();
        for number in [0, 1, 4, 3] {
            assert_eq!(findings.on_datagram(&datagram(1, number, 0, false), 0), Kind::Data);
        }
        assert_eq!((findings.received, findings.lost(), findings.out_of_order), (4, 1, 1));
        assert_eq!(findings.on_datagram(&datagram(1, 8, 0, true), 0), Kind::End);
        assert_eq!((findings.lost(), findings.sent()), (4, 8));
    }

    #[test]
    fn datagrams_of_others_change_nothing_but_their_count() {
        let mut findings = Findings::default();
        findings.on_datagram(&datagram(1, 0, 0, false), 0);
        assert_eq!(findings.on_datagram(&datagram(2, 1 << 40, 0, true), 0), Kind::Foreign);
        assert_eq!(findings.on_datagram(b"hello", 0), Kind::Foreign);
        assert_eq!((findings.foreign, findings.received, findings.lost()), (2, 1, 0));
    }

    #[test]
    fn jitter_is_the_smoothed_change_of_the_transit_time() {
        let mut findings = Findings::default();
        // Alternately 1000 us and 3000 us under way: the change is always 2000 us.
        for number in 0..200 {
            let sent = number * 10_000;
            let transit = if number % 2 == 0 { 1000 } else { 3000 };
            findings.on_datagram(&datagram(1, number, sent, false), sent + transit);
        }
        let jitter = findings.jitter().as_micros();
        assert!((1900..=2000).contains(&jitter), "{jitter}");
        let mut steady = Findings::default();
        for number in 0..200 {
            steady.on_datagram(&datagram(1, number, number * 10, false), number * 10 + 5);
        }
        assert_eq!(steady.jitter(), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_lies_overflows_nothing() {
        let mut findings = Findings::default();
        for number in 0..1000 {
            let lie = if number % 2 == 0 { 0 } else { u64::MAX / 2 + number };
            findings.on_datagram(&datagram(1, u64::MAX, lie, false), 0);
        }
        assert!(findings.jitter() > Duration::ZERO);
    }
}
