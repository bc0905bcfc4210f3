//! Descriptors that stay open for clients, each of which counts for its user until it is closed. There are only so many:
//! one user has a quarter of them, and all anonymous users together three quarters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::policy::{Method, Principal};

#[derive(Default, Debug)]
struct Counts {
    all: usize,
    visitors: usize,
    users: BTreeMap<Arc<str>, usize>,
}

/// The descriptors of a server that stay open for locks, named pipes and unfinished trees, by user; anonymous users are
/// told apart by their source.
#[derive(Debug)]
pub(crate) struct DescriptorSlots {
    each_max: usize,
    visitors_max: usize,
    all_max: usize,
    counts: Mutex<Counts>,
}

/// One descriptor, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct DescriptorSlot {
    slots: Arc<DescriptorSlots>,
    user: Arc<str>,
    visitor: bool,
}

impl DescriptorSlots {
    /// For a server that keeps so many descriptors for open files: besides them, half as many stay open.
    pub(crate) fn new(descriptors: usize) -> Self {
        let (each_max, all_max) = (descriptors.div_ceil(8), descriptors.div_ceil(2));
        Self { each_max, visitors_max: all_max * 3 / 4, all_max, counts: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more for a user, who may be a visitor.
    pub(crate) fn take(self: &Arc<Self>, user: &Arc<str>, visitor: bool) -> Result<DescriptorSlot, Error> {
        let mut counts = self.lock();
        let own = counts.users.get(user).copied().unwrap_or(0);
        let visitors_have_all = visitor && counts.visitors >= self.visitors_max;
        if own >= self.each_max || visitors_have_all || counts.all >= self.all_max {
            let text = "there are too many locks, pipes and unfinished trees; give some up first";
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        counts.all += 1;
        counts.visitors += usize::from(visitor);
        *counts.users.entry(Arc::clone(user)).or_default() += 1;
        Ok(DescriptorSlot { slots: Arc::clone(self), user: Arc::clone(user), visitor })
    }

    /// One more for the user of a session.
    pub(crate) fn take_for(self: &Arc<Self>, session: &Principal) -> Result<DescriptorSlot, Error> {
        self.take(&session.budget().to_string().into(), session.method == Method::Anonymous)
    }
}

impl Drop for DescriptorSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.lock();
        counts.all -= 1;
        counts.visitors -= usize::from(self.visitor);
        if let Some(own) = counts.users.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_a_quarter_all_visitors_have_three_and_all_is_given_back() {
        let slots = Arc::new(DescriptorSlots::new(64));
        let take = |user: &str, visitor| slots.take(&user.into(), visitor);
        let all_of = |user: &str, visitor| -> Vec<DescriptorSlot> {
            std::iter::repeat_with(|| take(user, visitor)).map_while(Result::ok).collect()
        };
        let visitors: Vec<_> = (0..5).map(|number| all_of(&format!("visitor {number}"), true)).collect();
        assert_eq!(visitors.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 8, 0, 0]);
        let ada = all_of("ada", false);
        assert_eq!((ada.len(), all_of("bob", false).len()), (8, 0));
        assert_eq!(take("bob", false).err().map(|error| error.kind), Some(ErrorKind::LimitExceeded));
        drop(ada);
        assert_eq!(all_of("bob", false).len(), 8);
        drop(visitors);
        let counts = slots.lock();
        assert_eq!((counts.all, counts.visitors, counts.users.len()), (0, 0, 0));
    }
}
