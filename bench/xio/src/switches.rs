//! How often the kernel has switched between the threads of this program: since one waited for another, a lock or a
//! socket, or since one that it woke was preferred to it.

use std::fs;
use std::io;

/// The lines of a thread's status.
const COUNTS: [&str; 2] = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];

/// The switches of all threads that are there.
pub(crate) fn switches() -> io::Result<u64> {
    fs::read_dir("/proc/self/task")?.map(|thread| of_one(&fs::read_to_string(thread?.path().join("status"))?)).sum()
}

fn of_one(status: &str) -> io::Result<u64> {
    let count = |name: &&str| status.lines().find_map(|line| line.strip_prefix(*name)?.trim().parse::<u64>().ok());
    let counts: Option<Vec<u64>> = COUNTS.iter().map(count).collect();
    counts.map(|counts| counts.iter().sum()).ok_or_else(|| io::Error::other("the kernel does not count switches"))
}
