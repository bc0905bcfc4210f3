//! Peak memory, threads, context switches and kernel socket memory, sampled while a run is on.
//!
//! The sampler spends at most about 2 % of one core: it waits fifty times as long as the last look took. Peak memory
//! is the kernel's own high-water mark, so a rare sample still sees the peak; it is reset before each run.

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shortest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Pause in multiples of what the last look cost.
const PAUSE_FACTOR: u32 = 50;

/// What one side used.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct SideSample {
    /// Peak of the sum of the processes' resident high-water marks, KiB. Shared pages count in each process.
    pub peak_rss_kib: u64,
    /// Peak number of threads, over all processes.
    pub threads: u64,
    /// Voluntary context switches during the run.
    pub voluntary_switches: u64,
    /// Involuntary context switches during the run.
    pub involuntary_switches: u64,
}

/// What a run used.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// The programs that the run started.
    pub client: SideSample,
    /// The server's programs.
    pub server: SideSample,
    /// Peak of the kernel's memory for TCP, KiB, the whole machine.
    pub socket_kib: u64,
}

/// Lists the processes of a side.
pub(super) type Members = Box<dyn Fn() -> Vec<u32> + Send>;

/// A running sampler.
#[derive(Debug)]
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Sampled>,
}

impl Sampler {
    /// Starts to look. The first look is done before this returns: it is the base of the server's switches.
    pub fn start(client: Members, server: Members) -> Self {
        reset_peaks(&server());
        let mut state = State::new(client, server);
        state.look();
        state.server.set_base();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            loop {
                let began = Instant::now();
                state.look();
                let pause = (began.elapsed() * PAUSE_FACTOR).max(PAUSE_MIN);
                match stopped.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => {}
                    // One last look: the client is a zombie whose counts are final.
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                        state.look();
                        return state.finish();
                    }
                }
            }
        });
        Self { stop, thread }
    }

    /// Looks once more and ends.
    pub fn stop(self) -> Sampled {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

struct State {
    client_members: Members,
    server_members: Members,
    client: Side,
    server: Side,
    socket_kib: u64,
}

impl State {
    fn new(client_members: Members, server_members: Members) -> Self {
        Self { client_members, server_members, client: Side::new(), server: Side::new(), socket_kib: 0 }
    }

    fn look(&mut self) {
        self.client.look(&(self.client_members)());
        self.server.look(&(self.server_members)());
        self.socket_kib = self.socket_kib.max(socket_memory_kib());
    }

    fn finish(self) -> Sampled {
        Sampled { client: self.client.finish(), server: self.server.finish(), socket_kib: self.socket_kib }
    }
}

#[derive(Default)]
struct Side {
    peak_kib: u64,
    threads: u64,
    /// Latest counts of every thread ever seen, by thread number: voluntary, involuntary.
    switches: HashMap<u32, (u64, u64)>,
    /// What had been counted before the run.
    base: (u64, u64),
    /// The `Name:` line of this program. Between fork and exec a child still is the harness, with its memory, and for
    /// a moment the harness itself is a member of the group in which it starts a program.
    harness: String,
}

impl Side {
    fn new() -> Self {
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { harness: name(&own).to_owned(), ..Self::default() }
    }

    fn look(&mut self, processes: &[u32]) {
        let mut memory = 0;
        let mut threads = 0;
        for pid in processes {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let mut peak = 0;
            for task in tasks {
                let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
                if name(&status) == self.harness {
                    continue;
                }
                let Some(number) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                threads += 1;
                peak = peak.max(field(&status, "VmHWM:"));
                let now = (field(&status, "voluntary_ctxt_switches:"), field(&status, "nonvoluntary_ctxt_switches:"));
                self.switches.insert(number, now);
            }
            memory += peak;
        }
        self.peak_kib = self.peak_kib.max(memory);
        self.threads = self.threads.max(threads);
    }

    fn total(&self) -> (u64, u64) {
        self.switches.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn set_base(&mut self) {
        self.base = self.total();
    }

    fn finish(self) -> SideSample {
        let (voluntary, involuntary) = self.total();
        SideSample {
            peak_rss_kib: self.peak_kib,
            threads: self.threads,
            voluntary_switches: voluntary.saturating_sub(self.base.0),
            involuntary_switches: involuntary.saturating_sub(self.base.1),
        }
    }
}

/// The line with the program's name.
fn name(status: &str) -> &str {
    status.lines().next().unwrap_or_default()
}

/// The number behind `name` in a status file; lines start with the name.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Resets the resident high-water mark (5 in clear_refs) of long-lived processes, so that each run has its own.
fn reset_peaks(processes: &[u32]) {
    for pid in processes {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

/// Pages that the kernel holds for TCP, from /proc/net/sockstat, in KiB.
fn socket_memory_kib() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:"));
    let pages: u64 = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0);
    pages * (rustix::param::page_size() as u64) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voluntary_switches_are_not_taken_for_involuntary_ones() {
        let status = "Name:\tx\nVmHWM:\t  12 kB\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(field(status, "voluntary_ctxt_switches:"), 3);
        assert_eq!(field(status, "nonvoluntary_ctxt_switches:"), 9);
        assert_eq!(field(status, "VmHWM:"), 12);
    }

    #[test]
    fn own_process_is_seen_with_memory_and_a_thread() {
        let mut side = Side::default();
        side.look(&[std::process::id()]);
        let seen = side.finish();
        assert!(seen.peak_rss_kib > 0);
        assert!(seen.threads >= 1);
    }
}
