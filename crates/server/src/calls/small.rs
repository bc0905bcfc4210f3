//! Small files: their bytes travel in the call (PATHM-05, PATHM-06).

use super::look::{attributes_of, plain};
use super::{Work, failure};
use crate::authorise::{Authorized, Want};
use xdfs_engine::transfer::commit;
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::wire::path::{Answer, FileType, Put, ReplyWriter, Wanted};
use xdfs_secure::random;
use xdfs_xio::store::{CommitRequest, StageRequest};

/// Permission bits of directories that are made on the way; the umask takes its part.
const PARENT_MODE: u32 = 0o777;

impl Work<'_> {
    pub(super) fn put(&mut self, put: &Put<'_>) -> Result<(), Error> {
        let at = self.at(put.path, Want::Write { keep: put.keep_existing })?;
        if put.hash.is_some_and(|hash| hash != xdfs_secure::content::hash(put.content)) {
            return Err(Error::new(ErrorKind::Corrupted, "what arrived is not what was sent"));
        }
        let safety = match self.put_at(&at, put) {
            Err(error) if error.kind == ErrorKind::NotFound && put.parents => {
                let above = at.path().parent().unwrap_or_default();
                at.store().tree()?.make_directory(&above, PARENT_MODE, true)?;
                self.made(&above, true);
                self.put_at(&at, put)?
            }
            other => other?,
        };
        self.loose |= self.durable && safety < Safety::Durable;
        Ok(())
    }

    fn put_at(&self, at: &Authorized, put: &Put<'_>) -> Result<Safety, Error> {
        let length = put.content.len() as u64;
        let stage = at.store().stage(&StageRequest {
            target: at.path().clone(),
            size: Some(length),
            existing: at.existing(),
            transfer: random::array()?,
            resume: None,
            base: None,
        })?;
        if length > 0 {
            stage.write(put.content, 0)?;
        }
        let request = CommitRequest { length, mode: put.mode, modified: put.modified };
        commit::carry_out(stage, &request, self.durable).map(|target| target.safety)
    }

    pub(super) fn get(
        &mut self,
        path: &[u8],
        wanted: Wanted,
        most: u32,
        writer: &mut ReplyWriter,
    ) -> Result<(), Error> {
        let told = self.at(path, Want::Read).and_then(|at| {
            let source = at.store().open(at.path())?;
            let size = source.attributes().size.unwrap_or(u64::MAX);
            let room = writer.room().min(most as usize);
            let Some(size) = usize::try_from(size).ok().filter(|size| *size <= room) else {
                return Err(Error::new(ErrorKind::TooLarge, "the file is larger than the room for it"));
            };
            let mut content = vec![0; size];
            source.read_exact_at(&mut content, 0)?;
            source.revalidate()?;
            let node = at.store().tree().and_then(|tree| tree.node(at.path()));
            let attributes = match &node {
                // What has the name now may be another file.
                Ok(node) if node.version == source.attributes().version => attributes_of(node, wanted, None),
                _ => plain(source.attributes(), wanted),
            };
            debug_assert_eq!(attributes.kind, FileType::Regular);
            writer.answer(&Answer::File { attributes, content: &content });
            Ok(())
        });
        told.inspect_err(|error| writer.fail(failure(error)))
    }
}
