//! The process's umask, read without changing it: `umask(2)` can only be read by setting it, and a
//! file that another thread creates in that moment would get the wrong mode.

use rustix::fs::{Mode, OFlags};
use std::sync::OnceLock;

/// Used if it cannot be read: no permissions for group and others.
const FALLBACK: u32 = 0o077;

/// The umask as it was when this was first called.
pub(super) fn of_process() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| read().unwrap_or(FALLBACK))
}

fn read() -> Option<u32> {
    let file = rustix::fs::open("/proc/self/status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // The line is among the first few; the whole file has about 1.5 KiB.
    let mut buf = [0; 4096];
    let count = rustix::io::read(&file, &mut buf[..]).ok()?;
    parse(buf.get(..count)?)
}

fn parse(status: &[u8]) -> Option<u32> {
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"))?;
    u32::from_str_radix(std::str::from_utf8(line).ok()?.trim(), 8).ok().filter(|&mask| mask <= 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_umask_line_is_octal() {
        assert_eq!(parse(b"Name:\tx\nUmask:\t0027\nState:\tR\n"), Some(0o27));
        assert_eq!(parse(b"Name:\tx\nState:\tR\n"), None);
        assert_eq!(parse(b"Umask:\t9\n"), None);
    }
}
