//! Authorisation of calls: the base of a batch is checked once, and every name in it separately
//! (PATHM-10).
//!
//! The name in a call is parsed, joined to the base and checked here; the result is an
//! [`Authorized`] for exactly that path.

use super::{Authority, Authorized, Preserve, Want, judge, rights_of, scope_of, split, wire_path, within};
use super::{Export, Rights, StagedTrees};
use crate::descriptor_slots::DescriptorSlots;
use crate::log::LoggedName;
use crate::traffic::ExportLoad;
use std::collections::BTreeSet;
use std::sync::Arc;
use xdfs_io::store::tree::TreeKey;
use xdfs_proto::base::{Error, ErrorKind, Level, RelPath, Safety};
use xdfs_secure::policy::{Method, Principal, Scope};

/// The base of a batch, authorised for one session.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    export: Export,
    /// The index of the export on the server.
    index: u32,
    rights: Rights,
    scope: Option<Scope>,
    /// The base, below the export.
    path: RelPath,
    /// The final name of the base, if it is inside a staged tree.
    target: Option<RelPath>,
    staged_trees: StagedTrees,
    /// The session: the trees that it stages last as long as it does.
    session: Arc<Principal>,
    now: u64,
}

impl Authority {
    /// Checks whether a batch may have the base `name` at all: an export that the user may not use
    /// is reported as not found.
    pub fn base(&self, who: &Arc<Principal>, name: &[u8], now: u64) -> Result<Base, Error> {
        let (first, path) = split(name)?;
        let (index, export, rights) = self.find(who, &first)?;
        let scope = scope_of(who)?.cloned();
        if let Some(scope) = scope.as_ref().filter(|scope| now >= scope.until) {
            // Checked whatever the path: an expired token permits nothing below this base.
            within(scope, export, &path, now)?;
        }
        self.staged_trees.tidy();
        let (export, path, target) = match self.place(who, export, &path)? {
            Some(place) => (export.with_store(place.store), place.path, Some(place.target)),
            None => (export.clone(), path, None),
        };
        let (staged_trees, session) = (self.staged_trees.clone(), Arc::clone(who));
        Ok(Base { export, index, rights, scope, path, target, staged_trees, session, now })
    }

    /// Names of the exports that are visible to `who`, with the rights there.
    pub fn shown(&self, who: &Principal, now: u64) -> Result<Vec<(&str, Rights)>, Error> {
        let scope = scope_of(who)?;
        let rights = |export: &Export| {
            let own = rights_of(export.access(), who);
            match scope {
                None => own,
                Some(scope) if scope.export != export.name() || now >= scope.until => Rights::NONE,
                Some(scope) if scope.write => own,
                Some(_) => own.and(Rights::READ),
            }
        };
        let all = self.exports.iter().map(|export| (export.name(), rights(export)));
        Ok(all.filter(|(_, rights)| rights.read).collect())
    }
}

impl Base {
    /// Authorises one call: `below` the base, with what it does there.
    pub fn authorise(&self, below: &[u8], want: Want) -> Result<Authorized, Error> {
        let invalid =
            |error| Error::new(ErrorKind::InvalidPath, format!("'{}': {error}", LoggedName::from(below).short()));
        let path = self.path.join(below).map_err(invalid)?;
        let rights = match &self.scope {
            Some(scope) => {
                let judged = self.target.as_ref().unwrap_or(&path);
                self.rights.and(within(scope, &self.export, judged, self.now)?)
            }
            None => self.rights,
        };
        let existing = judge(rights, want, &self.export, &self.session.user)?;
        Ok(Authorized {
            #[cfg(test)]
            export_name: self.export.name().to_owned(),
            export: self.index,
            store: self.export.store(),
            path,
            existing,
            floor: Level::Private,
            root: self.export.root(),
            load: Arc::clone(self.export.load()),
        })
    }

    /// The name on the wire of what an [`Authorized`] of this base refers to; none in a staged tree.
    pub fn name_of(&self, at: &Authorized) -> Option<Vec<u8>> {
        let (export, path) = (self.export.name().as_bytes(), at.path());
        self.target.is_none().then(|| match path.is_root() {
            true => export.to_vec(),
            false => [export, b"/", path.as_bytes()].concat(),
        })
    }

    /// The same with the session, which is over when nobody else has it any more.
    pub fn named(&self, at: &Authorized) -> Option<(Arc<Principal>, Vec<u8>)> {
        Some((Arc::clone(&self.session), self.name_of(at)?))
    }

    /// What the sessions on the export share.
    pub fn load(&self) -> &Arc<ExportLoad> {
        self.export.load()
    }

    /// Creates the staging directory of a tree that is to appear `below` the base as a whole, and
    /// returns its path below the export. The tree keeps a descriptor, one of `slots`.
    pub fn stage_tree(&self, below: &[u8], client: &[u8; 16], slots: &Arc<DescriptorSlots>) -> Result<Vec<u8>, Error> {
        let at = self.tree_at(below)?;
        // Who asks again for a tree keeps the slot that it has.
        let slot = match self.staged_trees.slot_of(&self.session, self.export.name(), at.path(), client) {
            Some(slot) => slot,
            None => Arc::new(slots.take_for(&self.session)?),
        };
        let place = at.store().stage_tree(&TreeKey { target: at.path(), owner: &self.session.part_owner(), client })?;
        let path = wire_path(place.id);
        self.staged_trees.note(&self.session, self.export.name(), (at.path(), client), place, slot);
        Ok(path)
    }

    /// Publishes such a tree under its name.
    pub fn publish_tree(&self, below: &[u8], client: &[u8; 16]) -> Result<(), Error> {
        let at = self.tree_at(below)?;
        let owner = self.session.part_owner();
        at.store().publish_tree(&TreeKey { target: at.path(), owner: &owner, client })?;
        self.staged_trees.forget(&owner, self.export.name(), at.path());
        Ok(())
    }

    fn tree_at(&self, below: &[u8]) -> Result<Authorized, Error> {
        let at = self.authorise(below, Want::Write { keep: true })?;
        match self.target {
            Some(_) => Err(Error::new(ErrorKind::InvalidPath, "a tree that is on its way holds no other one")),
            None => Ok(at),
        }
    }

    /// Waits until the names in a directory that an [`Authorized`] of this base referred to are on
    /// stable storage.
    pub fn sync(&self, directory: &RelPath) -> Result<(), Error> {
        self.export.store().tree()?.sync(directory)
    }

    /// Waits until regular files that an [`Authorized`] of this base referred to are on stable
    /// storage, and returns whether they are.
    pub fn sync_files(&self, paths: &BTreeSet<RelPath>) -> Result<Safety, Error> {
        self.export.store().tree()?.sync_files(paths)
    }

    /// Whether it is for an anonymous user.
    pub fn is_visitor(&self) -> bool {
        self.session.method == Method::Anonymous
    }

    /// The index of the export on the server.
    pub fn export(&self) -> u32 {
        self.index
    }

    /// Whether named pipes may be opened and created here.
    pub fn pipes(&self) -> bool {
        self.export.access().pipes
    }

    /// What may be set here of a file beyond its bytes, kind, time and plain permissions.
    pub fn keep(&self) -> Preserve {
        self.export.access().keep
    }
}
