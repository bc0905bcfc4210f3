//! Times on a machine that has other work.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Times that something is tried which took too long.
const TRIES: usize = 3;
/// Longest wait for what always comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until what `look` finds is as it should be, and returns that: a server answers first, and tidies up then.
#[track_caller]
pub fn until<T: Debug>(mut look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if is_so(&found) {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {found:?}");
        std::thread::yield_now();
    }
}

/// Waits until it is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
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
