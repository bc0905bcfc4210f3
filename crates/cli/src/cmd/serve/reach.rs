//! The directories that a process was confined to: by identity, not by name, since a directory that
//! was replaced under its name is another one to the kernel.

use std::path::{Path, PathBuf};

use xdfs_io::store::owners;
use xdfs_server::Preserve;
use xdfs_server::privilege::Needs;

/// The identity of a directory in the kernel.
type Identity = (u64, u64);

/// What a process may reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reach {
    readable: Vec<Identity>,
    writable: Vec<Identity>,
    appendable: Vec<Identity>,
    keep: Preserve,
    pipes: bool,
    /// The names of users and groups, as they were read at the start: device, inode, size, and
    /// seconds and nanoseconds of the last change.
    names: [(u64, u64, i64, i64, u64); 2],
}

impl Reach {
    /// The directories that `needs` refer to now.
    pub(super) fn of(needs: &Needs) -> Self {
        let all = |paths: &[PathBuf]| paths.iter().map(|path| identity(path)).collect();
        let (readable, writable, appendable) = (all(&needs.readable), all(&needs.writable), all(&needs.appendable));
        let (keep, pipes, names) = (needs.keep, needs.pipes, owners::FILES.map(state));
        Self { readable, writable, appendable, keep, pipes, names }
    }

    /// Whether a process that may reach this may also reach `other`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let read = |one: &Identity| self.readable.contains(one) || self.writable.contains(one);
        other.readable.iter().all(read)
            && other.writable.iter().all(|one| self.writable.contains(one))
            && other.appendable.iter().all(|one| self.appendable.contains(one) || self.writable.contains(one))
            && self.keep.or(other.keep) == self.keep
            && (self.pipes || !other.pipes)
            && (!other.keep.owner || self.names == other.names)
    }
}

/// A name that does not exist is its own directory: no other name leads there.
fn identity(path: &Path) -> Identity {
    rustix::fs::stat(path).map_or((u64::MAX, 0), |stat| (stat.st_dev, stat.st_ino))
}

/// The state of a file: another one means that it was replaced or written to.
fn state(path: &str) -> (u64, u64, i64, i64, u64) {
    rustix::fs::stat(path)
        .map_or((0, 0, 0, 0, 0), |stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime, stat.st_ctime_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(readable: &[&str], writable: &[&str]) -> Needs {
        let all = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Needs { readable: all(readable), writable: all(writable), ..Needs::default() }
    }

    #[test]
    fn what_may_be_written_may_be_read_and_not_the_other_way_round() {
        let covers = |one: Needs, other: Needs| Reach::of(&one).covers(&Reach::of(&other));
        assert!(covers(needs(&["/", "/usr"], &["/tmp"]), needs(&["/usr", "/tmp"], &["/tmp/."])));
        assert!(covers(needs(&["/usr"], &[]), needs(&["/usr/../usr"], &[])), "another name for the same");
        assert!(!covers(needs(&["/usr"], &[]), needs(&["/tmp"], &[])));
        assert!(!covers(needs(&["/tmp"], &[]), needs(&[], &["/tmp"])));
    }

    #[test]
    fn other_names_of_users_count_where_an_export_takes_owners() {
        let reach = |owner| Reach::of(&Needs { keep: Preserve { owner, ..Preserve::default() }, ..Needs::default() });
        let later = |owner| Reach { names: [(1, 2, 3, 4, 5); 2], ..reach(owner) };
        assert!(reach(true).covers(&reach(true)) && reach(false).covers(&later(false)));
        assert!(!reach(true).covers(&later(true)));
    }
}
