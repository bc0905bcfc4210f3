//! Command lines of bash: which words they have, and how a name is written where one of them ends.
//!
//! Readline hands over the text that it replaces and inserts the candidates unchanged. That text
//! begins behind the last `:` or `=` that is not quoted (`COMP_WORDBREAKS`), which begins no word for
//! the shell. No input or output.

use std::ops::Range;

use crate::text::is_visible;

/// The quotes in which a word ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quote {
    None,
    Single,
    Double,
}

/// The end of a line: a word that is being typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Last {
    /// As typed.
    raw: Vec<u8>,
    /// The part of it that is complete: a backslash at the end, for instance, is not.
    whole: usize,
    /// What that part means.
    pub(super) value: Vec<u8>,
    quote: Quote,
}

/// A command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// The words before the last, without quotes.
    pub(super) words: Vec<Vec<u8>>,
    pub(super) last: Last,
}

impl Line {
    /// Reads a line up to the cursor; `None` if the shell would replace something in its last word.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let (mut words, mut at) = (Vec::new(), 0);
        loop {
            at += line[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let (word, end, is_known) = read_word(line, at);
            if end >= line.len() {
                return is_known.then_some(Self { words, last: word });
            }
            words.push(word.value);
            at = end;
        }
    }
}

/// The word at `start`, its end, and whether its value is known before it is run.
fn read_word(line: &[u8], start: usize) -> (Last, usize, bool) {
    let (mut at, mut quote, mut value, mut is_known) = (start, Quote::None, Vec::new(), true);
    let mut whole = line.len();
    while let Some(&byte) = line.get(at) {
        let rest = &line[at + 1..];
        let taken = match (quote, byte) {
            (Quote::None, byte) if byte.is_ascii_whitespace() => break,
            (Quote::None, b'\'') => change(&mut quote, Quote::Single),
            (Quote::None, b'"') => change(&mut quote, Quote::Double),
            (Quote::Single, b'\'') | (Quote::Double, b'"') => change(&mut quote, Quote::None),
            (Quote::None, b'$') if rest.starts_with(b"'") => match escapes(&rest[1..]) {
                Some((bytes, length)) => {
                    value.extend(bytes);
                    length + 2
                }
                // It does not end, or has escapes that only the shell knows.
                None => {
                    whole = at;
                    line.len() - at
                }
            },
            (Quote::None | Quote::Double, b'$' | b'`') => {
                is_known = false;
                1
            }
            (Quote::None | Quote::Double, b'\\') if rest.is_empty() => {
                whole = at;
                1
            }
            (Quote::None, b'\\') => {
                value.push(rest[0]);
                2
            }
            (Quote::Double, b'\\') if b"$`\"\\".contains(&rest[0]) => {
                value.push(rest[0]);
                2
            }
            _ => {
                value.push(byte);
                1
            }
        };
        at += taken;
    }
    let raw = line[start..at].to_vec();
    let whole = (whole.min(at)).saturating_sub(start);
    (Last { raw, whole, value, quote }, at, is_known)
}

/// Enters or leaves quotes; the length of their mark.
fn change(quote: &mut Quote, to: Quote) -> usize {
    *quote = to;
    1
}

/// What stands between `$'` and its end, and the length of it; `None` if that is not known.
fn escapes(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    loop {
        let escaped = text.get(at + 1);
        match *text.get(at)? {
            b'\'' => return Some((bytes, at + 1)),
            b'\\' => match *escaped? {
                b'x' => {
                    let digits = std::str::from_utf8(text.get(at + 2..at + 4)?).ok()?;
                    bytes.push(u8::from_str_radix(digits, 16).ok()?);
                    at += 4;
                }
                byte => {
                    let pairs = [(b'n', b'\n'), (b't', b'\t'), (b'r', b'\r'), (b'\\', b'\\'), (b'\'', b'\'')];
                    bytes.push(pairs.iter().find(|(letter, _)| *letter == byte)?.1);
                    at += 2;
                }
            },
            byte => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}

impl Last {
    /// The text in place of `replaced`, with which the word becomes `name`; `None` if it does not begin
    /// like that.
    pub(super) fn candidate(&self, name: &[u8], replaced: &[u8]) -> Option<Vec<u8>> {
        let rest = name.strip_prefix(&self.value[..])?;
        let raw = [&self.raw[..self.whole], &quoted(rest, self.quote)].concat();
        let kept = self.raw.strip_suffix(replaced)?.len();
        raw.starts_with(&self.raw).then(|| raw[kept..].to_vec())
    }
}

/// `text` as it is written in these quotes.
fn quoted(text: &[u8], quote: Quote) -> Vec<u8> {
    let mut written = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for (at, character) in chunk.valid().char_indices() {
            let bytes = &chunk.valid().as_bytes()[at..at + character.len_utf8()];
            match character {
                ' '..='~' => character_in(character as u8, quote, &mut written),
                _ if is_visible(character) => written.extend(bytes),
                _ => coded(bytes, quote, &mut written),
            }
        }
        coded(chunk.invalid(), quote, &mut written);
    }
    written
}

fn character_in(byte: u8, quote: Quote, written: &mut Vec<u8>) {
    match quote {
        Quote::None if byte.is_ascii_alphanumeric() || b"_-./,+%:@".contains(&byte) => written.push(byte),
        Quote::None => written.extend([b'\\', byte]),
        Quote::Single if byte == b'\'' => written.extend(b"'\\''"),
        Quote::Double if b"$`\"\\".contains(&byte) => written.extend([b'\\', byte]),
        // Which is replaced by an earlier command even there.
        Quote::Double if byte == b'!' => written.extend(b"\"'!'\""),
        Quote::Single | Quote::Double => written.push(byte),
    }
}

/// Bytes that are not typed and not seen.
fn coded(bytes: &[u8], quote: Quote, written: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let mark: Range<u8> = match quote {
        Quote::None => 0..0,
        Quote::Single => b'\''..b'\'' + 1,
        Quote::Double => b'"'..b'"' + 1,
    };
    written.extend(mark.clone());
    written.extend(b"$'");
    for byte in bytes {
        written.extend(format!("\\x{byte:02x}").as_bytes());
    }
    written.push(b'\'');
    written.extend(mark);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_as_the_shell_does() {
        for (line, words, value) in [
            ("xdfs cp lab:a", &["xdfs", "cp"][..], Some("lab:a")),
            ("xdfs cp ", &["xdfs", "cp"], Some("")),
            ("xdfs  cp 'it''s a' \"b\\\"c\" lab:a\\ b", &["xdfs", "cp", "its a", "b\"c"], Some("lab:a b")),
            ("x 'lab:a b", &["x"], Some("lab:a b")),
            ("x \"lab:a'\\n\\$b", &["x"], Some("lab:a'\\n$b")),
            ("x lab:$'\\n\\x41\\''b", &["x"], Some("lab:\nA'b")),
            ("x lab:a\\", &["x"], Some("lab:a")),
            ("x lab:a$'\\x", &["x"], Some("lab:a")),
            ("x lab:a$'\\cA'", &["x"], Some("lab:a")),
            ("x $HOME lab:a", &["x", "HOME"], Some("lab:a")),
            ("x lab:$a", &[], None),
            ("x \"lab:`a", &[], None),
        ] {
            let read = Line::read(line.as_bytes());
            assert_eq!(read.is_some(), value.is_some(), "{line}");
            let Some(read) = read else { continue };
            let shown: Vec<_> = read.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(shown, words, "{line}");
            assert_eq!(Some(&*String::from_utf8_lossy(&read.last.value)), value, "{line}");
        }
    }

    #[test]
    fn a_candidate_replaces_what_readline_replaces() {
        for (line, replaced, name, expected) in [
            ("x xdfs://h/da", "//h/da", "xdfs://h/data/", Some("//h/data/")),
            ("x lab:", "", "lab:a b", Some("a\\ b")),
            ("x lab:a:b", "b", "lab:a:b c", Some("b\\ c")),
            ("x 'lab:a", "lab:a", "lab:a 'b'", Some("lab:a '\\''b'\\''")),
            ("x \"lab:a", "lab:a", "lab:a!$", Some("lab:a\"'!'\"\\$")),
            ("x lab:a\\", "a\\", "lab:a b", Some("a\\ b")),
            ("x lab:a\\", "a\\", "lab:ab", None),
            ("x lab:a", "a", "lab:a\n\u{202e}", Some("a$'\\x0a'$'\\xe2\\x80\\xae'")),
            ("x lab:a$'\\x", "a$'\\x", "lab:a\n", Some("a$'\\x0a'")),
            ("x la", "la", "lab:", Some("lab:")),
            ("x lab:", "", "lab:a:b=", Some("a:b\\=")),
            ("x lab:b", "b", "lab:a", None),
        ] {
            let line = Line::read(line.as_bytes()).unwrap();
            let candidate = line.last.candidate(name.as_bytes(), replaced.as_bytes());
            assert_eq!(candidate.as_deref().map(String::from_utf8_lossy), expected.map(Into::into), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_name_is_read_back(name in prop::collection::vec(1..=255u8, 0..20), start in "['\"]?") {
            let line = [b"x ", start.as_bytes()].concat();
            let read = Line::read(&line).unwrap();
            let end: &[u8] = match read.last.quote {
                Quote::None => b"",
                Quote::Single => b"'",
                Quote::Double => b"\"",
            };
            let candidate = read.last.candidate(&name, b"").unwrap();
            let again = Line::read(&[&line[..], &candidate[..], end].concat()).unwrap();
            prop_assert_eq!(again.last.value, name);
        }

        #[test]
        fn no_line_makes_the_reader_panic(line in prop::collection::vec(any::<u8>(), 0..60), text in "[a'\"\\\\$ x:]{0,20}") {
            for line in [&line[..], text.as_bytes()] {
                if let Some(read) = Line::read(line) {
                    let _ = read.last.candidate(&read.last.value, b"");
                }
            }
        }
    }
}
