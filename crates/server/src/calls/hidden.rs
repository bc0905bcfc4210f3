//! What calls on names are to hidden names (P-101): they make them, move them and remove them.

use super::CallContext;
use crate::authorise::Authorized;
use crate::files::hidden::is_hidden;
use crate::files::leases::file_at;

impl CallContext {
    /// A file has got this name. If it is a hidden one, the session owns it.
    pub(super) fn named(&self, at: &Authorized) {
        if !is_hidden(at.path().as_bytes()) {
            return;
        }
        if let (Some((session, name)), Some(file)) = (self.base.named(at), file_at(at)) {
            self.files.hidden_made(name, file, &session);
        }
    }

    /// A file or a directory has another name.
    pub(super) fn renamed(&self, from: &Authorized, to: &Authorized) {
        if self.files.has_hidden()
            && let (Some((_, from)), Some((_, to))) = (self.base.named(from), self.base.named(to))
        {
            self.files.hidden_renamed(&from, &to);
        }
        self.named(to);
    }

    /// A file has lost this name.
    pub(super) fn unnamed(&self, at: &Authorized) {
        if is_hidden(at.path().as_bytes())
            && let Some((_, name)) = self.base.named(at)
        {
            self.files.hidden_gone(&name);
        }
    }
}
