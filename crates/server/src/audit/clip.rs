//! Texts of a line, bounded and in ASCII.

use crate::log::LoggedName;
use serde_json::{Map, Value};
use std::fmt::Write;
use xdfs_secure::content;

/// Longest text other than a path: messages, users, addresses.
const TEXT_BYTES_MAX: usize = 256;
/// Longest path that is logged whole. Two of them, a base and the rest of a line fit into one line.
const PATH_BYTES_MAX: usize = 768;
/// Length of the start that is logged of a longer path.
const START_BYTES: usize = 192;

/// The same JSON without a byte above 126: other characters get JSON escapes, inside strings, the
/// only place where they occur.
pub(super) fn ascii(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character < '\u{7f}' {
            plain.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            // Writing to a String cannot fail.
            let _ = write!(plain, "\\u{unit:04x}");
        }
    }
    plain
}

/// The most bytes that a character takes in a line.
fn bytes_of(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        ' '..='~' => 1,
        other => 6 * other.len_utf16(),
    }
}

/// The start of `text` that takes at most `most` bytes in a line, and whether that is all of it.
fn start(text: &str, most: usize) -> (&str, bool) {
    let mut bytes = 0;
    for (at, character) in text.char_indices() {
        bytes += bytes_of(character);
        if bytes > most {
            return (text.get(..at).unwrap_or_default(), false);
        }
    }
    (text, true)
}

/// `text`, or its start with "..." if it takes more than `most` bytes in a line.
pub(super) fn cut(text: &str, most: usize) -> String {
    match start(text, most) {
        (whole, true) => whole.to_owned(),
        (start, false) => format!("{start}..."),
    }
}

/// A text other than a path.
pub(super) fn text(text: &str) -> String {
    cut(text, TEXT_BYTES_MAX)
}

/// Adds a path as `field`; of a long one its start, its length and a hash that identifies it.
pub(super) fn put_path(fields: &mut Map<String, Value>, field: &str, name: &LoggedName) {
    let shown = name.to_string();
    if start(&shown, PATH_BYTES_MAX).1 {
        fields.insert(field.to_owned(), shown.into());
        return;
    }
    let hash = content::hash(name.as_bytes()).iter().fold(String::new(), |mut hash, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    });
    fields.insert(field.to_owned(), start(&shown, START_BYTES).0.into());
    fields.insert(format!("{field}_bytes"), name.as_bytes().len().into());
    fields.insert(format!("{field}_hash"), hash.into());
}
