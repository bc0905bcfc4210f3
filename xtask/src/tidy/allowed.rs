//! Who may break a rule of tidiness, by how much and why. Entries only shrink: see `SLACK_LINES`.

/// A file that may be longer than others.
#[derive(Debug)]
pub(super) struct LongFile {
    /// Its path.
    pub(super) path: &'static str,
    /// Lines it may have.
    pub(super) lines: usize,
    /// Why it is not split.
    #[expect(dead_code, reason = "for the reader of this list")]
    pub(super) why: &'static str,
}

/// A function that may be longer than others.
#[derive(Debug)]
pub(super) struct LongFunction {
    /// Its file's path.
    pub(super) path: &'static str,
    /// Its name.
    pub(super) name: &'static str,
    /// Lines it may have.
    pub(super) lines: usize,
    /// Why it is not split.
    #[expect(dead_code, reason = "for the reader of this list")]
    pub(super) why: &'static str,
}

/// Files over the limit.
pub(super) const FILES: &[LongFile] = &[];

/// Functions over the limit.
pub(super) const FUNCTIONS: &[LongFunction] = &[];
