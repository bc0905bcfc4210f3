//! A fresh directory, and commands that run in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Outcome, Running, Server, Terminal, xdfs_binary};

/// Where part files and journals are.
pub const STAGING: &str = ".xdfs-staging";

/// Where a server listens unless it is told otherwise. No client has a port of this address, so that none takes the
/// one of a server that is started again; another server is unlikely to.
pub const LISTEN: &str = "127.0.0.2:0";

/// A directory of a test's own; removed when the test passes, kept when it fails.
#[derive(Debug)]
pub struct Scene {
    directory: TempDir,
    /// Through which drivers the channels of its commands pass.
    stacks: Option<Stacks>,
}

/// The same drivers as both ends name them.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// What stands behind `?stack=` in the address of a server.
    pub server: String,
    /// What `--stack` gets.
    pub client: String,
}

/// Commands that connect to servers of xdfs.
const CONNECTING: [&str; 16] = [
    "cat", "chmod", "cp", "df", "du", "find", "ln", "ls", "mkdir", "mount", "mv", "rm", "stat", "sum", "sync", "touch",
];

/// Where a server's command says to [`Server::start`] what its stack is.
pub(crate) const STACK_OF_SERVER: &str = "TEST_STACK_OF_SERVER";

/// `words` with the stack behind each address to listen at.
pub(crate) fn listening_over(words: &mut [OsString], stack: &OsStr) {
    for at in 1..words.len() {
        if words[at - 1] == "--listen" {
            words[at].push("?stack=");
            words[at].push(stack);
        }
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// A fresh directory below the temporary directory.
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// A fresh directory below `base`. Its name is random: a process id is used again within the hour, and then a
    /// directory that a failed test kept would be in the way.
    pub fn below(base: &Path) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("xdfs-test-")
            // Tests run commands as other users.
            .permissions(PermissionsExt::from_mode(0o755))
            .tempdir_in(base)
            .unwrap_or_else(|error| panic!("{}: {error}", base.display()));
        Self { directory, stacks: None }
    }

    /// The same, with drivers below every channel.
    pub fn over(stacks: &Stacks) -> Self {
        let mut scene = Self::new();
        scene.stacks = Some(stacks.clone());
        scene
    }

    /// The path of `name` in the scene.
    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory.path().join(name.as_ref())
    }

    /// Makes a file, and the directories that it needs.
    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory can be made");
        std::fs::write(&path, content).expect("a file can be made");
        path
    }

    /// The content of a file.
    #[track_caller]
    pub fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        let path = self.path(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The objects of a file of JSON lines that somebody may be writing to: the kernel may show a line up to the end of a page
    /// before it shows the rest, so one without its line break is not there yet.
    #[track_caller]
    pub fn json_lines(&self, name: impl AsRef<OsStr>) -> Vec<Value> {
        let text = String::from_utf8(self.read(name)).expect("JSON is UTF-8");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
    }

    /// Makes a directory.
    pub fn directory(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        path
    }

    /// The names in a directory, hidden ones and leftovers included, in order; of a staging directory what is in it, if anything.
    pub fn names(&self, directory: impl AsRef<OsStr>) -> Vec<String> {
        let directory = self.path(directory);
        let in_directory = |path: &Path| -> Vec<String> {
            // It may go while it is looked at.
            let entries = std::fs::read_dir(path).into_iter().flatten();
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
        };
        assert!(directory.is_dir(), "{} is there", directory.display());
        let mut names = in_directory(&directory);
        if let Some(staging) = names.iter().position(|name| name == STAGING) {
            let staged = in_directory(&directory.join(STAGING));
            if !staged.is_empty() {
                names.swap_remove(staging);
            }
            names.extend(staged.into_iter().map(|name| format!("{STAGING}/{name}")));
        }
        names.sort();
        names
    }

    /// Lets nobody else enter a directory.
    pub fn make_private(&self, directory: &str) {
        let mode = PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(self.path(directory), mode).expect("our own");
    }

    /// `xdfs` with `words`, to run in the scene.
    pub fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        self.command_as("somebody", words)
    }

    /// The same where it may have this many files open.
    pub fn limited(&self, files: u32, words: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $1 && shift && exec \"$@\"", "sh", &files.to_string()]);
        command.arg(xdfs_binary()).args(words).current_dir(self.path("."));
        self.dress("somebody", &mut command);
        command
    }

    /// The same as another person: with a home of theirs, where their keys and known servers are, and nothing of whoever
    /// runs the tests.
    pub fn command_as<S: AsRef<OsStr>>(&self, person: &str, words: impl IntoIterator<Item = S>) -> Command {
        self.command_of(xdfs_binary(), person, words)
    }

    /// The same with another `binary` than the one under test, for instance that of an earlier version.
    pub fn command_of<S: AsRef<OsStr>>(
        &self,
        binary: &Path,
        person: &str,
        words: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(binary);
        let mut words: Vec<_> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        if let (Some(stacks), Some(first)) = (&self.stacks, words.first().cloned()) {
            if first == "serve" {
                listening_over(&mut words, stacks.server.as_ref());
                command.env(STACK_OF_SERVER, &stacks.server);
            } else if CONNECTING.iter().any(|name| first == *name) && words.iter().all(|word| word != "--stack") {
                words.splice(1..1, ["--stack".into(), stacks.client.clone().into()]);
            }
        }
        command.args(words).current_dir(self.directory.path());
        self.dress(person, &mut command);
        command
    }

    /// Gives any command the surroundings of a person.
    pub fn dress(&self, person: &str, command: &mut Command) {
        let home = self.path(format!("home-{person}"));
        command.env("HOME", &home).env("XDG_STATE_HOME", home.join("state")).env("USER", person);
        for name in [
            "XDG_CONFIG_HOME",
            "SSH_AUTH_SOCK",
            "XDFS_IDENTITY",
            "XDFS_TOKEN",
            "XDFS_TOKEN_FILE",
            "XDFS_PASSWORD_FILE",
            "NETRC",
            "X509_CERT_DIR",
            "X509_USER_CERT",
            "X509_USER_KEY",
        ] {
            command.env_remove(name);
        }
        // The machine may have a proxy of this user's in the usual place.
        command.env("X509_USER_PROXY", "");
    }

    /// A path below the home of `person`.
    pub fn home(&self, person: &str, name: &str) -> PathBuf {
        self.path(format!("home-{person}/{name}"))
    }

    /// Runs `xdfs` with `words` as `person`, to its end.
    #[track_caller]
    pub fn run_as<S: AsRef<OsStr>>(&self, person: &str, words: impl IntoIterator<Item = S>) -> Outcome {
        Running::start(self.command_as(person, words)).wait()
    }

    /// Starts `xdfs` with `words` as `person`, on a terminal.
    pub fn terminal_as<S: AsRef<OsStr>>(&self, person: &str, words: impl IntoIterator<Item = S>) -> Terminal {
        Terminal::start(&self.command_as(person, words))
    }

    /// Starts `xdfs` with `words`.
    pub fn start<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Running {
        Running::start(self.command(words))
    }

    /// Runs `xdfs` with `words` to its end.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Outcome {
        self.start(words).wait()
    }

    /// Starts a server that offers the directory `server` of the scene as the export `data`, to everybody.
    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// The same with more options. Visitors may do everything unless the options say otherwise: most tests are about what
    /// moves, and not about who moves it. Its key is known to everybody who runs commands in the scene.
    pub fn serve_with(&self, options: &[&str]) -> Server {
        self.directory("server");
        let mut words = vec!["--quiet", "--export", "data=server"];
        if !options.contains(&"--allow-anonymous") {
            words.extend(["--allow-anonymous", "rw"]);
        }
        if !options.contains(&"--listen") {
            words.extend(["--listen", LISTEN]);
        }
        words.extend(options);
        let server = Server::start(self.command(["serve", "--json"]), &words);
        self.trust(server.address(), &server);
        server
    }

    /// A server whose visitors read, and who has the user `name` with a new key of `person`.
    #[track_caller]
    pub fn serve_for(&self, person: &str, name: &str) -> Server {
        let key = self.run_as(person, ["key", "create"]);
        self.write("key.pub", key.ends_with(0).text().as_bytes());
        self.run(["user", "add", name, "--key", "key.pub"]).ends_with(0);
        self.serve_with(&["--allow-anonymous", "ro"])
    }

    /// Makes `address` known as the server's; it may be that of a relay.
    #[track_caller]
    pub fn trust(&self, address: &str, server: &Server) {
        self.run(["trust", "pin", address, server.host_key()]).ends_with(0);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            eprintln!("the files of this test are kept in {}", self.directory.path().display());
        }
    }
}

/// `length` bytes in which no block of any size equals another, others for each `seed`.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // Xorshift: quick, and its period is longer than any file here.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
