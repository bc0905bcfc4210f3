//! The minimal client in Python: every vector, both directions over four channels at both levels, and what it is told
//! when something is wrong.

use std::path::{Path, PathBuf};
use std::process::Command;
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
    let python = std::env::var_os("XDFS_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg("-B").arg(script(name)).args(words).current_dir(scene.path("."));
    Running::start(command).wait()
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
