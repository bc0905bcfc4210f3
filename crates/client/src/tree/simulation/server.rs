//! A server's answers to batches of calls, as docs/protocol.md has them.

use super::files::{Inode, SimulatedFiles, cursor_of};
use super::random::Random;
use xdfs_engine::kinds;
use xdfs_io::store::Existing;
use xdfs_io::store::tree::{AttributeChange, Node, NodeKind, Special, Tree};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety};
use xdfs_proto::wire::path::{
    Answer, Attributes, Batch, Call, Failure, FileType, ListEntry, NewTime, ReplyWriter, Wanted,
};

/// How often calls are refused, of 10,000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Refusals {
    /// With too many open files.
    pub(super) scarce: u64,
    /// With an error of its storage.
    pub(super) storage: u64,
}

/// A server's side of a session.
#[derive(Debug)]
pub(super) struct SimulatedServer {
    pub(super) files: SimulatedFiles,
    pub(super) refusals: Refusals,
    /// A listing takes all room of the calls behind it, as a page of a server of the first version
    /// may.
    pub(super) greedy: bool,
    /// Entries in a page, at most.
    pub(super) page: usize,
}

fn failure(error: &Error) -> Failure {
    Failure { kind: error.kind, errno: error.errno }
}

fn at(path: &[u8]) -> Result<RelPath, Error> {
    RelPath::parse(path).map_err(|error| Error::new(ErrorKind::InvalidPath, error.to_string()))
}

fn attributes<'a>(node: &'a Node, wanted: Wanted, target: Option<&'a [u8]>) -> Attributes<'a> {
    let mut inode = [0; 16];
    inode[..8].copy_from_slice(&node.identity.0.to_be_bytes());
    inode[8..].copy_from_slice(&node.identity.1.to_be_bytes());
    let device = matches!(node.kind, NodeKind::CharacterDevice | NodeKind::BlockDevice);
    Attributes {
        mode: wanted.has(Wanted::MODE).then_some(node.mode),
        size: wanted.has(Wanted::SIZE).then_some(node.size),
        modified: wanted.has(Wanted::MODIFIED).then_some(node.modified),
        links: wanted.has(Wanted::LINKS).then_some(node.links),
        inode: wanted.has(Wanted::INODE).then_some(inode),
        owner: wanted.has(Wanted::OWNER).then_some(node.owner),
        device: (device && wanted.has(Wanted::DEVICE)).then_some(node.device),
        allocated: wanted.has(Wanted::ALLOCATED).then_some(node.allocated),
        target: target.filter(|_| wanted.has(Wanted::TARGET)),
        ..Attributes::of(kinds::told(node.kind))
    }
}

impl SimulatedServer {
    /// Executes the calls of a batch, or of one that is cancelled the first few, and returns the reply.
    pub(super) fn execute(
        &self,
        payload: &[u8],
        room: usize,
        calls_max: Option<usize>,
        random: &mut Random,
    ) -> Vec<u8> {
        let batch = Batch::decode(payload).expect("a batch that can be read");
        assert_eq!(batch.room as usize, room, "the room that is counted is the room that is asked for");
        let mut writer = ReplyWriter::new(batch.calls.len(), room).expect("room for every failure");
        for (index, call) in batch.calls.iter().enumerate() {
            if call.result_bytes_max().is_none() && !self.greedy {
                writer.leave_room(batch.calls[index + 1..].iter());
            }
            let full = self.greedy && batch.calls[..index].iter().any(|before| matches!(before, Call::List { .. }));
            assert!(!full || call.room() == 0, "a page has taken the room of {call:?}");
            if calls_max.is_some_and(|most| index >= most) {
                writer.fail(Failure { kind: ErrorKind::NotTried, errno: 0 });
                continue;
            }
            match self.refusal(random) {
                Some(error) => writer.fail(failure(&error)),
                None => self.call(call, &mut writer),
            }
        }
        writer.finish(if batch.durable { Safety::Durable } else { Safety::Written })
    }

    pub(super) fn refusal(&self, random: &mut Random) -> Option<Error> {
        if random.one_in(10_000, self.refusals.scarce) {
            return Some(Error::new(ErrorKind::Resources, "too many open files").with_errno(24));
        }
        let error = || Error::new(ErrorKind::Storage, "input/output error").with_errno(5);
        random.one_in(10_000, self.refusals.storage).then(error)
    }

    fn call(&self, call: &Call<'_>, writer: &mut ReplyWriter) {
        let done = match call {
            Call::List { path, wanted, cursor } => return self.list(path, *wanted, cursor, writer),
            Call::Stat { path, wanted } => at(path).and_then(|at| {
                let node = self.files.node(&at)?;
                let text = if node.kind == NodeKind::Symlink { self.files.read_symlink(&at).ok() } else { None };
                writer.answer(&Answer::Attributes(attributes(&node, *wanted, text.as_deref())));
                Ok(())
            }),
            Call::Get { path, wanted, most } => self.get(path, *wanted, *most, writer),
            Call::Hash { path, .. } => self.files.find(path).and_then(|found| {
                if found.kind != NodeKind::Regular {
                    return Err(Error::new(ErrorKind::NotRegular, "no file"));
                }
                let (length, digest) = (found.content.len() as u64, xdfs_secure::content::hash(&found.content));
                writer.answer(&Answer::Hash { length, digest });
                Ok(())
            }),
            Call::XattrNames { .. } => {
                writer.names(std::iter::empty());
                Ok(())
            }
            change => self.change(change).map(|()| writer.answer(&Answer::Done)),
        };
        done.unwrap_or_else(|error| writer.fail(failure(&error)));
    }

    fn list(&self, path: &[u8], wanted: Wanted, cursor: &[u8], writer: &mut ReplyWriter) {
        let mut page = writer.listing();
        let entries = match self.files.entries(path, cursor) {
            Ok(entries) => entries,
            Err(error) => return page.fail(failure(&error)),
        };
        let mut last = cursor.to_vec();
        for (taken, (name, node, text)) in entries.iter().enumerate() {
            let text = (node.kind == NodeKind::Symlink).then_some(text.as_slice());
            let entry = ListEntry { name, attributes: attributes(node, wanted, text) };
            if taken == self.page || !page.push(&entry) {
                return page.finish(false, &last);
            }
            last = cursor_of(name).to_vec();
        }
        page.finish(true, b"");
    }

    fn get(&self, path: &[u8], wanted: Wanted, most: u32, writer: &mut ReplyWriter) -> Result<(), Error> {
        let node = self.files.node(&at(path)?)?;
        if node.kind != NodeKind::Regular {
            return Err(Error::new(ErrorKind::NotRegular, "no file"));
        }
        let content = self.files.find(path)?.content;
        if content.len() > writer.room().min(most as usize) {
            return Err(Error::new(ErrorKind::TooLarge, "more than is read at once"));
        }
        writer.answer(&Answer::File { attributes: attributes(&node, wanted, None), content: &content });
        Ok(())
    }

    fn change(&self, call: &Call<'_>) -> Result<(), Error> {
        let files = &self.files;
        match *call {
            Call::MakeDirectory { path, parents, mode } => files.make_directory(&at(path)?, mode, parents),
            Call::RemoveDirectory { path } => files.remove_directory(&at(path)?).map_err(|error| match error.kind {
                ErrorKind::AlreadyExists => Error { kind: ErrorKind::NotEmpty, ..error },
                _ => error,
            }),
            Call::Unlink { path } => files.remove(&at(path)?),
            Call::Rename { path, to, keep_existing } => {
                let existing = if keep_existing { Existing::Keep } else { Existing::Replace };
                files.rename(&at(path)?, &at(to)?, existing)
            }
            Call::Link { path, to } => files.link(&at(path)?, &at(to)?),
            Call::Symlink { path, target } => files.make_symlink(&at(path)?, target),
            Call::MakeNode { path, kind: FileType::Fifo, mode, device } => {
                files.make_special(&at(path)?, &Special { kind: NodeKind::Fifo, mode, device })
            }
            Call::SetMode { path, mode } => {
                files.change(&at(path)?, &AttributeChange { mode: Some(mode), ..AttributeChange::default() })
            }
            Call::SetTimes { path, modified: Some(NewTime::At(time)), .. } => {
                files.change(&at(path)?, &AttributeChange { modified: Some(time), ..AttributeChange::default() })
            }
            Call::SetOwner { path, .. } => files.find(path).map(drop),
            Call::Put(put) => {
                if put.hash.is_some_and(|hash| hash != xdfs_secure::content::hash(put.content)) {
                    return Err(Error::new(ErrorKind::Corrupted, "what arrived is not what was sent"));
                }
                let modified = put.modified.unwrap_or_default();
                let file = Inode::new(NodeKind::Regular, put.mode, put.content.to_vec(), modified);
                let existing = if put.keep_existing { Existing::Keep } else { Existing::Replace };
                files.put(put.path, file, existing)
            }
            _ => Err(Error::new(ErrorKind::Unsupported, "no such call")),
        }
    }
}
