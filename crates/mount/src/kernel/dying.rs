//! Whether the thread that made a request is ending: then nobody waits for the answer.

use std::fs::File;
use std::io::Read;

/// It takes about one and a half kilobytes.
const STATUS_BYTES_MAX: u64 = 64 << 10;

/// The number of SIGKILL, which the kernel makes pending for every thread of a process that a signal ends.
const KILL: u32 = 9;

/// Whether the thread of this number is ending, or is not known here.
pub(super) fn is_dying(thread: u32) -> bool {
    status(thread).is_none_or(|status| has_kill_pending(&status))
}

fn status(thread: u32) -> Option<String> {
    let mut status = String::new();
    open(thread).ok()?.take(STATUS_BYTES_MAX).read_to_string(&mut status).ok()?;
    Some(status)
}

#[expect(clippy::disallowed_methods, reason = "the kernel's own account of a thread, by its number")]
fn open(thread: u32) -> std::io::Result<File> {
    File::open(format!("/proc/{thread}/status"))
}

fn has_kill_pending(status: &str) -> bool {
    let pending = |line: &str| {
        let (field, mask) = line.split_once(':')?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        matches!(field, "SigPnd" | "ShdPnd").then_some(mask & 1 << (KILL - 1) != 0)
    };
    status.lines().filter_map(pending).any(|is| is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_ends_when_a_kill_is_pending() {
        let status = |own: u64, shared: u64| format!("Name:\tpython3\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n");
        assert!(!has_kill_pending(&status(0, 0)) && !has_kill_pending(&status(0x2, 0x4002)));
        assert!(has_kill_pending(&status(0x100, 0)) && has_kill_pending(&status(0x2, 0x102)));
        assert!(!has_kill_pending("Name:\tSigPnd: 100\n"));
    }

    #[test]
    fn this_thread_lives_and_one_that_is_not_there_does_not() {
        assert!(!is_dying(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()));
        assert!(is_dying(u32::MAX));
    }
}
