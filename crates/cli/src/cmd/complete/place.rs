//! Where a typed word ends: in which directory, with which beginning of a name, and how names are
//! written there. No input or output.

use crate::text::is_visible;
use crate::url::{SCHEME, SSH_PREFIX, SSH_SCHEME, decode, encode_component};

/// How a name is written in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As in a URL, with %XX.
    Encoded,
    /// As it is.
    Plain,
}

/// A word up to its last separator, and what follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place<'w> {
    /// What names the directory.
    pub(super) directory: &'w [u8],
    /// The beginning of a name in it, as typed.
    pub(super) begun: &'w [u8],
    /// How the name is written.
    pub(super) form: Form,
}

impl<'w> Place<'w> {
    /// The place at the end of a URL or of `NAME:path`; `None` where no directory is named yet.
    pub(super) fn of(word: &'w [u8]) -> Option<Self> {
        let (form, start) = if word.starts_with(SCHEME.as_bytes()) {
            (Form::Encoded, SCHEME.len())
        } else if word.starts_with(SSH_SCHEME.as_bytes()) {
            (Form::Encoded, SSH_SCHEME.len())
        } else if word.starts_with(SSH_PREFIX.as_bytes()) {
            (Form::Plain, SSH_PREFIX.len())
        } else {
            (Form::Plain, 0)
        };
        let rest = &word[start..];
        let path = match form {
            Form::Encoded => 1 + rest.iter().position(|&byte| byte == b'/')?,
            // An IPv6 address has colons of its own, in brackets.
            Form::Plain => {
                let host = rest.iter().position(|&byte| byte == b']').filter(|_| start > 0).map_or(0, |end| end + 1);
                host + 1 + rest[host..].iter().position(|&byte| byte == b':')?
            }
        };
        let end = rest[path..].iter().rposition(|&byte| byte == b'/').map_or(path, |slash| path + slash + 1);
        let (directory, begun) = word.split_at(start + end);
        Some(Self { directory, begun, form })
    }

    /// The word for `name`, if it begins as typed.
    pub(super) fn word(&self, name: &[u8], is_directory: bool) -> Option<Vec<u8>> {
        let end: &[u8] = if is_directory { b"/" } else { b"" };
        let written = match self.form {
            Form::Plain => name.starts_with(self.begun).then(|| name.to_vec())?,
            Form::Encoded => {
                let whole = self.begun.len() - incomplete(self.begun);
                let rest = name.strip_prefix(&decode(&self.begun[..whole]).ok()?[..])?;
                [&self.begun[..whole], encoded(rest).as_bytes()].concat()
            }
        };
        (written.starts_with(self.begun) && is_shown(&written, self.begun))
            .then(|| [self.directory, &written, end].concat())
    }
}

/// Names that begin with a dot are meant where a dot was typed.
fn is_shown(written: &[u8], begun: &[u8]) -> bool {
    !written.starts_with(b".") || begun.starts_with(b".")
}

/// Bytes of a %XX that is not complete at the end.
fn incomplete(begun: &[u8]) -> usize {
    match begun {
        [.., b'%'] => 1,
        [.., b'%', _] => 2,
        _ => 0,
    }
}

/// A name as a URL has it, but with letters of all languages as they are.
fn encoded(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            let letter = character.to_string();
            let is_plain = !character.is_ascii() && is_visible(character);
            text += &if is_plain { letter } else { encode_component(letter.as_bytes()) };
        }
        text += &encode_component(chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_ends_in_a_directory_with_the_beginning_of_a_name() {
        for (word, expected) in [
            ("xdfs://h/", Some(("xdfs://h/", "", Form::Encoded))),
            ("xdfs://a@h:1/data/x/y%20", Some(("xdfs://a@h:1/data/x/", "y%20", Form::Encoded))),
            ("xdfs://[::1]:1/da", Some(("xdfs://[::1]:1/", "da", Form::Encoded))),
            ("xdfs://h", None),
            ("ssh://h/et", Some(("ssh://h/", "et", Form::Encoded))),
            ("ssh://h", None),
            ("ssh:h:a/b:c", Some(("ssh:h:a/", "b:c", Form::Plain))),
            ("ssh:h:b:c", Some(("ssh:h:", "b:c", Form::Plain))),
            ("ssh:a@[::1]:b", Some(("ssh:a@[::1]:", "b", Form::Plain))),
            ("ssh:h", None),
            ("lab:", Some(("lab:", "", Form::Plain))),
            ("lab:a]b:c", Some(("lab:", "a]b:c", Form::Plain))),
            ("anna@lab:/data/a b", Some(("anna@lab:/data/", "a b", Form::Plain))),
            ("lab", None),
            ("", None),
        ] {
            let place = Place::of(word.as_bytes());
            let shown = |bytes| std::str::from_utf8(bytes).unwrap();
            let place = place.map(|place| (shown(place.directory), shown(place.begun), place.form));
            assert_eq!(place, expected, "{word}");
        }
    }

    #[test]
    fn a_name_goes_on_as_it_was_begun() {
        for (typed, name, expected) in [
            ("xdfs://h/e/", "a b", Some("xdfs://h/e/a%20b")),
            ("xdfs://h/e/a b", "a b c#", Some("xdfs://h/e/a b%20c%23")),
            ("xdfs://h/e/a%20", "a b\n", Some("xdfs://h/e/a%20b%0A")),
            ("xdfs://h/e/a%2", "a b", Some("xdfs://h/e/a%20b")),
            ("xdfs://h/e/a%2", "a?b", None),
            ("xdfs://h/e/a%", "ab", None),
            ("xdfs://h/e/gr\u{fc}", "gr\u{fc}\u{df}e", Some("xdfs://h/e/gr\u{fc}\u{df}e")),
            ("xdfs://h/e/", "a\u{202e}b", Some("xdfs://h/e/a%E2%80%AEb")),
            ("xdfs://h/e/", "*[?]", Some("xdfs://h/e/%2A%5B%3F%5D")),
            ("xdfs://h/e/b", "a", None),
            ("xdfs://h/e/", ".hidden", None),
            ("xdfs://h/e/.", ".hidden", Some("xdfs://h/e/.hidden")),
            ("lab:", "a b%", Some("lab:a b%")),
            ("lab:x/a:", "a:\n", Some("lab:x/a:\n")),
        ] {
            let word = Place::of(typed.as_bytes()).unwrap().word(name.as_bytes(), false);
            assert_eq!(word, expected.map(|text| text.as_bytes().to_vec()), "{typed} {name}");
        }
        let place = Place::of(b"lab:").unwrap();
        assert_eq!(place.word(b"d", true), Some(b"lab:d/".to_vec()));
        assert_eq!(Place::of(b"xdfs://h/e/").unwrap().word(b"\xff", false), Some(b"xdfs://h/e/%FF".to_vec()));
    }
}
