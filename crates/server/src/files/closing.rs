//! What a reload closes: files that are open on another directory of their export, and those from which somebody keeps
//! others who may not any more.
//!
//! Everything else stays open, and its calls are judged one by one.

use super::{Handle, Object, OpenFiles, lock};
use crate::authorise::Authority;
use crate::clock::seconds_now;
use std::sync::{Arc, TryLockError};

impl OpenFiles {
    /// Closes what nobody may have open by these rules. What a call uses is waited for, and closing a file may take as long as
    /// its disk likes.
    pub(crate) fn close_unfounded(&self, authority: &Authority) {
        // Nobody else waits for the list meanwhile, nor does the last one who lets go of a handle here.
        let handles = lock(&self.handles).values().filter_map(|known| known.handle.upgrade()).collect();
        close_unfounded(handles, authority);
    }
}

fn close_unfounded(mut handles: Vec<Arc<Handle>>, authority: &Authority) {
    handles.retain(|one| authority.has_moved(&one.opened.name, one.opened.root) || one.excludes_unduly(authority));
    // What was waited for since an earlier reload is closed by whoever waits.
    handles.retain(|one| !one.retire_unless_used() && !one.is_awaited());
    // There are no more of these than calls that run. One that hangs keeps none of the others open.
    std::thread::scope(|scope| {
        handles.retain(|one| {
            let (one, closing) = (Arc::clone(one), std::thread::Builder::new().name("xdfs-closing".to_owned()));
            closing.spawn_scoped(scope, move || one.retire()).is_err()
        });
        // Without threads they are waited for in turn.
        handles.iter().for_each(|one| one.retire());
    });
}

impl Handle {
    /// The same for the file of a batch that was judged by rules which a reload has replaced meanwhile.
    pub(crate) fn close_if_unfounded(self: Arc<Self>, authority: &Authority) {
        close_unfounded(vec![self], authority);
    }

    /// Whether somebody waits to close it, who lets no other call begin.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.retired.try_read(), Err(TryLockError::WouldBlock))
    }

    /// Whether it keeps others from its file, and its user may not any more.
    fn excludes_unduly(&self, authority: &Authority) -> bool {
        // A pipe passes nothing any more, and keeps nobody else from its other end.
        if !matches!(self.object, Object::File(_)) || !self.excludes_others() {
            return false;
        }
        authority.authorise(&self.principal, &self.opened.name, self.opened.changing(), seconds_now()).is_err()
    }
}
