//! Untrusted text in output: names of files, users and keys, messages of a peer.
//!
//! A file's name can contain any byte except NUL and the slash, and a peer can send any text. On a
//! terminal a control character could move the cursor, a direction mark could reorder the text
//! around it, and an invisible character could make two names look alike. So all such text is
//! escaped here before it is displayed: names by [`printable`], and everything that is written to a
//! terminal or a log once more by [`shown`]. `--json` keeps the true text ([`json_line`]).
//!
//! Displayed unchanged: letters, marks, numbers, punctuation, symbols and the space. Escaped, as
//! `\u{202e}`: control characters (Cc), format characters and tags (Cf), line and paragraph
//! separators (Zl, Zp), spaces other than the usual one (Zs), private use (Co), code points that
//! Unicode does not assign (Cn), invisible letters and marks, and marks without a letter or too
//! many at one. The categories are those of the standard library.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most marks at one letter. Written languages need three or four; hundreds cover the lines above
/// and below.
const MARKS_MAX: u32 = 8;

/// How a character is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// By itself.
    Plain,
    /// Together with the character before it.
    Mark,
    /// Invisible, or visible only by its effect on others.
    Hidden,
}

fn look(character: char) -> Look {
    match character {
        ' '..='~' => Look::Plain,
        // Invisible: fillers of Hangul, Khmer vowels, variation selectors, the empty cell of
        // Braille.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => Look::Hidden,
        '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}' => Look::Hidden,
        _ => {
            let alone = character.escape_debug().eq([character]);
            // After another character the standard library leaves a mark unchanged, but nothing
            // else that it escapes.
            let behind = || ['a', character].iter().collect::<String>().escape_debug().eq(['a', character]);
            match alone {
                true => Look::Plain,
                false if behind() => Look::Mark,
                false => Look::Hidden,
            }
        }
    }
}

/// Whether a character is seen as what it is wherever it stands.
pub(crate) fn is_visible(character: char) -> bool {
    look(character) == Look::Plain
}

/// Writes text with hidden characters escaped, and counts the marks at its last character.
struct Writer {
    shown: String,
    /// `None` at the start, where a mark has no base character.
    marks: Option<u32>,
}

impl Writer {
    fn of(bytes: usize) -> Self {
        Self { shown: String::with_capacity(bytes), marks: None }
    }

    fn push(&mut self, character: char) {
        match (look(character), self.marks) {
            (Look::Plain, _) => self.marks = Some(0),
            (Look::Mark, Some(marks)) if marks < MARKS_MAX => self.marks = Some(marks + 1),
            _ => {
                self.shown.extend(character.escape_default());
                self.marks = None;
                return;
            }
        }
        self.shown.push(character);
    }
}

/// A name, with hidden characters and invalid UTF-8 escaped (`\n`, `\u{1b}`, `\xff`), everything
/// else unchanged.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut writer = Writer::of(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| writer.push(character));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(writer.shown, "\\x{byte:02x}");
            writer.marks = None;
        }
    }
    writer.shown
}

/// A name that is not UTF-8, for a program: what is not text is escaped as in [`printable`], and a
/// backslash by a second one, so that the bytes can be recovered.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    printable(&bytes.split(|byte| *byte == b'\\').collect::<Vec<_>>().join(&b"\\\\"[..]))
}

/// A local path for people.
pub(crate) fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// A text as a word of a command that can be pasted: everything that a shell would interpret is quoted.
pub(crate) fn shell_word(shown: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&byte);
    match !shown.is_empty() && shown.bytes().all(plain) {
        true => shown.to_owned(),
        false => format!("'{}'", shown.replace('\'', "'\\''")),
    }
}

/// Longest name that a message shows in full, and how much of a longer one.
const SHOWN_BYTES_MAX: usize = 440;
const START_BYTES: usize = 200;

/// A name in a message: of a very long one, its beginning and its length.
pub(crate) fn shortened(bytes: &[u8]) -> String {
    match bytes.get(..START_BYTES) {
        Some(start) if bytes.len() > SHOWN_BYTES_MAX => format!("{}... ({} bytes)", printable(start), bytes.len()),
        _ => printable(bytes),
    }
}

/// A message, parts of which may be untrusted: line breaks and tabs are the program's own, since
/// untrusted text passes [`printable`] or has no control characters.
pub(crate) fn shown(message: &str) -> String {
    let mut writer = Writer::of(message.len());
    for character in message.chars() {
        match character {
            '\n' | '\t' => {
                writer.shown.push(character);
                writer.marks = None;
            }
            other => writer.push(other),
        }
    }
    writer.shown
}

/// A line of JSON with hidden characters escaped as in JSON, inside strings, the only place where
/// that is possible: the text changes but not the value.
pub(crate) fn json_line(json: String) -> String {
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json;
    }
    let mut line = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if look(character) != Look::Hidden {
            line.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            // Writing to a String cannot fail.
            let _ = write!(line, "\\u{unit:04x}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a peer could send to deceive a reader.
    const NASTY: &[char] = &[
        '\u{0}',
        '\u{7}',
        '\u{1b}',
        '\u{7f}',
        '\u{9b}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{fff9}',
        '\u{e000}',
        '\u{e0041}',
        '\u{e0101}',
        '\u{10fffd}',
        '\u{378}',
        '\u{3164}',
        '\u{115f}',
        '\u{fe0f}',
        '\u{a0}',
        '\u{3000}',
        '\u{2800}',
        '\u{1d173}',
    ];

    #[test]
    fn of_a_name_without_an_end_the_start_and_the_length_are_shown() {
        assert_eq!(shortened(&[b'a'; 440]), "a".repeat(440));
        assert_eq!(shortened(&[b'a'; 20_991]), format!("{}... (20991 bytes)", "a".repeat(200)));
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(printable(b"plain name.bin"), "plain name.bin");
        assert_eq!(printable(b"it's a \"q\" \\ $x"), "it's a \"q\" \\ $x");
        assert_eq!(
            printable("gr\u{fc}n \u{65e5}\u{672c} \u{1f600}".as_bytes()),
            "gr\u{fc}n \u{65e5}\u{672c} \u{1f600}"
        );
        assert_eq!(printable(b"a\x1b[2Jb\n\r\x07"), "a\\u{1b}[2Jb\\n\\r\\u{7}");
        assert_eq!(printable(b"\xff\xc3"), "\\xff\\xc3");
        assert_eq!(escaped(b"\\xff\xff\n"), "\\\\xff\\xff\\n");
        assert_eq!(printable("a\u{202e}b\u{9b}c".as_bytes()), "a\\u{202e}b\\u{9b}c");
    }

    #[test]
    fn nothing_that_is_not_seen_reaches_a_person() {
        for character in NASTY {
            let text = format!("a{character}b");
            let escaped = format!("a{}b", character.escape_default());
            assert_eq!(printable(text.as_bytes()), escaped, "{character:?}");
            assert_eq!(shown(&text), escaped, "{character:?}");
        }
        assert_eq!(shown("xdfs: one\n\ttwo\n"), "xdfs: one\n\ttwo\n");
    }

    #[test]
    fn marks_stand_at_a_letter_and_do_not_flood_the_lines_around_it() {
        assert_eq!(printable("gru\u{308}n".as_bytes()), "gru\u{308}n");
        assert_eq!(printable("\u{308}n".as_bytes()), "\\u{308}n");
        let flood = format!("a{}", "\u{301}".repeat(1000));
        assert_eq!(printable(flood.as_bytes()).matches('\u{301}').count(), MARKS_MAX as usize);
    }

    #[test]
    fn json_keeps_the_value_and_shows_nothing_that_is_hidden() {
        let text: String = NASTY.iter().chain("\u{fc}\u{65e5}".chars().collect::<Vec<_>>().iter()).collect();
        let line = json_line(serde_json::to_string(&text).unwrap());
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        assert!(line.chars().all(|character| look(character) != Look::Hidden), "{line}");
        assert!(line.contains('\u{fc}'), "{line}");
    }
}
