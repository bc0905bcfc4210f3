//! One golden frame: its bytes field by field, each with a name and a value that a person and a program can read.
//!
//! The lines are laid out here by the rules of docs/protocol.md, beside the encoders of the crate and not with them, so
//! that a frame whose two forms differ shows a mistake in one of the two.

use std::fmt::Write as _;
use xdfs_proto::base::Timestamp;

/// A frame and how it is shown.
pub(crate) struct Frame {
    /// Folder below `vectors/` and name of the file.
    pub(crate) path: &'static str,
    /// What kind of message it is, for the reader's choice of decoder.
    kind: String,
    /// For people: what the frame shows.
    about: &'static str,
    lines: Vec<(Vec<u8>, String)>,
}

impl Frame {
    pub(crate) fn new(path: &'static str, kind: impl Into<String>, about: &'static str) -> Self {
        Self { path, kind: kind.into(), about, lines: Vec::new() }
    }

    fn line(mut self, bytes: &[u8], name: &str, value: impl std::fmt::Display) -> Self {
        self.lines.push((bytes.to_vec(), format!("{name} = {value}")));
        self
    }

    /// A number of fixed width, big-endian.
    pub(crate) fn fixed(self, name: &str, value: u64, width: usize) -> Self {
        self.line(&value.to_be_bytes()[8 - width..], name, value)
    }

    /// One byte.
    pub(crate) fn byte(self, name: &str, value: u8) -> Self {
        self.fixed(name, value.into(), 1)
    }

    /// A variable-length integer in its shortest form.
    pub(crate) fn integer(self, name: &str, value: u64) -> Self {
        let (width, mark) = match value {
            0..=0x3f => (1, 0),
            0x40..=0x3fff => (2, 1),
            0x4000..=0x3fff_ffff => (4, 2),
            _ => (8, 3),
        };
        let mut bytes = value.to_be_bytes()[8 - width..].to_vec();
        bytes[0] |= mark << 6;
        self.line(&bytes, name, value)
    }

    /// Bytes whose number is fixed.
    pub(crate) fn raw(self, name: &str, bytes: &[u8]) -> Self {
        self.line(bytes, name, hex(bytes))
    }

    /// Bytes behind their number.
    pub(crate) fn bytes(self, name: &str, bytes: &[u8]) -> Self {
        let frame = self.integer(&format!("{name}.length"), bytes.len() as u64);
        if bytes.is_empty() { frame } else { frame.raw(name, bytes) }
    }

    /// A moment: seconds in zigzag form, then nanoseconds.
    pub(crate) fn time(mut self, name: &str, Timestamp { seconds, nanoseconds: nanos }: Timestamp) -> Self {
        let zigzag = if seconds < 0 { (-(seconds + 1)) as u64 * 2 + 1 } else { seconds as u64 * 2 };
        self = self.integer(&format!("{name}.seconds"), zigzag);
        if let Some((_, text)) = self.lines.last_mut() {
            *text = format!("{name}.seconds = {seconds}");
        }
        self.integer(&format!("{name}.nanoseconds"), nanos.into())
    }

    /// A list of ranges behind their number.
    pub(crate) fn ranges(self, name: &str, ranges: &[(u64, u64)]) -> Self {
        let frame = self.integer(&format!("{name}.count"), ranges.len() as u64);
        ranges.iter().enumerate().fold(frame, |frame, (index, (offset, length))| {
            frame
                .integer(&format!("{name}[{index}].offset"), *offset)
                .integer(&format!("{name}[{index}].length"), *length)
        })
    }

    /// The fields of a part, below a name.
    pub(crate) fn then(mut self, name: &str, part: Frame) -> Self {
        self.lines.extend(part.lines.into_iter().map(|(bytes, value)| (bytes, format!("{name}{value}"))));
        self
    }

    /// The whole frame.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect()
    }

    /// The frame is what the crate's encoder makes.
    pub(crate) fn is(self, encoded: &[u8]) -> Self {
        assert_eq!(hex(&self.content()), hex(encoded), "{}: the layout and the encoder differ", self.path);
        self
    }

    /// The file.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("# {}\nkind = {}\n", self.about, self.kind);
        let width = self.lines.iter().map(|(bytes, _)| bytes.len() * 2).filter(|width| *width <= 64).max().unwrap_or(0);
        for (bytes, value) in &self.lines {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:width$}  {value}", hex(bytes));
        }
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
