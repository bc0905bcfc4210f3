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

/// A type that may have more fields than others.
#[derive(Debug)]
pub(super) struct ManyFields {
    /// Its file's path.
    pub(super) path: &'static str,
    /// Its name.
    pub(super) name: &'static str,
    /// Fields it may have.
    pub(super) fields: usize,
    /// Why it is not split.
    #[expect(dead_code, reason = "for the reader of this list")]
    pub(super) why: &'static str,
}

/// Files over the limit.
pub(super) const FILES: &[LongFile] = &[];

/// Functions over the limit.
pub(super) const FUNCTIONS: &[LongFunction] = &[];

/// Types over the limit. Options and limits are tables; the others are to be split.
pub(super) const TYPES: &[ManyFields] = &[
    ManyFields {
        path: "crates/client/src/calls/verbs.rs",
        name: "Facts",
        fields: 16,
        why: "the attributes of the protocol, which are a message",
    },
    ManyFields {
        path: "crates/server/src/admit/limits.rs",
        name: "ServerLimits",
        fields: 21,
        why: "the limits of the configuration",
    },
    ManyFields {
        path: "crates/client/src/options.rs",
        name: "ConnectOptions",
        fields: 21,
        why: "the options of a connection",
    },
];
