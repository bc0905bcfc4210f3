//! One `xdfs cp` that is started again after every exit, while client and server are killed in turn, the number of channels changes
//! and the link is down once: what was moved is not moved again, and the file is the file. A client that never resumes, which
//! `--no-resume` makes of ours, breaks the bound on the bytes that were sent.
//!
//! At length (`cargo run -p xtask -- long kills`) every kill comes 0.2 to 2 s behind a start.

use rustix::process::Signal;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use xdfs_test_cli::{LISTEN, Relay, Running, Scene, Server, pattern};

/// Bytes of the file, kills, and seconds without a link, where nobody asks for others: `XDFS_KILLS_BYTES`, `XDFS_KILLS`,
/// `XDFS_KILLS_OUTAGE`.
const BYTES: u64 = 200 << 20;
const KILLS: u64 = 4;
const OUTAGE: u64 = 2;
/// What an attempt costs at most whose receiver noted everything at its end: a block of each of four channels, what is in
/// buffers, and what was sent twice.
const UNDER_WAY: u64 = 8 << 20;
/// More than a login sends: a transfer has begun.
const BEGUN: u64 = 64 << 10;
/// Longest wait for a marker, which takes five seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is written between two markers, as `docs/durability.md` says.
const MARKER_BYTES: u64 = 256 << 20;
/// Earliest and latest moment of a kill behind a start.
const MOMENTS_MS: (u64, u64) = (200, 2_000);
/// A link that is down for less is survived by those that use it.
const SURVIVED: Duration = Duration::from_secs(10);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// How a script goes.
#[derive(Clone, Copy, Debug)]
struct Form {
    size: u64,
    kills: u64,
    /// The last kills, which wait for a marker; the others come at any moment.
    behind_markers: u64,
    outage: Option<Duration>,
    /// A deliberate mistake: each attempt begins with the first byte.
    never_resumes: bool,
}

impl Form {
    /// That of the environment, or else the short one.
    fn asked_for() -> Self {
        let kills = number("XDFS_KILLS", KILLS);
        Self {
            size: number("XDFS_KILLS_BYTES", BYTES),
            kills,
            behind_markers: if kills > KILLS { 0 } else { 2 },
            outage: Some(Duration::from_secs(number("XDFS_KILLS_OUTAGE", OUTAGE))),
            never_resumes: false,
        }
    }
}

fn serve(scene: &Scene, address: &str) -> Server {
    scene.write(
        "server.toml",
        b"[exports.data]\ndirectory = \"server\"\nanonymous = \"rw\"\n[log]\naudit = \"audit.log\"\n",
    );
    let words = ["--quiet", "--config", "server.toml"];
    Server::start(scene.command(["serve", "--json", "--listen", address]), &words)
}

/// Transfers that the server has ended, and told of.
fn ended(scene: &Scene) -> usize {
    let log = std::fs::read_to_string(scene.path("audit.log")).unwrap_or_default();
    log.split_inclusive('\n').filter(|line| line.contains("\"transfer\"") && line.ends_with('\n')).count()
}

/// Bytes that the last whole record of the export's journal tells of. (The form is that of the store's `journal` module.)
fn noted(scene: &Scene) -> u64 {
    let journal = scene.names("server").into_iter().find(|name| name.ends_with(".journal"));
    let read = |name| std::fs::read(scene.path("server").join(name)).ok();
    let bytes = journal.and_then(read).unwrap_or_default();
    let (mut rest, mut noted) = (bytes.get(8..).unwrap_or_default(), 0);
    // Length, check, kind; then the entries of a record of kind 2: flags, offset, length, and a value with flag 1.
    while let Some((head, payload)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some((mut entries, behind)) = payload.split_at_checked(length) else { break };
        if head[8] == 2 {
            // Behind the tag.
            entries = entries.get(32..).unwrap_or_default();
            noted = 0;
            while let Some((entry, others)) = entries.split_at_checked(17) {
                noted += entry[9..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                entries = others.get(if entry[0] & 1 == 1 { 32 } else { 0 }..).unwrap_or_default();
            }
        }
        rest = behind;
    }
    noted
}

/// Waits for a marker that tells of so many bytes.
#[track_caller]
fn wait_until_noted(scene: &Scene, bytes: u64) {
    let since = Instant::now();
    while noted(scene) < bytes {
        assert!(since.elapsed() < PATIENCE, "no marker tells of {bytes} bytes: {}", noted(scene));
        std::thread::yield_now();
    }
}

/// Time passes: here it is the time itself that is wanted.
fn pass(time: Duration) {
    let (_tell, never) = sync_channel::<()>(0);
    assert_eq!(never.recv_timeout(time), Err(RecvTimeoutError::Timeout));
}

/// The script: a scene, its server, and what was sent so far.
struct Script {
    scene: Scene,
    server: Option<Server>,
    address: String,
    form: Form,
    sent: u64,
    /// What may be sent besides the file, since a kill took it.
    lost: u64,
    began: Instant,
}

impl Script {
    fn server(&self) -> &Server {
        self.server.as_ref().expect("it is started again at once")
    }

    /// A line for who waits.
    fn tell(&self, what: &str) {
        println!("{:>7.1} s: {what}, {} MiB sent", self.began.elapsed().as_secs_f64(), self.sent >> 20);
    }

    fn start(&self, relay: &Relay, number: u64) -> Running {
        let channels = ["1", "3", "2", "4"][number as usize % 4];
        let resume: &[&str] = if self.form.never_resumes { &["--no-resume"] } else { &[] };
        let url = relay.url("file");
        let words = ["cp", "-q", "-P", channels, "--retry", "0", "source", &url];
        self.scene.start(words.iter().chain(resume).copied())
    }

    /// A kill at any moment: a server that is killed before its first marker loses all of the attempt. One whose client was killed
    /// notes what has come.
    fn kill_in_time(&mut self, kill: u64) {
        // Even if each takes the longest, the file is not done before the last kill.
        let slowest = (self.form.kills + 2) * MOMENTS_MS.1 / 1000;
        let relay = Relay::paced(self.server(), self.form.size / slowest.max(1));
        let running = self.start(&relay, kill);
        let (first, last) = MOMENTS_MS;
        pass(Duration::from_millis(first + kill * 7919 % (last - first)));
        // A transfer that has not begun does not end either.
        let since = Instant::now();
        while relay.passed() < BEGUN {
            assert!(since.elapsed() < PATIENCE, "nothing is sent");
            std::thread::yield_now();
        }
        let of_server = !self.kill(kill, running, false);
        self.account(relay.passed(), if of_server { MARKER_BYTES } else { UNDER_WAY });
    }

    /// A kill behind a marker that covers what has arrived whole. (A takeover writes to the journal, too, and tells of nothing new:
    /// who took that for a marker killed before there was one.)
    fn kill_behind_a_marker(&mut self, kill: u64) {
        // What the attempt before left is noted when its server has ended in order.
        self.server.take().expect("it runs").stop();
        self.server = Some(serve(&self.scene, &self.address));
        let before = noted(&self.scene);
        let stretch = self.form.size / (self.form.kills + 1);
        let relay = Relay::holding(self.server(), 1, stretch);
        let running = self.start(&relay, kill);
        relay.wait_until_held();
        wait_until_noted(&self.scene, before + stretch.saturating_sub(UNDER_WAY / 2));
        self.kill(kill, running, true);
        // It costs what came since: what was under way then.
        self.account(relay.passed(), UNDER_WAY);
    }

    /// An attempt in which so much was sent, of which no more than `lost` may be sent again.
    fn account(&mut self, passed: u64, lost: u64) {
        self.sent += passed;
        self.lost += passed.min(lost);
    }

    /// Client and server in turn; whether it was the client.
    fn kill(&mut self, kill: u64, running: Running, marked: bool) -> bool {
        self.tell(&format!("kill {kill}"));
        let of_client = kill.is_multiple_of(2);
        if of_client {
            let before = ended(&self.scene);
            running.signal(Signal::KILL);
            running.wait();
            self.wait_until_ended(before);
        } else {
            self.server.take().expect("it runs").kill();
            assert_ne!(running.wait().code, Some(0), "the server was killed under it");
            let server = serve(&self.scene, &self.address);
            let found = server.next_line();
            assert_eq!(found["event"].as_str(), Some("recovered"), "{found}");
            assert!(!marked || found["parts"].as_u64() == Some(1), "{found}");
            self.server = Some(server);
        }
        assert_eq!(self.scene.read("server/file"), b"old", "the old file stays until the new one is whole");
        of_client
    }

    /// Waits until the server has seen that its client is gone, and noted what came.
    fn wait_until_ended(&self, before: usize) {
        let since = Instant::now();
        while ended(&self.scene) == before {
            assert!(since.elapsed() < PATIENCE, "the server does not say that the transfer ended");
            std::thread::yield_now();
        }
    }

    /// The link is down for a while. Whoever gives up then is started again.
    fn outage(&mut self, time: Duration) {
        let relay = Relay::paced(self.server(), self.form.size / (self.form.kills + 2));
        let before = ended(&self.scene);
        let running = self.start(&relay, 1);
        let passed = |more: u64| {
            let (since, from) = (Instant::now(), relay.passed());
            while relay.passed() < from + more && running.is_running() {
                assert!(since.elapsed() < PATIENCE, "nothing passes");
                std::thread::yield_now();
            }
        };
        passed(1 << 20);
        self.tell("the link goes down");
        relay.hold();
        pass(time);
        relay.release();
        passed(1 << 20);
        self.tell("the link is back");
        assert!(running.is_running() || time > SURVIVED, "a link that was down for {time:?} was not survived");
        drop(running);
        self.wait_until_ended(before);
        self.account(relay.passed(), UNDER_WAY);
    }
}

/// What a script came to.
struct Report {
    sent: u64,
    /// Bytes that may have been sent.
    bound: u64,
}

impl Report {
    fn keeps_the_bound(&self) -> bool {
        self.sent <= self.bound
    }
}

/// Runs the script; the file is the file behind it, whatever was sent.
fn run(form: Form) -> Report {
    let scene = Scene::new();
    let content = pattern(usize::try_from(form.size).expect("it fits"), 41);
    scene.write("source", &content);
    scene.write("server/file", b"old");
    let server = serve(&scene, LISTEN);
    let address = server.address().to_owned();
    let mut script = Script { scene, server: Some(server), address, form, sent: 0, lost: 0, began: Instant::now() };
    for kill in 0..form.kills {
        if let Some(time) = form.outage.filter(|_| kill == form.kills / 2) {
            script.outage(time);
        }
        // What a marker told of is not sent again.
        if kill < form.kills - form.behind_markers {
            script.kill_in_time(kill);
        } else {
            script.kill_behind_a_marker(kill);
        }
    }
    script.tell("the last attempt");
    // As fast as it can, but counted.
    let relay = Relay::holding(script.server(), 1, u64::MAX);
    relay.release();
    let last = script.scene.run(["cp", "--json", "-P", "2", "source", &relay.url("file")]);
    last.ends_with(0);
    assert_eq!(last.messages.contains("resumes at"), !form.never_resumes, "{}", last.messages);
    let sent = script.sent + relay.passed();
    assert!(script.scene.read("server/file") == content);
    if !form.never_resumes {
        assert_eq!(script.scene.names("server"), ["file"], "nothing is left of the attempts");
    }
    let (size, kills, lost) = (form.size, form.kills, script.lost);
    println!("{kills} kills: {sent} bytes passed for a file of {size}, {lost} of them were lost to kills at most");
    Report { sent, bound: size + lost + size / 100 }
}

#[test]
fn a_copy_that_is_started_again_after_every_kill_moves_each_byte_about_once() {
    let report = run(Form::asked_for());
    assert!(report.keeps_the_bound(), "{} bytes passed, {} are allowed", report.sent, report.bound);
}

#[test]
fn a_client_that_never_resumes_is_caught_by_what_it_sends() {
    let form = Form { size: BYTES, kills: 3, behind_markers: 0, outage: None, never_resumes: true };
    let report = run(form);
    assert!(!report.keeps_the_bound(), "{} bytes passed, and {} were allowed", report.sent, report.bound);
}
