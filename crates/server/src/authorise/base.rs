//! Calls: what a batch is about, judged once, and every name in it, judged each (PATHM-10).
//!
//! A name of a call is read, joined to the base and compared here; what comes out is an [`Authorized`] for that very path.

use super::{Authority, Authorized, Keep, Want, judge, rights_of, scope_of, split, within};
use super::{Export, Rights};
use crate::log::LoggedName;
use std::collections::BTreeSet;
use xdfs_proto::base::{Bugs, Error, ErrorKind, Level, RelPath, Safety};
use xdfs_secure::policy::{Method, Principal, Scope};

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
        let (export, index, user, visitor) = (export.clone(), index, who.user.clone(), who.method == Method::Anonymous);
        Ok(Base { export, index, rights, scope, path, user, visitor, now, bugs: self.bugs })
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
            Some(scope) => self.rights.and(within(scope, &self.export, &path, self.now, self.bugs)?),
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
