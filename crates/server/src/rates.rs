//! Limits of bandwidth: one for each user, over all sessions of the user, and one for each export,
//! over everybody's. Both directions count together.
//!
//! A session is one flow through all of them ([`xdfs_engine::pace`]): however many channels, threads
//! and operations it has, it gets the share of one session.

use crate::authorise::Export;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_engine::pace::{Flow, Limit, Pacer, rate};
use xdfs_proto::limits::BLOCK_BYTES_MIN;
use xdfs_proto::negotiate::Granted;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A user's limit outlives the last session for so long: what was moved too early is owed by the next one.
const KEPT: Duration = Duration::from_secs(60);

/// Limits that are kept without a session; if there are more, those are.
const KEPT_MAX: usize = 4096;

/// The limits of all users with a session, and of those who had one a short time ago; anonymous users are told apart by
/// their source.
#[derive(Debug)]
pub(crate) struct UserRates {
    /// Bytes per second of each user; 0 is no limit.
    rate: AtomicU64,
    users: Mutex<BTreeMap<Arc<str>, UserLimit>>,
}

#[derive(Debug)]
struct UserLimit {
    limit: Arc<Limit>,
    /// When the last session ended, or began if that is not known yet.
    used: Instant,
}

impl UserLimit {
    fn has_session(&self) -> bool {
        Arc::strong_count(&self.limit) > 1
    }
}

impl UserRates {
    /// Each user moves `rate` bytes per second; 0 is no limit.
    pub fn new(rate: u64) -> Self {
        Self { rate: AtomicU64::new(rate), users: Mutex::default() }
    }

    /// Another rate holds from now on, for running transfers too.
    pub fn set(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        locked(&self.users).values().for_each(|user| user.limit.set_rate(rate));
    }

    /// A session of this user ended.
    pub fn left(&self, budget: &str) {
        if let Some(user) = locked(&self.users).get_mut(budget) {
            user.used = Instant::now();
        }
    }

    /// The limit of the user whose sessions count against `budget`.
    pub fn of(&self, budget: &Arc<str>) -> Arc<Limit> {
        let mut users = locked(&self.users);
        if let Some(user) = users.get_mut(budget) {
            user.used = Instant::now();
            return Arc::clone(&user.limit);
        }
        users.retain(|_, user| user.has_session() || user.used.elapsed() < KEPT);
        let without = users.values().filter(|user| !user.has_session()).count();
        if without >= KEPT_MAX {
            // Those left have a session, of which there is a bounded number.
            users.retain(|_, user| user.has_session());
        }
        let limit = Arc::new(Limit::new(self.rate.load(Ordering::Relaxed)));
        users.insert(Arc::clone(budget), UserLimit { limit: Arc::clone(&limit), used: Instant::now() });
        limit
    }
}

/// A session's way through the limits.
#[derive(Debug)]
pub(crate) struct SessionRates {
    flow: Arc<Flow>,
    user: Arc<Limit>,
    ways: Mutex<Ways>,
}

#[derive(Debug)]
struct Ways {
    /// By export, for each that the session has used.
    exports: Vec<(Arc<Limit>, Arc<Pacer>)>,
    /// For batches that arrive, whose export is not known yet: through the limits of all exports on
    /// which the session has executed a batch.
    arriving: Arc<Pacer>,
    called: Vec<Arc<Limit>>,
}

impl SessionRates {
    /// The rates of a new session of the user with this limit.
    pub fn new(user: Arc<Limit>) -> Self {
        let flow = Arc::default();
        let arriving = Arc::new(Pacer::of(Arc::clone(&flow), vec![Arc::clone(&user)]));
        let ways = Mutex::new(Ways { exports: Vec::new(), arriving, called: Vec::new() });
        Self { flow, user, ways }
    }

    fn through(&self, exports: &[Arc<Limit>]) -> Arc<Pacer> {
        let limits = std::iter::once(&self.user).chain(exports).cloned().collect();
        Arc::new(Pacer::of(Arc::clone(&self.flow), limits))
    }

    /// For the bytes of an operation on the export with this limit.
    pub fn on(&self, export: &Arc<Limit>) -> Arc<Pacer> {
        let mut ways = locked(&self.ways);
        if let Some((_, pacer)) = ways.exports.iter().find(|(limit, _)| Arc::ptr_eq(limit, export)) {
            return Arc::clone(pacer);
        }
        let pacer = self.through(std::slice::from_ref(export));
        ways.exports.push((Arc::clone(export), Arc::clone(&pacer)));
        pacer
    }

    /// A batch is executed on the export with this limit, and so may be the next ones.
    pub fn calls_on(&self, export: &Arc<Limit>) -> Arc<Pacer> {
        let mut ways = locked(&self.ways);
        if !ways.called.iter().any(|limit| Arc::ptr_eq(limit, export)) {
            ways.called.push(Arc::clone(export));
            ways.arriving = self.through(&ways.called);
        }
        drop(ways);
        self.on(export)
    }

    /// For the bytes of what is not known to be on an export.
    pub fn arriving(&self) -> Arc<Pacer> {
        Arc::clone(&locked(&self.ways).arriving)
    }
}

/// The rate that a session may get at most: that of its user, and that of the fastest of the exports
/// that are open to it; none if there is no limit.
pub(crate) fn of_session<'a>(user: &Limit, exports: impl Iterator<Item = &'a Export>) -> Option<u64> {
    let limited = |rate: u64| (rate > 0).then_some(rate);
    // An export without a rate is the fastest.
    let fastest = exports.map(|export| limited(export.load().limit.rate()).unwrap_or(u64::MAX)).max();
    let fastest = fastest.filter(|rate| *rate < u64::MAX);
    limited(user.rate()).into_iter().chain(fastest).min()
}

/// Adapts what a session is granted to a rate that it cannot exceed: what more channels and larger
/// buffers hold would be acknowledged so late that the client sends it again.
pub(crate) fn suit(granted: &mut Granted, rate: u64) {
    granted.channels = rate::channels(rate, granted.channels);
    granted.pipelines = granted.pipelines.min(u8::try_from(granted.channels).unwrap_or(u8::MAX));
    if let Some(window) = rate::window(rate, granted.channels).map(u64::from) {
        granted.window = if granted.window == 0 { window } else { granted.window.min(window) };
    }
    if rate::wants_small_blocks(rate) {
        granted.block = BLOCK_BYTES_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_io::dispatch::{Allowance, Pace};
    use xdfs_proto::base::Instant as Moment;

    /// Bytes that move through `pacer` at `now`, all at once.
    fn moves(pacer: &Pacer, now: Moment) -> u64 {
        match pacer.ask(now) {
            Allowance::Bytes(bytes) => {
                pacer.moved(bytes);
                bytes
            }
            Allowance::From(_) => 0,
        }
    }

    #[test]
    fn a_users_sessions_share_one_limit_and_no_other_users_do() {
        let rates = UserRates::new(1_000_000);
        let [ada, bob]: [Arc<str>; 2] = ["ada".into(), "bob".into()];
        let (one, two) = (SessionRates::new(rates.of(&ada)), SessionRates::new(rates.of(&ada)));
        let other = SessionRates::new(rates.of(&bob));
        let mut moved = [0_u64; 3];
        // Two seconds, in steps of a millisecond.
        for step in 0..2000_u64 {
            let now = Moment(1_000_000_000_000 + step * 1_000_000);
            for (sum, session) in moved.iter_mut().zip([&one, &two, &other]) {
                *sum += moves(&session.arriving(), now);
            }
        }
        let near = |bytes: u64, rate: u64| bytes.abs_diff(2 * rate) < rate / 5;
        assert!(near(moved[0], 500_000) && near(moved[1], 500_000) && near(moved[2], 1_000_000), "{moved:?}");
        drop((one, two, other));
    }

    #[test]
    fn what_one_session_moved_too_early_the_next_one_owes() {
        let rates = UserRates::new(1_000_000);
        let ada: Arc<str> = "ada".into();
        let now = Moment(1_000_000_000_000);
        let before = SessionRates::new(rates.of(&ada));
        assert!(moves(&before.arriving(), now) > 0);
        before.arriving().moved(5_000_000);
        assert_eq!(moves(&before.arriving(), now), 0, "it owes five seconds");
        drop(before);
        assert_eq!(moves(&SessionRates::new(rates.of(&ada)).arriving(), now), 0, "so does another session");
        let later = Moment(now.0 + 10_000_000_000);
        assert!(moves(&SessionRates::new(rates.of(&ada)).arriving(), later) > 0);
    }

    #[test]
    fn what_is_owed_is_kept_from_the_end_of_a_session_and_not_from_its_beginning() {
        let rates = UserRates::new(1);
        let ada = rates.of(&"ada".into());
        let long_ago = Instant::now().checked_sub(2 * KEPT).unwrap();
        locked(&rates.users).get_mut("ada").unwrap().used = long_ago;
        let kept = Arc::downgrade(&ada);
        drop(ada);
        rates.left("ada");
        drop(rates.of(&"bob".into()));
        assert!(kept.upgrade().is_some());
        locked(&rates.users).get_mut("ada").unwrap().used = long_ago;
        drop(rates.of(&"eve".into()));
        assert!(kept.upgrade().is_none(), "and not for ever");
    }

    #[test]
    fn limits_without_a_session_are_bounded() {
        let rates = UserRates::new(1);
        let held = rates.of(&"held".into());
        for number in 0..2 * KEPT_MAX {
            rates.of(&number.to_string().into());
            assert!(locked(&rates.users).len() <= KEPT_MAX + 2);
        }
        assert!(Arc::ptr_eq(&held, &rates.of(&"held".into())), "one with a session stays");
    }

    #[test]
    fn a_session_is_one_flow_whatever_it_uses() {
        let rates = UserRates::new(0);
        let exports = [Arc::new(Limit::new(1_000_000)), Arc::new(Limit::new(0))];
        let session = SessionRates::new(rates.of(&"ada".into()));
        let now = Moment(1 << 50);
        assert!(!session.on(&exports[1]).is_limited() && session.on(&exports[0]).is_limited());
        assert!(Arc::ptr_eq(&session.on(&exports[0]), &session.on(&exports[0])));
        assert!(!session.arriving().is_limited(), "nothing is known of what it sends");
        session.calls_on(&exports[0]);
        assert!(session.arriving().is_limited());
        // While one thread of it moves bytes, the others wait.
        let Allowance::Bytes(turn) = session.on(&exports[0]).ask(now) else { panic!("its turn") };
        assert_eq!((turn, moves(&session.arriving(), now)), (20_000, 0));
        session.on(&exports[0]).moved(turn);
        rates.set(1000);
        assert!(session.on(&exports[1]).is_limited(), "a reload holds for what runs");
    }
}
