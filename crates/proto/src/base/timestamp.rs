//! When something was, by a clock that people read.

/// Nanoseconds of a second.
const NANOSECONDS: i128 = 1_000_000_000;

/// A time as files have it, since the beginning of 1970. One before that has negative seconds, from which its nanoseconds count
/// forwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// What is to be added to them: less than 10^9, unless a file system or a peer says otherwise.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// So many seconds and nanoseconds after 1970 began.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds }
    }

    /// Nanoseconds since 1970.
    pub fn as_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * NANOSECONDS + i128::from(self.nanoseconds)
    }

    /// The inverse; none where the seconds do not fit.
    pub fn from_nanoseconds(nanoseconds: i128) -> Option<Self> {
        let seconds = i64::try_from(nanoseconds.div_euclid(NANOSECONDS)).ok()?;
        // Below a billion: fits.
        Some(Self { seconds, nanoseconds: nanoseconds.rem_euclid(NANOSECONDS) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_count_forwards_on_both_sides_of_1970() {
        for (nanoseconds, time) in
            [(0, (0, 0)), (1, (0, 1)), (-1, (-1, 999_999_999)), (1_500_000_000, (1, 500_000_000))]
        {
            assert_eq!(Timestamp::from_nanoseconds(nanoseconds), Some(Timestamp::new(time.0, time.1)));
            assert_eq!(Timestamp::new(time.0, time.1).as_nanoseconds(), nanoseconds);
        }
        assert_eq!(Timestamp::from_nanoseconds(i128::MAX), None);
    }
}
