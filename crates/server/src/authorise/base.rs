//! Calls: what a batch is about, judged once, and every name in it, judged each (PATHM-10).
//!
//! A name of a call is read, joined to the base and compared here; what comes out is an [`Authorized`] for that very path.

use super::{Authority, Authorized, Keep, Want, judge, rights_of, scope_of, split, wire_path, within};
use super::{Export, Rights, Stages};
use crate::log::LoggedName;
use std::collections::BTreeSet;
use std::sync::Arc;
use xdfs_proto::base::{Bugs, Error, ErrorKind, Level, RelPath, Safety};
use xdfs_secure::policy::{Method, Principal, Scope};
use xdfs_xio::store::tree::TreeKey;

/// The base of a batch for whom it was judged.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    export: Export,
    /// Which of the server's exports it is.
    index: u32,
    rights: Rights,
    scope: Option<Scope>,
    /// The base, below the export.
    path: RelPath,
    /// The name that the base will have, where it is in a tree that is on its way to one.
    target: Option<RelPath>,
    stages: Stages,
    /// Whose session it is about; none where nobody said.
    session: Option<Arc<Principal>>,
    user: String,
    visitor: bool,
    now: u64,
    bugs: Bugs,
}

impl Authority {
    /// Judges whether a batch may be about `name` at all: an export that is not for them is not there.
    pub fn base(&self, who: &Principal, name: &[u8], now: u64) -> Result<Base, Error> {
        let (first, path) = split(name)?;
        let (index, export, rights) = self.find(who, &first)?;
        let scope = scope_of(who)?.cloned();
        if let Some(scope) = scope.as_ref().filter(|scope| now >= scope.until) {
            // Whatever its path: nothing below this base can be meant.
            within(scope, export, &path, now, self.bugs)?;
        }
        self.stages.tidy();
        let (export, path, target) = match self.place(who, export, &path)? {
            Some(place) => (export.with_store(place.store), place.path, Some(place.target)),
            None => (export.clone(), path, None),
        };
        let (user, visitor) = (who.user.clone(), who.method == Method::Anonymous);
        let (stages, session, bugs) = (self.stages.clone(), None, self.bugs);
        Ok(Base { export, index, rights, scope, path, target, stages, session, user, visitor, now, bugs })
    }

    /// Names of the exports that show themselves to `who`.
    pub fn shown(&self, who: &Principal, now: u64) -> Result<Vec<&str>, Error> {
        let scope = scope_of(who)?;
        let open = |export: &&Export| {
            let within = scope.is_none_or(|scope| scope.export == export.name() && now < scope.until);
            within && rights_of(export.access(), who).read
        };
        Ok(self.exports.iter().filter(open).map(Export::name).collect())
    }
}

impl Base {
    /// Judges one call: `below` the base, and what it does there.
    pub fn authorise(&self, below: &[u8], want: Want) -> Result<Authorized, Error> {
        let invalid =
            |error| Error::new(ErrorKind::InvalidPath, format!("'{}': {error}", LoggedName::from(below).short()));
        let path = self.path.join(below).map_err(invalid)?;
        let rights = match &self.scope {
            Some(scope) => {
                let judged = self.target.as_ref().unwrap_or(&path);
                self.rights.and(within(scope, &self.export, judged, self.now, self.bugs)?)
            }
            None => self.rights,
        };
        let existing = judge(rights, want, &self.export, &self.user)?;
        Ok(Authorized {
            #[cfg(test)]
            export_name: self.export.name().to_owned(),
            export: self.index,
            store: self.export.store(),
            path,
            existing,
            floor: Level::Private,
        })
    }

    /// The same of a batch of this session: what it stages is there as long as the session lives.
    pub fn of_session(self, session: &Arc<Principal>) -> Self {
        Self { session: Some(Arc::clone(session)), ..self }
    }

    /// Makes the place of a tree that is to appear `below` the base as a whole, and tells its path below the export.
    pub fn stage_tree(&self, below: &[u8], client: &[u8; 16]) -> Result<Vec<u8>, Error> {
        let at = self.tree_at(below)?;
        let session = self.session.as_ref().ok_or_else(|| Error::new(ErrorKind::Unsupported, "no session"))?;
        let place = at.store().stage_tree(&self.key(&at, client))?;
        let path = wire_path(place.id);
        self.stages.note(session, self.export.name(), at.path(), place);
        Ok(path)
    }

    /// Gives such a tree its name.
    pub fn publish_tree(&self, below: &[u8], client: &[u8; 16]) -> Result<(), Error> {
        let at = self.tree_at(below)?;
        at.store().publish_tree(&self.key(&at, client))?;
        self.stages.forget(&self.user, self.export.name(), at.path());
        Ok(())
    }

    fn tree_at(&self, below: &[u8]) -> Result<Authorized, Error> {
        let at = self.authorise(below, Want::Write { keep: true })?;
        match self.target {
            Some(_) => Err(Error::new(ErrorKind::InvalidPath, "a tree that is on its way holds no other one")),
            None => Ok(at),
        }
    }

    fn key<'a>(&'a self, at: &'a Authorized, client: &'a [u8; 16]) -> TreeKey<'a> {
        TreeKey { target: at.path(), user: self.user.as_bytes(), client }
    }

    /// Waits until the names in a directory are on stable storage, which some [`Authorized`] of this base was about.
    pub fn sync(&self, directory: &RelPath) -> Result<(), Error> {
        self.export.store().tree()?.sync(directory)
    }

    /// Waits until regular files are on stable storage, which some [`Authorized`] of this base was about, and says whether they are.
    pub fn sync_files(&self, paths: &BTreeSet<RelPath>) -> Result<Safety, Error> {
        self.export.store().tree()?.sync_files(paths)
    }

    /// Whether it is for somebody who has not logged in.
    pub fn is_visitor(&self) -> bool {
        self.visitor
    }

    /// Which of the server's exports it is.
    pub fn export(&self) -> u32 {
        self.index
    }

    /// What of a file besides its bytes, kind, time and plain permissions may be set here.
    pub fn keep(&self) -> Keep {
        self.export.access().keep
    }
}
