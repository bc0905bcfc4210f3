//! Servers that list without end: a command that would remember all of it ends with an error, and none takes more memory than
//! docs/security.md says.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xdfs_io::store::tree::NodeKind;
use xdfs_test_cli::{Running, Scene, xdfs_binary};

use super::evil::{Numbered, Script};
use super::foreign::lying;

/// What docs/security.md bounds: 256 MiB of names, and at most half as much again for their order and all the rest.
const PEAK_BYTES_MAX: u64 = (256 + 128) << 20;
/// What a command takes that remembers no names, at most: replies on their way, and the program.
const STREAMING_BYTES_MAX: u64 = 96 << 20;
/// Longest time for a command here; it reads millions of names.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often its memory is looked at: it grows by a few MiB meanwhile, and the kernel remembers the most.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Listings of so many entries in every directory.
fn listing(count: u64, kind: NodeKind, name: fn(u64) -> String) -> (Script, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let numbered = Numbered { count, kind, name, asked: Arc::clone(&asked) };
    (Script { numbered: Some(numbered), ..Script::default() }, asked)
}

/// How a command ended, if it did before the server had listed so many names, and its largest memory.
struct Seen {
    code: Option<i32>,
    has_ended: bool,
    messages: String,
    peak: u64,
}

/// Runs `words` until it ends, or the server has listed so many names.
fn watch(scene: &Scene, words: &[&str], asked: &AtomicU64, enough: u64) -> Seen {
    let mut command = Command::new("sh");
    // Its output is of no interest, and long; the process stays the same.
    command.args(["-c", "exec \"$0\" \"$@\" > /dev/null"]).arg(xdfs_binary()).args(words);
    command.current_dir(scene.path("")).stdin(Stdio::null());
    scene.dress("somebody", &mut command);
    asked.store(0, Ordering::Relaxed);
    let mut running = Running::start(command);
    let (end, mut peak, mut has_ended) = (Instant::now() + PATIENCE, 0, false);
    while !has_ended && asked.load(Ordering::Relaxed) < enough {
        assert!(Instant::now() < end, "{words:?} neither ended nor read more: {asked:?} names");
        peak = running.peak_so_far().unwrap_or(peak);
        has_ended = running.ends_within(LOOK_EVERY);
    }
    let outcome = if has_ended { running.wait() } else { running.kill() };
    Seen { code: outcome.code, has_ended, messages: outcome.messages, peak }
}

/// The command ended with an error that says why, or it read on, and took no more memory than it may.
#[track_caller]
fn is_bounded(words: &[&str], seen: &Seen, peak_max: u64) {
    println!("{words:?}: {} MiB, {:?}", seen.peak >> 20, seen.code);
    assert!(seen.peak < peak_max, "{words:?} took {} MiB", seen.peak >> 20);
    assert!(!seen.has_ended || seen.code.is_some_and(|code| code != 0), "{words:?}: {:?}", seen.code);
}

/// Short names, which take more memory than their bytes: the worst that a server can list.
#[test]
fn directories_without_end_are_an_error_in_bounded_memory() {
    let scene = Scene::new();
    let (script, asked) = listing(u64::MAX, NodeKind::Directory, |number| format!("d{number}"));
    let (handle, url) = lying(script);
    let inside = url.replace("/data#", "/data/x#");
    let rows: [(&[&str], &str); 3] = [
        (&["find", &url, "-name", "none"], "more directories than can be remembered"),
        (&["ls", "-R", "--sort", &url], "more names than can be remembered"),
        (&["rm", "-r", "-f", &inside], "1024 directories"),
    ];
    for (words, said) in rows {
        let seen = watch(&scene, words, &asked, u64::MAX);
        is_bounded(words, &seen, PEAK_BYTES_MAX);
        assert!(seen.has_ended && seen.messages.contains(said), "{words:?}: {}", seen.messages);
    }
    // It counts what it can beside the rest, for as long as the server goes on.
    let words = ["du", &url];
    is_bounded(&words, &watch(&scene, &words, &asked, 1_000_000), PEAK_BYTES_MAX);
    handle.stop();
}

#[test]
fn names_without_end_that_fit_a_pattern_are_an_error_in_bounded_memory() {
    let scene = Scene::new();
    let (script, asked) = listing(u64::MAX, NodeKind::Regular, |number| format!("{number}.txt"));
    let (handle, url) = lying(script);
    let pattern = url.replace("/data#", "/data/x/*.txt#");
    for words in [&["rm", &pattern][..], &["cp", &pattern, "."]] {
        let seen = watch(&scene, words, &asked, u64::MAX);
        is_bounded(words, &seen, PEAK_BYTES_MAX);
        assert!(seen.messages.contains("more names fit this pattern than are remembered"), "{}", seen.messages);
    }
    handle.stop();
}

/// A little less than what is an error: all of it is sorted, and handed on.
#[test]
fn as_many_names_as_are_remembered_take_bounded_memory() {
    let scene = Scene::new();
    let (script, asked) = listing(500_000, NodeKind::Directory, |number| format!("d{number}"));
    let (handle, url) = lying(script);
    let pattern = url.replace("/data#", "/data/x/d*#");
    for words in [&["find", &url, "-name", "none"][..], &["ls", "-R", &url], &["ls", &pattern]] {
        is_bounded(words, &watch(&scene, words, &asked, 600_000), PEAK_BYTES_MAX);
    }
    handle.stop();
}

/// Each directory has many of the longest names, and so on down to the deepest.
#[test]
fn wide_and_deep_trees_of_long_names_take_bounded_memory() {
    let scene = Scene::new();
    let (script, asked) = listing(400, NodeKind::Directory, |number| format!("{number:0>255}"));
    let (handle, url) = lying(script);
    let (inside, pattern) = (url.replace("/data#", "/data/x#"), url.replace("/data#", "/data/x/*/*/*#"));
    let rows: [&[&str]; 6] = [
        &["cp", "-r", &inside, "copy"],
        &["find", &url, "-name", "none"],
        &["du", &url],
        &["ls", "-R", &url],
        &["rm", "-r", "-f", &inside],
        &["ls", &pattern],
    ];
    for words in rows {
        is_bounded(words, &watch(&scene, words, &asked, 300_000), PEAK_BYTES_MAX);
    }
    handle.stop();
}

/// Nothing of what is only shown, counted or removed is remembered.
#[test]
fn files_without_end_take_no_memory() {
    let scene = Scene::new();
    let (script, asked) = listing(u64::MAX, NodeKind::Regular, |number| format!("{number:0>255}"));
    let (handle, url) = lying(script);
    for words in [&["find", &url, "-name", "none"][..], &["du", &url], &["ls", "-R", &url], &["ls", "--json", &url]] {
        let seen = watch(&scene, words, &asked, 400_000);
        is_bounded(words, &seen, STREAMING_BYTES_MAX);
        assert!(!seen.has_ended, "{words:?} goes on for as long as the server does: {}", seen.messages);
    }
    handle.stop();
}

/// Each is as large as a file may be, and there are more of them than fit into a number.
#[test]
fn sizes_that_a_server_makes_up_end_no_command_before_its_time() {
    let scene = Scene::new();
    let lines = (0..6).map(|number| {
        let mut line = super::evil::line(format!("f{number}").as_bytes(), NodeKind::Regular);
        line.node.size = u64::MAX >> 2;
        line
    });
    let (handle, url) = lying(Script { listings: [(b"x".to_vec(), lines.collect())].into(), ..Script::default() });
    let inside = url.replace("/data#", "/data/x#");
    for number in 0..6 {
        scene.write(format!("target/x/f{number}"), b"here");
        scene.write(format!("there/f{number}"), b"here");
    }
    let rows: [(&[&str], &str); 3] = [
        (&["cp", "-r", "--dry-run"], "target"),
        (&["cp", "-r", "-n"], "target"),
        (&["sync", "--dry-run", "--delete"], "there"),
    ];
    for (words, target) in rows {
        scene.run(words.iter().copied().chain([inside.as_str(), target])).ends_with(0);
    }
    handle.stop();
}

/// What a program removed while it was open has a hidden name. A directory that has nothing else, on any number of pages, fills
/// no program's buffer.
#[test]
fn hidden_names_without_end_end_the_listing_of_a_mount() {
    assert!(xdfs_test_needs::root("only root mounts without a helper"));
    let scene = Scene::new();
    let (script, _) = listing(u64::MAX, NodeKind::Regular, |number| format!(".xdfs-removed-{number}"));
    let (handle, url) = lying(script);
    let point = scene.directory("mounted");
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let below = device(&point);
    let mut mount = scene.start(["mount", "--foreground", &url, "mounted"]);
    while device(&point) == below {
        assert!(!mount.ends_within(LOOK_EVERY), "it cannot be mounted");
    }
    let listed = std::fs::read_dir(&point).and_then(|mut names| names.next().transpose());
    let unmounted = Command::new("umount").arg(&point).status();
    assert!(unmounted.expect("umount runs").success());
    mount.wait();
    assert_eq!(listed.err().and_then(|error| error.raw_os_error()), Some(rustix::io::Errno::IO.raw_os_error()));
    handle.stop();
}
