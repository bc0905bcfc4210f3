//! Small files: their bytes are part of the call (PATHM-05, PATHM-06). Adjacent ones in a batch are
//! passed to storage together, so that they share the sync that makes them durable.

use super::CallContext;
use crate::authorise::{Authorized, Want};
use crate::files::leases::file_at;
use crate::replies::{attributes_of, failure, plain};
use xdfs_io::store::{Existing, SmallFile};
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::wire::path::{Answer, Call, Put, ReplyWriter, Wanted};

/// Files that are passed to storage together: as many as share one commit.
const GROUP_MAX: usize = 64;

/// The small files at the front of `calls` that are processed together.
pub(super) fn group<'c, 'b>(calls: &'c [Call<'b>], stop_at_failure: bool) -> Vec<&'c Put<'b>> {
    // If a failure stops the rest, the rest must not have started.
    let most = if stop_at_failure { 1 } else { GROUP_MAX };
    let put = |call: &'c Call<'b>| match call {
        Call::Put(put) => Some(put),
        _ => None,
    };
    calls.iter().map_while(put).take(most).collect()
}

impl CallContext {
    /// Writes files; returns for each whether it existed already.
    pub(super) fn put(&mut self, puts: &[&Put<'_>]) -> Vec<Result<bool, Error>> {
        let judged: Vec<Result<Authorized, Error>> = puts.iter().map(|put| self.judge(put)).collect();
        let files: Vec<SmallFile<'_>> = judged
            .iter()
            .zip(puts)
            .filter_map(|(at, put)| {
                let at = at.as_ref().ok()?;
                Some(SmallFile {
                    target: at.path().clone(),
                    content: put.content,
                    mode: put.mode,
                    modified: put.modified,
                    existing: at.existing().unless_same(self.since),
                    base: None,
                    parents: put.parents,
                    holes: put.holes,
                })
            })
            .collect();
        // All files of a batch are below one base, and so in one store.
        let store = judged.iter().find_map(|at| at.as_ref().ok().map(Authorized::store));
        let mut placed = store.map_or(Vec::new(), |store| store.put_small(&files, self.durable)).into_iter();
        let lost = || Error::new(ErrorKind::Storage, "storage told no outcome");
        judged
            .into_iter()
            .map(|at| {
                at?;
                let placed = placed.next().ok_or_else(lost)??;
                self.loose |= self.durable && placed.safety < Safety::Durable;
                Ok(placed.unchanged)
            })
            .collect()
    }

    fn judge(&self, put: &Put<'_>) -> Result<Authorized, Error> {
        let at = self.at(put.path, Want::Write { keep: put.keep_existing })?;
        if put.hash.is_some_and(|hash| hash != xdfs_secure::content::hash(put.content)) {
            return Err(Error::new(ErrorKind::Corrupted, "what arrived is not what was sent"));
        }
        if at.existing() != Existing::Keep {
            self.files.renamed(|| file_at(&at));
        }
        Ok(at)
    }

    pub(super) fn get(
        &mut self,
        path: &[u8],
        wanted: Wanted,
        most: u32,
        writer: &mut ReplyWriter,
    ) -> Result<(), Error> {
        let told = self.at(path, Want::Read).and_then(|at| {
            let most = writer.room().min(most as usize) as u64;
            let read = at.store().get_small(at.path(), None, most, &mut self.reading)?;
            // Most requests need only what the file's own descriptor provides; the rest is looked
            // up by name.
            let told = Wanted::MODE.and(Wanted::SIZE).and(Wanted::MODIFIED).and(Wanted::VERSION);
            let node = match told.has(wanted) {
                true => None,
                false => at.store().tree().and_then(|tree| tree.node(at.path())).ok(),
            };
            // The name may refer to another file now.
            let node = node.filter(|node| node.version == read.version);
            let attributes = match &node {
                Some(node) => attributes_of(node, wanted, None),
                None => plain(&read, wanted),
            };
            writer.answer(&Answer::File { attributes, content: self.reading.content() });
            Ok(())
        });
        told.inspect_err(|error| writer.fail(failure(error)))
    }
}
