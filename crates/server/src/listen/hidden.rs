//! Hidden names that clients left behind (P-101): removed by a thread of their own, since storage may take
//! as long as it likes.

use super::Server;
use crate::authorise::Authority;
use crate::files::hidden::{Removal, kept};
use crate::log::{LogEvent, LoggedName};
use std::collections::BTreeMap;
use std::sync::Arc;
use xdfs_proto::base::ErrorKind;
use xdfs_secure::policy::Directory;

impl Server {
    /// Removes the hidden names whose sessions have been over for a time.
    pub(super) fn remove_hidden(&self) {
        // There is nothing to remove, or another removal runs.
        let Some(removal) =
            self.services.files.begin_removal(kept(self.config.limits.lease), std::time::Instant::now())
        else {
            return;
        };
        let (authority, logins) = (self.services.authority.now(), Arc::clone(&self.config.directory));
        let log = Arc::clone(&self.config.log);
        let work = move || {
            for event in remove(&removal, &authority, &*logins) {
                log(&event);
            }
        };
        // If the thread cannot start the names stay, as they do when the server is killed.
        let _ = std::thread::Builder::new().name("xdfs-hidden".into()).spawn(work);
    }
}

/// Removes them, and says so: of each user in one line for an export, however many there are.
fn remove(removal: &Removal, authority: &Authority, logins: &dyn Directory) -> Vec<LogEvent> {
    let mut told = BTreeMap::<(String, String, bool), (String, usize)>::new();
    for (name, hidden) in removal.names() {
        let removed = match removal.remove(authority, logins, name, hidden) {
            Ok(()) => true,
            Err(error) if error.kind == ErrorKind::LoginRefused => false,
            Err(_) => continue,
        };
        let export = name.split(|byte| *byte == b'/').next().unwrap_or_default().escape_ascii().to_string();
        let user = hidden.user().escape_debug().to_string();
        let first = || (LoggedName::from(name).short(), 0);
        told.entry((export, user, removed)).or_insert_with(first).1 += 1;
    }
    let line = |((export, user, removed), (first, count)): ((String, String, bool), (String, usize))| {
        let which = if count == 1 { format!("'{first}'") } else { format!("'{first}' and {} more", count - 1) };
        let text = if removed {
            format!("removed {which}, which '{user}' had removed while open and left")
        } else {
            let why = "what that session logged in with is not valid any more";
            format!("kept {which}, which '{user}' had removed while open and left: {why}")
        };
        LogEvent::Notice { export, text }
    };
    told.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]

    use super::*;
    use crate::authorise::{Export, Want};
    use crate::files::OpenFiles;
    use crate::files::leases::file_at;
    use std::time::{Duration, Instant};
    use xdfs_io::store::LocalStore;
    use xdfs_proto::base::{Level, RelPath};
    use xdfs_secure::policy::{Method, PasswordVerifier, Principal, PublicKey, Scope, TokenRecord};

    /// Bob was revoked, and Ada's token may only read by now.
    struct Left;

    fn scope(write: bool) -> Scope {
        Scope { export: "e".into(), path: RelPath::default(), write, until: u64::MAX }
    }

    impl Directory for Left {
        fn has_key(&self, user: &str, _key: &PublicKey) -> bool {
            user == "ada"
        }

        fn password(&self, _user: &str) -> Option<PasswordVerifier> {
            None
        }

        fn token(&self, _key: &PublicKey) -> Option<TokenRecord> {
            Some(TokenRecord { user: "ada".into(), scope: scope(false) })
        }

        fn anonymous(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_a_user_left_who_may_not_log_in_any_more_stays_and_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalStore::open_root(scratch.path(), true).unwrap());
        let authority = Authority::new(vec![Export::open_to_all("e", store, true)], Level::Clear);
        let files = Arc::new(OpenFiles::new(16).unwrap());
        let left = |name: &str, user: &str, scope: Option<Scope>| {
            let method = if scope.is_some() { Method::Token } else { Method::Key };
            let session = Arc::new(Principal { user: user.into(), method, key: Some(PublicKey([1; 32])), scope });
            std::fs::write(scratch.path().join(name), name).unwrap();
            let name = format!("e/{name}").into_bytes();
            let file = file_at(&authority.authorise(&session, &name, Want::Change, 0).unwrap()).unwrap();
            files.hidden_made(name, file, &session);
        };
        left(".xdfs-removed-1", "ada", None);
        left(".xdfs-removed-2", "bob", None);
        left(".xdfs-removed-3", "bob", None);
        left(".xdfs-removed-4", "ada", Some(scope(true)));
        let removal = files.begin_removal(Duration::ZERO, Instant::now()).unwrap();
        let told = remove(&removal, &authority, &Left).into_iter().map(|event| match event {
            LogEvent::Notice { export, text } => format!("{export}: {text}"),
            other => panic!("{other:?}"),
        });
        let why = "had removed while open and left: what that session logged in with is not valid any more";
        let expected = [
            format!("e: kept 'e/.xdfs-removed-4', which 'ada' {why}"),
            "e: removed 'e/.xdfs-removed-1', which 'ada' had removed while open and left".to_owned(),
            format!("e: kept 'e/.xdfs-removed-2' and 1 more, which 'bob' {why}"),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let is_there = |number| scratch.path().join(format!(".xdfs-removed-{number}")).exists();
        assert_eq!([1, 2, 3, 4].map(is_there), [false, true, true, true]);
        assert!(!files.has_hidden(), "nothing is tried again");
    }
}
