//! What the target of a tree between two servers has and the source has not: it is removed at the end, or nothing is.

use xdfs_client::tree::EntryAction;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::listing::Kind;

use super::super::Copy;
use super::super::failure::Failed;
use super::tree_state::{TreeState, below};
use crate::cmd::ftp::part::is_part;
use crate::exit::{Exit, Failure};
use crate::url::Url;

/// Most names that are removed: all of them are held.
const NAMES_MAX: u64 = 10_000_000;

/// So many are held, too, if fewer may be removed: then all of them are counted.
const COUNTED_NAMES_MAX: u64 = 100_000;

/// A name that only the target has.
pub(super) struct Surplus {
    pub(super) url: Url,
    pub(super) path: Vec<u8>,
    pub(super) is_directory: bool,
}

/// Names that only the target has.
#[derive(Default)]
pub(super) struct SurplusNames {
    held: Vec<Surplus>,
    /// There are more, and nothing is removed.
    beyond: u64,
}

impl SurplusNames {
    /// Adds a name; only counts it where so many are known that nothing will be removed.
    pub(super) fn add(&mut self, surplus: Surplus, delete: u64) {
        match (self.held.len() as u64) < delete.clamp(COUNTED_NAMES_MAX, NAMES_MAX) {
            true => self.held.push(surplus),
            false => self.beyond += 1,
        }
    }

    fn count(&self) -> u64 {
        self.held.len() as u64 + self.beyond
    }
}

impl Copy<'_> {
    /// Removes what the source does not have, if all of the tree was copied and there is no more than may go.
    pub(super) fn remove_surplus(
        &mut self,
        to: &Url,
        found: SurplusNames,
        tree: &mut TreeState<'_>,
    ) -> Result<(), Failure> {
        if found.count() == 0 {
            return Ok(());
        }
        let (most, count) = (tree.plan.delete.unwrap_or(0), found.count());
        if !tree.exits.is_empty() {
            tree.summary.surplus_kept = count;
            let text = "names that the source does not have were not removed: part of the copy failed";
            self.monitor.output().not_done(&format!("{to}: {count} {text}"));
            return Ok(());
        }
        let all = match self.expanded(found, tree) {
            Ok(all) => all,
            Err(failed) => {
                tree.summary.surplus_kept = count;
                return self.tell_failed(failed, tree);
            }
        };
        if all.beyond > 0 || all.count() > most {
            tree.summary.surplus_kept = all.count();
            tree.exits.push(Exit::SomeFailed);
            let dry_run = tree.plan.dry_run;
            for surplus in all.held.iter().rev().filter(|_| dry_run) {
                self.monitor.output().name_done(&surplus.path, EntryAction::Deleted, dry_run)?;
            }
            self.monitor.output().not_done(&format!("{to}: {}", too_many(&all, most, dry_run)));
            return Ok(());
        }
        let all = all.held;
        // What a directory holds stands behind it.
        for (index, surplus) in all.iter().rev().enumerate() {
            if self.monitor.stopped() {
                tree.exits.push(Exit::Cancelled);
            }
            // Every other name would wait as long for a server that is gone.
            if tree.exits.iter().any(|exit| matches!(exit, Exit::Cancelled | Exit::ConnectionLost)) {
                tree.summary.surplus_kept = (all.len() - index) as u64;
                break;
            }
            let removed = if tree.plan.dry_run { Ok(()) } else { self.remove_one(surplus) };
            match removed {
                Ok(()) => {
                    tree.summary.deleted += 1;
                    self.monitor.output().name_done(&surplus.path, EntryAction::Deleted, tree.plan.dry_run)?;
                }
                Err(failed) => self.tell_failed(failed, tree)?,
            }
        }
        Ok(())
    }

    /// The names with all that is in the directories among them, as far as they are held. A directory with a name that is
    /// not taken stays.
    fn expanded(&mut self, found: SurplusNames, tree: &TreeState<'_>) -> Result<SurplusNames, Failed> {
        let (mut all, mut at) = (found, 0);
        while let Some(surplus) = all.held.get(at).filter(|_| all.beyond == 0) {
            at += 1;
            if !surplus.is_directory {
                continue;
            }
            let (above, path) = (surplus.url.clone(), surplus.path.clone());
            if self.monitor.stopped() {
                let error = Error::new(ErrorKind::Cancelled, "cancelled");
                return Err(Failed::of_peer(&above.to_string(), error));
            }
            for (name, entry) in self.all_names_of(&above)? {
                let (path, is_directory) = (below(&path, &name), entry.kind == Kind::Directory);
                let error = |what| Failed::of_peer(&above.to_string(), Error::new(ErrorKind::NotEmpty, what));
                // Parts of uploads go with their directory.
                let is_ours = above.is_ftp() && is_part(&name);
                if !is_ours && !tree.takes(&path, is_directory) {
                    return Err(error("it has names that are left out, and cannot be removed"));
                }
                let url = above.join(&name).map_err(|_| error("it has a name that cannot be removed"))?;
                all.add(Surplus { url, path, is_directory }, tree.plan.delete.unwrap_or(0));
            }
        }
        Ok(all)
    }
}

/// Why nothing of so many names is removed.
fn too_many(all: &SurplusNames, most: u64, dry_run: bool) -> String {
    let (count, least) = (all.count(), if all.beyond > 0 { "at least " } else { "" });
    let remedy = match count > NAMES_MAX {
        true => "help: remove some of them by their names first",
        false if dry_run => "help: allow more with --max-delete N",
        false => "help: allow more with --max-delete N, or look first with --dry-run",
    };
    let (names, done) =
        (if count == 1 { "name" } else { "names" }, if dry_run { "so none is" } else { "nothing was removed" });
    format!("{least}{count} {names} would be removed, more than {}: {done}\n{remedy}", most.min(NAMES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_as_long_as_they_may_be_removed_or_counted() {
        let url = Url::parse(std::ffi::OsStr::new("ftp://h/d/f")).unwrap();
        let mut all = SurplusNames::default();
        for _ in 0..COUNTED_NAMES_MAX + 2 {
            all.add(Surplus { url: url.clone(), path: Vec::new(), is_directory: false }, 5);
        }
        assert_eq!((all.held.len() as u64, all.beyond), (COUNTED_NAMES_MAX, 2));
        assert!(too_many(&all, 5, false).starts_with("at least 100002 names would be removed, more than 5: "));
        all.add(Surplus { url, path: Vec::new(), is_directory: false }, COUNTED_NAMES_MAX + 1);
        assert_eq!((all.held.len() as u64, all.beyond), (COUNTED_NAMES_MAX + 1, 2));
    }
}
