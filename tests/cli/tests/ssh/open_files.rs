//! Files that are used where they are: a mount, and a log that is followed.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use rustix::process::Signal;
use xdfs_test_cli::Scene;

use super::sshd::Sshd;
use super::{start, url, wait_until};

#[test]
fn a_directory_is_mounted_over_ssh_with_the_rights_that_one_has_there() {
    assert!(xdfs_test_needs::root("only root mounts without a helper"));
    for host in ["box", "piped"] {
        let scene = Scene::new();
        let _sshd = Sshd::start(&scene, "");
        scene.write("there/a", b"content");
        let point = scene.directory("mounted");
        let words = ["mount", "--foreground", &url(&scene, host, "there"), point.to_str().unwrap()];
        let mount = start(&scene, &words);
        let device = |name: &str| scene.path(name).metadata().ok().map(|found| found.dev());
        let above = device("");
        wait_until("mounting", || device("mounted").is_some_and(|here| Some(here) != above));
        assert_eq!(fs::read(point.join("a")).unwrap(), b"content");
        fs::create_dir(point.join("d")).unwrap();
        fs::write(point.join("d/b"), vec![7; 3 << 20]).unwrap();
        fs::rename(point.join("d/b"), point.join("c")).unwrap();
        assert!(fs::symlink_metadata(point.join("d/b")).is_err());
        mount.signal(Signal::TERM);
        mount.wait().ends_with(0);
        assert_eq!(scene.names("there"), ["a", "c", "d"], "{host}");
        assert!(scene.read("there/c") == [7; 3 << 20], "{host}");
    }
}

#[test]
fn a_log_is_followed_over_ssh() {
    for host in ["box", "piped"] {
        let scene = Scene::new();
        let _sshd = Sshd::start(&scene, "");
        let path = scene.write("log", b"begun");
        let words = ["cat", &Sshd::option(&scene), "--follow", "--length", "9", &url(&scene, host, "log")];
        let mut child = scene.command(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut begun = [0; 5];
        output.read_exact(&mut begun).unwrap();
        OpenOptions::new().append(true).open(path).unwrap().write_all(b" end").unwrap();
        let mut end = Vec::new();
        output.read_to_end(&mut end).unwrap();
        assert_eq!((&begun, end.as_slice(), child.wait().unwrap().code()), (b"begun", &b" end"[..], Some(0)), "{host}");
    }
}
