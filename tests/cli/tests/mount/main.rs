//! `xdfs mount`: a directory of a real server, used by real programs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod coherence;
mod commands;
mod kernel;
mod killed;
mod leases;
mod losses;
mod memory;
mod posix;
mod programs;
mod rows;
mod signals;
#[cfg(feature = "long")]
mod suites;
mod syncs;
mod torture;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Outcome, Running, Scene, Server};

/// The directory `mounted` of a scene, on which the export `data` of a server is mounted.
#[derive(Debug)]
struct Mount {
    running: Option<Running>,
    point: PathBuf,
}

/// Whether something is mounted on a directory.
fn is_mounted(point: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let (here, above) = (device(point), device(point.parent().unwrap()));
    here.is_some() && here != above
}

impl Mount {
    fn new(scene: &Scene, server: &Server, options: &[&str]) -> Self {
        Self::of(scene, &server.url(""), "mounted", options)
    }

    fn of(scene: &Scene, url: &str, name: &str, options: &[&str]) -> Self {
        assert!(xdfs_test_needs::root("only root mounts without a helper"));
        let point = scene.directory(name);
        let words = [&["mount", "--foreground", url, point.to_str().unwrap()], options].concat();
        let mount = Self { running: Some(scene.start(words)), point };
        while !is_mounted(&mount.point) {
            if mount.running().has_ended() {
                panic!("{:?}", mount.end());
            }
            std::thread::yield_now();
        }
        mount
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Waits until its process ends.
    fn end(mut self) -> Outcome {
        self.running.take().unwrap().wait()
    }

    /// Ends it as a user does.
    fn unmount(self) {
        self.running().signal(Signal::TERM);
        self.end().ends_with(0).is_silent();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.kill();
        }
        // A stale one, too; where there is none it fails.
        let _ = Command::new("umount").args(["--lazy", "--quiet"]).arg(&self.point).status();
    }
}

/// Runs a script of a shell in a directory; it must succeed.
#[track_caller]
fn shell(directory: &Path, script: &str) -> String {
    run(Command::new("sh").args(["-ec", script]).current_dir(directory))
}

/// The same for Python.
#[track_caller]
fn python(directory: &Path, script: &str) -> String {
    run(Command::new("python3").args(["-c", script]).current_dir(directory))
}

#[track_caller]
/// Unmounts with another program. What another test starts has the files that this process has open, for a moment.
fn unmount_by(words: &[&str], point: &Path) {
    let began = Instant::now();
    loop {
        let output = Command::new(words[0]).args(&words[1..]).arg(point).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return;
        }
        assert!(text.contains("busy") && began.elapsed() < Duration::from_secs(2), "{words:?}: {text}");
    }
}

fn run(command: &mut Command) -> String {
    let home = std::env::temp_dir();
    let output = command.env("HOME", home).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complained}", output.status);
    said.into_owned()
}
