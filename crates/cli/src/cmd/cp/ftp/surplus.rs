//! What the target of a tree between two servers has and the source has not: it is removed at the end, or nothing is.

use xdfs_client::tree::EntryAction;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::listing::Kind;

use super::super::Copy;
use super::super::failure::Failed;
use super::between_tree::{Surplus, Tree, below};
use crate::cmd::ftp::part::is_part;
use crate::exit::{Exit, Failure};
use crate::url::Url;

/// Most names that are removed: all of them are held.
const NAMES_MAX: usize = 10_000_000;

impl Copy<'_> {
    /// Removes what the source does not have, if all of the tree was copied and there is no more than may go.
    pub(super) fn remove_surplus(&mut self, to: &Url, tree: &mut Tree<'_>) -> Result<(), Failure> {
        let found = std::mem::take(&mut tree.surplus);
        if found.is_empty() {
            return Ok(());
        }
        let (most, count) = (tree.plan.delete.unwrap_or(0), found.len());
        if !tree.exits.is_empty() {
            tree.summary.surplus_kept = count as u64;
            let text = "names that the source does not have were not removed: part of the copy failed";
            self.monitor.output().not_done(&format!("{to}: {count} {text}"));
            return Ok(());
        }
        let all = match self.expanded(found, tree) {
            Ok(all) => all,
            Err(failed) => {
                tree.summary.surplus_kept = count as u64;
                return self.tell_failed(failed, tree);
            }
        };
        if all.len() as u64 > most {
            let text = format!(
                "{} names would be removed, more than {most}: nothing was removed\nhelp: allow more with --max-delete N, or \
                 look first with --dry-run",
                all.len()
            );
            tree.summary.surplus_kept = all.len() as u64;
            tree.exits.push(Exit::SomeFailed);
            self.monitor.output().not_done(&format!("{to}: {text}"));
            return Ok(());
        }
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

    /// The names with all that is in the directories among them. A directory with a name that is not taken stays.
    fn expanded(&mut self, found: Vec<Surplus>, tree: &Tree<'_>) -> Result<Vec<Surplus>, Failed> {
        let (mut all, mut at) = (found, 0);
        while let Some(surplus) = all.get(at) {
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
                if all.len() == NAMES_MAX {
                    return Err(error("more names than can be held"));
                }
                let url = above.join(&name).map_err(|_| error("it has a name that cannot be removed"))?;
                all.push(Surplus { url, path, is_directory });
            }
        }
        Ok(all)
    }
}
