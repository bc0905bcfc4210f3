//! This version beside an earlier one: every scenario runs with each of the two as the client and the other as the server.
//! `XDFS_BINARY` is this version, `XDFS_EARLIER_BINARY` the other; `xtask long compat` builds both. It ends with a panic at the first
//! difference.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use xdfs_test_cli::{Outcome, Relay, Running, Scene, Server, pattern, xdfs_binary};

/// A file over several channels, markers included.
const SIZE: usize = 48 << 20;
/// So much has passed when an attempt is killed.
const PASSED: u64 = 24 << 20;

/// Who plays which part.
#[derive(Clone, Copy)]
struct Cast<'a> {
    client: &'a Path,
    server: &'a Path,
}

fn main() {
    let earlier = PathBuf::from(std::env::var_os("XDFS_EARLIER_BINARY").expect("XDFS_EARLIER_BINARY names a binary"));
    let this = xdfs_binary();
    for (name, cast) in [
        ("this client, earlier server", Cast { client: this, server: &earlier }),
        ("earlier client, this server", Cast { client: &earlier, server: this }),
    ] {
        for (scenario, play) in SCENARIOS {
            play(cast);
            println!("{name}: {scenario}");
        }
    }
    for (name, first, second) in [("this", &*earlier, this), ("the earlier version", this, &*earlier)] {
        for both in [false, true] {
            continues(first, second, both);
            println!("{name} continues what the other was killed in{}", if both { ", at both ends" } else { "" });
        }
    }
}

type Scenario = (&'static str, fn(Cast));

const SCENARIOS: &[Scenario] = &[
    ("a file up and down at every level and with every check", file),
    ("a tree up, compared, changed and down", tree),
    ("calls on names", names),
];

impl Cast<'_> {
    fn serve(self, scene: &Scene) -> Server {
        scene.directory("server");
        let words = ["serve", "--json", "--listen", "127.0.0.1:0"];
        let options = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
        let server = Server::start(scene.command_of(self.server, "server", words), &options);
        scene.trust(server.address(), &server);
        server
    }

    fn run<S: AsRef<OsStr>>(self, scene: &Scene, words: impl IntoIterator<Item = S>) -> Outcome {
        Running::start(scene.command_of(self.client, "somebody", words)).wait()
    }
}

fn file(cast: Cast) {
    let scene = Scene::new();
    let server = cast.serve(&scene);
    let content = pattern(SIZE / 4, 1);
    scene.write("source", &content);
    for level in ["clear", "integrity", "private"] {
        for verify in ["none", "hash", "reread"] {
            let options = ["--protection", level, "--verify", verify, "-P", "4"];
            let name = format!("{level}-{verify}");
            let url = server.url(&name);
            cast.run(&scene, ["cp", "source", &url].iter().chain(&options)).ends_with(0);
            assert!(scene.read(format!("server/{name}")) == content, "{name}");
            cast.run(&scene, ["cp", &url, "back"].iter().chain(&options)).ends_with(0);
            assert!(scene.read("back") == content, "{name}");
        }
    }
    assert_eq!(server.stop(), Some(0));
}

fn tree(cast: Cast) {
    let scene = Scene::new();
    let server = cast.serve(&scene);
    for index in 0..300_usize {
        let content = pattern(index * index * 3, index as u64 + 1);
        scene.write(format!("tree/{}/{index}", index % 17), &content);
    }
    symlink("3/3", scene.path("tree/link")).expect("a link can be made");
    let url = server.url("copy");
    cast.run(&scene, ["cp", "-r", "-P", "4", "tree", &url]).ends_with(0);
    same_tree(&scene.path("tree"), &scene.path("server/copy"));
    scene.write("tree/3/3", b"changed");
    std::fs::remove_file(scene.path("tree/5/5")).expect("the file is there");
    cast.run(&scene, ["sync", "--delete", "tree", &url]).ends_with(0);
    same_tree(&scene.path("tree"), &scene.path("server/copy"));
    cast.run(&scene, ["sync", "--delete", &url, "back"]).ends_with(0);
    same_tree(&scene.path("tree"), &scene.path("back"));
    assert_eq!(server.stop(), Some(0));
}

fn names(cast: Cast) {
    let scene = Scene::new();
    let server = cast.serve(&scene);
    let url = |name: &str| server.url(name);
    scene.write("source", b"content");
    cast.run(&scene, ["mkdir", &url("a")]).ends_with(0);
    cast.run(&scene, ["cp", "source", &url("a/b")]).ends_with(0);
    cast.run(&scene, ["mv", &url("a/b"), &url("a/c")]).ends_with(0);
    cast.run(&scene, ["ln", "-s", "c", &url("a/d")]).ends_with(0);
    assert_eq!(cast.run(&scene, ["cat", &url("a/c")]).ends_with(0).output, b"content");
    assert_eq!(cast.run(&scene, ["ls", &url("a")]).ends_with(0).text(), "c\nd\n");
    let sum = cast.run(&scene, ["sum", &url("a/c")]);
    assert!(sum.ends_with(0).text().starts_with(&blake3::hash(b"content").to_string()));
    cast.run(&scene, ["rm", "-r", &url("a")]).ends_with(0);
    assert!(scene.names("server").is_empty());
    assert_eq!(server.stop(), Some(0));
}

/// An upload of the `first` version is killed; the `second` repeats the command, at the client or at `both` ends.
fn continues(first: &Path, second: &Path, both: bool) {
    let scene = Scene::new();
    let content = pattern(SIZE, 2);
    scene.write("source", &content);
    scene.write("server/file", b"old");
    let server = Cast { client: first, server: first }.serve(&scene);
    let relay = Relay::holding(&server, 1, PASSED);
    let url = relay.url("file");
    let killed = Running::start(scene.command_of(first, "somebody", ["cp", "-P", "1", "source", &url]));
    relay.wait_until_held();
    killed.kill();
    assert_eq!(scene.read("server/file"), b"old");
    let server = if both {
        server.kill();
        Cast { client: second, server: second }.serve(&scene)
    } else {
        server
    };
    let url = server.url("file");
    Running::start(scene.command_of(second, "somebody", ["cp", "-P", "4", "source", &url])).wait().ends_with(0);
    assert!(scene.read("server/file") == content);
    assert_eq!(server.stop(), Some(0));
}

/// Kinds, names, modes, times of regular files, targets of links and content.
fn same_tree(left: &Path, right: &Path) {
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).expect("a directory can be listed");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(left), names(right), "{} and {}", left.display(), right.display());
    for name in names(left) {
        let (left, right) = (left.join(&name), right.join(&name));
        let (one, other) = (status(&left), status(&right));
        assert_eq!(
            (one.mode(), one.mtime(), one.mtime_nsec()),
            (other.mode(), other.mtime(), other.mtime_nsec()),
            "{}",
            right.display()
        );
        if one.is_dir() {
            same_tree(&left, &right);
        } else if one.is_symlink() {
            assert_eq!(std::fs::read_link(&left).expect("a link"), std::fs::read_link(&right).expect("a link"));
        } else {
            let read = |path: &Path| std::fs::read(path).expect("a file can be read");
            assert!(read(&left) == read(&right), "{}", right.display());
        }
    }
}

fn status(path: &Path) -> std::fs::Metadata {
    std::fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
