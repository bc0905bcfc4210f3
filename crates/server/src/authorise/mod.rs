//! Authorisation (SEC-20): the only place where a name on the wire and an authenticated principal
//! become an [`Authorized`] operation.
//!
//! Deny by default: an export is hidden from every user whom its [`Access`] does not name, and
//! every error refuses. A name is parsed once into components; the path that is checked here is
//! exactly the path that the store opens, component by component, so that `/a` never matches `/ab`.
//! A store can be reached only through an [`Authorized`], and nothing outside this module can make
//! one.

mod access;
mod base;
mod export;
mod staged_trees;

#[cfg(test)]
mod tests;

pub use access::{Access, Anonymous, Preserve, Users};
pub(crate) use access::{Rights, rights_of};
pub(crate) use base::Base;
pub use export::Export;
pub(crate) use export::Root;
pub(crate) use staged_trees::{StagedTrees, wire_path};

use crate::log::LoggedName;
use crate::traffic::ExportLoad;
use std::sync::{Arc, PoisonError, RwLock};
use xdfs_io::store::{Existing, Store};
use xdfs_proto::base::{Error, ErrorKind, Level, RelPath};
use xdfs_secure::policy::{Method, Principal, Scope};

/// What an operation does to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// Read its content or attributes.
    Read,
    /// Create a file; replace an existing one only if the client requests it and the rights allow
    /// it.
    Write {
        /// The client wants to keep an existing file.
        keep: bool,
    },
    /// Change or remove something that exists, or create what is neither a file nor a directory.
    Change,
    /// Open one end of a FIFO, or use it.
    Pipe {
        /// The one that writes.
        write: bool,
    },
}

/// An authorised operation: on this export, at this path, to this extent. Only
/// [`Authority::authorise`] makes one.
#[derive(Clone, Debug)]
pub(crate) struct Authorized {
    #[cfg(test)]
    export_name: String,
    export: u32,
    store: Arc<dyn Store>,
    path: RelPath,
    existing: Existing,
    floor: Level,
    root: Root,
    load: Arc<ExportLoad>,
}

impl Authorized {
    /// The export's name.
    #[cfg(test)]
    pub fn export_name(&self) -> &str {
        &self.export_name
    }

    /// The index of the export on the server.
    pub fn export(&self) -> u32 {
        self.export
    }

    /// The files of the export.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The path below the export that was authorised, and that is to be opened.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// How an existing file is treated: a user who may only create never replaces.
    pub fn existing(&self) -> Existing {
        self.existing
    }

    /// The lowest level at which the bytes may be sent.
    pub fn floor(&self) -> Level {
        self.floor
    }

    /// The export's directory, which a reload may have changed.
    pub fn root(&self) -> Root {
        self.root
    }

    /// What the sessions on the export share.
    pub fn load(&self) -> &Arc<ExportLoad> {
        &self.load
    }
}

/// The exports of a server and their access rules, as one value that a reload replaces.
#[derive(Debug)]
pub(crate) struct Authority {
    exports: Vec<Export>,
    /// The lowest level of every export.
    floor: Level,
    /// The staged trees.
    staged_trees: StagedTrees,
}

impl Authority {
    /// The authority over `exports`; `floor` is the lowest level of each.
    pub fn new(exports: Vec<Export>, floor: Level) -> Self {
        Self { exports, floor, staged_trees: StagedTrees::default() }
    }

    /// All exports.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// The exports that `who` may read.
    pub fn open_to<'a>(&'a self, who: &'a Principal) -> impl Iterator<Item = &'a Export> {
        self.exports.iter().filter(|export| rights_of(export.access(), who).read)
    }

    /// Authorises one operation. `now` is in seconds since 1970, for the expiry of a token.
    pub fn authorise(&self, who: &Principal, name: &[u8], want: Want, now: u64) -> Result<Authorized, Error> {
        let (first, path) = split(name)?;
        let (index, export, rights) = self.find(who, &first)?;
        let place = self.place(who, export, &path)?;
        // A path in a staged tree is authorised as its final path.
        let judged = place.as_ref().map_or(&path, |place| &place.target);
        let rights = match scope_of(who)? {
            Some(scope) => rights.and(within(scope, export, judged, now)?),
            None => rights,
        };
        let existing = judge(rights, want, export, &who.user)?;
        let (store, path) = place.map_or_else(|| (export.store(), path), |place| (place.store, place.path));
        Ok(Authorized {
            #[cfg(test)]
            export_name: export.name().to_owned(),
            export: index,
            store,
            path,
            existing,
            floor: export.access().floor.max(self.floor),
            root: export.root(),
            load: Arc::clone(export.load()),
        })
    }

    /// Gives back what the trees of ended sessions keep.
    pub fn forget_ended_trees(&self) {
        self.staged_trees.tidy();
    }

    /// Whether the export that `name` begins with has another directory than this one.
    pub fn has_moved(&self, name: &[u8], root: Root) -> bool {
        split(name).is_ok_and(|(first, _)| {
            self.exports.iter().any(|export| export.name().as_bytes() == first && export.root().differs_from(root))
        })
    }

    /// What the sessions on the export that `name` begins with share, whatever `who` may do there; none if it is hidden.
    pub fn load_of(&self, who: &Principal, name: &[u8]) -> Option<Arc<ExportLoad>> {
        let (first, _) = split(name).ok()?;
        self.find(who, &first).ok().map(|(_, export, _)| Arc::clone(export.load()))
    }
}

/// The location of a path in a staged tree.
struct Place {
    /// Its final name.
    target: RelPath,
    store: Arc<dyn Store>,
    path: RelPath,
}

impl Authority {
    /// The location of `path`, if it is in a staged tree of `who`. The store refuses any other path
    /// of this form, as it does every reserved name.
    fn place(&self, who: &Principal, export: &Export, path: &RelPath) -> Result<Option<Place>, Error> {
        let Some((id, rest)) = staged_trees::read(path) else { return Ok(None) };
        let Some(stage) = self.staged_trees.of(who, export.name(), id) else { return Ok(None) };
        let store = export.store().within_tree(&stage.place.holder)?;
        let mut path = stage.place.top.clone();
        for component in rest.components() {
            path.push(component).map_err(|error| Error::new(ErrorKind::InvalidPath, error.to_string()))?;
        }
        Ok(Some(Place { target: stage.target.clone(), store, path }))
    }

    /// The export of this name, its index, and the rights of `who` there according to its list.
    fn find(&self, who: &Principal, name: &[u8]) -> Result<(u32, &Export, Rights), Error> {
        // The bearer of a token does not learn whether there is another one.
        if let Some(scope) = scope_of(who)?.filter(|scope| scope.export.as_bytes() != name) {
            return Err(outside(scope));
        }
        let found = (0..).zip(&self.exports).find(|(_, export)| export.name().as_bytes() == name);
        let found = found.map(|(index, export)| (index, export, rights_of(export.access(), who)));
        found.filter(|(_, _, rights)| rights.read).ok_or_else(|| hidden(who, name))
    }
}

/// The same error for an export that does not exist and one that the user may not use: a stranger
/// learns no names.
fn hidden(who: &Principal, name: &[u8]) -> Error {
    let shown = LoggedName::from(name).short();
    let text = match who.method {
        Method::Anonymous => format!("no export '{shown}' on this server without a login; give a user in the URL"),
        _ => format!("no export '{shown}' on this server that '{}' may use", who.user.escape_debug()),
    };
    Error::new(ErrorKind::NotFound, text)
}

/// Parses a wire name: the export's name and the path below it.
fn split(name: &[u8]) -> Result<(Vec<u8>, RelPath), Error> {
    let invalid =
        |error| Error::new(ErrorKind::InvalidPath, format!("'{}' is no path: {error}", LoggedName::from(name).short()));
    let whole = RelPath::parse(name).map_err(invalid)?;
    let mut components = whole.components();
    let first = components
        .next()
        .ok_or_else(|| Error::new(ErrorKind::InvalidPath, "the path names no export: write xdfs://HOST/EXPORT/path"))?;
    let mut path = RelPath::default();
    for component in components {
        path.push(component).map_err(invalid)?;
    }
    Ok((first.to_vec(), path))
}

/// The limits of a token. A token without limits is invalid: it gives access to nothing.
fn scope_of(who: &Principal) -> Result<Option<&Scope>, Error> {
    match (&who.scope, who.method) {
        (None, Method::Token) => Err(Error::new(ErrorKind::Refused, "the token says nothing about what it opens")),
        (scope, _) => Ok(scope.as_ref()),
    }
}

fn outside(scope: &Scope) -> Error {
    let below = if scope.path.is_root() { String::new() } else { format!("/{}", scope.path) };
    let text = format!("the token opens '{}{below}' and nothing else", scope.export.escape_debug());
    Error::new(ErrorKind::Refused, text)
}

/// The rights of a token's bearer at `path`.
fn within(scope: &Scope, export: &Export, path: &RelPath, now: u64) -> Result<Rights, Error> {
    if now >= scope.until {
        return Err(Error::new(ErrorKind::Refused, "the token has run out; ask for a new one"));
    }
    if scope.export != export.name() || !path.is_within(&scope.path) {
        return Err(outside(scope));
    }
    Ok(if scope.write { Rights::ALL } else { Rights::READ })
}

/// Checks whether `rights` allow it, and how an existing file is treated.
fn judge(rights: Rights, want: Want, export: &Export, user: &str) -> Result<Existing, Error> {
    let name = export.name();
    match want {
        Want::Pipe { .. } if rights.read && !export.access().pipes => {
            let text = format!("export '{name}' does not grant 'pipes': named pipes may not be opened there");
            Err(Error::new(ErrorKind::Refused, text))
        }
        Want::Pipe { write } => judge(rights, if write { Want::Change } else { Want::Read }, export, user),
        Want::Read if rights.read => Ok(Existing::Keep),
        Want::Read => Err(Error::new(ErrorKind::Refused, format!("export '{name}' may not be read"))),
        Want::Write { .. } | Want::Change if !export.access().writable => {
            Err(Error::new(ErrorKind::ReadOnly, format!("export '{name}' is read-only")))
        }
        Want::Write { keep: false } if rights.replace => Ok(Existing::Replace),
        Want::Write { .. } if rights.create => Ok(Existing::Keep),
        Want::Change if rights.replace => Ok(Existing::Replace),
        Want::Change if rights.create => {
            let text = format!("'{}' may add files to export '{name}' and change nothing", user.escape_debug());
            Err(Error::new(ErrorKind::Refused, text))
        }
        Want::Write { .. } | Want::Change => {
            let text = format!("'{}' may read export '{name}' and not write to it", user.escape_debug());
            Err(Error::new(ErrorKind::Refused, text))
        }
    }
}

/// The current authority. A reload replaces it at once: every operation that starts later is
/// checked against the new one, running operations keep what they were granted.
#[derive(Clone, Debug)]
pub(crate) struct CurrentAuthority(Arc<RwLock<Arc<Authority>>>);

impl CurrentAuthority {
    /// Starts with `authority`.
    pub fn new(authority: Authority) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(authority))))
    }

    /// The authority in effect now.
    pub fn now(&self) -> Arc<Authority> {
        // A panic while the lock is held is impossible: only pointers are copied under it.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the authority.
    pub fn replace(&self, mut authority: Authority) {
        let mut present = self.0.write().unwrap_or_else(PoisonError::into_inner);
        authority.staged_trees = present.staged_trees.clone();
        for export in &mut authority.exports {
            let earlier = present.exports.iter().find(|earlier| earlier.name() == export.name());
            if let Some(earlier) = earlier {
                export.succeed(earlier);
            }
        }
        *present = Arc::new(authority);
    }
}
