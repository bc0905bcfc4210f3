//! One run: a tree, changes, a command, and the judgement.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Delay, LISTEN, Mounted, Outcome, Running, Scene, Server, pass};

use super::array;
use super::change::{Changer, tell_apart};
use super::judge::{Kept, differences, is_tidy, leftovers};
use super::source::{Bounds, Tree};

/// For the relay, in each direction.
const LATENCY: Duration = Duration::from_millis(20);
/// Far above what the largest tree needs, so only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
/// For what a server removes behind the end of a session.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lines of a judgement that are shown.
const SHOWN: usize = 30;

const COMMANDS: [&[&str]; 4] = [&["cp", "-r"], &["cp", "-a"], &["sync", "--delete"], &["sync", "-a", "--delete"]];
const CHANNELS: [&str; 3] = ["1", "4", "16"];

/// What a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    command: &'static [&'static str],
    down: bool,
    tree: Tree,
    channels: &'static str,
    delayed: bool,
    tmpfs: bool,
}

impl Plan {
    /// Plans in which every pair of values of everything occurs.
    pub fn some(seed: u64) -> Vec<Self> {
        let rows = array::rows(&[COMMANDS.len(), 2, Tree::ALL.len(), CHANNELS.len(), 2, 2], 0, seed);
        rows.iter().map(|row| Self::from(row)).collect()
    }

    /// So many plans, or more, for each command and direction: every pair of the other values occurs with each.
    pub fn of_each(runs: usize, seed: u64) -> Vec<Self> {
        let kinds = (0..COMMANDS.len()).flat_map(|command| [[command, 0], [command, 1]]);
        let rows = kinds.enumerate().flat_map(|(index, kind)| {
            let rest = array::rows(&[Tree::ALL.len(), CHANNELS.len(), 2, 2], runs, seed.wrapping_add(index as u64));
            rest.into_iter().map(move |rest| [&kind[..], &rest].concat())
        });
        rows.map(|row| Self::from(&row)).collect()
    }

    fn from(row: &[usize]) -> Self {
        Self {
            command: COMMANDS[row[0]],
            down: row[1] == 1,
            tree: Tree::ALL[row[2]],
            channels: CHANNELS[row[3]],
            delayed: row[4] == 1,
            tmpfs: row[5] == 1,
        }
    }

    fn archive(&self) -> bool {
        self.command.contains(&"-a")
    }

    fn syncs(&self) -> bool {
        self.command[0] == "sync"
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.down { "down to" } else { "up to" };
        let disk = if self.tmpfs { "tmpfs" } else { "ext4" };
        let latency = if self.delayed { LATENCY.as_millis() } else { 0 };
        let command = self.command.join(" ");
        write!(f, "{command} -P {} of {} {direction} {disk}, {latency} ms each way", self.channels, self.tree.name())
    }
}

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victims {
    Client,
    Server,
    Both,
}

/// What all runs share.
#[derive(Debug)]
pub struct Bench<'a> {
    mounted: &'a Mounted,
    bounds: Bounds,
    seed: u64,
    scene: Scene,
}

impl<'a> Bench<'a> {
    /// Everything but the copies is on the ext4.
    pub fn new(mounted: &'a Mounted, bounds: Bounds, seed: u64) -> Self {
        Self { mounted, bounds, seed, scene: Scene::below(&mounted.ext4) }
    }

    /// Does what `plan` says; empty where all was well, else what was not.
    pub fn run(&mut self, plan: &Plan, seed: u64) -> String {
        let run = self.prepare(plan, seed);
        let since = Instant::now();
        let server = self.serve(&run.target, LISTEN);
        let way = Way::to(&server, plan);
        let outcome = self.copy(plan, &run, &way).wait_within(DEADLINE);
        drop(server);
        let took = since.elapsed();
        let fault = run.judge(plan, &outcome);
        println!("  {:.1} s, judged in {:.1} s", took.as_secs_f64(), (since.elapsed() - took).as_secs_f64());
        fault
    }

    /// Kills what `victims` says after `moment`, gives the same command again at once, and judges what came of it.
    pub fn run_killed(&mut self, plan: &Plan, victims: Victims, moment: Duration, seed: u64) -> String {
        let run = self.prepare(plan, seed);
        let mut server = self.serve(&run.target, LISTEN);
        let address = server.address().to_owned();
        // One relay for both commands: with another address the second would be another command.
        let way = Way::to(&server, plan);
        let first = self.copy(plan, &run, &way);
        pass(moment);
        if victims != Victims::Client {
            server.kill();
            server = self.serve(&run.target, &address);
        }
        let first = if victims == Victims::Server { first.wait_within(DEADLINE) } else { first.kill() };
        // What was done is done: the same command once more would copy into what is there, as cp does. That holds too
        // where the kill came between the last act of the command and its end.
        if first.code.is_none() && !plan.syncs() && run.faults(plan).is_empty() {
            return String::new();
        }
        let outcome = match first.code {
            Some(0) => first,
            _ => self.copy(plan, &run, &way).wait_within(DEADLINE),
        };
        // What the server has not removed by then is judged.
        let since = Instant::now();
        while !is_tidy(&run.copy) && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        drop(server);
        run.judge(plan, &outcome)
    }

    /// Source and target of a run.
    fn prepare(&self, plan: &Plan, seed: u64) -> Run {
        let source = self.source(plan.tree);
        let disk = if plan.tmpfs { &self.mounted.tmpfs } else { &self.mounted.ext4 };
        // Nothing but the copy comes into this directory.
        let target = disk.join("target");
        fs::create_dir(&target).expect("a directory can be made");
        let copy = target.join("copy");
        if plan.syncs() {
            mirror(&source, &copy);
            let mut changer = Changer::new(&copy, !seed, plan.archive());
            changer.change(20 + changer.names() / 40);
        }
        let mut changer = Changer::new(&source, seed, plan.archive());
        changer.change(40 + changer.names() / 20);
        if plan.syncs() {
            tell_apart(&source, &copy);
        }
        Run { source, target, copy }
    }

    /// The tree as it was at the beginning, below the scene.
    fn source(&self, tree: Tree) -> PathBuf {
        let kept = self.scene.path(format!("kept-{}", tree.name()));
        if !kept.exists() {
            tree.copy(&kept, self.bounds, self.seed);
        }
        let source = self.scene.directory("trees").join(tree.name());
        mirror(&kept, &source);
        source
    }

    /// Starts the command.
    fn copy(&self, plan: &Plan, run: &Run, way: &Way) -> Running {
        let ends = match plan.down {
            true => [way.url("trees", plan.tree.name()), run.copy.display().to_string()],
            false => [run.source.display().to_string(), way.url("target", "copy")],
        };
        let words = plan.command.iter().copied().chain(["-P", plan.channels]);
        self.scene.start(words.chain(ends.iter().map(String::as_str)))
    }

    fn serve(&self, target: &Path, address: &str) -> Server {
        let exports = [format!("trees={}", self.scene.path("trees").display()), format!("target={}", target.display())];
        let mut options = vec!["--quiet", "--allow-anonymous", "rw", "--keep", "modes,owner,acl,xattr,special"];
        options.extend(exports.iter().flat_map(|export| ["--export", export]));
        Server::start(self.scene.command(["serve", "--json", "--listen", address]), &options)
    }
}

/// How a command reaches the server; the server may be started again at its address.
struct Way {
    address: String,
    host_key: String,
    delay: Option<Delay>,
}

impl Way {
    fn to(server: &Server, plan: &Plan) -> Self {
        let delay = plan.delayed.then(|| Delay::new(server, LATENCY));
        Self { address: server.address().to_owned(), host_key: server.host_key().to_owned(), delay }
    }

    fn url(&self, export: &str, path: &str) -> String {
        match &self.delay {
            Some(delay) => delay.url_in(export, path),
            None => format!("xdfs://{}/{export}/{path}#{}", self.address, self.host_key),
        }
    }
}

/// Where a run has its files. The target goes with it.
struct Run {
    source: PathBuf,
    target: PathBuf,
    copy: PathBuf,
}

impl Run {
    /// What is wrong, if anything.
    fn judge(self, plan: &Plan, outcome: &Outcome) -> String {
        match outcome.code {
            Some(0) => self.faults(plan),
            code => format!("ends with {code:?}\n{}{}", head(&outcome.messages), self.faults(plan)),
        }
    }

    /// What the copy lacks, or has beside what the source has; empty where all is well.
    fn faults(&self, plan: &Plan) -> String {
        let mut faults = Vec::new();
        let kept = match plan {
            _ if plan.archive() => Kept::All,
            // What is there keeps its permissions, and only what is new gets those of the source.
            _ if plan.syncs() => Kept::Times,
            _ => Kept::Modes,
        };
        let different = match self.copy.is_dir() {
            true => differences(&self.source, &self.copy, kept),
            false => "there is no copy".to_owned(),
        };
        for (what, text) in [("differs:", different), ("left beside the copy:", leftovers(&self.copy))] {
            if !text.is_empty() {
                faults.push(format!("{what}\n{}", head(&text)));
            }
        }
        faults.concat()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.target).expect("it is ours");
    }
}

/// Makes `to` like `from`, as rsync does.
fn mirror(from: &Path, to: &Path) {
    let mut rsync = Command::new("rsync");
    rsync
        .args(["-aHAX", "--delete", "--modify-window=-1"])
        .args([format!("{}/", from.display()), format!("{}/", to.display())]);
    let mut copied = || rsync.status().expect("rsync is installed by the set-up of the tests").success();
    if !copied() {
        // It fails where a directory is in place of a file: it asks for the default ACL of the file.
        fs::remove_dir_all(to).and_then(|()| fs::create_dir(to)).expect("it is ours");
        assert!(copied(), "rsync cannot copy");
    }
}

/// The first lines.
fn head(text: &str) -> String {
    let count = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(SHOWN).map(|line| format!("    {line}\n")).collect();
    if count > SHOWN {
        lines.push(format!("    and {} lines more\n", count - SHOWN));
    }
    lines.concat()
}
