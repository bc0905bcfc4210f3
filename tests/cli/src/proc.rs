//! What /proc tells of a process.

use std::path::{Path, PathBuf};

use rustix::process::Pid;

fn folder(process: Pid) -> PathBuf {
    Path::new("/proc").join(process.as_raw_nonzero().to_string())
}

/// Whether it has `path` open.
pub fn has_open(process: Pid, path: &Path) -> bool {
    let files = std::fs::read_dir(folder(process).join("fd")).expect("it runs");
    files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|open| open == path))
}

/// How many threads it has whose names begin like this.
pub fn threads_named(process: Pid, beginning: &str) -> usize {
    let tasks = std::fs::read_dir(folder(process).join("task")).expect("it runs");
    // A thread may end meanwhile.
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(beginning)).count()
}

/// `path`, which is absolute, as the process sees it, whose mounts may be others.
pub fn seen_by(process: Pid, path: &Path) -> PathBuf {
    folder(process).join("root").join(path.strip_prefix("/").expect("it is absolute"))
}
