//! What this process costs its host: resident memory and threads, as the kernel counts them.

use rustix::fs::{Mode, OFlags};

/// A line of `/proc/self/status`, as a number of its unit.
fn status(field: &str) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/self/status", flags, Mode::empty()).ok()?;
    let mut bytes = [0; 4096];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes)).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes of memory that are resident now.
pub fn resident_bytes() -> Option<u64> {
    status("VmRSS").map(|kib| kib * 1024)
}

/// Threads of this process.
pub fn threads() -> Option<u64> {
    status("Threads")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_counts_this_process() {
        assert!(super::resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(super::threads().is_some_and(|count| count >= 1));
    }
}
