//! The minimal client in Python: every vector, both directions over four channels at both levels, and what it is told
//! when something is wrong. What is written beside it in the same way makes calls on remote files.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use xdfs_test_cli::{Outcome, Running, Scene, Server, pattern};

const BLOCK: usize = 1 << 20;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs the client in the scene. `XDFS_PYTHON` names the interpreter that has the package it needs.
#[track_caller]
fn minimal(scene: &Scene, words: &[&str]) -> Outcome {
    python(scene, "minimal.py", words)
}

#[track_caller]
fn python(scene: &Scene, name: &str, words: &[&str]) -> Outcome {
    Running::start(interpreter(scene, name, words)).wait()
}

fn interpreter(scene: &Scene, name: &str, words: &[&str]) -> Command {
    let python = std::env::var_os("XDFS_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg("-B").arg(script(name)).args(words).current_dir(scene.path("."));
    command
}

/// Makes calls on a file of the server.
#[track_caller]
fn files(scene: &Scene, server: &Server, what: &str, name: &str, words: &[&str]) -> Outcome {
    let first = [what, server.address(), name, "--pin", server.host_key()];
    python(scene, "files.py", &[&first[..], words].concat())
}

/// The same, where it goes on after its first line until its input ends, or by itself.
struct Talking {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Talking {
    #[track_caller]
    fn start(scene: &Scene, server: &Server, what: &str, name: &str, first: &str) -> Self {
        let words = [what, server.address(), name, "--pin", server.host_key()];
        let mut command = interpreter(scene, "files.py", &words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        assert_eq!(line.trim_end(), first, "the first line of {what}");
        Self { child, output }
    }

    /// What else it said, after its input ended if that is what it waits for.
    #[track_caller]
    fn ends(mut self, input_ends: bool) -> String {
        let input = self.child.stdin.take();
        if input_ends {
            drop(input);
        }
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "it failed after {rest:?}");
        rest
    }
}

#[track_caller]
fn moves(scene: &Scene, server: &Server, length: usize, options: &[&str]) {
    let content = pattern(length, length as u64);
    scene.write("server/source", &content);
    scene.write("local", &content);
    let get = ["get", server.address(), "data/source", "copy", "--pin", server.host_key()];
    minimal(scene, &[&get[..], options].concat()).ends_with(0);
    assert!(scene.read("copy") == content, "a download of {length} bytes, {options:?}");
    let put = ["put", server.address(), "data/target", "local", "--pin", server.host_key()];
    minimal(scene, &[&put[..], options].concat()).ends_with(0);
    assert!(scene.read("server/target") == content, "an upload of {length} bytes, {options:?}");
    assert_eq!(scene.names("server"), ["source", "target"], "nothing else is left");
}

#[test]
fn a_client_written_from_the_document_agrees_with_every_vector() {
    let scene = Scene::new();
    let outcome = python(&scene, "vectors.py", &[]);
    outcome.ends_with(0);
    assert!(outcome.text().ends_with("vectors agree\n"), "{}", outcome.text());
}

/// Design rule 24. What it imports of its own would be a part of it.
#[test]
fn it_has_less_than_400_lines_in_one_file() {
    let text = std::fs::read_to_string(script("minimal.py")).expect("the script is there");
    assert!(text.lines().count() < 400, "{} lines", text.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 120), "and they are no longer than elsewhere");
    let imports = text.lines().filter_map(|line| line.strip_prefix("from ").or(line.strip_prefix("import ")));
    for import in imports {
        let module = import.split([' ', '.']).next().unwrap_or_default();
        assert!(!script(&format!("{module}.py")).exists(), "{module} is a file of its own");
    }
    assert!(!text.contains("__import__"), "nor by another way");
}

#[test]
fn it_downloads_and_uploads_over_four_channels_at_clear() {
    let scene = Scene::new();
    let server = scene.serve();
    for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 23 * BLOCK + 4097] {
        moves(&scene, &server, length, &["--channels", "4", "--level", "clear"]);
    }
}

#[test]
fn it_downloads_and_uploads_over_four_channels_at_integrity() {
    let scene = Scene::new();
    let server = scene.serve();
    for length in [0, 1, 23 * BLOCK + 4097] {
        moves(&scene, &server, length, &["--channels", "4", "--level", "integrity"]);
    }
}

#[test]
fn it_downloads_and_uploads_over_four_channels_at_private() {
    let scene = Scene::new();
    let server = scene.serve();
    for length in [0, 1, 23 * BLOCK + 4097] {
        moves(&scene, &server, length, &["--channels", "4", "--level", "private"]);
    }
}

#[test]
fn it_goes_no_further_with_a_server_whose_key_is_another() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/f", b"content");
    let other = format!("SHA256:{}", "A".repeat(43));
    minimal(&scene, &["get", server.address(), "data/f", "x", "--pin", &other]).ends_with(1).says(&["key", &other]);
    minimal(&scene, &["get", server.address(), "data/f", "x"]).ends_with(1).says(&["key"]);
}

#[test]
fn it_logs_in_by_key() {
    let scene = Scene::new();
    scene.run(["key", "create", "--out", "key"]).ends_with(0);
    scene.run(["key", "create", "--out", "other"]).ends_with(0);
    scene.run(["user", "add", "anna", "--key", "key.pub"]).ends_with(0);
    let server = scene.serve();
    moves(&scene, &server, BLOCK + 1, &["--user", "anna", "--key", "key"]);
    let words =
        ["get", server.address(), "data/source", "x", "--pin", server.host_key(), "--user", "anna", "--key", "other"];
    minimal(&scene, &words).ends_with(1).says(&["unexpected handshake message"]);
}

#[test]
fn one_channel_is_enough() {
    let scene = Scene::new();
    let server = scene.serve();
    moves(&scene, &server, 5 * BLOCK + 1, &["--channels", "1"]);
}

#[test]
fn all_of_the_channels_carry_blocks_of_an_upload() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("local", &pattern(8 * BLOCK, 5));
    let outcome = minimal(
        &scene,
        &[
            "put",
            server.address(),
            "data/target",
            "local",
            "--channels",
            "4",
            "--level",
            "clear",
            "--pin",
            server.host_key(),
        ],
    );
    outcome.ends_with(0);
    assert_eq!(outcome.text(), "4 channels, blocks on each: [4, 4, 4, 4]\n");
}

#[test]
fn it_is_told_why_something_is_refused() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--min-protection", "integrity"]);
    scene.directory("server/directory");
    let pin = server.host_key();
    minimal(&scene, &["get", server.address(), "data/missing", "x", "--pin", pin]).ends_with(1).says(&["no such file"]);
    minimal(&scene, &["get", server.address(), "data/directory", "x", "--pin", pin]).ends_with(1).says(&["directory"]);
    minimal(&scene, &["get", server.address(), "elsewhere/f", "x", "--pin", pin]).ends_with(1).says(&["elsewhere"]);
    minimal(&scene, &["get", server.address(), "data/../f", "x", "--pin", pin]).ends_with(1).says(&["'..'"]);
    // A server with a floor grants more than was asked for, and says so.
    scene.write("server/f", b"content");
    minimal(&scene, &["get", server.address(), "data/f", "copy", "--level", "clear", "--pin", pin]).ends_with(0);
    assert_eq!(scene.read("copy"), b"content");
}

#[test]
fn calls_written_from_the_document_agree_with_every_vector() {
    let scene = Scene::new();
    let vectors = script("../../vectors").display().to_string();
    let outcome = python(&scene, "files.py", &["vectors", &vectors]);
    outcome.ends_with(0);
    let files = std::fs::read_dir(Path::new(&vectors).join("calls")).expect("the vectors are there");
    let calls =
        files.filter(|file| file.as_ref().is_ok_and(|file| file.file_name().as_encoded_bytes().starts_with(b"file-")));
    assert_eq!(outcome.text(), format!("{} vectors agree\n", calls.count() + 1), "all about files, and the notice");
}

#[test]
fn it_writes_into_a_remote_file_and_reads_many_ranges_in_one_batch() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(BLOCK + 4097, 1);
    scene.write("local", &content);
    files(&scene, &server, "write", "data/f", &["0", "local"]).ends_with(0);
    assert!(scene.read("server/f") == content, "a file that was missing is what was written");
    scene.write("patch", b"other bytes");
    files(&scene, &server, "write", "data/f", &["70000", "patch"]).ends_with(0);
    let expected = [&content[..70000], b"other bytes", &content[70011..]].concat();
    assert!(scene.read("server/f") == expected, "and the rest of it stays");

    let ranges: Vec<_> = (0..300).map(|at| (at * 3500, at + 1)).collect();
    let words: Vec<_> = ranges.iter().map(|(offset, length)| format!("{offset}+{length}")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).chain(["1052600+5000", "9999999+1"]).collect();
    let first = ["read", server.address(), "data/f", "--pin", server.host_key()];
    let outcome = interpreter(&scene, "files.py", &[&first[..], &words].concat()).output().expect("python starts");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let parts = ranges.iter().map(|(offset, length)| &expected[*offset..offset + length]);
    let parts: Vec<_> = parts.chain([&expected[1_052_600..]]).collect();
    assert!(outcome.stdout == parts.concat(), "300 ranges, one that the end cuts off, and one behind it");
}

#[test]
fn an_append_says_where_it_went() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("line", b"a line\n");
    for offset in ["0\n", "7\n", "14\n"] {
        let outcome = files(&scene, &server, "append", "data/log", &["line"]);
        outcome.ends_with(0);
        assert_eq!(outcome.text(), offset);
    }
    assert_eq!(scene.read("server/log"), b"a line\n".repeat(3));
}

#[test]
fn its_lock_excludes_the_command_and_another_session_until_it_ends() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/f", b"content");
    let url = format!("xdfs://{}/data/f#{}", server.address(), server.host_key());
    let command = ["lock", "--nonblock", &url, "--", "true"];
    let held = Talking::start(&scene, &server, "lock", "data/f", "locked");
    scene.run(command).ends_with(14);
    files(&scene, &server, "lock", "data/f", &[]).ends_with(1).says(&["lock: error 42"]);
    assert_eq!(held.ends(true), "");
    scene.run(command).ends_with(0);
}

#[test]
fn its_watch_is_told_of_a_name_that_changes() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/f", b"content");
    let watching = Talking::start(&scene, &server, "watch", "data", "watching");
    scene.write("server/f", b"other content");
    assert_eq!(watching.ends(false), "1 f content\n");
    let watching = Talking::start(&scene, &server, "watch", "data", "watching");
    std::fs::remove_file(scene.path("server/f")).expect("it was there");
    assert_eq!(watching.ends(false), "1 f name\n");
}

/// P-82: the lock of the lost session is had again, and so is the file.
#[test]
fn it_opens_a_file_again_after_its_session_was_lost() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(100_001, 2);
    scene.write("local", &content);
    files(&scene, &server, "again", "data/f", &["local"]).ends_with(0);
    assert!(scene.read("server/f") == content);
}

/// P-82: whatever is called, on a handle that was closed, that another session has open, or that nobody has.
#[test]
fn a_handle_that_is_not_open_in_its_session_is_stale() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/f", b"content");
    let outcome = files(&scene, &server, "stale", "data/f", &[]);
    outcome.ends_with(0);
    assert_eq!(outcome.text(), "closed 41\nforeign 41\nforged 41\n");
}
