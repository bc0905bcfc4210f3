//! Executes a commit: the plan of `proto::base::commit` with a single member, call by call, on the
//! stage. Runs in the blocking pool.

use xdfs_io::store::{CommitRequest, Stage};
use xdfs_proto::base::commit::{Commit, CommitStep};
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::session::TargetFacts;

/// The result of a commit.
#[derive(Debug)]
pub struct CommittedFile {
    /// Facts that are reported to the session.
    pub facts: TargetFacts,
    /// The target existed already: see
    /// [`Existing::ReplaceOther`](xdfs_io::store::Existing::ReplaceOther).
    pub unchanged: bool,
}

/// Makes `stage` the target, durably if that is requested and the storage can guarantee it. The
/// first error ends the commit; the stage is dropped together with what it had written, unless it
/// was renamed already.
pub fn carry_out(mut stage: Stage, request: &CommitRequest, durable: bool) -> Result<CommittedFile, Error> {
    let durable = durable && stage.promises() == Safety::Durable;
    let mut version = Vec::new();
    let outcomes = Commit::single(durable).run(|step| match step {
        CommitStep::Finish(_) => stage.finish(request),
        CommitStep::SyncFile(_) | CommitStep::SyncSystem => stage.sync(),
        CommitStep::Name(_) => stage.name(request).map(|attributes| version = attributes.version.0),
        CommitStep::SyncDirectory(_) => stage.sync_directory(),
    });
    let nobody = || Error::new(ErrorKind::Storage, "a commit had no member");
    let safety = outcomes.into_iter().next().ok_or_else(nobody)??;
    Ok(CommittedFile { facts: TargetFacts { safety, version }, unchanged: stage.unchanged() })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test looks at the files from outside of the store")]
mod tests {
    use super::*;
    use std::sync::Arc;
    use xdfs_io::store::fault::{Call, Fault, Plan};
    use xdfs_io::store::{Existing, FaultStore, LocalStore, StageRequest, Store};
    use xdfs_proto::base::RelPath;
    use xdfs_proto::base::TransferId;

    /// EIO on Linux.
    const EIO: i32 = 5;

    fn scene() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("target"), b"old").unwrap();
        folder
    }

    fn commit(folder: &std::path::Path, plan: Plan, durable: bool) -> Result<TargetFacts, Error> {
        let local = LocalStore::open_root(folder, true).unwrap();
        let store = FaultStore::new(Arc::new(local), plan);
        let target = RelPath::parse(b"target").unwrap();
        let request = StageRequest {
            target,
            size: Some(3),
            existing: Existing::Replace,
            transfer: TransferId([7; 16]),
            resume: None,
            base: None,
            holes: false,
        };
        let stage = store.stage(&request).unwrap();
        stage.write(b"new", 0).unwrap();
        carry_out(stage, &CommitRequest { length: 3, mode: 0o644, modified: None }, durable).map(|made| made.facts)
    }

    #[test]
    fn a_sync_that_fails_once_and_then_succeeds_fails_the_commit_and_leaves_the_old_file() {
        let folder = scene();
        let error = commit(folder.path(), Plan::none().at(Call::Sync, 1, Fault::Errno(EIO)), true).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Storage);
        assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), b"old");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "a spoilt part is no use to anybody: {left:?}");
    }

    #[test]
    fn a_directory_that_cannot_be_synced_is_told_although_the_name_is_there() {
        let folder = scene();
        let error =
            commit(folder.path(), Plan::none().at(Call::SyncDirectory, 1, Fault::Errno(EIO)), true).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Storage);
        assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), b"new");
    }

    #[test]
    fn only_a_durable_commit_is_called_durable_and_only_it_syncs() {
        for durable in [true, false] {
            let folder = scene();
            // A sync fails, which shows whether one is made.
            let failing = Plan::none().at(Call::Sync, 1, Fault::Errno(EIO));
            assert_eq!(commit(folder.path(), failing, durable).is_ok(), !durable);
            let facts = commit(folder.path(), Plan::none(), durable).unwrap();
            let promised = if std::env::temp_dir().starts_with("/dev/shm") { Safety::Written } else { Safety::Durable };
            assert_eq!(facts.safety, if durable { promised } else { Safety::Written });
            assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), b"new");
        }
    }
}
