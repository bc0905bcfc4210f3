//! Facts about the machine that a figure is worth nothing without.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::namespace;
use crate::world::World;

/// USER_HZ, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Where and with what the run was made.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Model of the first CPU.
    pub cpu: String,
    /// CPUs this process may use.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel release and build.
    pub kernel: String,
    /// Congestion control of programs that do not choose.
    pub congestion: String,
    /// True when the run had a network namespace of its own.
    pub own_network: bool,
    /// Load of the machine at the start: others' work is in every figure.
    pub load_at_start: String,
    /// How CPU was counted.
    pub cpu_method: String,
    /// First line of each program's version.
    pub versions: Vec<(String, String)>,
}

/// What all processors have done since the machine was started, in the kernel's ticks.
#[derive(Debug, Clone, Copy)]
pub struct ProcessorTime {
    busy: f64,
    all: f64,
}

impl ProcessorTime {
    /// None where the kernel does not tell.
    pub fn now() -> Option<Self> {
        // cpu user nice system idle iowait irq softirq steal guest guest_nice; guests' time is in user and nice already.
        let text = fs::read_to_string("/proc/stat").ok()?;
        let ticks: Vec<f64> =
            text.lines().next()?.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
        let all: f64 = ticks.get(..8)?.iter().sum();
        Some(Self { busy: all - ticks[3] - ticks[4], all })
    }

    /// The share of the time from then on in which they had work.
    pub fn busy_since(self) -> Option<f64> {
        let now = Self::now()?;
        (now.all > self.all).then(|| (now.busy - self.busy) / (now.all - self.all))
    }
}

impl Machine {
    /// Looks.
    pub fn look(world: &World, cpu_method: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let value = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let versions = [
            (world.xdfs.as_path(), "--version"),
            (Path::new("iperf3"), "--version"),
            (Path::new("globus-gridftp-server"), "--version"),
            (Path::new("globus-url-copy"), "-version"),
            (Path::new("cp"), "--version"),
            (Path::new("rsync"), "--version"),
            (Path::new("ssh"), "-V"),
        ];
        Self {
            cpu: value(&read("/proc/cpuinfo"), "model name"),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_mib: kib / 1024,
            kernel: format!("{} {}", read("/proc/sys/kernel/osrelease"), read("/proc/sys/kernel/version")),
            congestion: namespace::default_congestion().unwrap_or_else(|_| "unknown".to_owned()),
            own_network: world.own_network,
            load_at_start: read("/proc/loadavg"),
            cpu_method: cpu_method.to_owned(),
            versions: versions.iter().filter_map(|(program, flag)| version(program, flag)).collect(),
        }
    }
}

fn version(program: &Path, flag: &str) -> Option<(String, String)> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let name = program.file_name()?.to_string_lossy().into_owned();
    // ssh and globus-url-copy answer on standard error.
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| !line.trim().is_empty())?.trim();
    // "iperf 3.12 (cJSON 1.7.15)" and long build lines: the head is enough.
    Some((name, line.chars().take(60).collect()))
}

/// CPU time of the whole machine so far, in seconds over all its CPUs.
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    /// Spent in programs and in the kernel.
    pub used: f64,
    /// Wanted, and given to somebody else by the hypervisor.
    pub stolen: f64,
}

impl Busy {
    /// Looks at /proc/stat; its steps of 10 ms are small against a run.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = line.split_ascii_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0.0) / TICKS_PER_SECOND;
        // user, nice, system, idle, iowait, irq, softirq, steal
        Self { used: at(0) + at(1) + at(2) + at(5) + at(6), stolen: at(7) }
    }
}
