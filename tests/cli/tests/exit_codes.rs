//! docs/exit-codes.md, row by row: each code is shown by a command that ends with it.

use std::path::Path;
use std::process::Command;

use xdfs_test_cli::{Running, Scene, Server, exit, xdfs_binary};

/// Codes that need a race or a damaged wire, and the suites that show them.
const SHOWN_ELSEWHERE: [(i32, &str); 4] = [
    (exit::CHANGED, "once.rs"),
    (exit::CORRUPTED, "verify/wire.rs"),
    (exit::BUSY, "once.rs"),
    (exit::CANCELLED, "ends.rs"),
];

/// The codes of the table.
fn documented() -> Vec<i32> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    rows.filter_map(|(code, _)| code.parse().ok()).collect()
}

#[test]
fn every_code_of_the_table_is_returned_for_what_it_stands_for() {
    let scene = Scene::new();
    scene.write("here", b"x");
    scene.directory("directory");
    scene.write("server/there", b"y");
    scene.directory("server/full/directory");
    let server = scene.serve();
    let (there, gone) = (server.url("there"), server.url("gone"));
    let read_only = scene.serve_with(&["--allow-anonymous", "ro"]);
    // Without --allow-anonymous only users may log in.
    let words = ["serve", "--json", "--quiet", "--listen", "127.0.0.1:0"];
    let closed = Server::start(scene.command(words), &["--export", "data=server"]);
    let unreachable = format!("xdfs://127.0.0.1:1/data/x#{}", server.host_key());
    let unknown = format!("xdfs://{}/data/there", server.address());
    let rows: [(i32, &[&str]); 16] = [
        (exit::DONE, &["stat", &there]),
        (exit::SOME_FAILED, &["stat", &there, &gone]),
        (exit::USAGE, &["stat", "--no-such-option"]),
        (exit::USAGE, &["cp", &server.url("full"), "x"]),
        (exit::USAGE, &["cp", "directory", &gone]),
        (exit::USAGE, &["rm", &server.url("full")]),
        (exit::REFUSED, &["cp", "--offset", "100", &there, "x"]),
        (exit::CONNECTION_LOST, &["stat", &unreachable]),
        (exit::LOCAL, &["trust", "pin", "host.example", "here"]),
        (exit::NOT_FOUND, &["stat", &gone]),
        (exit::NOT_FOUND, &["cp", "gone", &gone]),
        (exit::NOT_FOUND, &["cp", "here", "here", &gone]),
        (exit::NOT_FOUND, &["cp", &there, &there, "missing"]),
        (exit::PERMISSION_DENIED, &["cp", "here", &read_only.url("x")]),
        (exit::LOGIN_REFUSED, &["stat", &closed.url("there")]),
        (exit::EXISTS, &["mv", "-n", &there, &server.url("full")]),
    ];
    let mut shown: Vec<i32> = SHOWN_ELSEWHERE.iter().map(|(code, _)| *code).collect();
    for (code, words) in rows {
        scene.run(words).ends_with(code);
        shown.push(code);
    }
    scene.run_as("stranger", ["stat", &unknown]).ends_with(exit::NOT_TRUSTED);
    let mut full = Command::new("sh");
    full.args(["-c", "\"$0\" cat \"$1\" > /dev/full"]).arg(xdfs_binary()).arg(&there).current_dir(scene.path(""));
    scene.dress("somebody", &mut full);
    Running::start(full).wait().ends_with(exit::NO_SPACE);
    shown.extend([exit::NOT_TRUSTED, exit::NO_SPACE]);
    shown.sort_unstable();
    shown.dedup();
    assert_eq!(documented(), shown, "docs/exit-codes.md and this test list the same codes");
}

#[test]
fn the_suites_named_for_the_other_codes_do_assert_them() {
    for (code, suite) in SHOWN_ELSEWHERE {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(suite);
        let text = std::fs::read_to_string(&path).expect("the suite is there");
        let name = match code {
            exit::CHANGED => "exit::CHANGED",
            exit::CORRUPTED => "exit::CORRUPTED",
            exit::BUSY => "exit::BUSY",
            _ => "exit::CANCELLED",
        };
        assert!(text.contains(&format!("ends_with({name})")), "{suite} does not assert {name}");
    }
}
