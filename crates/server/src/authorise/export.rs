//! One export: a name, its access rules, and a store that is reachable only through this module's
//! authority.

use super::{Access, Anonymous};
use crate::traffic::ExportLoad;
use std::sync::Arc;
use xdfs_io::store::{Recovered, Store};
use xdfs_proto::base::RelPath;

/// What a server serves under one name.
#[derive(Clone, Debug)]
pub struct Export {
    name: String,
    access: Access,
    /// Private: a file can be reached only with authorisation.
    store: Arc<dyn Store>,
    /// The directory that it has.
    root: Root,
    /// What all sessions that use it share.
    load: Arc<ExportLoad>,
}

/// Device and inode of an export's directory; none of a store that has none, or did not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root(Option<(u64, u64)>);

impl Root {
    /// Whether these are two directories.
    pub(crate) fn differs_from(self, other: Self) -> bool {
        self.0.zip(other.0).is_some_and(|(one, two)| one != two)
    }
}

#[cfg(test)]
impl Root {
    /// That of a store without directories.
    pub(crate) const NONE: Self = Self(None);
}

impl Export {
    /// The files of `store` under `name`, the first component of every name below it.
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>, access: Access) -> Self {
        let node = store.tree().and_then(|tree| tree.node(&RelPath::default()));
        let root = Root(node.ok().map(|node| node.identity));
        Self { name: name.into(), access, store, root, load: Arc::new(ExportLoad::new(0)) }
    }

    /// The same with a limit of bandwidth, in bytes per second; 0 is none.
    #[must_use]
    pub fn with_bandwidth(self, rate: u64) -> Self {
        Self { load: Arc::new(ExportLoad::new(rate)), ..self }
    }

    /// An export that every client may use, with or without a login; for tests and for servers
    /// within one machine.
    pub fn open_to_all(name: impl Into<String>, store: Arc<dyn Store>, writable: bool) -> Self {
        let anonymous = if writable { Anonymous::Write } else { Anonymous::Read };
        Self::new(name, store, Access { writable, anonymous, ..Access::default() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its access rules.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The directory that it has.
    pub(crate) fn root(&self) -> Root {
        self.root
    }

    /// What all sessions that use it share.
    pub(crate) fn load(&self) -> &Arc<ExportLoad> {
        &self.load
    }

    /// Goes on with the counters and the limit of an earlier export of the same name, at the rate of
    /// this one: running operations keep to it.
    pub(super) fn succeed(&mut self, earlier: &Self) {
        earlier.load.limit.set_rate(self.load.limit.rate());
        self.load = Arc::clone(&earlier.load);
    }

    /// Searches for what earlier servers left here, and removes what is older than `expired`. No
    /// file's content is touched.
    pub(crate) fn recover(&self, expired: i64) -> Recovered {
        self.store.recover(expired)
    }

    /// A notice for the log; each is returned once.
    pub(crate) fn notice(&self) -> Option<String> {
        self.store.notice()
    }

    /// The same export with another store: that of a staged tree.
    pub(super) fn with_store(&self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self.clone() }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
}
