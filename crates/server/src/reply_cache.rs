//! Batches that may be sent again in another session (P-74): their replies, for a while and within
//! bounds, per user.
//!
//! A client that repeats a batch sends the maximum age of its first attempt. As long as nothing of
//! that age was evicted, an unknown batch never arrived, and may be executed; otherwise its outcome
//! is unknown.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::policy::{Method, Principal};

/// Replies of one user that are cached: several times more than a session can have in flight.
const REPLIES_MAX: usize = 1024;
/// Bytes of one user's replies. A reply to calls that change something has a few bytes for each.
const BYTES_MAX: usize = 256 * 1024;
/// Bytes of all replies of a cache.
const ALL_BYTES_MAX: usize = 8 << 20;
/// What a batch takes besides its reply.
const ENTRY_BYTES: usize = 128;
/// Users that are remembered.
const USERS_MAX: usize = 512;
/// Lifetime: a client retries at once, or for minutes.
pub(crate) const LIFE: Duration = Duration::from_secs(15 * 60);
/// Clocks of two machines run at slightly different rates.
const DOUBT: Duration = Duration::from_secs(2);

type Id = [u8; 16];

enum CachedReply {
    Doing,
    /// Nothing of it was executed, as far as it came.
    NotDone,
    Told(Vec<u8>),
    /// Its reply was too long to be kept, or its outcome was never recorded.
    Lost,
}

impl CachedReply {
    fn bytes(&self) -> usize {
        match self {
            Self::Told(reply) => ENTRY_BYTES + reply.len(),
            Self::Doing | Self::NotDone | Self::Lost => ENTRY_BYTES,
        }
    }
}

struct UserReplies {
    /// Nothing that arrived after this moment was evicted.
    complete_since: Instant,
    batches: BTreeMap<Id, CachedReply>,
    /// When each arrived, oldest first.
    order: VecDeque<(Instant, Id)>,
    /// What they take, [`ENTRY_BYTES`] of each batch included.
    bytes: usize,
}

struct CacheState {
    users: BTreeMap<String, UserReplies>,
    /// An unknown user has sent nothing since then.
    complete_since: Instant,
}

/// Replies of batches that may be repeated in another session (P-74), bounded per user.
pub(crate) struct ReplyCache(Mutex<CacheState>);

/// The replies of authenticated users, and those of anonymous ones: these may be as many as there
/// are addresses, and evict nothing of the others.
pub(crate) struct ReplyCaches {
    authenticated: Arc<ReplyCache>,
    anonymous: Arc<ReplyCache>,
}

impl ReplyCaches {
    /// Empty caches, which know nothing from before `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { authenticated: Arc::new(ReplyCache::new(now)), anonymous: Arc::new(ReplyCache::new(now)) }
    }

    /// The cache for a user's replies.
    pub(crate) fn of(&self, user: &Principal) -> Arc<ReplyCache> {
        Arc::clone(if user.method == Method::Anonymous { &self.anonymous } else { &self.authenticated })
    }
}

/// What to do with a batch.
pub(crate) enum CacheLookup {
    /// Execute its calls, and report the outcome.
    Do(RunningBatch),
    /// The batch was executed before with this reply.
    Told(Vec<u8>),
}

/// A batch that is being executed. If it is dropped without a result, its outcome is unknown.
pub(crate) struct RunningBatch {
    repeats: Arc<ReplyCache>,
    user: String,
    id: Id,
}

impl UserReplies {
    fn forget_oldest(&mut self) {
        let Some((came, id)) = self.order.pop_front() else { return };
        self.complete_since = self.complete_since.max(came);
        self.forget(id);
    }

    fn forget(&mut self, id: Id) {
        if let Some(batch) = self.batches.remove(&id) {
            self.bytes -= batch.bytes();
        }
    }

    fn remember(&mut self, id: Id, batch: CachedReply) {
        self.forget(id);
        self.bytes += batch.bytes();
        self.batches.insert(id, batch);
    }

    fn hold_to_bounds(&mut self, now: Instant) {
        let old = |came: Instant| now.saturating_duration_since(came) > LIFE;
        while self.order.len() > REPLIES_MAX
            || self.bytes > BYTES_MAX
            || self.order.front().is_some_and(|(came, _)| old(*came))
        {
            self.forget_oldest();
        }
    }
}

impl ReplyCache {
    /// An empty cache, which knows nothing from before `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(CacheState { users: BTreeMap::new(), complete_since: now }))
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch with an id arrived; `age` is set if it was sent before.
    pub(crate) fn begin(
        self: &Arc<Self>,
        user: &str,
        id: Id,
        age: Option<Duration>,
        now: Instant,
    ) -> Result<CacheLookup, Error> {
        let mut state = self.lock();
        if !state.users.contains_key(user) {
            state.make_room(now);
        }
        let since = state.complete_since;
        let fresh =
            || UserReplies { complete_since: since, batches: BTreeMap::new(), order: VecDeque::new(), bytes: 0 };
        let known = state.users.entry(user.to_owned()).or_insert_with(fresh);
        known.hold_to_bounds(now);
        // Made only where it is handed out: it locks the cache when it is dropped.
        let running = || RunningBatch { repeats: Arc::clone(self), user: user.to_owned(), id };
        match known.batches.get(&id) {
            Some(CachedReply::NotDone) => {
                known.remember(id, CachedReply::Doing);
                Ok(CacheLookup::Do(running()))
            }
            Some(CachedReply::Doing) => Err(Error::new(ErrorKind::Busy, "the same batch is being done")),
            Some(CachedReply::Told(reply)) => Ok(CacheLookup::Told(reply.clone())),
            Some(CachedReply::Lost) => Err(unknown()),
            None => {
                if let Some(age) = age {
                    let sent = now.checked_sub(age.saturating_add(DOUBT));
                    if sent.is_none_or(|sent| sent < known.complete_since) {
                        return Err(unknown());
                    }
                }
                known.remember(id, CachedReply::Doing);
                known.order.push_back((now, id));
                state.hold_to_bounds();
                Ok(CacheLookup::Do(running()))
            }
        }
    }

    fn end(&self, user: &str, id: Id, known: CachedReply) {
        let mut state = self.lock();
        let Some(user) = state.users.get_mut(user) else { return };
        // Evicted meanwhile: it stays evicted.
        if !user.batches.contains_key(&id) {
            return;
        }
        user.remember(id, known);
        state.hold_to_bounds();
    }
}

impl CacheState {
    /// Evicts the oldest of whoever has most, until all of them take no more than they may.
    fn hold_to_bounds(&mut self) {
        while self.users.values().map(|user| user.bytes).sum::<usize>() > ALL_BYTES_MAX {
            let Some(most) = self.users.values_mut().max_by_key(|user| user.bytes) else { return };
            most.forget_oldest();
        }
    }

    /// If there are too many users, evicts the one whose last batch is the oldest.
    fn make_room(&mut self, now: Instant) {
        if self.users.len() < USERS_MAX {
            return;
        }
        let last = |user: &UserReplies| user.order.back().map(|(came, _)| *came);
        let oldest = self.users.iter().min_by_key(|(_, user)| last(user)).map(|(name, _)| name.clone());
        if let Some(user) = oldest.and_then(|name| self.users.remove(&name)) {
            self.complete_since = self.complete_since.max(last(&user).unwrap_or(now)).max(user.complete_since);
        }
    }
}

impl RunningBatch {
    /// The batch was executed with this reply; or nothing of it was executed, and it may be sent
    /// again.
    pub(crate) fn end(self, reply: Option<&[u8]>) {
        let known = match reply {
            Some(reply) if reply.len() <= BYTES_MAX / 8 => CachedReply::Told(reply.to_vec()),
            Some(_) => CachedReply::Lost,
            None => CachedReply::NotDone,
        };
        self.repeats.end(&self.user, self.id, known);
    }
}

impl Drop for RunningBatch {
    fn drop(&mut self) {
        let mut state = self.repeats.lock();
        let batches = state.users.get_mut(&self.user).map(|user| &mut user.batches);
        if let Some(known @ CachedReply::Doing) = batches.and_then(|batches| batches.get_mut(&self.id)) {
            *known = CachedReply::Lost;
        }
    }
}

fn unknown() -> Error {
    Error::new(
        ErrorKind::UnknownOutcome,
        "the batch may have been done, and nobody here remembers: look before you repeat it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn kind(verdict: Result<CacheLookup, Error>) -> Result<Option<Vec<u8>>, ErrorKind> {
        match verdict {
            Ok(CacheLookup::Do(doing)) => {
                doing.end(Some(b"reply"));
                Ok(None)
            }
            Ok(CacheLookup::Told(reply)) => Ok(Some(reply)),
            Err(error) => Err(error.kind),
        }
    }

    #[test]
    fn a_batch_is_done_once_and_its_reply_told_again_to_its_own_user() {
        let start = Instant::now();
        let (repeats, now) = (Arc::new(ReplyCache::new(start)), start + 100 * SECOND);
        assert_eq!(kind(repeats.begin("ada", [1; 16], None, now)), Ok(None));
        assert_eq!(kind(repeats.begin("ada", [1; 16], Some(SECOND), now)), Ok(Some(b"reply".to_vec())));
        assert_eq!(kind(repeats.begin("ada", [1; 16], None, now)), Ok(Some(b"reply".to_vec())));
        assert_eq!(kind(repeats.begin("bob", [1; 16], None, now)), Ok(None), "another user's");
        let doing = repeats.begin("ada", [2; 16], None, now);
        assert_eq!(kind(repeats.begin("ada", [2; 16], Some(SECOND), now)), Err(ErrorKind::Busy));
        drop(doing);
        assert_eq!(kind(repeats.begin("ada", [2; 16], Some(SECOND), now)), Err(ErrorKind::UnknownOutcome));
        let Ok(CacheLookup::Do(doing)) = repeats.begin("ada", [3; 16], None, now) else { panic!("new") };
        doing.end(None);
        assert_eq!(kind(repeats.begin("ada", [3; 16], Some(SECOND), now)), Ok(None), "nothing of it was done");
    }

    #[test]
    fn what_came_before_the_server_did_or_was_forgotten_has_an_unknown_outcome() {
        let start = Instant::now();
        let repeats = Arc::new(ReplyCache::new(start));
        let now = start + 100 * SECOND;
        assert_eq!(kind(repeats.begin("ada", [1; 16], Some(101 * SECOND), now)), Err(ErrorKind::UnknownOutcome));
        assert_eq!(kind(repeats.begin("ada", [1; 16], Some(99 * SECOND), now)), Err(ErrorKind::UnknownOutcome));
        assert_eq!(kind(repeats.begin("ada", [1; 16], Some(90 * SECOND), now)), Ok(None), "it cannot have come");
        // Another process has sessions, too, for as long.
        let beside = Arc::new(ReplyCache::new(start + LIFE));
        assert_eq!(kind(beside.begin("ada", [2; 16], Some(SECOND), now)), Err(ErrorKind::UnknownOutcome));
        assert_eq!(kind(beside.begin("ada", [2; 16], Some(SECOND), start + LIFE + 10 * SECOND)), Ok(None));
        // What this one has begun and not done it knows.
        let Ok(CacheLookup::Do(doing)) = beside.begin("ada", [3; 16], None, now) else { panic!("new") };
        doing.end(None);
        assert_eq!(kind(beside.begin("ada", [3; 16], Some(SECOND), now)), Ok(None));
        for number in 0..=REPLIES_MAX as u64 + 1 {
            let mut id = [9; 16];
            id[..8].copy_from_slice(&number.to_be_bytes());
            assert_eq!(kind(repeats.begin("ada", id, None, now + number as u32 * SECOND)), Ok(None));
        }
        let later = now + 1100 * SECOND;
        assert_eq!(kind(repeats.begin("ada", [1; 16], Some(1100 * SECOND), later)), Err(ErrorKind::UnknownOutcome));
        let state = repeats.lock();
        assert_eq!(state.users["ada"].order.len(), state.users["ada"].batches.len());
    }

    #[test]
    fn all_replies_are_bounded_and_whoever_has_most_loses_the_oldest() {
        let start = Instant::now();
        let repeats = Arc::new(ReplyCache::new(start));
        let tell = |user: &str, number: u64, length: usize| {
            let mut id = [7; 16];
            id[..8].copy_from_slice(&number.to_be_bytes());
            let Ok(CacheLookup::Do(doing)) = repeats.begin(user, id, None, start) else { panic!("new") };
            doing.end(Some(&vec![0; length]));
        };
        tell("modest", 0, 100);
        for (user, number) in (0..100).flat_map(|user| (0..REPLIES_MAX as u64).map(move |number| (user, number))) {
            tell(&format!("u{user}"), number, if number % 2 == 0 { 0 } else { 500 });
        }
        let state = repeats.lock();
        let held = |user: &UserReplies| user.batches.values().map(CachedReply::bytes).sum::<usize>();
        assert!(state.users.values().all(|user| user.bytes == held(user) && user.order.len() == user.batches.len()));
        let all: usize = state.users.values().map(held).sum();
        assert!((ALL_BYTES_MAX / 2..=ALL_BYTES_MAX).contains(&all), "{all} bytes");
        assert_eq!(state.users["modest"].batches.len(), 1, "who has little keeps it");
    }

    #[test]
    fn users_and_bytes_are_bounded_and_a_user_who_was_forgotten_is_told_so() {
        let start = Instant::now();
        let repeats = Arc::new(ReplyCache::new(start));
        for number in 0..USERS_MAX as u32 + 10 {
            let Ok(CacheLookup::Do(doing)) =
                repeats.begin(&format!("u{number}"), [1; 16], None, start + number * SECOND)
            else {
                panic!("new")
            };
            doing.end(Some(&[0; BYTES_MAX]));
        }
        let now = start + 1000 * SECOND;
        assert!(repeats.lock().users.len() <= USERS_MAX);
        let before = repeats.lock().users.len();
        assert_eq!(kind(repeats.begin("u519", [3; 16], None, now)), Ok(None));
        assert_eq!(repeats.lock().users.len(), before, "nobody is evicted for a user who is there");
        assert_eq!(kind(repeats.begin("u0", [1; 16], Some(1000 * SECOND), now)), Err(ErrorKind::UnknownOutcome));
        assert_eq!(kind(repeats.begin("u500", [1; 16], None, now)), Err(ErrorKind::UnknownOutcome), "too long to keep");
        assert_eq!(kind(repeats.begin("u500", [2; 16], Some(SECOND), now)), Ok(None));
    }
}
