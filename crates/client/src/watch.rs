//! Watches of names (P-99, P-100): a program is told when a file or the names of a directory change on
//! the server.
//!
//! A [`Watch`] lasts as long as its session at most: when that is lost, or the directory is moved or
//! removed, the program is told [`Changes::OVER`], looks again, and watches again if it wants to. What
//! changed before [`Remote::watch`] returned need not be told: a program watches first and looks then.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let remote_folder = scratch.path().join("server");
//! # std::fs::create_dir(&remote_folder)?;
//! # let (address, handle, host_key) = {
#![doc = include_str!("example_directory_server.txt")]
//! # };
//! use std::sync::{Arc, mpsc};
//! use xdfs_client::file::Remote;
//! use xdfs_client::watch::{Changes, Watched};
//! use xdfs_client::{ConnectOptions, Pinned};
//!
//! let host_check = Arc::new(Pinned(host_key));
//! let server = Remote::new(ConnectOptions { host_check, ..ConnectOptions::to(address) });
//! let (sender, changed) = mpsc::sync_channel(16);
//! let watch = server.watch("export", Watched::Names, move |changes, name| {
//!     // Must not wait.
//!     drop(sender.try_send((changes, name.to_vec())));
//! })?;
//! std::fs::write(remote_folder.join("new"), b"")?;
//! let (changes, name) = changed.recv()?;
//! assert!(changes.has(Changes::NAME) && name == b"new");
//! drop(watch);
//! # handle.stop();
//! # Ok(())
//! # }
//! ```

use crate::calls::{Batch, failed};
use crate::file::Remote;
use crate::session::Session;
use crate::watches::{ENDS_AT_ONCE, OnChange};
use std::sync::{Arc, Weak};
use xdfs_proto::base::{Error, ErrorKind};
pub use xdfs_proto::wire::notice::Changes;
pub use xdfs_proto::wire::path::Watched;
use xdfs_proto::wire::path::{Call, REPLY_BYTES, REPLY_CALL_BYTES};

/// A watch of a name; dropped, it ends.
pub struct Watch {
    session: Weak<Session>,
    path: Vec<u8>,
    number: u64,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Watch {
    /// Whether it is over: its session has ended, or its directory was moved or removed.
    pub fn is_over(&self) -> bool {
        self.session.upgrade().is_none_or(|session| !session.watches().has(self.number))
    }
}

impl Remote {
    /// Watches `remote` (`EXPORT/path`): calls `told` whenever it changes, until the watch is dropped.
    ///
    /// The last call is [`Changes::OVER`] if it ends otherwise. A server that cannot tell of changes is
    /// an error of kind [`ErrorKind::Unsupported`]; one that has no room for another watch, of kind
    /// [`ErrorKind::LimitExceeded`]. In both cases the program looks from time to time instead. `told` is
    /// called on a thread of the session: it must not wait for anything, nor drop a watch.
    pub fn watch(
        &self,
        remote: impl AsRef<[u8]>,
        watched: Watched,
        told: impl Fn(Changes, &[u8]) + Send + Sync + 'static,
    ) -> Result<Watch, Error> {
        let (path, told): (&[u8], OnChange) = (remote.as_ref(), Arc::new(told));
        self.run_in(|session| watch_in(session, path, watched, &told))
    }

    /// The same in the session that is there, and no second time: for a program that has other work meanwhile.
    pub fn watch_once(
        &self,
        remote: impl AsRef<[u8]>,
        watched: Watched,
        told: impl Fn(Changes, &[u8]) + Send + Sync + 'static,
    ) -> Result<Watch, Error> {
        let told: OnChange = Arc::new(told);
        let none = || Error::new(ErrorKind::ConnectionLost, "there is no session now");
        watch_in(&self.present().ok_or_else(none)?, remote.as_ref(), watched, &told)
    }
}

fn watch_in(session: &Arc<Session>, path: &[u8], watched: Watched, told: &OnChange) -> Result<Watch, Error> {
    let number = session.watches().enter(Arc::clone(told))?;
    let asked = ask(session, path, watched, number);
    if asked.is_err() {
        session.watches().leave(number);
    }
    asked.map(|()| Watch { session: Arc::downgrade(session), path: path.to_vec(), number })
}

fn ask(session: &Session, path: &[u8], watched: Watched, watch: u64) -> Result<(), Error> {
    let mut batch = Batch::new(path);
    let ends = session.watches().ends();
    ends.iter().for_each(|end| batch.push(&Call::Watch { path: b"", watched: Watched::Nothing, watch: *end }));
    batch.push(&Call::Watch { path: b"", watched, watch });
    let reply = session.call(&batch)?.wait()?;
    match reply.read()?.outcomes.last() {
        Some(Err(why)) => Err(failed(*why, &format!("cannot watch '{}'", path.escape_ascii()))),
        _ => Ok(()),
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else { return };
        if !session.watches().leave(self.number) {
            return;
        }
        session.watches().tell_end_of(self.number);
        // Never waits: otherwise it is told with the next one.
        let room = REPLY_BYTES + ENDS_AT_ONCE * REPLY_CALL_BYTES;
        if !session.leaves_room_for_calls(room) {
            return;
        }
        let mut batch = Batch::new(self.path.as_slice());
        for watch in session.watches().ends() {
            batch.push(&Call::Watch { path: b"", watched: Watched::Nothing, watch });
        }
        if !batch.is_empty() {
            drop(session.call(&batch));
        }
    }
}
