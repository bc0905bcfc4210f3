//! The faults of a simulated network, their probabilities, and their counts. Every choice is
//! derived from one seed.

use xdfs_proto::base::Duration;

/// A probability in millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Chance(pub u32);

impl Chance {
    /// It does not happen.
    pub const NEVER: Self = Self(0);
    /// It happens every time.
    pub const ALWAYS: Self = Self(1_000_000);

    /// `count` times in a hundred.
    pub const fn percent(count: u32) -> Self {
        Self(count * 10_000)
    }
}

/// The options of a [`super::Network`]. The default is a perfect network of no latency.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Faults {
    /// Time from a send until the bytes can be received, and from a connect until it is accepted.
    pub latency: Duration,
    /// Maximum additional time, drawn anew for each send. Bytes keep their order.
    pub jitter: Duration,
    /// Bytes that one direction of a connection holds; a send beyond it is refused.
    pub capacity: usize,
    /// A receive returns fewer bytes than available.
    pub short_receive: Chance,
    /// A send accepts fewer bytes than there is space for.
    pub short_send: Chance,
    /// A send is delayed, and with it everything that follows in its direction.
    pub stall: Chance,
    /// Maximum duration of a stall.
    pub stall_max: Duration,
    /// A send breaks the connection: what was not delivered is lost, both ends fail.
    pub cut: Chance,
    /// A connect is refused.
    pub refuse: Chance,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            capacity: 256 * 1024,
            short_receive: Chance::NEVER,
            short_send: Chance::NEVER,
            stall: Chance::NEVER,
            stall_max: Duration::ZERO,
            cut: Chance::NEVER,
            refuse: Chance::NEVER,
        }
    }
}

/// Counts of a network's faults, so that a test can show that they occurred.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FaultCounts {
    /// Connections made.
    pub connections: u64,
    /// Bytes taken from senders.
    pub sent: u64,
    /// Bytes given to receivers.
    pub received: u64,
    /// Receives that returned less than available.
    pub short_receives: u64,
    /// Sends that accepted less than there was space for.
    pub short_sends: u64,
    /// Sends that were delayed by a stall.
    pub stalls: u64,
    /// Connections broken by chance; those that a test broke itself are not counted.
    pub cuts: u64,
    /// Connects refused by chance.
    pub refusals: u64,
}

/// A stream of numbers derived from its seed: SplitMix64, for which every seed is equally good.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero where there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is far below what a test could detect.
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    /// Whether it happens this time. An impossible event draws no number, so adding a kind of fault
    /// changes no run that does not use it.
    pub fn happens(&mut self, chance: Chance) -> bool {
        chance > Chance::NEVER && self.below(Chance::ALWAYS.0.into()) < chance.0.into()
    }

    /// A time of at most `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        if longest.is_zero() {
            return Duration::ZERO;
        }
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}
