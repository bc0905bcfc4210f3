//! Several copies of one tree to one place at the same time, of real programs that do not wait for one another.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode};
use xdfs_test_cli::{Running, Scene, pattern};

use super::judge::{plant, same};

/// Copies that run at the same time.
const COPIES: [usize; 3] = [2, 3, 4];

fn rounds() -> usize {
    std::env::var("XDFS_TOGETHER").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Links, second names, pipes, and files of every size.
fn everything(scene: &Scene, top: &str) {
    plant(scene, top, 60, 1);
    for number in 0..40 {
        let at = |name: &str| scene.path(format!("{top}/links/{}/{name}-{number}", number % 4));
        scene.write(at("file"), format!("file {number}").as_bytes());
        symlink(format!("to-{number}"), at("link")).expect("a link");
        std::fs::hard_link(at("file"), at("second")).expect("a second name");
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).expect("a pipe");
        std::fs::hard_link(at("fifo"), at("another")).expect("a second name");
    }
    for number in 0..3 {
        scene.write(format!("{top}/large-{number}"), &pattern(3 << 20, number));
    }
}

/// All at once, until each has ended.
#[track_caller]
fn all_at_once(scene: &Scene, copies: usize, words: &[&str]) {
    let running: Vec<Running> = (0..copies).map(|_| scene.start(words)).collect();
    for one in running {
        let outcome = one.wait();
        outcome.ends_with(0);
        assert!(!outcome.messages.contains("exists"), "{}", outcome.messages);
    }
}

#[test]
fn copies_that_send_the_same_tree_at_once_all_succeed() {
    let scene = Scene::new();
    everything(&scene, "tree");
    let server = scene.serve_with(&["--keep", "modes,owner,acl,xattr,special"]);
    for round in 0..rounds() {
        for copies in COPIES {
            let url = server.url(&format!("copy-{copies}-{round}"));
            all_at_once(&scene, copies, &["sync", "-a", "tree", &url]);
            same(&scene, "tree", &format!("server/copy-{copies}-{round}"), true);
        }
    }
}

#[test]
fn copies_that_fetch_the_same_tree_at_once_all_succeed() {
    let scene = Scene::new();
    everything(&scene, "server/tree");
    let server = scene.serve();
    for round in 0..rounds() {
        for copies in COPIES {
            let copy = format!("copy-{copies}-{round}");
            all_at_once(&scene, copies, &["sync", "-a", &server.url("tree"), &copy]);
            same(&scene, "server/tree", &copy, true);
        }
    }
}
