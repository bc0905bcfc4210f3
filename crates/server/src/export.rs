//! Exports: the directories (and the memory pair) that a server shows, and the way from a name on the wire to a file.

use std::sync::Arc;
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_xio::store::Store;

/// One export.
#[derive(Clone, Debug)]
pub struct Export {
    /// The first component of every name below it.
    pub name: String,
    /// Where its files are.
    pub store: Arc<dyn Store>,
    /// Whether files may be written.
    pub writable: bool,
}

/// Finds the export of a wire name and the path below it.
pub(crate) fn resolve<'a>(exports: &'a [Export], name: &[u8]) -> Result<(usize, &'a Export, RelPath), Error> {
    let invalid = |error| Error::new(ErrorKind::InvalidPath, format!("'{}' is no path: {error}", name.escape_ascii()));
    let path = RelPath::parse(name).map_err(invalid)?;
    let (first, below) = path
        .components()
        .split_first()
        .ok_or_else(|| Error::new(ErrorKind::InvalidPath, "the path names no export: write xdfs://HOST/EXPORT/path"))?;
    let found = exports.iter().enumerate().find(|(_, export)| export.name.as_bytes() == first.as_slice());
    let Some((index, export)) = found else {
        let text = format!("no export '{}' on this server", first.escape_ascii());
        return Err(Error::new(ErrorKind::NotFound, text));
    };
    let mut path = RelPath::default();
    for component in below {
        path.push(component).map_err(invalid)?;
    }
    Ok((index, export, path))
}
