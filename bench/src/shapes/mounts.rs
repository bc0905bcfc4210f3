//! A directory of the server mounted by xdfs and by sshfs, each with its defaults: one file read and written in order, and what
//! programs do with many files. Each run has a mount of its own, so nothing is cached; once without delay, and once
//! through a relay with a round trip of 20 ms.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{failure, rounds};
use crate::args::PeerName;
use crate::error::{Context, Error, Result};
use crate::files;
use crate::holder::relay::Relay;
use crate::peers::{Server, System, Xdfs, check_installed, find_program, state, systems};
use crate::process::{Account, Command, Running};
use crate::report::Report;
use crate::stats::median;
use crate::world::{ScratchDir, World};

/// Half of the relay's round trip.
const DELAY: Duration = Duration::from_millis(10);

/// How long one run, or mounting, may take.
const LIMIT: Duration = Duration::from_secs(900);

/// The systems, in the order of the figures.
const LABELS: [&str; 2] = ["xdfs", "sshfs"];

/// One kind of work: its name, the script that does it in the mounted directory, and how many times as fast as sshfs xdfs
/// has to be, without delay and with it.
struct Work {
    name: &'static str,
    script: &'static str,
    goals: [Option<f64>; 2],
}

const WORKS: [Work; 5] = [
    Work { name: "read a file", script: "exec dd if=large of=/dev/null bs=1M status=none", goals: [Some(3.0), None] },
    Work {
        name: "write a file",
        script: "dd if=\"$0\" of=written bs=1M status=none; rm written",
        goals: [Some(3.0), None],
    },
    Work { name: "ls -lR", script: "ls -lR many > /dev/null", goals: [Some(2.0), Some(4.0)] },
    Work {
        name: "git status",
        script: "test -z \"$(git -c safe.directory='*' -C repository status --porcelain)\"",
        goals: [Some(2.0), Some(4.0)],
    },
    // tar reads nothing if it sees that it writes to the null device.
    Work { name: "tar c", script: "tar cf - few | cat > /dev/null", goals: [Some(2.0), Some(4.0)] },
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

/// What came out of one work at one delay.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MountsReport {
    /// Which work.
    pub work: String,
    /// The round trip in milliseconds; 0 is loopback itself.
    pub round_trip_ms: u32,
    /// How much there was.
    pub amounts: Amounts,
    /// How many times as fast as sshfs xdfs has to be.
    pub goal: Option<f64>,
    /// Seconds of each round: xdfs, sshfs.
    pub seconds: [Vec<f64>; 2],
    /// Why it ended early.
    pub failure: Option<String>,
}

impl MountsReport {
    /// Median over the rounds of sshfs's time over xdfs's.
    pub fn ratio(&self) -> Option<f64> {
        let [own, other] = &self.seconds;
        median(&own.iter().zip(other).map(|(own, other)| other / own).collect::<Vec<_>>())
    }
}

/// A line for people.
pub fn text(report: &MountsReport) -> String {
    let mut text = format!("  {:12} round trip {:2} ms:", report.work, report.round_trip_ms);
    for (label, seconds) in LABELS.iter().zip(&report.seconds) {
        let best = seconds.iter().copied().reduce(f64::min);
        let (Some(middle), Some(best)) = (median(seconds), best) else { continue };
        text += &format!(" {label} {middle:.3} s (best {best:.3}),");
    }
    text += &format!(" {:.2} times as fast\n", report.ratio().unwrap_or(f64::NAN));
    text + &report.failure.as_ref().map(|failure| format!("  failed: {failure}\n")).unwrap_or_default()
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let amounts = if world.args.quick { QUICK } else { FULL };
    let scene = Scene::prepare(world, amounts)?;
    println!(
        "\nmounts: a file of {} MiB, {} names listed, a repository of {} files, {} files archived, on tmpfs",
        amounts.bytes >> 20,
        amounts.listed,
        amounts.tracked,
        amounts.archived
    );
    for (at, delay) in [Duration::ZERO, DELAY].into_iter().enumerate() {
        for work in &WORKS {
            let round_trip_ms = u32::try_from(2 * delay.as_millis()).unwrap_or(u32::MAX);
            let mut one = MountsReport {
                work: work.name.to_owned(),
                round_trip_ms,
                amounts,
                goal: work.goals[at],
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
        let own = Xdfs::default().serve(world, Some(top))?.ok_or_else(missing)?;
        let other = scp.serve(world, None)?.ok_or_else(missing)?;
        Ok(Self { world, served, point, servers: [own, other] })
    }

    fn measure(&self, work: &Work, delay: Duration, report: &mut MountsReport) -> Result<()> {
        for round in 0..rounds(&self.world.args) as usize {
            for turn in 0..LABELS.len() {
                let system = (turn + round) % LABELS.len();
                report.seconds[system].push(self.measure_once(work, delay, system)?);
            }
        }
        Ok(())
    }

    /// Seconds of the work in a directory that was mounted for it.
    fn measure_once(&self, work: &Work, delay: Duration, system: usize) -> Result<f64> {
        let mounted = self.mount(system, delay)?;
        let source = self.served.path().join("large");
        let command = Command::new("sh").args(["-ec", work.script]).arg(source);
        let seconds = run_in(self.world, mounted.point, &command);
        drop(mounted);
        seconds
    }

    fn mount(&self, system: usize, delay: Duration) -> Result<Mounted<'_>> {
        let (world, server) = (self.world, &self.servers[system]);
        // Each mount has one connection.
        let port = match delay.is_zero() {
            true => server.port,
            false => {
                let relay = Relay::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port)), delay)?;
                relay.carry_next()?;
                relay.address()?.port()
            }
        };
        let point = self.point.path();
        let command = match LABELS[system] {
            "xdfs" => Command::new(&world.xdfs)
                .args(["mount", "--foreground", "--state"])
                .arg(state(world))
                .arg(format!("xdfs://127.0.0.1:{port}/f/{}", server.pin))
                .arg(point),
            _ => Command::new("sshfs")
                .args(["-f", "-F"])
                .arg(world.scratch.path().join("scp.conf"))
                .args(["-p", &port.to_string()])
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
