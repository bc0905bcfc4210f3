//! Uploads that are killed at any moment and started again with the same command: in the end the server has what is here
//! and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use xdfs_test_cli::{Scene, pattern};

use super::servers::FtpServer;
use super::{PATIENCE, run};

/// How often an upload is killed before it may end.
const KILLS: usize = 6;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// The paths of all files below a directory.
fn names_below(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory { open.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

/// The same with their contents, by their paths in it.
fn files_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let of = |path: PathBuf| (path.strip_prefix(directory).unwrap().to_owned(), std::fs::read(&path).unwrap());
    names_below(directory).into_iter().map(of).collect()
}

fn is_part(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".xdfs-"))
}

/// Temporary names below a directory.
fn parts_below(directory: &Path) -> Vec<PathBuf> {
    names_below(directory).into_iter().filter(|path| is_part(path)).collect()
}

/// A tree of small files, and some that are resumed.
fn write_tree(scene: &Scene, small: usize) {
    for number in 0..small {
        scene.write(format!("tree/d{}/f{number}", number % 3), &pattern(1000 + number * 7, 1));
    }
    for name in ["large", "d1/large"] {
        scene.write(format!("tree/{name}"), &pattern(3_000_001, 9));
    }
}

/// Kills an upload of a tree several times, at moments that depend on what has arrived, and lets it end then. Returns how
/// often a kill has left something.
fn leaves_nothing(server: &FtpServer, (scene, small): (&Scene, usize), words: &[&str], seed: u64) -> usize {
    let (url, there) = (server.url("copy"), server.here.join("copy"));
    let words: Vec<&str> = words.iter().copied().chain(["tree", &url]).collect();
    let (mut numbers, mut left) = (Numbers(seed), 0);
    for _ in 0..KILLS {
        let copy = scene.start(&words);
        let (until, wants_part) = (Instant::now() + PATIENCE, numbers.below(3) > 0);
        let most = small * 3 / 4;
        let enough = (names_below(&there).len() + numbers.below(small / KILLS)).min(most);
        let is_time = || {
            let names = names_below(&there);
            names.len() >= enough && (!wants_part || names.iter().any(|path| is_part(path)))
        };
        while !copy.has_ended() && !is_time() {
            assert!(Instant::now() < until, "nothing arrives");
            std::thread::yield_now();
        }
        if copy.kill().code.is_some() {
            // It had ended.
            break;
        }
        left += usize::from(!parts_below(&there).is_empty());
    }
    run(scene, &words).ends_with(0);
    assert_eq!(parts_below(&there), Vec::<PathBuf>::new(), "seed {seed}");
    assert!(files_below(&there) == files_below(&scene.path("tree")), "seed {seed}");
    left
}

fn every_killed_upload_leaves_nothing(server: &FtpServer, small: usize) {
    let mut left = 0;
    for (seed, words) in [&["sync"][..], &["sync", "-P", "1"], &["cp", "-r"]].into_iter().enumerate() {
        let scene = Scene::new();
        write_tree(&scene, small);
        left += leaves_nothing(server, (&scene, small), words, seed as u64);
        std::fs::remove_dir_all(server.here.join("copy")).unwrap();
    }
    assert!(left > 0, "no kill came in the middle of a file");
}

#[test]
fn uploads_to_globus_that_are_killed_leave_nothing() {
    every_killed_upload_leaves_nothing(&FtpServer::globus(), 600);
}

#[test]
fn uploads_to_vsftpd_that_are_killed_leave_nothing() {
    every_killed_upload_leaves_nothing(&FtpServer::vsftpd(""), 120);
}

#[test]
fn uploads_to_proftpd_that_are_killed_leave_nothing() {
    every_killed_upload_leaves_nothing(&FtpServer::proftpd(""), 120);
}

#[test]
fn uploads_to_pure_ftpd_that_are_killed_leave_nothing() {
    every_killed_upload_leaves_nothing(&FtpServer::pure_ftpd(&[]), 120);
}

/// Waits until a server has some bytes under a temporary name.
fn wait_for_part(server: &FtpServer) {
    let until = Instant::now() + PATIENCE;
    let has_bytes = |path: &PathBuf| path.metadata().is_ok_and(|part| part.len() > 2 << 20);
    while !parts_below(&server.here).iter().any(has_bytes) {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::yield_now();
    }
}

#[test]
fn the_part_of_a_file_that_changed_after_the_kill_is_not_left() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    for words in [&["cp"][..], &["sync"]] {
        scene.write("tree/f", &pattern(16 << 20, 6));
        let (source, url) = if words == ["cp"] { ("tree/f", slow.url("f")) } else { ("tree", slow.url("copy")) };
        let words = [words, &[source, &url]].concat();
        let copy = scene.start(&words);
        wait_for_part(&slow);
        copy.kill();
        assert_eq!(parts_below(&slow.here).len(), 1);
        let other = pattern(2 << 20, 7);
        scene.write("tree/f", &other);
        run(&scene, &words).ends_with(0);
        assert_eq!(parts_below(&slow.here), Vec::<PathBuf>::new(), "{words:?}");
        let file = if source == "tree" { "copy/f" } else { "f" };
        assert!(slow.read(file) == other);
    }
}

#[test]
fn uploads_of_a_file_at_the_same_time_end_with_a_whole_one() {
    // Long enough that a part is seen: globus knows no limit.
    for (server, size) in [
        (FtpServer::globus(), 100_000_000),
        (FtpServer::vsftpd("anon_max_rate=20000000\n"), 20_000_000),
        (FtpServer::proftpd("TransferRate STOR 20000\n"), 20_000_000),
    ] {
        let scene = Scene::new();
        let contents = [pattern(size, 1), pattern(size, 2)];
        scene.write("f", &contents[0]);
        scene.write("g", &contents[1]);
        let url = server.url("f");
        for _ in 0..3 {
            // Twice the same one, with another number of connections, and another one of somebody else.
            let first = scene.start(["cp", "f", &url]);
            wait_for_part(&server);
            let second = scene.start(["cp", "-P", "1", "f", &url]);
            let other = xdfs_test_cli::Running::start(scene.command_as("other", ["cp", "g", &url]));
            for copy in [first, second, other] {
                let copied = copy.wait();
                copied.ends_with(0);
                assert!(!copied.messages.contains("no temporary names"), "{}", copied.messages);
            }
            assert!(contents.contains(&server.read("f")));
            assert_eq!(server.names(), ["f"]);
            std::fs::remove_file(server.here.join("f")).unwrap();
        }
    }
}

#[test]
fn what_another_command_is_writing_is_not_removed() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    scene.write("f", &pattern(12 << 20, 6));
    scene.write("g", b"small");
    let (url, beside) = (slow.url("f"), slow.url("g"));
    let copy = scene.start(["cp", "f", &url]);
    wait_for_part(&slow);
    let part = parts_below(&slow.here);
    run(&scene, &["cp", "g", &beside]).ends_with(0);
    assert_eq!(parts_below(&slow.here), part);
    copy.wait().ends_with(0);
    assert!(slow.read("f") == scene.read("f"));
    assert_eq!(slow.names(), ["f", "g"]);
    assert_eq!(
        scene.names("home-somebody/state/xdfs/ftp-uploads"),
        Vec::<String>::new(),
        "nothing is recorded any more"
    );
}
