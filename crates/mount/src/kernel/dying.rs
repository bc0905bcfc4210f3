//! Whether the thread that made a request is ending: then nobody waits for the answer.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io::Read;

/// Each of the two takes less than one and a half kilobytes.
const BYTES_MAX: u64 = 64 << 10;

/// The number of SIGKILL, which the kernel makes pending for every thread of a process that a signal ends.
const KILL: u32 = 9;

/// Of a thread's flags: it is ending (`PF_EXITING` of Linux).
const EXITING: u64 = 4;

/// Of a thread's exit code: the signal that ended it.
const SIGNAL: u64 = 0x7f;

/// Where flags and exit code are in `/proc/PID/stat`, counted from what follows the name.
const FLAGS_AT: usize = 6;
const EXIT_CODE_AT: usize = 49;

/// Whether a signal has ended the thread of this number, or is ending it, or it is gone. What cannot be known is taken for
/// alive: it would be told EINTR of a change that was made.
pub(super) fn is_dying(thread: u32) -> bool {
    let Some(status) = read(thread, "status") else { return is_gone(thread) };
    // Whoever reads the other file waits for one that executes a program, and that may wait for an answer. It has memory.
    let is_past = || {
        !has_memory(&status) && read(thread, "stat").map_or_else(|| is_gone(thread), |stat| is_ended_by_signal(&stat))
    };
    has_kill_pending(&status) || is_past()
}

/// Whether there is no such thread. The number of one in another namespace is not told: it is 0.
fn is_gone(thread: u32) -> bool {
    match i32::try_from(thread).map(Pid::from_raw) {
        Ok(Some(thread)) => test_kill_process(thread) == Err(Errno::SRCH),
        Ok(None) => false,
        Err(_) => true,
    }
}

fn read(thread: u32, what: &str) -> Option<String> {
    let mut text = Vec::new();
    open(thread, what).ok()?.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[expect(clippy::disallowed_methods, reason = "the kernel's own account of a thread, by its number")]
fn open(thread: u32, what: &str) -> std::io::Result<File> {
    File::open(format!("/proc/{thread}/{what}"))
}

/// Whether it closes what it had open because a signal has ended it. No signal is pending any more then.
fn is_ended_by_signal(stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    // The exit code is told to the same user alone; for others it is 0.
    number(FLAGS_AT) & EXITING != 0 && number(EXIT_CODE_AT) & SIGNAL != 0
}

/// A thread that is ending has given back its memory before it closes its files.
fn has_memory(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("VmSize:"))
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
    fn a_thread_that_a_signal_has_ended_ends_and_one_that_exits_by_itself_does_not() {
        let stat = |flags: u64, code: u64| format!("7 (a) S b) D 1 1 1 0 -1 {flags}{} {code}\n", " 0".repeat(42));
        assert!(is_ended_by_signal(&stat(EXITING | 0x400, 9)) && is_ended_by_signal(&stat(EXITING, 128 + 6)));
        assert!(!is_ended_by_signal(&stat(EXITING, 1 << 8)), "exit(1)");
        assert!(!is_ended_by_signal(&stat(0, 9)) && !is_ended_by_signal("7"));
    }

    #[test]
    fn this_thread_lives_and_one_that_is_not_there_does_not() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert!(read(own, "status").is_some_and(|status| has_memory(&status)));
        assert!(!is_dying(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()));
        assert!(is_dying(u32::MAX) && is_dying(i32::MAX.cast_unsigned()), "there are not so many");
        assert!(!is_dying(0), "one of another namespace");
    }
}
