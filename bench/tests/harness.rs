//! The harness end to end, with the bound program as the only system: what it prints, writes and leaves behind.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("harness-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("directory of the test");
    path
}

fn bench(scratch: &PathBuf, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xdfs-bench"))
        .arg("--no-namespace")
        .args(arguments)
        .env("TMPDIR", scratch)
        .output()
        .expect("start the bench")
}

#[test]
fn every_round_of_every_system_is_in_the_json() {
    let directory = directory("json");
    let json = directory.join("results.json");
    let json_path = json.to_str().expect("path");
    let arguments =
        ["memory", "--peers", "bound", "--rounds", "3", "--size", "3M", "--channels", "1,4", "--json", json_path];
    let output = bench(&directory, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("results")).expect("JSON");
    let cells = report["cells"].as_array().expect("cells");
    // Two directions, two numbers of channels.
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let runs = cell["systems"][0]["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 3);
        for run in runs {
            assert_eq!(run["bytes"], 3_000_000);
            assert_eq!(run["channels"], cell["channels"]);
            let (own, wall) = (run["own_seconds"].as_f64().expect("own"), run["wall_seconds"].as_f64().expect("wall"));
            assert!(own > 0.0 && own <= wall, "the program's own clock cannot show more than its whole life");
        }
    }
    fs::remove_file(json).expect("results");
    // Logs, keys and configurations are gone, and so is the scratch directory that held them.
    assert_eq!(fs::read_dir(&directory).expect("scratch").count(), 0);
    fs::remove_dir_all(directory).expect("clean");
}

#[test]
fn a_system_that_cannot_run_is_named_and_fails_the_bench() {
    let directory = directory("missing");
    let arguments =
        ["small", "--peers", "xdfs,bound", "--rounds", "1", "--directions", "up", "--xdfs", "/no/such/xdfs"];
    let output = bench(&directory, &arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("/no/such/xdfs"), "{err}");
    assert!(out.lines().any(|line| line.trim_start().starts_with("bound ")), "the others still run: {out}");
    fs::remove_dir_all(directory).expect("clean");
}
