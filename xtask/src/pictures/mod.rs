//! The pictures of the README: what terminals show while the program copies, recorded from real runs.
//!
//! `script` makes the terminals, of a fixed size. What they show is measured, so that figures differ
//! from run to run.

mod screen;
mod svg;

use crate::{Failure, Outcome, process, tree};
use screen::Screen;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use svg::Frame;

const COLUMNS: usize = 80;
const ROWS: usize = 12;

/// Time between two frames: a reader can follow.
const FRAME_MS: u64 = 400;

/// The file that is copied, and how fast: it takes some seconds.
const SIZE: u64 = 1_500_000_000;
const COPY: [&str; 5] = ["cp", "--bwlimit", "200M", "big.dat", "lab:"];

/// Where the copy is interrupted that is resumed, in percent.
const INTERRUPTED_AT: u64 = 40;

/// Records the pictures with this program.
pub(crate) fn record(program: &Path) -> Outcome {
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let stage = Stage::new(&program)?;
    let folder = tree::root().join("docs/pictures");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut recording = Recording::default();
    stage.run(&mut recording, false)?;
    recording.save(&folder.join("copy.svg"), "a large file is copied to a server")?;
    stage.clear()?;
    let mut recording = Recording::default();
    stage.run(&mut recording, true)?;
    stage.run(&mut recording, false)?;
    recording.save(&folder.join("resume.svg"), "a copy is interrupted, and the same command continues it")?;
    Ok(format!("pictures: recorded in {}", folder.display()))
}

/// A directory with a file, a server and a configuration that knows it. Everything ends with this value.
struct Stage {
    directory: PathBuf,
    program: PathBuf,
    server: Child,
}

impl Stage {
    fn new(program: &Path) -> Result<Self, Failure> {
        // In memory, where there is such a place: no disk is to be measured.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = base.join(format!("xdfs-pictures-{}", std::process::id()));
        let failed = |error: std::io::Error| Failure(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(directory.join("server")).map_err(failed)?;
        std::fs::create_dir_all(directory.join(".config/xdfs")).map_err(failed)?;
        let file = std::fs::File::create(directory.join("big.dat")).map_err(failed)?;
        file.set_len(SIZE).map_err(failed)?;
        let mut server = Command::new(program);
        server.args(["serve", "--json", "--quiet", "--listen", "127.0.0.1:0", "--export", "data=server"]);
        server.args(["--allow-anonymous", "rw"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let server = at_home(&mut server, &directory).spawn().map_err(failed)?;
        let mut stage = Self { program: program.to_owned(), server, directory: directory.clone() };
        let mut line = String::new();
        let output = stage.server.stdout.take().ok_or("the server has no output")?;
        BufReader::new(output).read_line(&mut line).map_err(failed)?;
        let ready: serde_json::Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let mut pin = Command::new(program);
        pin.args(["trust", "pin"]).args(["address", "host_key"].map(|key| ready[key].as_str().unwrap_or_default()));
        process::output(at_home(&mut pin, &directory))?;
        let config = format!("[hosts.lab]\naddress = {}\nexport = \"data\"\n", ready["address"]);
        std::fs::write(directory.join(".config/xdfs/config"), config).map_err(failed)?;
        Ok(stage)
    }

    fn clear(&self) -> Result<(), Failure> {
        std::fs::remove_file(self.directory.join("server/big.dat")).map_err(|error| error.to_string().into())
    }

    /// Runs the copy in a terminal, and interrupts it on the way where that is wanted.
    fn run(&self, recording: &mut Recording, interrupt: bool) -> Result<(), Failure> {
        recording.typed(&format!("xdfs {}", COPY.join(" ")));
        let line = format!("stty cols {COLUMNS} rows {ROWS}; exec '{}' {}", self.program.display(), COPY.join(" "));
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
        script.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script =
            at_home(&mut script, &self.directory).spawn().map_err(|error| format!("script (util-linux): {error}"))?;
        let (mut keys, mut output) = (script.stdin.take(), script.stdout.take().ok_or("no output")?);
        let mut piece = [0; 4096];
        let mut pressed = false;
        loop {
            let count = output.read(&mut piece).map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            recording.shown(&piece[..count]);
            let reached = recording.screen.lines().last().and_then(|line| percent(line));
            if interrupt && !pressed && reached.is_some_and(|percent| percent >= INTERRUPTED_AT) {
                pressed = true;
                keys.as_mut().ok_or("no keys")?.write_all(b"\x03").map_err(|error| error.to_string())?;
            }
        }
        script.wait().map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Each fails only if it is gone already.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// How much is done, as a bar tells it.
fn percent(line: &str) -> Option<u64> {
    line.split_once('%')?.0.split_whitespace().last()?.parse().ok()
}

/// With nothing of whoever records.
fn at_home<'c>(command: &'c mut Command, home: &Path) -> &'c mut Command {
    for name in ["XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "XDFS_IDENTITY", "XDFS_TOKEN", "XDFS_TOKEN_FILE"] {
        command.env_remove(name);
    }
    command.current_dir(home).env("HOME", home).env("XDG_STATE_HOME", home.join("state")).env("TERM", "xterm")
}

/// Frames, each with its time.
struct Recording {
    screen: Screen,
    frames: Vec<Frame>,
    started: Instant,
}

impl Default for Recording {
    fn default() -> Self {
        Self { screen: Screen::new(COLUMNS), frames: Vec::new(), started: Instant::now() }
    }
}

impl Recording {
    fn typed(&mut self, line: &str) {
        self.shown(format!("$ {line}\r\n").as_bytes());
        self.take();
    }

    fn shown(&mut self, bytes: &[u8]) {
        self.screen.write(bytes);
        let now = self.now();
        if self.frames.last().is_none_or(|last| now >= last.at_ms + FRAME_MS) {
            self.take();
        }
    }

    fn now(&self) -> u64 {
        // In steps, which makes the picture smaller.
        self.started.elapsed().as_millis() as u64 / 100 * 100
    }

    fn take(&mut self) {
        let frame = Frame { at_ms: self.now(), lines: self.screen.lines() };
        if self.frames.last().is_none_or(|last| last.lines != frame.lines) {
            self.frames.push(frame);
        }
    }

    fn save(mut self, path: &Path, title: &str) -> Result<(), Failure> {
        self.take();
        let picture = svg::draw(title, COLUMNS, &self.frames);
        std::fs::write(path, picture).map_err(|error| format!("{}: {error}", path.display()).into())
    }
}

/// Builds the program and records with it.
pub(crate) fn record_release() -> Outcome {
    process::run(&mut process::cargo(&["build", "--release", "--package", "xdfs"]))?;
    record(&tree::root().join("target/release/xdfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_pictures_that_there_are() {
        let readme = std::fs::read_to_string(tree::root().join("README.md")).expect("it is there");
        for name in ["copy", "resume"] {
            let path = format!("docs/pictures/{name}.svg");
            assert!(readme.contains(&format!("]({path})")), "{path}");
            let picture = std::fs::read_to_string(tree::root().join(&path)).expect("it is recorded");
            assert!(picture.contains("xdfs cp ") && picture.contains('%') && picture.ends_with("</svg>\n"), "{path}");
        }
        let resumed = std::fs::read_to_string(tree::root().join("docs/pictures/resume.svg")).expect("it is recorded");
        assert!(resumed.contains("resumes at "), "it shows where the copy goes on");
    }
}
