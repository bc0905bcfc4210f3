//! What ssh and the other end say on standard error: shown line by line, bounded and made printable. Questions are not
//! among it: ssh asks them on the terminal.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::output::pass_on;
use crate::text::printable;

/// Bytes of a line; what is longer takes several.
const LINE_BYTES_MAX: u64 = 1024;

/// Bytes of a session that are shown.
const BYTES_MAX: usize = 64 << 10;

/// Shows what arrives, in a thread of its own; the receiver is disconnected when all of it was shown.
pub(super) fn show(from: impl Read + Send + 'static) -> Receiver<()> {
    let (shown, wait) = sync_channel(0);
    thread::spawn(move || {
        each_line(from, pass_on);
        drop(shown);
    });
    wait
}

fn each_line(from: impl Read, mut tell: impl FnMut(&str)) {
    let (mut from, mut line, mut left) = (BufReader::new(from), Vec::new(), Some(BYTES_MAX));
    // Ends with the pipe. What is not shown is read, too: the other end would wait.
    while let Ok(1..) = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        if let Some(bytes) = left {
            left = bytes.checked_sub(line.len());
            let text = printable(line.trim_ascii_end());
            tell(if left.is_some() { &text } else { "what ssh says further is not shown" });
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        each_line(bytes, |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_printable_and_bounded_in_length_and_number() {
        assert_eq!(told(b"one\r\n\x1b]0;owned\x07two"), ["one", "\\u{1b}]0;owned\\u{7}two"]);
        let long = told(&[b'x'; 3000]);
        assert_eq!(long.iter().map(String::len).collect::<Vec<_>>(), [1024, 1024, 952]);
        let many = told(&b"0123456\n".repeat(BYTES_MAX));
        assert_eq!(
            (many.len(), many.last().map(String::as_str)),
            (BYTES_MAX / 8 + 1, Some("what ssh says further is not shown"))
        );
    }
}
