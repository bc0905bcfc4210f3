//! A file that an option names, read whole.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// A file that an option names, `-` for standard input, with at most `max` bytes.
pub(super) fn read_bounded(option: &str, path: &Path, max: u64) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(max + 1).read_to_end(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut text))
    };
    if read.map_err(|error| unreadable(option, path, &error))? as u64 > max {
        let message = format!("{option} {}: it has more than {max} bytes", printable_path(path));
        return Err(Failure::new(Exit::Local, message));
    }
    Ok(text)
}

/// Why such a file cannot be read.
pub(super) fn unreadable(option: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::of_io(error), format!("{option} {}: {error}", printable_path(path)))
}
