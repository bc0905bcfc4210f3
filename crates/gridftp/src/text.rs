//! Texts of a server as they may be shown to people.

/// Longest text of a server that an error repeats, in bytes: enough for every sentence, too little to
/// fill a screen.
const SHOWN_BYTES_MAX: usize = 512;

/// What a server sent, for an error or a log: printable ASCII as it is, everything else as `\xNN`, cut
/// after a bounded length. A terminal obeys nothing in it.
pub fn printable(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for &byte in &bytes[..bytes.len().min(SHOWN_BYTES_MAX)] {
        match byte {
            b' '..=b'~' => shown.push(char::from(byte)),
            _ => shown.push_str(&format!("\\x{byte:02x}")),
        }
    }
    if bytes.len() > SHOWN_BYTES_MAX {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_servers_text_reaches_the_terminal_as_a_control() {
        assert_eq!(printable(b"no \x1b[2Jfile\r\xff"), "no \\x1b[2Jfile\\x0d\\xff");
        assert_eq!(printable(&[b'a'; 600]).len(), SHOWN_BYTES_MAX + 3);
    }
}
