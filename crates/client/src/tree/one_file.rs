//! What a file that is copied alone keeps besides its bytes, permissions and modification time: the same as one of a tree.

use super::NotPreserved;
use super::received_metadata::{XATTR_ROOM_MAX, known_here};
use super::up::Extras;
use super::{Preserve, SET_ID};
use crate::calls::Facts;
use crate::retry::passes_for_tree;
use crate::session::Session;
use xdfs_io::store::LocalStore;
use xdfs_io::store::tree::{AttributeChange, Tree};
use xdfs_proto::base::{Error, RelPath};
use xdfs_proto::wire::path::{Answer, Call, Wanted};

/// What was not kept of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reduced {
    /// How many attributes.
    pub count: u64,
    /// Which kinds of them.
    pub kinds: NotPreserved,
}

impl Reduced {
    /// Counts a refusal; what ended the session is an error.
    fn note(&mut self, kind: NotPreserved, outcome: Result<(), Error>) -> Result<(), Error> {
        match outcome {
            Err(error) if passes_for_tree(&error) => Err(error),
            Err(_) => {
                self.count += 1;
                self.kinds = self.kinds.and(kind);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Gives the file `remote` of the server what `keep` asks for of a file here.
pub fn preserve_up(
    session: &Session,
    (store, name): (&LocalStore, &RelPath),
    remote: &[u8],
    keep: Preserve,
) -> Result<Reduced, Error> {
    let node = store.node(name)?;
    let extras = Extras::of(store, name.as_bytes(), &node, keep);
    let (mut reduced, mut owned) = (Reduced::default(), true);
    for (call, kind) in extras.calls(b"") {
        let done = session.done(remote, &call);
        owned &= kind != NotPreserved::OWNER || done.is_ok();
        reduced.note(kind, done)?;
    }
    if let Some(mode) = extras.special_mode(owned) {
        reduced.note(NotPreserved::MODE, session.done(remote, &Call::SetMode { path: b"", mode }))?;
    }
    Ok(reduced)
}

/// Gives a file here what `keep` asks for of the file `remote` of the server.
pub fn preserve_down(
    session: &Session,
    remote: &[u8],
    (store, name): (&LocalStore, &RelPath),
    keep: Preserve,
) -> Result<Reduced, Error> {
    let mut reduced = Reduced::default();
    let owner = if keep.owners { Wanted::OWNER.and(Wanted::NAMES) } else { Wanted::NOTHING };
    let Facts { mode, owner, names, .. } = session.look(remote, Wanted::MODE.and(owner))?;
    let names = names.as_ref().filter(|_| !keep.numeric).map(|(user, group)| (user.as_slice(), group.as_slice()));
    let owner = owner.filter(|_| keep.owners).map(|numbers| known_here(numbers, names));
    let owner = owner.map_or((None, None), |(user, group)| (Some(user), Some(group)));
    let changed = |change: AttributeChange| match change == AttributeChange::default() {
        true => Ok(()),
        false => store.change(name, &change),
    };
    // A new owner clears bits of the mode, which is set afterwards.
    let given = changed(AttributeChange { owner, ..AttributeChange::default() });
    let mode = mode.filter(|_| keep.modes).map(|mode| if given.is_ok() { mode } else { mode & !SET_ID });
    reduced.note(NotPreserved::OWNER, given)?;
    reduced.note(NotPreserved::MODE, changed(AttributeChange { mode, ..AttributeChange::default() }))?;
    if !keep.xattrs {
        return Ok(reduced);
    }
    let listed = session.one(remote, &Call::XattrNames { path: b"" }, XATTR_ROOM_MAX, |answer| match answer {
        Answer::Names(names) => Some(names.clone().map(<[u8]>::to_vec).collect::<Vec<_>>()),
        _ => None,
    });
    let listed = match listed {
        Ok(names) => names,
        Err(error) => return reduced.note(NotPreserved::XATTR, Err(error)).map(|()| reduced),
    };
    for xattr in listed {
        let kind = NotPreserved::of_xattr(&xattr);
        if !keep.takes_xattr(&xattr) {
            reduced.count += 1;
            reduced.kinds = reduced.kinds.and(kind);
            continue;
        }
        let call = Call::XattrValue { path: b"", name: &xattr };
        let value = session.one(remote, &call, XATTR_ROOM_MAX, |answer| match answer {
            Answer::Bytes(value) => Some(value.to_vec()),
            _ => None,
        });
        reduced.note(kind, value.and_then(|value| store.set_xattr(name, &xattr, &value)))?;
    }
    Ok(reduced)
}
