//! Times on a machine that has other work.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Times that something is tried which took too long.
const TRIES: usize = 3;
/// Longest wait for what always comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until what `look` finds is as it should be: a server answers first, and tidies up then.
#[track_caller]
pub fn until<T: Debug>(mut look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if is_so(&found) {
            return;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {found:?}");
        std::thread::yield_now();
    }
}

/// How long `act` takes.
pub fn timed(act: impl FnOnce()) -> Duration {
    let since = Instant::now();
    act();
    since.elapsed()
}

/// Whether all of these times but one were less than `most`, and that one less than three times as long: others may have had the
/// machine for a moment.
pub fn all_but_one_below(times: &[Duration], most: Duration) -> bool {
    let late: Vec<_> = times.iter().filter(|time| **time >= most).collect();
    late.len() < 2 && late.iter().all(|time| **time < 3 * most)
}

/// What `act` says that it took; where that is `most` or longer, the least of three tries, whose numbers it gets. A busy machine
/// makes one of them late, and what is too slow is so each time.
pub fn least(most: Duration, act: impl FnMut(usize) -> Duration) -> Duration {
    let mut least = Duration::MAX;
    for took in (0..TRIES).map(act) {
        least = least.min(took);
        if least < most {
            break;
        }
    }
    least
}
