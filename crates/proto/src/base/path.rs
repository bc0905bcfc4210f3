//! Relative paths as they are on the wire: components, each validated, in one allocation.

use alloc::vec::Vec;
use core::fmt;

/// Longest path in bytes, separators included: eight times what the kernel accepts in one call,
/// since trees grow beyond that and a long path is opened in steps.
pub const PATH_BYTES_MAX: usize = 32_768;
/// Longest component in bytes: NAME_MAX of every Linux file system in use.
pub const COMPONENT_BYTES_MAX: usize = 255;
/// Deepest path: a tree of 1,000 directories inside an export, small enough that a walk is bounded.
pub const DEPTH_MAX: usize = 1024;

/// A path below an export's root. It has no leading or trailing slash, no empty, `.` or `..`
/// component and no NUL. The empty path names the root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath {
    /// The components joined by `/`.
    bytes: Vec<u8>,
    depth: usize,
}

/// Why bytes are not a valid relative path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathError {
    /// Two slashes in a row, a leading or a trailing slash.
    EmptyComponent,
    /// `.` or `..`.
    DotComponent,
    /// A NUL byte.
    Nul,
    /// A component longer than [`COMPONENT_BYTES_MAX`].
    ComponentTooLong,
    /// More bytes than [`PATH_BYTES_MAX`].
    TooLong,
    /// More components than [`DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyComponent => "it has an empty component (a leading, trailing or double slash)",
            Self::DotComponent => "it has a component that is '.' or '..'",
            Self::Nul => "it contains a NUL byte",
            Self::ComponentTooLong => "a component is longer than 255 bytes",
            Self::TooLong => "it is longer than 32768 bytes",
            Self::TooDeep => "it is deeper than 1024 directories",
        })
    }
}

impl core::error::Error for PathError {}

impl RelPath {
    /// Parses `bytes`, components separated by `/`. Nothing is decoded, folded or normalized.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut depth = 0;
        for component in bytes.split(|&byte| byte == b'/') {
            judge(component, depth)?;
            depth += 1;
        }
        Ok(Self { bytes: bytes.to_vec(), depth })
    }

    /// Appends one component.
    pub fn push(&mut self, component: &[u8]) -> Result<(), PathError> {
        if component.contains(&b'/') {
            return Err(PathError::EmptyComponent);
        }
        judge(component, self.depth)?;
        if !self.is_root() {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(component);
        self.depth += 1;
        Ok(())
    }

    /// The path of `component` in this directory, in as much memory as it has bytes.
    pub fn child(&self, component: &[u8]) -> Result<Self, PathError> {
        let mut path = Self { bytes: Vec::with_capacity(self.bytes.len() + 1 + component.len()), depth: self.depth };
        path.bytes.extend_from_slice(&self.bytes);
        path.push(component)?;
        Ok(path)
    }

    /// The path `below` this one, in the form of [`Self::parse`]. The joined path may exceed the
    /// limits of a single one.
    pub fn join(&self, below: &[u8]) -> Result<Self, PathError> {
        let mut path = Self { bytes: Vec::with_capacity(self.bytes.len() + 1 + below.len()), depth: self.depth };
        path.bytes.extend_from_slice(&self.bytes);
        for component in below.split(|&byte| byte == b'/').filter(move |_| !below.is_empty()) {
            path.push(component)?;
        }
        Ok(path)
    }

    /// The components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == b'/').filter(move |_| !self.is_root())
    }

    /// The number of components.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The first `depth` components.
    pub fn prefix(&self, depth: usize) -> Self {
        if depth >= self.depth {
            return self.clone();
        }
        let mut slashes = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let end = depth.checked_sub(1).and_then(|last| slashes.nth(last)).unwrap_or(0);
        Self { bytes: self.bytes.get(..end).unwrap_or_default().to_vec(), depth }
    }

    /// The last component; none for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// The path without its last component; none for the root.
    pub fn parent(&self) -> Option<Self> {
        self.depth.checked_sub(1).map(|depth| Self { bytes: self.above().to_vec(), depth })
    }

    /// The bytes of the path without its last component; none for the root's children, and for the
    /// root.
    pub fn above(&self) -> &[u8] {
        let end = self.bytes.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.bytes.get(..end).unwrap_or_default()
    }

    /// Whether this is `above` or lies below it.
    pub fn is_within(&self, above: &Self) -> bool {
        let rest = self.bytes.strip_prefix(above.bytes.as_slice());
        above.is_root() || rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.depth == 0
    }

    /// The components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether `component`, which has no slash, may follow `depth` others.
fn judge(component: &[u8], depth: usize) -> Result<(), PathError> {
    match component {
        b"" => Err(PathError::EmptyComponent),
        b"." | b".." => Err(PathError::DotComponent),
        _ if component.contains(&0) => Err(PathError::Nul),
        _ if component.len() > COMPONENT_BYTES_MAX => Err(PathError::ComponentTooLong),
        _ if depth >= DEPTH_MAX => Err(PathError::TooDeep),
        _ => Ok(()),
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({})", self.bytes.escape_ascii())
    }
}

impl fmt::Display for RelPath {
    /// Escaped: a name never reaches a terminal or a log with a control byte in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_path_is_taken_apart_and_put_together_by_components() {
        let whole = path("a/bc/d");
        assert!(whole.components().eq([b"a".as_slice(), b"bc", b"d"]));
        assert_eq!((whole.depth(), whole.name(), whole.above()), (3, Some(&b"d"[..]), &b"a/bc"[..]));
        assert_eq!(whole.parent(), Some(path("a/bc")));
        assert_eq!(path("a").parent(), Some(RelPath::default()));
        for (depth, prefix) in ["", "a", "a/bc", "a/bc/d", "a/bc/d"].into_iter().enumerate() {
            assert_eq!(whole.prefix(depth), path(prefix), "{depth}");
        }
        assert_eq!(path("a").join(b"bc/d"), Ok(whole.clone()));
        assert_eq!(whole.join(b""), Ok(whole.clone()));
        assert_eq!(RelPath::default().join(b"a"), Ok(path("a")));
        let root = RelPath::default();
        assert_eq!((root.components().count(), root.name(), root.parent()), (0, None, None));
        assert_eq!(path("a").join(b"../b"), Err(PathError::DotComponent));
        assert_eq!(path("a").join(b"/b"), Err(PathError::EmptyComponent));
    }

    #[test]
    fn what_is_within_ends_at_a_component() {
        for (below, above, within) in [
            ("a/b", "a", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("a", "a/b", false),
            ("x", "", true),
            ("", "", true),
        ] {
            assert_eq!(path(below).is_within(&path(above)), within, "{below} in {above}");
        }
    }
}
