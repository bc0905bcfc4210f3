//! kill -9 of either side, at any moment: the same command again makes the copy whole, and what was durable is not sent again.
//!
//! `XDFS_TREE_KILLS=50` runs the long form.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene, Server};

use super::judge::{plant, same};

const FILES: usize = 150;

fn kills() -> u32 {
    std::env::var("XDFS_TREE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// A server at `address` that keeps an audit log.
fn serve(scene: &Scene, address: &str) -> Server {
    scene.directory("server");
    scene.write(
        "server.toml",
        b"[exports.data]\ndirectory = \"server\"\nanonymous = \"rw\"\n[log]\naudit = \"audit.log\"\n",
    );
    let words = ["--quiet", "--config", "server.toml"];
    let server = Server::start(scene.command(["serve", "--json", "--listen", address]), &words);
    scene.trust(server.address(), &server);
    server
}

/// Ends `running`, or the server, after so long.
fn kill_after(time: Duration, running: Running, server: Option<&Server>) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    if let Some(server) = server {
        server.signal(Signal::KILL);
    }
    running.kill();
}

/// A moment from a seed, spread over the time that a whole copy takes.
fn moment(round: u32, whole: Duration) -> Duration {
    let share = (u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
    whole.mul_f64(share)
}

#[test]
fn after_a_kill_of_either_side_the_same_command_makes_the_copy_whole() {
    let scene = Scene::new();
    plant(&scene, "tree", FILES, 3);
    let mut server = serve(&scene, "127.0.0.1:0");
    let address = server.address().to_owned();
    let since = Instant::now();
    scene.run(["cp", "-r", "tree", &server.url("first")]).ends_with(0);
    let whole = since.elapsed();
    for round in 0..kills() {
        let (copy, back) = (format!("copy{round}"), format!("back{round}"));
        let url = server.url(&copy);
        let of_server = (round % 2 == 0).then_some(&server);
        kill_after(moment(round, whole), scene.start(["cp", "-r", "--retry", "0", "tree", &url]), of_server);
        if round % 2 == 0 {
            drop(server);
            server = serve(&scene, &address);
        }
        // sync says where it goes whatever is there already, as cp does not.
        scene.run(["sync", "tree", &url]).ends_with(0);
        same(&scene, "tree", &format!("server/{copy}"), false);
        kill_after(moment(round, whole), scene.start(["sync", "--retry", "0", &url, &back]), None);
        scene.run(["sync", &url, &back]).ends_with(0);
        same(&scene, "tree", &back, false);
    }
    drop(server);
    never_twice(&String::from_utf8(scene.read("audit.log")).expect("JSON is UTF-8"));
}

/// What was told as durable once is not written again: nobody changed a source.
fn never_twice(log: &str) {
    let mut durable: BTreeMap<String, u32> = BTreeMap::new();
    for line in log.lines() {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        for name in durable_names(&event) {
            *durable.entry(name).or_default() += 1;
        }
    }
    assert!(durable.len() >= FILES, "the log tells of {} files", durable.len());
    let twice: Vec<_> = durable.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "durable more than once: {twice:?}");
}

/// Names of files that this line tells as put, and not as there already.
fn durable_names(event: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let put = |told: &serde_json::Value| told["error"].is_null() && told["direction"] != "download";
    match event["event"].as_str() {
        Some("transfer") if event["unchanged"] == false && put(event) => vec![text(&event["path"])],
        Some("calls") => {
            let base = text(&event["base"]);
            let calls = event["calls"].as_array().cloned().unwrap_or_default();
            let puts =
                calls.into_iter().filter(|call| call["call"] == "put" && call["unchanged"].is_null() && put(call));
            puts.map(|call| format!("{base}/{}", text(&call["path"]))).collect()
        }
        _ => Vec::new(),
    }
}
