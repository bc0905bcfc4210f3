//! The encoding of times in messages.

use super::codec::{INTEGER_MAX, Reader, WireError, Writer};
use crate::base::Timestamp;

/// Seconds in zigzag form (times before 1970 exist), then nanoseconds.
pub(super) fn write_time(writer: &mut Writer, Timestamp { seconds, nanoseconds }: Timestamp) {
    // A time that the wire cannot represent is sent as the last second that it can.
    let seconds = seconds.clamp(-SECONDS_MAX - 1, SECONDS_MAX);
    let zigzag = (seconds as u64) << 1 ^ (seconds >> 63) as u64;
    writer.integer(zigzag).integer(nanoseconds.into());
}

/// Latest second of a time; the earliest one is one further away.
const SECONDS_MAX: i64 = (INTEGER_MAX >> 1) as i64;

/// The inverse of [`write_time`].
pub(super) fn read_time(reader: &mut Reader<'_>) -> Result<Timestamp, WireError> {
    let zigzag = reader.integer()?;
    let seconds = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let nanoseconds = reader.integer_up_to(999_999_999, "nanoseconds")? as u32;
    Ok(Timestamp { seconds, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_and_the_furthest_stay_on_their_side() {
        let most = (1 << 61) - 1;
        for (seconds, told) in [(0, 0), (-1, -1), (1, 1), (most, most), (-most - 1, -most - 1)].into_iter().chain([
            (i64::MAX, most),
            (i64::MIN, -most - 1),
            (most + 1, most),
            (-most - 2, -most - 1),
        ]) {
            let mut writer = Writer::new();
            write_time(&mut writer, Timestamp::new(seconds, 999_999_999));
            let bytes = writer.finish();
            assert_eq!(read_time(&mut Reader::new(&bytes)), Ok(Timestamp::new(told, 999_999_999)), "{seconds}");
        }
    }
}
