//! Who belongs to a side (client or server), and how much CPU they have used, the dead included.
//!
//! With a writable cgroup v2 hierarchy each side is a group of its own: exact to the microsecond, and a server that
//! forks per connection is counted whole. Without one, the process tree of /proc is used: exact to 10 ms per process.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::sample::Members;

/// What the CPU figures of /proc count in: USER_HZ, fixed at 100 for user space on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// The processes of one side.
#[derive(Debug)]
pub struct Account {
    members: Membership,
}

/// The part that the sampler's thread needs.
#[derive(Debug, Clone)]
struct Membership {
    group: Option<Group>,
    roots: Arc<Mutex<Vec<u32>>>,
}

#[derive(Debug, Clone)]
struct Group {
    path: PathBuf,
    home: PathBuf,
}

impl Account {
    /// An empty side. `name` must be unique in this harness.
    pub fn open(name: &str) -> Self {
        Self { members: Membership { group: Group::create(name), roots: Arc::default() } }
    }

    /// How the CPU is counted, for the report.
    pub fn method(&self) -> &'static str {
        if self.members.group.is_some() { "cgroup v2 cpu.stat" } else { "/proc/PID/stat, 10 ms steps" }
    }

    /// Starts `command` as a member of this side. The instant is taken just before.
    pub fn spawn(&mut self, command: &mut Command) -> io::Result<(Instant, Child)> {
        let started;
        let child = match &self.members.group {
            // A child is born where its parent is: step in, spawn, step out. No wrapper runs inside the measured time.
            Some(group) => {
                group.enter()?;
                started = Instant::now();
                let child = command.spawn();
                group.leave()?;
                child?
            }
            None => {
                started = Instant::now();
                command.spawn()?
            }
        };
        self.members.roots.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        Ok((started, child))
    }

    /// Forgets a process that has been reaped.
    pub fn forget(&mut self, pid: u32) {
        self.members.roots.lock().unwrap_or_else(PoisonError::into_inner).retain(|root| *root != pid);
    }

    /// All living processes of the side, and zombies of programs that nobody has reaped yet.
    pub fn processes(&self) -> BTreeSet<u32> {
        self.members.list()
    }

    /// The same as a function for another thread.
    pub fn lister(&self) -> Members {
        let members = self.members.clone();
        Box::new(move || members.list().into_iter().collect())
    }

    /// CPU used so far by all that ever belonged to the side. Only differences mean anything.
    pub fn cpu(&self) -> Duration {
        match &self.members.group {
            Some(group) => group.cpu(),
            None => {
                let ticks: u64 = self.processes().into_iter().filter_map(ticks_of).sum();
                Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
            }
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(group) = &self.members.group {
            // Whoever is still inside was started by us and left its process group (sshd does).
            let _ = fs::write(group.path.join("cgroup.kill"), "1");
            let deadline = Instant::now() + Duration::from_secs(2);
            while fs::remove_dir(&group.path).is_err() && group.path.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Membership {
    fn list(&self) -> BTreeSet<u32> {
        let mut open = self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(group) = &self.group {
            // A group does not list zombies; the roots do.
            return numbers(&group.path.join("cgroup.procs")).into_iter().chain(open).collect();
        }
        let mut found = BTreeSet::new();
        while let Some(pid) = open.pop() {
            if found.insert(pid) {
                let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
                open.extend(tasks.flat_map(|task| numbers(&task.path().join("children"))));
            }
        }
        found
    }
}

impl Group {
    fn create(name: &str) -> Option<Self> {
        let home = home_group()?;
        let path = home.join(format!("xdfs-bench-{}-{name}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self { path, home };
        // Some containers let one create a group and not enter it.
        let usable = group.enter().is_ok() && group.leave().is_ok() && group.path.join("cpu.stat").exists();
        if !usable {
            let _ = fs::remove_dir(&group.path);
        }
        usable.then_some(group)
    }

    fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), std::process::id().to_string())
    }

    fn leave(&self) -> io::Result<()> {
        fs::write(self.home.join("cgroup.procs"), std::process::id().to_string())
    }

    fn cpu(&self) -> Duration {
        let text = fs::read_to_string(self.path.join("cpu.stat")).unwrap_or_default();
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).and_then(|n| n.trim().parse().ok());
        Duration::from_micros(micros.unwrap_or(0))
    }
}

/// The cgroup v2 directory this process is in: the mount point plus the path of the `0::` line.
fn home_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
    Some(PathBuf::from(mount).join(path))
}

/// User and system ticks of a process and of its reaped children.
fn ticks_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; fields are counted from behind it. utime is field 14 of the line.
    let after = &text[text.rfind(')')? + 2..];
    let fields: Vec<&str> = after.split(' ').collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

fn numbers(path: &std::path::Path) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}
