//! What an attempt believes of what an earlier one left: all of it where nothing can have happened to it, nothing without a
//! comparison where something can.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rustix::process::Signal;
use serde_json::Value;
use xdfs_test_cli::{Outcome, Relay, Running, Scene, Server, pattern, until};

const SIZE: usize = 24 << 20;
/// So much has passed when an attempt is ended; the first megabytes of it are kept.
const PASSED: u64 = 12 << 20;
const KEPT_AT_LEAST: u64 = 2 << 20;
/// Where a byte of the part file is altered: in what is kept.
const SPOILT_AT: u64 = 1_500_000;
/// What is told apart is a megabyte or a block; the end of what is kept may have to go again besides.
const PIECE: u64 = 1 << 20;

/// The only name in `folder` with this end.
fn left(scene: &Scene, folder: &str, end: &str) -> Option<PathBuf> {
    let name = scene.names(folder).into_iter().find(|name| name.ends_with(end))?;
    Some(scene.path(folder).join(name))
}

/// Waits for a marker, however the attempt ended or will end.
#[track_caller]
fn wait_for_journal(scene: &Scene, folder: &str) {
    until(|| left(scene, folder, ".journal"), Option::is_some);
}

/// Turns a bit over in the part file, as a disk may that lost power.
fn spoil(scene: &Scene, folder: &str) {
    let part = left(scene, folder, ".part").expect("a part file");
    let file = std::fs::File::options().read(true).write(true).open(part).expect("it is ours");
    let mut byte = [0];
    file.read_exact_at(&mut byte, SPOILT_AT).expect("it is there");
    file.write_all_at(&[byte[0] ^ 1], SPOILT_AT).expect("it can be written");
}

/// An upload or a download that holds when enough has passed. Downloads go into `into`.
struct Attempt {
    running: Running,
    relay: Relay,
    folder: &'static str,
}

impl Attempt {
    fn start(scene: &Scene, server: &Server, upload: bool, options: &[&str]) -> Self {
        scene.directory("into");
        let relay = Relay::holding(server, 1, PASSED);
        let url = relay.url("file");
        let words = if upload { ["source", &url] } else { [&url, "into/file"] };
        let running = scene.start([&["cp", "-P", "1", "--retry", "0"], &words[..], options].concat());
        relay.wait_until_held();
        Self { running, relay, folder: if upload { "server" } else { "into" } }
    }

    /// Kills the client; whoever wrote the part file had made a marker.
    fn kill(self, scene: &Scene) {
        wait_for_journal(scene, self.folder);
        self.running.signal(Signal::KILL);
        self.running.wait();
    }

    /// Ends it in a moment: what is there is noted then.
    fn end(self, scene: &Scene) {
        self.running.signal(Signal::INT);
        drop(self.relay);
        self.running.wait();
        wait_for_journal(scene, self.folder);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// What was kept, and what went again of that besides what was missing.
#[track_caller]
fn resumed(outcome: &Outcome) -> (u64, u64) {
    outcome.ends_with(0);
    let line = outcome.objects().remove(0);
    let kept = number(&line["resumed_bytes"]);
    let moved: u64 = line["channel_bytes"].as_array().expect("a list").iter().map(number).sum();
    (kept, (kept + moved).saturating_sub(SIZE as u64))
}

/// `command`, for which this machine has been started anew.
fn in_another_boot(scene: &Scene, command: &Command) -> Command {
    let boot = scene.write("boot", b"01234567-89ab-cdef-0123-456789abcdef\n");
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    let mut other = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        other.arg("-r");
    }
    other.args(["-m", "sh", "-c", script]).arg(boot).arg(command.get_program()).args(command.get_args());
    other.current_dir(scene.path(""));
    scene.dress("somebody", &mut other);
    other
}

fn serve_in_another_boot(scene: &Scene) -> Server {
    let command = in_another_boot(scene, &scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]));
    let server = Server::start(command, &["--quiet", "--export", "data=server", "--allow-anonymous", "rw"]);
    scene.trust(server.address(), &server);
    server
}

#[test]
fn what_was_noted_is_not_read_again_after_a_kill_but_where_all_is_read_back() {
    for upload in [true, false] {
        for (check, read) in [("hash", false), ("reread", true)].into_iter().take(if upload { 2 } else { 1 }) {
            let scene = Scene::new();
            let mut server = scene.serve();
            let content = pattern(SIZE, 1);
            scene.write(if upload { "source" } else { "server/file" }, &content);
            let attempt = Attempt::start(&scene, &server, upload, &[]);
            wait_for_journal(&scene, attempt.folder);
            if upload {
                server.kill();
                server = scene.serve();
            }
            attempt.kill(&scene);
            spoil(&scene, if upload { "server" } else { "into" });
            let url = server.url("file");
            let words = if upload { ["source", &url] } else { [&url, "into/file"] };
            let again = scene.run([&["cp", "--json", "--verify", check], &words[..]].concat());
            let (kept, more) = resumed(&again);
            assert!(kept >= KEPT_AT_LEAST, "{kept}");
            let copied = scene.read(if upload { "server/file" } else { "into/file" });
            // A byte that somebody altered behind our back is the proof that nobody looked.
            let differs = copied.iter().zip(&content).filter(|(one, other)| one != other).count();
            assert_eq!(differs, usize::from(!read), "upload {upload}, {check}");
            assert!(!read || more >= 64 << 10, "the piece came again: {more}");
            assert_eq!(
                again.objects()[0]["hash"],
                blake3::hash(&content).to_hex().to_string(),
                "upload {upload}, {check}"
            );
        }
    }
}

#[test]
fn after_a_power_cut_what_was_noted_is_compared_and_only_a_bad_piece_is_sent_again() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    for upload in [true, false] {
        for spoilt in [false, true] {
            let scene = Scene::new();
            let mut server = scene.serve();
            let content = pattern(SIZE, 2);
            scene.write(if upload { "source" } else { "server/file" }, &content);
            Attempt::start(&scene, &server, upload, &[]).end(&scene);
            if spoilt {
                spoil(&scene, if upload { "server" } else { "into" });
            }
            let copy = |words: [&str; 2]| {
                let command = scene.command([&["cp", "--json", "-P", "1"], &words[..]].concat());
                Running::start(if upload { command } else { in_another_boot(&scene, &command) }).wait()
            };
            let again = if upload {
                server.stop();
                server = serve_in_another_boot(&scene);
                copy(["source", &server.url("file")])
            } else {
                copy([&server.url("file"), "into/file"])
            };
            let (kept, more) = resumed(&again);
            assert!(kept >= KEPT_AT_LEAST, "upload {upload}: {kept}");
            assert!(scene.read(if upload { "server/file" } else { "into/file" }) == content);
            // Late acknowledgements make blocks go twice on a busy machine.
            assert_eq!(more >= PIECE, spoilt, "upload {upload}, spoilt {spoilt}: {more}");
            assert!(more <= 8 * PIECE, "upload {upload}, spoilt {spoilt}: {more}");
        }
    }
}

#[test]
fn without_a_hash_nothing_from_before_a_power_cut_counts() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 3);
    scene.write("source", &content);
    Attempt::start(&scene, &server, true, &[]).end(&scene);
    server.stop();
    let server = serve_in_another_boot(&scene);
    let again = scene.run(["cp", "--json", "--verify", "none", "source", &server.url("file")]);
    assert_eq!(resumed(&again).0, 0);
    assert!(scene.read("server/file") == content);
}

/// Copies a file with its modification time, as `cp -p` does.
fn copy_of(scene: &Scene, from: &Path, content: &[u8], name: &str) {
    let modified: SystemTime = std::fs::metadata(from).and_then(|metadata| metadata.modified()).expect("it is there");
    let copy = scene.write(name, content);
    std::fs::File::options().write(true).open(copy).and_then(|file| file.set_modified(modified)).expect("it is ours");
}

#[test]
fn a_copy_of_the_source_goes_on_and_what_it_has_otherwise_is_sent() {
    for upload in [true, false] {
        for alike in [true, false] {
            let scene = Scene::new();
            let server = scene.serve();
            let content = pattern(SIZE, 4);
            let name = if upload { "source" } else { "server/file" };
            let original = scene.write(name, &content);
            Attempt::start(&scene, &server, upload, &[]).end(&scene);
            let mut other = content.clone();
            if !alike {
                other[SPOILT_AT as usize] ^= 1;
            }
            // Another file of the same size and time takes the place of the one that was read.
            copy_of(&scene, &original, &other, "elsewhere");
            std::fs::rename(scene.path("elsewhere"), &original).expect("it can be renamed");
            let url = server.url("file");
            let words = if upload { ["source", &url] } else { [&url, "into/file"] };
            let again = scene.run([&["cp", "--json", "-P", "1"], &words[..]].concat());
            let (kept, more) = resumed(&again);
            assert!(kept >= KEPT_AT_LEAST, "upload {upload}: {kept}");
            assert!(scene.read(if upload { "server/file" } else { "into/file" }) == other);
            assert_eq!(more >= PIECE, !alike, "upload {upload}, alike {alike}: {more}");
        }
    }
}

#[test]
fn without_a_hash_no_copy_is_taken_for_the_source() {
    for upload in [true, false] {
        let scene = Scene::new();
        let server = scene.serve();
        let content = pattern(SIZE, 5);
        let original = scene.write(if upload { "source" } else { "server/file" }, &content);
        Attempt::start(&scene, &server, upload, &["--verify", "none"]).end(&scene);
        let other = pattern(SIZE, 6);
        copy_of(&scene, &original, &other, "elsewhere");
        std::fs::rename(scene.path("elsewhere"), &original).expect("it can be renamed");
        let url = server.url("file");
        let words = if upload { ["source", &url] } else { [&url, "into/file"] };
        let again = scene.run([&["cp", "--json", "--verify", "none"], &words[..]].concat());
        assert_eq!(resumed(&again).0, 0, "upload {upload}");
        assert!(scene.read(if upload { "server/file" } else { "into/file" }) == other);
    }
}
