//! A directory of the server mounted by xdfs and by sshfs, each with its defaults: one file read and written in order, and what
//! programs do with many files. Each run has a mount of its own, so nothing is cached; once without delay, and once
//! through a relay with a round trip of 20 ms, unless others are asked for. The file is also copied by `xdfs cp`, and through a file system in user space that
//! has no server: between them they are what such a mount can do.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{failure, rounds};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Context, Error, Result};
use crate::files;
use crate::holder::relay::{Relay, round_trip};
use crate::machine::ProcessorTime;
use crate::peers::{Server, System, Xdfs, check_installed, find_program, state, systems};
use crate::process::{Account, Command, Running};
use crate::report::Report;
use crate::stats::median;
use crate::world::{ScratchDir, World};

/// How long one run, or mounting, may take.
const LIMIT: Duration = Duration::from_secs(900);

/// The systems, in the order of the figures.
const LABELS: [&str; 4] = ["xdfs", "sshfs", "xdfs cp", "passthrough"];
const XDFS: usize = 0;
const SSHFS: usize = 1;
const RAW: usize = 2;
const BOUND: usize = 3;

/// Of the rate that a copy and a file system in user space allow one behind the other, what a file in its order has to reach; over a
/// long way of that of a copy alone.
const SEQUENTIAL_MIN: f64 = 0.8;

/// One kind of work: its name, the script that does it in the mounted directory, which way it moves one file in its order, if that
/// is what it does, and how many times as fast as sshfs xdfs has to be, without delay and with it.
struct Work {
    name: &'static str,
    script: &'static str,
    moves: Option<Direction>,
    goals: [Option<f64>; 2],
}

const WORKS: [Work; 5] = [
    Work {
        name: "read a file",
        script: "exec dd if=large of=/dev/null bs=1M status=none",
        moves: Some(Direction::Down),
        goals: [Some(3.0), None],
    },
    Work {
        name: "write a file",
        script: "exec dd if=\"$0\" of=written bs=1M status=none",
        moves: Some(Direction::Up),
        goals: [Some(3.0), None],
    },
    Work { name: "ls -lR", script: "ls -lR many > /dev/null", moves: None, goals: [Some(2.0), Some(4.0)] },
    Work {
        name: "git status",
        script: "test -z \"$(git -c safe.directory='*' -C repository status --porcelain)\"",
        moves: None,
        goals: [Some(2.0), Some(4.0)],
    },
    // tar reads nothing if it sees that it writes to the null device.
    Work { name: "tar c", script: "tar cf - few | cat > /dev/null", moves: None, goals: [Some(2.0), Some(4.0)] },
];

/// How much there is of everything.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Amounts {
    /// Bytes of the file that is read and written.
    pub bytes: u64,
    /// Files that are listed, in directories of a hundred.
    pub listed: u32,
    /// Files of the repository, in directories of a hundred.
    pub tracked: u32,
    /// Files of 1 to 64 KiB that are read, in directories of ten.
    pub archived: u32,
}

const FULL: Amounts = Amounts { bytes: 1 << 30, listed: 10_000, tracked: 50_000, archived: 1_000 };
const QUICK: Amounts = Amounts { bytes: 64 << 20, listed: 1_000, tracked: 2_000, archived: 200 };

impl Amounts {
    /// What there is, for people.
    fn text(&self) -> String {
        format!(
            "a file of {} MiB; listed: {} directories of 100 files of 100 bytes; the repository: {} directories of 100 files of \
             100 bytes; archived: {} directories of 10 files of 1 to 64 KiB; all directories beside each other, one deep; on tmpfs",
            self.bytes >> 20,
            self.listed / 100,
            self.tracked / 100,
            self.archived / 10
        )
    }
}

/// What came out of one work at one delay.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MountsReport {
    /// Which work.
    pub work: String,
    /// The round trip in milliseconds as the relay was asked for it; 0 is loopback itself.
    pub round_trip_ms: u32,
    /// What a message and its echo take through such a relay, in milliseconds.
    pub measured_ms: Option<f64>,
    /// How much there was.
    pub amounts: Amounts,
    /// How many times as fast as sshfs xdfs has to be.
    pub goal: Option<f64>,
    /// Seconds of each round: xdfs, sshfs, and for a file in its order `xdfs cp` and the file system without a server.
    pub seconds: [Vec<f64>; 4],
    /// The share of the machine's processors that had work in each round of xdfs.
    pub busy: Vec<f64>,
    /// Why it ended early.
    pub failure: Option<String>,
}

/// The rate of xdfs over another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What the other one is.
    pub with: &'static str,
    /// What has to be reached.
    pub goal: Option<f64>,
    /// Median over the rounds.
    pub found: f64,
    /// The best round of each.
    pub best: f64,
}

impl MountsReport {
    /// What there is to compare xdfs with.
    pub fn comparisons(&self) -> Vec<Comparison> {
        // Of a copy and a file system without a server the rate is 1 / (1/raw + 1/bound): their times add up, where they are work of
        // the same processors.
        let is_far = self.round_trip_ms > 0;
        let both = ("1 / (1/raw + 1/bound)", &[RAW, BOUND][..], (!is_far).then_some(SEQUENTIAL_MIN));
        let raw = ("raw", &[RAW][..], Some(SEQUENTIAL_MIN));
        let all = [Some(("sshfs", &[SSHFS][..], self.goal)), is_far.then_some(raw), Some(both)];
        all.into_iter().flatten().filter_map(|(with, others, goal)| self.compare(with, others, goal)).collect()
    }

    fn compare(&self, with: &'static str, others: &[usize], goal: Option<f64>) -> Option<Comparison> {
        let own = &self.seconds[XDFS];
        if others.iter().any(|other| self.seconds[*other].len() < own.len()) {
            return None;
        }
        let sum = |round: usize| others.iter().map(|other| self.seconds[*other][round]).sum::<f64>();
        let ratios: Vec<f64> = own.iter().enumerate().map(|(round, seconds)| sum(round) / seconds).collect();
        let best_of_others = others.iter().filter_map(|other| best(&self.seconds[*other])).sum::<f64>();
        Some(Comparison { with, goal, found: median(&ratios)?, best: best_of_others / best(own)? })
    }
}

fn best(seconds: &[f64]) -> Option<f64> {
    seconds.iter().copied().reduce(f64::min)
}

/// Lines for people.
pub fn text(report: &MountsReport) -> String {
    let mut text = format!("  {:12} round trip {:2} ms:", report.work, report.round_trip_ms);
    for (label, seconds) in LABELS.iter().zip(&report.seconds) {
        let (Some(middle), Some(best)) = (median(seconds), best(seconds)) else { continue };
        text += &format!(" {label} {middle:.3} s (best {best:.3}),");
    }
    text = text.trim_end_matches(',').to_owned() + "\n";
    for Comparison { with, goal, found, best } in report.comparisons() {
        text += &format!("    rate over {with}: {found:.2} (best {best:.2})");
        text += &goal.map_or_else(String::new, |goal| {
            format!(", goal {goal}, {}", if found >= goal { "met" } else { "MISSED" })
        });
        text.push('\n');
    }
    if let Some(busy) = median(&report.busy) {
        text += &format!("    processors busy: {:.0} %\n", busy * 100.0);
    }
    text + &report.failure.as_ref().map(|failure| format!("  failed: {failure}\n")).unwrap_or_default()
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let amounts = if world.args.quick { QUICK } else { FULL };
    let amounts = Amounts { bytes: world.args.size.unwrap_or(amounts.bytes), ..amounts };
    let scene = Scene::prepare(world, amounts)?;
    scene.wait_for_leases()?;
    println!("\nmounts, all at private: {}", amounts.text());
    let is_asked_for = |work: &&Work| {
        let asked = &world.args.works;
        asked.is_empty() || asked.iter().any(|name| work.name.starts_with(name.as_str()))
    };
    for round_trip_ms in world.args.round_trips.iter().copied() {
        let delay = Duration::from_millis(round_trip_ms.into()) / 2;
        let mut measured_ms = None;
        if !delay.is_zero() {
            let milliseconds = round_trip(delay)?.as_secs_f64() * 1e3;
            println!("the relay's round trip, measured with bare sockets: {milliseconds:.2} ms");
            measured_ms = Some(milliseconds);
        }
        for work in WORKS.iter().filter(is_asked_for) {
            let mut one = MountsReport {
                work: work.name.to_owned(),
                round_trip_ms,
                measured_ms,
                amounts,
                goal: work.goals[usize::from(!delay.is_zero())],
                ..MountsReport::default()
            };
            one.failure = failure("mounts", scene.measure(work, delay, &mut one))?;
            print!("{}", text(&one));
            report.mounts.push(one);
        }
    }
    Ok(())
}

/// What is served, the servers, and where it is mounted.
struct Scene<'a> {
    world: &'a World,
    served: ScratchDir,
    point: ScratchDir,
    servers: [Server; 2],
}

/// A mounted directory, unmounted at the end.
struct Mounted<'a> {
    point: &'a Path,
    running: Running,
    _account: Account,
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmount = |words: &[&str]| {
            std::process::Command::new("umount").args(words).arg(self.point).stderr(Stdio::null()).status()
        };
        if !unmount(&[]).is_ok_and(|status| status.success()) {
            let _ = unmount(&["--lazy"]);
        }
        self.running.stop();
    }
}

fn device(path: &Path) -> Option<u64> {
    fs::metadata(path).map(|facts| facts.dev()).ok()
}

impl<'a> Scene<'a> {
    fn prepare(world: &'a World, amounts: Amounts) -> Result<Self> {
        let served = ScratchDir::create(&world.args.tmpfs_dir, "served")?;
        let point = ScratchDir::create(&std::env::temp_dir(), "mounted")?;
        let top = served.path();
        files::create_random(&top.join("large"), amounts.bytes, &world.interrupt)?;
        files::create_tree(&top.join("many"), amounts.listed / 100, 100, |_| 100)?;
        files::create_tree(&top.join("few"), amounts.archived / 10, 10, |share| (1024.0 * 64_f64.powf(share)) as u64)?;
        files::create_tree(&top.join("repository"), amounts.tracked / 100, 100, |_| 100)?;
        // Times of long ago, so that git trusts what its index says of them; and of those that both systems show.
        let script = "cd repository; find . -exec touch -d 2020-01-01 {} +; git init -q .; git config core.checkStat minimal\n\
             git config core.trustctime false; git config user.name A; git config user.email a@example.org\n\
             git add .; git commit -q -m one; git status > /dev/null";
        let script = Command::new("sh").args(["-ec", script]);
        run_in(world, top, &script)?;
        let scp = systems(&[PeerName::Scp]);
        let scp = scp.first().ok_or(Error::Missing { program: "scp".to_owned(), package: "openssh-client" })?;
        check_installed(&Xdfs::default(), world)?;
        check_installed(scp.as_ref(), world)?;
        if find_program("sshfs").is_none() {
            return Err(Error::Missing { program: "sshfs".to_owned(), package: "sshfs" });
        }
        let missing = || Error::Wrong { system: "mounts".to_owned(), detail: "no server".to_owned() };
        let own = Xdfs { leases: true, ..Xdfs::default() }.serve(world, Some(top))?.ok_or_else(missing)?;
        let other = scp.serve(world, None)?.ok_or_else(missing)?;
        Ok(Self { world, served, point, servers: [own, other] })
    }

    /// A server that has just been started has files wait until the leases that it may have granted before are over.
    fn wait_for_leases(&self) -> Result<()> {
        let mounted = self.mount(XDFS, Duration::ZERO)?;
        run_in(self.world, mounted.point, &Command::new("head").args(["-c", "1", "large"])).map(drop)
    }

    fn measure(&self, work: &Work, delay: Duration, report: &mut MountsReport) -> Result<()> {
        let systems: &[usize] = match work.moves {
            None => &[XDFS, SSHFS],
            Some(_) => &[XDFS, SSHFS, RAW, BOUND],
        };
        for round in 0..rounds(&self.world.args) as usize {
            for turn in 0..systems.len() {
                let system = systems[(turn + round) % systems.len()];
                let (seconds, busy) = self.measure_once(work, delay, system)?;
                report.seconds[system].push(seconds);
                report.busy.extend(busy.filter(|_| system == XDFS));
            }
        }
        Ok(())
    }

    /// Seconds of the work in a directory that was mounted for it, or of a copy; of the former also the share of the processors
    /// that were busy.
    fn measure_once(&self, work: &Work, delay: Duration, system: usize) -> Result<(f64, Option<f64>)> {
        let source = self.served.path().join("large");
        let written = self.served.path().join("written");
        let writes = matches!(work.moves, Some(Direction::Up));
        if writes {
            let bytes = fs::metadata(&source).context(|| source.display().to_string())?.len();
            files::warm_memory(&self.world.args.tmpfs_dir, bytes)?;
        }
        let measured = match (system, work.moves) {
            (RAW, Some(direction)) => (self.copy(direction, delay, &source)?, None),
            _ => {
                let mounted = self.mount(system, delay)?;
                let command = Command::new("sh").args(["-ec", work.script]).arg(&source);
                let before = ProcessorTime::now();
                let seconds = run_in(self.world, mounted.point, &command)?;
                (seconds, before.and_then(ProcessorTime::busy_since))
            }
        };
        if writes {
            files::check_equal(LABELS[system], &source, &written)?;
            files::remove(&written)?;
        }
        Ok(measured)
    }

    /// Seconds of the transfer itself: a mount has connected before, too. Over one channel, as a mount.
    fn copy(&self, direction: Direction, delay: Duration, source: &Path) -> Result<f64> {
        let (world, server) = (self.world, &self.servers[XDFS]);
        let port = through(server.port, delay)?;
        let url = |name: &str| format!("xdfs://127.0.0.1:{port}/f/{name}{}", server.pin);
        let xdfs = Xdfs { protection: "private", ..Xdfs::default() };
        let command = match direction {
            Direction::Down => xdfs.copy(world, 1).arg(url("large")).arg("null:"),
            Direction::Up => xdfs.copy(world, 1).arg(source).arg(url("written")),
        };
        let mut account = Account::open("copy");
        let mut running = command.start(world.scratch.path(), "copy", &mut account, Stdio::null())?;
        running.wait(LIMIT, &world.interrupt)?;
        running.finish()?;
        let silent = || Error::Unreadable { program: "xdfs cp".to_owned(), detail: "no seconds".to_owned() };
        xdfs.outcome(&running.output())?.seconds.ok_or_else(silent)
    }

    fn mount(&self, system: usize, delay: Duration) -> Result<Mounted<'_>> {
        let world = self.world;
        let point = self.point.path();
        let command = match system {
            XDFS => {
                let server = &self.servers[XDFS];
                Command::new(&world.xdfs)
                    .args(["mount", "--foreground", "--state"])
                    .arg(state(world))
                    .arg(format!("xdfs://127.0.0.1:{}/f/{}", through(server.port, delay)?, server.pin))
                    .arg(point)
            }
            BOUND if !world.passthrough.exists() => {
                return Err(Error::NotBuilt { path: world.passthrough.clone() });
            }
            BOUND => Command::new(&world.passthrough).arg(self.served.path()).arg(point),
            _ => Command::new("sshfs")
                .args(["-f", "-F"])
                .arg(world.scratch.path().join("scp.conf"))
                .args(["-p", &through(self.servers[SSHFS].port, delay)?.to_string()])
                .arg(format!("127.0.0.1:{}", self.served.path().display()))
                .arg(point),
        };
        let mut account = Account::open("mount");
        let running = command.start(world.scratch.path(), "mount", &mut account, Stdio::null())?;
        let mut mounted = Mounted { point, running, _account: account };
        let before = point.parent().and_then(device);
        let deadline = Instant::now() + LIMIT;
        while device(point).is_none_or(|now| Some(now) == before) {
            if mounted.running.has_ended() {
                return Err(mounted.running.ended_early());
            }
            if Instant::now() > deadline {
                return Err(Error::Deadline { command: "mount".to_owned(), seconds: LIMIT.as_secs() });
            }
            world.interrupt.sleep(Duration::from_millis(5))?;
        }
        Ok(mounted)
    }
}

/// The port that leads to this one, held back for `delay` each way. Each mount, and each copy, has one connection.
fn through(port: u16, delay: Duration) -> Result<u16> {
    if delay.is_zero() {
        return Ok(port);
    }
    let relay = Relay::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), delay)?;
    relay.carry_next()?;
    Ok(relay.address()?.port())
}

/// Runs a command with a directory as its own; how long it took, in seconds.
fn run_in(world: &World, directory: &Path, command: &Command) -> Result<f64> {
    let inside = directory.canonicalize().context(|| directory.display().to_string())?;
    let command = inside_of(&inside, command);
    let mut account = Account::open("work");
    let mut running = command.start(world.scratch.path(), "work", &mut account, Stdio::null())?;
    let ended = running.wait(LIMIT, &world.interrupt)?;
    let seconds = ended.duration_since(running.started()).as_secs_f64();
    running.finish()?;
    Ok(seconds)
}

fn inside_of(directory: &Path, command: &Command) -> Command {
    Command::new("env").arg("-C").arg(directory).args(command.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_copy_and_of_a_file_system_without_a_server_add_up() {
        let seconds = [vec![1.0, 2.0, 1.0], vec![4.0, 4.0, 3.0], vec![0.5, 0.5, 0.4], vec![0.3, 0.5, 0.4]];
        let report = MountsReport { goal: Some(3.0), seconds, ..MountsReport::default() };
        let all = report.comparisons();
        let [sshfs, sequential] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((sshfs.found, sshfs.best, sshfs.goal), (3.0, 3.0, Some(3.0)));
        assert!((sequential.found - 0.8).abs() < 1e-9 && (sequential.best - 0.7).abs() < 1e-9, "{sequential:?}");
        assert!(text(&report).contains("goal 0.8"), "{}", text(&report));
        let far = MountsReport { round_trip_ms: 20, ..report.clone() };
        assert!((far.comparisons()[1].found - 0.4).abs() < 1e-9 && text(&far).contains("MISSED"));
        let tree = MountsReport { seconds: [vec![1.0], vec![2.0], Vec::new(), Vec::new()], ..report };
        assert_eq!(tree.comparisons().len(), 1);
    }
}
