//! Hidden names (P-101): what clients removed while they had it open lives on under such a name until its
//! last close. A client that is gone closes nothing; the server removes what it left.
//!
//! The table is without input, output and clock. Whether a session is over is told by its principal, which
//! lives as long as the session does.

use super::leases::{FileKey, file_at};
use super::{OpenFiles, lock};
use crate::authorise::{Authority, Want};
use crate::clock::seconds_now;
use crate::users::admits;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_secure::policy::{Directory, Method, Principal};

/// The last component of a hidden name begins so.
const PREFIX: &[u8] = b".xdfs-removed-";

/// Names that are remembered, of one user, of all visitors and in all, and their bytes. What is more
/// stays if its client does not remove it.
const EACH_MAX: Usage = Usage { names: 1024, bytes: 1 << 20 };
const VISITORS_MAX: Usage = Usage { names: 3072, bytes: 3 << 20 };
const ALL_MAX: Usage = Usage { names: 4096, bytes: 4 << 20 };

/// How long a client may take to come back, where no lease says so.
const KEPT: Duration = Duration::from_secs(120);

/// A file with a hidden name.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    file: FileKey,
    session: Weak<Principal>,
    /// The user of the session, with whose rights it is removed.
    user: Arc<Principal>,
    /// When the session was found to be over.
    since: Option<Instant>,
}

/// Names that are remembered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Usage {
    names: usize,
    bytes: usize,
}

impl Usage {
    /// Whether one more name of so many bytes fits.
    fn has_room(self, bytes: usize, most: Self) -> bool {
        self.names < most.names && self.bytes + bytes <= most.bytes
    }

    fn add(&mut self, bytes: usize) {
        self.names += 1;
        self.bytes += bytes;
    }

    fn take(&mut self, bytes: usize) {
        self.names -= 1;
        self.bytes -= bytes;
    }
}

/// The hidden names of all sessions, as `EXPORT/path`.
#[derive(Default, Debug)]
struct HiddenNames {
    names: BTreeMap<Vec<u8>, Hidden>,
    /// By what their sessions count against: a user's tokens take nothing of the user.
    budgets: BTreeMap<String, Usage>,
    visitors: Usage,
    all: Usage,
}

/// The hidden names of a server.
#[derive(Default, Debug)]
pub(super) struct HiddenFiles {
    names: Mutex<HiddenNames>,
    /// Some are being removed.
    removing: AtomicBool,
}

/// Hidden names that are being removed, until this is dropped.
pub(crate) struct Removal {
    server: Arc<OpenFiles>,
    names: Vec<(Vec<u8>, Hidden)>,
}

/// Whether the last component of a path is a hidden name.
pub(crate) fn is_hidden(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(PREFIX))
}

/// How long a hidden name stays when its session is over.
pub(crate) fn kept(lease: Duration) -> Duration {
    if lease.is_zero() { KEPT } else { lease }
}

impl Hidden {
    /// The name of the user with whose rights it is removed.
    pub(crate) fn user(&self) -> &str {
        &self.user.user
    }
}

impl HiddenNames {
    /// The name leads to this file, and belongs to this session.
    fn insert(&mut self, name: Vec<u8>, file: FileKey, session: &Arc<Principal>) {
        let user = Arc::new(Principal::clone(session));
        self.put(name, Hidden { file, session: Arc::downgrade(session), user, since: None });
    }

    /// Remembers it under this name, if there is room.
    fn put(&mut self, name: Vec<u8>, hidden: Hidden) {
        self.remove(&name);
        let (budget, bytes) = (hidden.user.budget().to_string(), name.len());
        let own = self.budgets.get(&budget).copied().unwrap_or_default();
        let visitor = hidden.user.method == Method::Anonymous;
        if !own.has_room(bytes, EACH_MAX)
            || visitor && !self.visitors.has_room(bytes, VISITORS_MAX)
            || !self.all.has_room(bytes, ALL_MAX)
        {
            return;
        }
        self.budgets.entry(budget).or_default().add(bytes);
        if visitor {
            self.visitors.add(bytes);
        }
        self.all.add(bytes);
        self.names.insert(name, hidden);
    }

    fn remove(&mut self, name: &[u8]) -> Option<Hidden> {
        let (known, bytes) = (self.names.remove(name)?, name.len());
        let budget = known.user.budget().to_string();
        if let Some(own) = self.budgets.get_mut(&budget) {
            own.take(bytes);
            if *own == Usage::default() {
                self.budgets.remove(&budget);
            }
        }
        if known.user.method == Method::Anonymous {
            self.visitors.take(bytes);
        }
        self.all.take(bytes);
        Some(known)
    }

    /// A file or a directory has another name: what is below it has, too.
    fn renamed(&mut self, from: &[u8], to: &[u8]) {
        let below = [from, b"/"].concat();
        let moved: Vec<Vec<u8>> = self.names.keys().filter(|name| name.starts_with(&below)).cloned().collect();
        for name in moved {
            let Some(known) = self.remove(&name) else { continue };
            self.put([to, &name[from.len()..]].concat(), known);
        }
        self.remove(from);
    }

    /// A session opened the file again under its hidden name: it belongs to this one now. Another user's
    /// stays that user's, also beside a token of theirs.
    fn claim(&mut self, name: Vec<u8>, file: FileKey, session: &Arc<Principal>) {
        if self.names.get(&name).is_none_or(|known| known.user.budget() == session.budget()) {
            self.insert(name, file, session);
        }
    }

    /// The names whose session has been over for so long. They are not remembered any more.
    fn due(&mut self, kept: Duration, now: Instant) -> Vec<(Vec<u8>, Hidden)> {
        for one in self.names.values_mut() {
            let over = one.session.strong_count() == 0;
            one.since = if over { one.since.or(Some(now)) } else { None };
        }
        let overdue = |one: &Hidden| one.since.is_some_and(|since| now.saturating_duration_since(since) >= kept);
        let due: Vec<Vec<u8>> =
            self.names.iter().filter(|(_, one)| overdue(one)).map(|(name, _)| name.clone()).collect();
        due.into_iter().filter_map(|name| self.remove(&name).map(|one| (name, one))).collect()
    }
}

impl OpenFiles {
    /// A session made a hidden name for a file.
    pub(crate) fn hidden_made(&self, name: Vec<u8>, file: FileKey, session: &Arc<Principal>) {
        lock(&self.hidden.names).insert(name, file, session);
    }

    /// A session opened a file again under its hidden name.
    pub(super) fn hidden_claimed(&self, name: Vec<u8>, file: FileKey, session: &Arc<Principal>) {
        lock(&self.hidden.names).claim(name, file, session);
    }

    /// A name is gone.
    pub(crate) fn hidden_gone(&self, name: &[u8]) {
        lock(&self.hidden.names).remove(name);
    }

    /// A file or a directory has another name.
    pub(crate) fn hidden_renamed(&self, from: &[u8], to: &[u8]) {
        lock(&self.hidden.names).renamed(from, to);
    }

    /// Whether there is any.
    pub(crate) fn has_hidden(&self) -> bool {
        !lock(&self.hidden.names).names.is_empty()
    }

    /// The hidden names whose session has been over for so long, to be removed. None if there are none, or
    /// if the last ones are being removed yet.
    pub(crate) fn begin_removal(self: &Arc<Self>, kept: Duration, now: Instant) -> Option<Removal> {
        if self.hidden.removing.load(Ordering::Acquire) {
            return None;
        }
        let names = lock(&self.hidden.names).due(kept, now);
        if names.is_empty() {
            return None;
        }
        self.hidden.removing.store(true, Ordering::Release);
        Some(Removal { server: Arc::clone(self), names })
    }
}

impl Removal {
    /// What is to be removed.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&[u8], &Hidden)> {
        self.names.iter().map(|(name, hidden)| (name.as_slice(), hidden))
    }

    /// Removes one with the rights that its user has now, if it still leads to its file; `LoginRefused` if
    /// its user would get no session now.
    pub(crate) fn remove(
        &self,
        authority: &Authority,
        logins: &dyn Directory,
        name: &[u8],
        hidden: &Hidden,
    ) -> Result<(), Error> {
        // The rights of an export are those of its users, whoever still has an account.
        if !admits(logins, &hidden.user) {
            return Err(Error::new(ErrorKind::LoginRefused, "what its user logged in with is not valid any more"));
        }
        let at = authority.authorise(&hidden.user, name, Want::Change, seconds_now())?;
        if file_at(&at) != Some(hidden.file) {
            return Err(Error::new(ErrorKind::NotFound, "the name leads elsewhere"));
        }
        self.server.renamed(|| Some(hidden.file));
        at.store().tree()?.remove(at.path())
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.server.hidden.removing.store(false, Ordering::Release);
    }
}

/// `EXPORT/path` in its only spelling.
pub(super) fn plain(path: &[u8]) -> Option<Vec<u8>> {
    RelPath::parse(path).ok().map(|path| path.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_secure::policy::PublicKey;

    const FILE: FileKey = [7; 16];
    const NAME: &[u8] = b"data/d/.xdfs-removed-1-0";
    const TIME: Duration = Duration::from_secs(10);

    fn session(user: &str) -> Arc<Principal> {
        Arc::new(Principal { user: user.to_owned(), method: Method::Anonymous, key: None, scope: None })
    }

    /// More names below a directory than one user may have.
    fn fill(table: &mut HiddenNames, directory: &str, session: &Arc<Principal>) {
        for number in 0..2 * EACH_MAX.names {
            table.insert(format!("{directory}/.xdfs-removed-{number}").into_bytes(), FILE, session);
        }
    }

    fn is_empty(table: &HiddenNames) -> bool {
        let none = Usage::default();
        table.names.is_empty() && table.budgets.is_empty() && table.visitors == none && table.all == none
    }

    fn names(due: Vec<(Vec<u8>, Hidden)>) -> Vec<Vec<u8>> {
        due.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_hidden_name_goes_when_its_session_has_been_over_for_a_time() {
        let (mut table, ada, now) = (HiddenNames::default(), session("ada"), Instant::now());
        table.insert(NAME.to_vec(), FILE, &ada);
        assert!(table.due(TIME, now + 100 * TIME).is_empty(), "it lives");
        drop(ada);
        assert!(table.due(TIME, now).is_empty());
        assert!(table.due(TIME, now + TIME / 2).is_empty());
        // Somebody else does not keep it, and its user does.
        table.claim(NAME.to_vec(), FILE, &session("bob"));
        let again = session("ada");
        table.claim(NAME.to_vec(), FILE, &again);
        assert!(table.due(TIME, now + 2 * TIME).is_empty(), "its client is back");
        drop(again);
        assert!(table.due(TIME, now + 3 * TIME).is_empty());
        assert_eq!(names(table.due(TIME, now + 4 * TIME)), [NAME]);
        assert!(is_empty(&table));
    }

    #[test]
    fn a_hidden_name_moves_with_its_directory_and_is_forgotten_with_its_file() {
        let (mut table, ada, now) = (HiddenNames::default(), session("ada"), Instant::now());
        table.insert(NAME.to_vec(), FILE, &ada);
        table.insert(b"data/dd/.xdfs-removed-1-1".to_vec(), FILE, &ada);
        table.renamed(b"data/d", b"data/elsewhere");
        table.renamed(b"data/dd/.xdfs-removed-1-1", b"data/kept");
        drop(ada);
        assert!(table.due(Duration::ZERO, now).iter().all(|(name, _)| name == b"data/elsewhere/.xdfs-removed-1-0"));
        assert!(is_empty(&table));
    }

    #[test]
    fn the_table_is_bounded_for_each_user_and_in_all() {
        let (mut table, ada, bob) = (HiddenNames::default(), session("ada"), session("bob"));
        fill(&mut table, "data", &ada);
        assert_eq!(table.names.len(), EACH_MAX.names);
        table.insert(NAME.to_vec(), FILE, &bob);
        assert_eq!(table.names.len(), EACH_MAX.names + 1);
        let before = table.all;
        table.insert(vec![b'n'; EACH_MAX.bytes], FILE, &bob);
        assert_eq!(table.all, before);
    }

    #[test]
    fn the_bound_of_a_user_holds_for_names_that_a_renamed_directory_makes_longer() {
        let (mut table, ada) = (HiddenNames::default(), session("ada"));
        fill(&mut table, "data/d", &ada);
        table.renamed(b"data/d", &[&b"data/"[..], &[b'd'; 4000]].concat());
        let bytes: usize = table.names.keys().map(Vec::len).sum();
        assert!(bytes <= EACH_MAX.bytes && table.names.len() > 200, "{} names of {bytes} bytes", table.names.len());
        table.renamed(&[&b"data/"[..], &[b'd'; 4000]].concat(), b"data/d");
        drop(ada);
        table.due(Duration::ZERO, Instant::now());
        assert!(is_empty(&table));
    }

    #[test]
    fn the_tokens_of_a_user_leave_the_user_what_is_the_users_own() {
        let mut table = HiddenNames::default();
        let key = Some(PublicKey([1; 32]));
        let token = Arc::new(Principal { user: "ada".to_owned(), method: Method::Token, key, scope: None });
        fill(&mut table, "data", &token);
        let ada = Arc::new(Principal { method: Method::Key, ..Principal::clone(&token) });
        table.insert(NAME.to_vec(), FILE, &ada);
        assert!(table.names.contains_key(NAME));
    }

    #[test]
    fn all_visitors_together_leave_a_quarter_to_those_who_logged_in() {
        let mut table = HiddenNames::default();
        let visitors: Vec<_> = (0..5).map(|number| session(&format!("anonymous@192.0.2.{number}"))).collect();
        for (number, visitor) in visitors.iter().enumerate() {
            fill(&mut table, &format!("data/{number}"), visitor);
        }
        assert_eq!(table.names.len(), VISITORS_MAX.names);
        let ada = Principal { method: Method::Key, ..Principal::clone(&session("ada")) };
        fill(&mut table, "data", &Arc::new(ada));
        assert_eq!(table.names.len(), ALL_MAX.names);
    }

    #[test]
    fn a_hidden_name_is_told_by_its_last_component() {
        assert!(is_hidden(NAME) && is_hidden(b".xdfs-removed-"));
        assert!(!is_hidden(b"data/.xdfs-removed-1/f") && !is_hidden(b"data/xdfs-removed-1"));
    }
}
