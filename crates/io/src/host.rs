//! What the kernel reports about this process: resident memory, threads, signals.

use rustix::fs::{Mode, OFlags};

/// A line of `/proc/self/status`, as a number in this base.
fn status(field: &str, base: u32) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/self/status", flags, Mode::empty()).ok()?;
    let mut bytes = [0; 4096];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes)).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    u64::from_str_radix(line.split_whitespace().next()?, base).ok()
}

/// Bytes of memory that are currently resident.
pub fn resident_bytes() -> Option<u64> {
    status("VmRSS", 10).map(|kib| kib * 1024)
}

/// Number of threads of this process.
pub fn threads() -> Option<u64> {
    status("Threads", 10)
}

/// Whether this process ignores a signal, as one started with `nohup` does; false where the kernel
/// does not report it.
pub fn ignores(signal: u32) -> bool {
    status("SigIgn", 16).is_some_and(|mask| signal > 0 && mask.checked_shr(signal - 1).is_some_and(|bit| bit & 1 == 1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_counts_this_process() {
        assert!(super::resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(super::threads().is_some_and(|count| count >= 1));
        // Rust's runtime ignores SIGPIPE; SIGKILL cannot be ignored.
        assert!(super::ignores(13) && !super::ignores(9) && !super::ignores(0) && !super::ignores(99));
    }
}
