//! Commands on a terminal of their own, with somebody who reads what they show and types.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for words. Far above what any test needs, so only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(60);

/// What was shown so far, and whether that is all.
#[derive(Debug, Default)]
struct Screen {
    shown: Mutex<(Vec<u8>, bool)>,
    changed: Condvar,
}

/// A command on a pseudo-terminal, which `script` makes: it has no other way to ask than a person's. Killed when this
/// value goes.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Screen>,
}

impl Terminal {
    /// Runs `command` with a terminal of its own.
    pub fn start(command: &Command) -> Self {
        let mut line = quoted(command.get_program());
        for word in command.get_args() {
            line = format!("{line} {}", quoted(word));
        }
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        script.env("SHELL", "/bin/sh").current_dir(command.get_current_dir().expect("it runs in the scene"));
        let mut child = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("script: {error}"));
        let keys = child.stdin.take().expect("its standard input is a pipe");
        let mut output = child.stdout.take().expect("its standard output is a pipe");
        let screen = Arc::new(Screen::default());
        let reader = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                let count = output.read(&mut piece).unwrap_or(0);
                let mut shown = reader.shown.lock().unwrap_or_else(PoisonError::into_inner);
                shown.0.extend(&piece[..count]);
                shown.1 = count == 0;
                drop(shown);
                reader.changed.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Self { child, keys, screen }
    }

    /// Waits until `words` are on the screen.
    #[track_caller]
    pub fn expect(&self, words: &str) {
        self.expect_times(words, 1);
    }

    /// Waits until `words` are on the screen so many times.
    #[track_caller]
    pub fn expect_times(&self, words: &str, times: usize) {
        let shown = self.screen.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |shown: &mut (Vec<u8>, bool)| !shown.1 && count(&shown.0, words) < times;
        let (shown, _) =
            self.screen.changed.wait_timeout_while(shown, DEADLINE, missing).unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&shown.0);
        assert!(count(&shown.0, words) >= times, "'{words}' is not there {times} time(s): {text}");
    }

    /// Forgets what was shown so far: it is not found again.
    pub fn forget(&self) {
        self.screen.shown.lock().unwrap_or_else(PoisonError::into_inner).0.clear();
    }

    /// Types a line.
    pub fn type_line(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\r").as_bytes()).expect("the terminal reads");
    }

    /// Types a key.
    pub fn type_key(&mut self, key: u8) {
        self.keys.write_all(&[key]).expect("the terminal reads");
    }

    /// Waits for the end: the exit code, and all that was shown.
    #[track_caller]
    pub fn wait(mut self) -> (Option<i32>, String) {
        let shown = self.screen.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (shown, waited) = self
            .screen
            .changed
            .wait_timeout_while(shown, DEADLINE, |shown| !shown.1)
            .unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&shown.0).into_owned();
        assert!(!waited.timed_out(), "it did not end within {DEADLINE:?}: {text}");
        drop(shown);
        (self.child.wait().expect("it can be waited for").code(), text)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(shown: &[u8], words: &str) -> usize {
    shown.windows(words.len()).filter(|window| *window == words.as_bytes()).count()
}

/// A word as a shell reads it.
fn quoted(word: &OsStr) -> String {
    let text = String::from_utf8(word.as_bytes().to_vec()).expect("words of these tests are UTF-8");
    format!("'{}'", text.replace('\'', "'\\''"))
}
