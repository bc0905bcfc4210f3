//! A store that lists whatever a script says, behind a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::tree::{AttributeChange, Cursor, ListControl, Node, NodeKind, Space, Special};
use xdfs_io::store::{
    Attributes, Capability, Existing, MemoryStore, SmallReader, Source, Stage, StageRequest, Store, Tree, Version,
};
use xdfs_proto::base::{RelPath, Safety, Timestamp};

/// One entry of a listing.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: Vec<u8>,
    pub node: Node,
}

pub fn node(kind: NodeKind) -> Node {
    Node {
        kind,
        mode: 0o644,
        size: 7,
        allocated: 0,
        links: 1,
        identity: (1, 1),
        owner: (0, 0),
        device: (1, 3),
        accessed: Timestamp::default(),
        modified: Timestamp::new(1_000_000_000, 0),
        changed: Timestamp::default(),
        version: Version(b"v".to_vec()),
    }
}

pub fn line(name: &[u8], kind: NodeKind) -> Line {
    Line { name: name.to_vec(), node: node(kind) }
}

/// What a hostile server tells.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Listings by the path of their directory.
    pub listings: BTreeMap<Vec<u8>, Vec<Line>>,
    /// The listing of every directory that has none.
    pub everywhere: Vec<Line>,
    /// Pages never end: each says that more follows, and has nothing.
    pub endless: bool,
    /// The text of every symbolic link.
    pub text: Vec<u8>,
    /// Every directory has so many entries, instead.
    pub numbered: Option<Numbered>,
    /// Directories below the top are listed once this is true.
    pub gate: Option<Arc<(Mutex<bool>, Condvar)>>,
    /// What every file has; "payload" where it is empty.
    pub content: Vec<u8>,
    /// No file can be had by a transfer.
    pub small_only: bool,
    /// No reply ever has room for a file.
    pub roomless: bool,
    /// Why no file can be read; it can where this is empty.
    pub error: String,
    /// So many times others have every descriptor of the server.
    pub scarce: Arc<AtomicU64>,
}

/// Names that nobody has to keep anywhere.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub count: u64,
    pub kind: NodeKind,
    pub name: fn(u64) -> String,
    /// Names that the server has looked at.
    pub asked: Arc<AtomicU64>,
}

/// A store that lists whatever a script says.
#[derive(Debug)]
pub struct EvilStore {
    script: Script,
    content: Arc<MemoryStore>,
}

impl EvilStore {
    pub fn new(script: Script) -> Self {
        let content = Arc::new(MemoryStore::new(1 << 20));
        let bytes = if script.content.is_empty() { b"payload" } else { script.content.as_slice() };
        content.put(&RelPath::parse(b"content").unwrap(), bytes).unwrap();
        Self { script, content }
    }
}

impl EvilStore {
    fn must_be_readable(&self) -> Result<(), Error> {
        let taken = self.script.scarce.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let too_many = 24;
        match taken {
            Ok(_) => Err(Error::new(ErrorKind::Resources, "too many open files").with_errno(too_many)),
            Err(_) if self.script.error.is_empty() => Ok(()),
            Err(_) => Err(Error::new(ErrorKind::Storage, self.script.error.as_str())),
        }
    }
}

fn refused<T>() -> Result<T, Error> {
    Err(Error::new(ErrorKind::Unsupported, "only lists"))
}

impl Store for EvilStore {
    fn capability(&self) -> Capability {
        self.content.capability()
    }

    fn attributes(&self, _: &RelPath) -> Result<Attributes, Error> {
        refused()
    }

    /// Every file has the same bytes.
    fn open(&self, _: &RelPath) -> Result<Source, Error> {
        self.must_be_readable()?;
        if self.script.small_only {
            return refused();
        }
        self.content.open(&RelPath::parse(b"content").unwrap())
    }

    fn stage(&self, _: &StageRequest) -> Result<Stage, Error> {
        refused()
    }

    fn get_small(
        &self,
        _: &RelPath,
        _: Option<&Node>,
        bytes_max: u64,
        into: &mut SmallReader,
    ) -> Result<Attributes, Error> {
        self.must_be_readable()?;
        if self.script.roomless {
            return Err(Error::new(ErrorKind::LimitExceeded, "the reply has no room"));
        }
        self.content.get_small(&RelPath::parse(b"content").unwrap(), None, bytes_max, into)
    }

    fn tree(&self) -> Result<&dyn Tree, Error> {
        Ok(self)
    }
}

impl Tree for EvilStore {
    /// Every name is there, except patterns.
    fn node(&self, path: &RelPath) -> Result<Node, Error> {
        if path.as_bytes().contains(&b'*') {
            return Err(Error::new(ErrorKind::NotFound, "no such name"));
        }
        Ok(node(NodeKind::Directory))
    }

    fn list(
        &self,
        path: &RelPath,
        cursor: &[u8],
        take: &mut dyn FnMut(&[u8], &Node) -> ListControl,
    ) -> Result<Option<Cursor>, Error> {
        if let Some(numbered) = &self.script.numbered {
            let first = cursor.try_into().map_or(0, u64::from_be_bytes);
            for number in first..numbered.count {
                numbered.asked.fetch_add(1, Ordering::Relaxed);
                if take((numbered.name)(number).as_bytes(), &node(numbered.kind)) == ListControl::Stop {
                    return Ok(Some(number.to_be_bytes().to_vec()));
                }
            }
            return Ok(None);
        }
        if let (Some(gate), false) = (&self.script.gate, path.as_bytes().is_empty()) {
            let (open, changed) = &**gate;
            drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        }
        if self.script.endless {
            return Ok(Some(b"again".to_vec()));
        }
        let lines = self.script.listings.get(path.as_bytes()).unwrap_or(&self.script.everywhere);
        let first = cursor.try_into().map_or(0, u64::from_be_bytes);
        for (number, line) in lines.iter().enumerate().skip(first as usize) {
            if take(&line.name, &line.node) == ListControl::Stop {
                return Ok(Some((number as u64).to_be_bytes().to_vec()));
            }
        }
        Ok(None)
    }

    fn make_directory(&self, _: &RelPath, _: u32, _: bool) -> Result<(), Error> {
        refused()
    }

    fn remove_directory(&self, _: &RelPath) -> Result<(), Error> {
        refused()
    }

    fn remove(&self, _: &RelPath) -> Result<(), Error> {
        refused()
    }

    fn rename(&self, _: &RelPath, _: &RelPath, _: Existing) -> Result<(), Error> {
        refused()
    }

    fn link(&self, _: &RelPath, _: &RelPath) -> Result<(), Error> {
        refused()
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8]) -> Result<(), Error> {
        refused()
    }

    fn read_symlink(&self, _: &RelPath) -> Result<Vec<u8>, Error> {
        Ok(self.script.text.clone())
    }

    fn make_special(&self, _: &RelPath, _: &Special) -> Result<(), Error> {
        refused()
    }

    fn change(&self, _: &RelPath, _: &AttributeChange) -> Result<(), Error> {
        refused()
    }

    fn xattrs(&self, _: &RelPath) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![b"security.capability".to_vec(), b"trusted.x".to_vec(), b"../x".to_vec(), b"user.fine".to_vec()])
    }

    fn xattr(&self, _: &RelPath, _: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(b"value".to_vec())
    }

    fn set_xattr(&self, _: &RelPath, _: &[u8], _: &[u8]) -> Result<(), Error> {
        refused()
    }

    fn remove_xattr(&self, _: &RelPath, _: &[u8]) -> Result<(), Error> {
        refused()
    }

    fn space(&self, _: &RelPath) -> Result<Space, Error> {
        refused()
    }

    fn sync(&self, _: &RelPath) -> Result<(), Error> {
        refused()
    }

    fn sync_files(&self, _: &BTreeSet<RelPath>) -> Result<Safety, Error> {
        refused()
    }
}
