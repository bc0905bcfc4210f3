//! The privileges that the process gives up before it serves: an attacker who takes over the server
//! does not get rights that it does not have.
//!
//! The order matters: configuration and keys are read, the directories of exports and the listener
//! are opened, and then, before the first thread starts (Landlock and seccomp bind the calling
//! thread and those that it starts): capabilities, `no_new_privs`, Landlock, seccomp. None of it
//! can be undone; anything that needs more requires a new process. What is denied, and why by a
//! list of denials, is in docs/decisions/0003-confinement.md.

mod capabilities;
mod filter;
mod landlock;

#[cfg(test)]
mod tests;

use crate::authorise::Preserve;
use crate::config::Confinement;
use std::path::PathBuf;
use xdfs_io::store::owners;
use xdfs_proto::base::{Error, ErrorKind};

/// What a server needs of the file system once it serves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Directories that are read, with everything below: read-only exports, the state, the folder
    /// of the configuration.
    pub readable: Vec<PathBuf>,
    /// Directories in which files are created, written, renamed and removed: writable exports.
    pub writable: Vec<PathBuf>,
    /// Directories in which files are created and extended: the folder of the audit log.
    pub appendable: Vec<PathBuf>,
    /// What any of the exports accepts beyond content: owners and special files need more of the
    /// system.
    pub keep: Preserve,
    /// Whether any of them has named pipes that clients open and create.
    pub pipes: bool,
}

/// The confinement that is in effect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confined {
    /// Landlock is in effect.
    pub files: bool,
    /// Seccomp is in effect.
    pub calls: bool,
    /// What an administrator should know, a sentence each.
    pub notes: Vec<String>,
}

/// Gives up unneeded privileges. Must be called before the first thread starts.
pub fn confine(needs: &Needs, how: Confinement) -> Result<Confined, Error> {
    // The files are out of reach afterwards.
    owners::known();
    let mut confined = Confined::default();
    if how == Confinement::Off {
        confined.notes.push("confinement is off: whoever takes this process over has all rights of its user".into());
        return Ok(confined);
    }
    if rustix::process::geteuid().is_root() {
        capabilities::drop_most(needs.keep)?;
        confined.notes.push(
            "it runs as root: every file of this machine's users is within reach of its exports; run it as a user of \
             its own where that is possible"
                .into(),
        );
    }
    forbid_cores();
    let denied = |what: &str, error: String| {
        Error::new(ErrorKind::Resources, format!("the process could not be confined by {what}: {error}"))
    };
    let answer = landlock::restrict(needs).map_err(|error| denied("Landlock", error))?;
    confined.files = answer.is_none();
    confined.notes.extend(answer);
    match filter::install(needs) {
        Ok(()) => confined.calls = true,
        Err(error) => confined.notes.push(format!("system calls are not filtered: {error}")),
    }
    if how == Confinement::Required && !(confined.files && confined.calls) {
        let text = format!("confinement is required and not complete: {}", confined.notes.join("; "));
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    Ok(confined)
}

/// A core file would contain keys.
fn forbid_cores() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Lowering a limit is always allowed.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}
