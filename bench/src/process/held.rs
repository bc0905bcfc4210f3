//! What one process holds right now. Reading it walks the process's page tables: not for use while time is taken.

use std::fs;

/// Memory that nobody shares, and threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Private pages, clean and dirty, KiB.
    pub private_kib: u64,
    /// Threads.
    pub threads: u64,
}

impl Held {
    /// Of the process `pid`; nothing when it has ended.
    pub fn of(pid: u32) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        Self { private_kib: private_kib(&read("smaps_rollup")), threads: number(&read("status"), "Threads:") }
    }
}

fn private_kib(rollup: &str) -> u64 {
    ["Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"].iter().map(|name| number(rollup, name)).sum()
}

fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_pages_do_not_count() {
        let rollup =
            "Rss:  100 kB\nShared_Clean:  60 kB\nShared_Dirty: 1 kB\nPrivate_Clean:  8 kB\nPrivate_Dirty:  31 kB\n";
        assert_eq!(private_kib(rollup), 39);
    }

    #[test]
    fn a_living_process_holds_something_and_a_dead_one_nothing() {
        let own = Held::of(std::process::id());
        assert!(own.private_kib > 0 && own.threads > 0, "{own:?}");
        // No process has the highest number.
        assert_eq!(Held::of(u32::MAX), Held::default());
    }
}
