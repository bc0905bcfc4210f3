//! A byte range that cannot overflow: checked once in its constructor and trusted everywhere else.

/// `[offset, offset + length)` with `offset + length <= i64::MAX`, so every kernel call accepts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Extent {
    offset: u64,
    length: u64,
}

/// The range would end beyond 2^63 - 1, the largest file offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentError;

impl Extent {
    /// The range of `length` bytes that starts at `offset`.
    pub const fn new(offset: u64, length: u64) -> Result<Self, ExtentError> {
        match offset.checked_add(length) {
            Some(end) if end <= i64::MAX as u64 => Ok(Self { offset, length }),
            _ => Err(ExtentError),
        }
    }

    /// First byte.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Number of bytes.
    pub const fn length(self) -> u64 {
        self.length
    }

    /// One past the last byte.
    pub const fn end(self) -> u64 {
        // Cannot overflow: `new` is the only constructor.
        self.offset + self.length
    }

    /// Whether the range is empty.
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The intersection; none if it is empty.
    pub const fn intersection(self, other: Extent) -> Option<Extent> {
        let offset = if self.offset > other.offset { self.offset } else { other.offset };
        let end = if self.end() < other.end() { self.end() } else { other.end() };
        // Within both, so within the bound.
        if offset < end { Some(Extent { offset, length: end - offset }) } else { None }
    }

    /// Whether every byte of `other` lies in `self`.
    pub const fn contains(self, other: Extent) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }
}
