//! Names of files as people may see them.
//!
//! A file's name can hold any byte but NUL and the slash. On a terminal a control byte in it could move the cursor or
//! worse, so no name reaches a message without passing here.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `bytes` with control characters and what is no UTF-8 escaped (`\n`, `\x1b`, `\xff`), everything else unchanged.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || is_invisible(character) {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// A local path for people.
pub(crate) fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// Characters that change how the text around them is shown: direction marks and zero-width ones.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(printable(b"plain name.bin"), "plain name.bin");
        assert_eq!(printable("gr\u{fc}n \u{65e5}".as_bytes()), "gr\u{fc}n \u{65e5}");
        assert_eq!(printable(b"a\x1b[2Jb\n\r\x07"), "a\\u{1b}[2Jb\\n\\r\\u{7}");
        assert_eq!(printable(b"\xff\xc3"), "\\xff\\xc3");
        assert_eq!(printable("a\u{202e}b\u{9b}c".as_bytes()), "a\\u{202e}b\\u{9b}c");
    }
}
