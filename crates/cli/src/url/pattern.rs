//! Paths in which `*` or `[` was typed as such: patterns of names. Written as %2A or %5B they are
//! characters of a name.

use std::fmt::{self, Write};

use super::encode_component;

/// For each component of a path what fits it, in the form of [`crate::glob::fits`]; none for one that
/// is a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PathPattern(Vec<Option<Vec<u8>>>);

impl PathPattern {
    /// Of the components as they were typed, where `%XX` stands for a byte; `None` if all are names.
    pub(super) fn of_encoded<'t>(typed: impl Iterator<Item = &'t [u8]>) -> Option<Self> {
        Self::of(typed.map(|component| is_pattern(component).then(|| unencoded(component))).collect())
    }

    /// The same where every byte stands for itself, but for a backslash before one that is meant
    /// literally.
    pub(super) fn of_plain<'t>(typed: impl Iterator<Item = &'t [u8]>) -> Option<Self> {
        Self::of(typed.map(|component| is_pattern(component).then(|| with_needed_backslashes(component))).collect())
    }

    fn of(components: Vec<Option<Vec<u8>>>) -> Option<Self> {
        components.iter().any(Option::is_some).then_some(Self(components))
    }

    /// Whether a `?` of it stands for any character.
    pub(super) fn has_any_one(&self) -> bool {
        self.components().flatten().any(|pattern| {
            let mut bytes = pattern.iter();
            // A byte behind a backslash is meant literally.
            while let Some(byte) = bytes.next() {
                match byte {
                    b'\\' => _ = bytes.next(),
                    b'?' => return true,
                    _ => {}
                }
            }
            false
        })
    }

    /// What fits each component, outermost first.
    pub(crate) fn components(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.0.iter().map(Option::as_deref)
    }
}

/// A component as it was typed, where every byte stands for itself, in the form of a URL: in a pattern
/// `*` and `[` keep their meaning, and a byte behind a backslash is meant literally.
pub(crate) fn encode_typed(component: &[u8]) -> String {
    if !is_pattern(component) {
        return encode_component(component);
    }
    let mut text = String::with_capacity(component.len());
    let mut bytes = component.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(literal)) => {
                text += &format!("%{literal:02X}");
                bytes.next();
            }
            (b'*' | b'[' | b']' | b'^', _) => text.push(byte.into()),
            _ => text += &encode_component(&[byte]),
        }
    }
    text
}

fn is_pattern(typed: &[u8]) -> bool {
    typed.iter().any(|byte| b"*[".contains(byte))
}

/// With a backslash before what is meant literally and would mean more otherwise, and before nothing else; one at the end is meant
/// itself.
fn with_needed_backslashes(typed: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(typed.len() + 1);
    let mut bytes = typed.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(literal)) => {
                if SPECIAL.contains(literal) {
                    pattern.push(byte);
                }
                pattern.push(*literal);
                bytes.next();
            }
            (b'\\', None) => pattern.extend(b"\\\\"),
            _ => pattern.push(byte),
        }
    }
    pattern
}

/// What may mean more than itself in a pattern.
const SPECIAL: &[u8] = b"*?[]!-^\\";

/// With a backslash before what would mean more and was not typed as itself. What is no `%XX` is
/// refused elsewhere.
fn unencoded(typed: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(typed.len());
    let mut rest = typed;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                if SPECIAL.contains(&byte) {
                    pattern.push(b'\\');
                }
                pattern.push(byte);
                rest = &tail[2..];
            }
            None => {
                if first == b'\\' {
                    pattern.push(first);
                }
                pattern.push(first);
                rest = tail;
            }
        }
    }
    pattern
}

/// A pattern as a URL has it.
pub(super) fn show(pattern: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut bytes = pattern.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => bytes.next().map_or(Ok(()), |literal| write!(f, "%{literal:02X}"))?,
            b'*' | b'[' | b']' | b'!' | b'-' | b'^' => f.write_char(byte.into())?,
            _ => f.write_str(&encode_component(&[byte]))?,
        }
    }
    Ok(())
}
