//! Relative paths as the wire carries them: a list of components, each checked, never a string that is parsed twice.

use alloc::vec::Vec;
use core::fmt;

/// Longest path in bytes, separators included: eight times what the kernel takes at once, since trees grow beyond that and
/// a long path is opened in steps.
pub const PATH_BYTES_MAX: usize = 32_768;
/// Longest component in bytes: NAME_MAX of every Linux file system in use.
pub const COMPONENT_BYTES_MAX: usize = 255;
/// Deepest path: a tree of 1,000 directories inside an export, small enough that a walk is bounded.
pub const DEPTH_MAX: usize = 1024;

/// A path below an export's root. It has no leading or trailing slash, no empty, `.` or `..` component and no NUL.
/// The empty path names the root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath {
    components: Vec<Vec<u8>>,
}

/// Why bytes are not a relative path.
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
    /// Reads `bytes`, components separated by `/`. Nothing is decoded, folded or cleaned.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        let mut path = Self::default();
        if bytes.is_empty() {
            return Ok(path);
        }
        for component in bytes.split(|&byte| byte == b'/') {
            path.push(component)?;
        }
        Ok(path)
    }

    /// Appends one component.
    pub fn push(&mut self, component: &[u8]) -> Result<(), PathError> {
        match component {
            b"" => return Err(PathError::EmptyComponent),
            b"." | b".." => return Err(PathError::DotComponent),
            _ if component.contains(&0) => return Err(PathError::Nul),
            _ if component.contains(&b'/') => return Err(PathError::EmptyComponent),
            _ if component.len() > COMPONENT_BYTES_MAX => return Err(PathError::ComponentTooLong),
            _ if self.components.len() >= DEPTH_MAX => return Err(PathError::TooDeep),
            _ => {}
        }
        self.components.push(component.to_vec());
        Ok(())
    }

    /// The components, outermost first.
    pub fn components(&self) -> &[Vec<u8>] {
        &self.components
    }

    /// The last component; none for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.components.last().map(Vec::as_slice)
    }

    /// The path without its last component; none for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.components.split_last()?;
        Some(Self { components: parents.to_vec() })
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.components.is_empty()
    }

    /// The components joined by `/`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.components.join(&b'/')
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({})", self.to_bytes().escape_ascii())
    }
}

impl fmt::Display for RelPath {
    /// Escaped: a name never reaches a terminal or a log with a control byte in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_bytes().escape_ascii())
    }
}
