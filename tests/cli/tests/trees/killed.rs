//! kill -9 of either side, at any moment of a copy: the literal same command makes it whole, or the client by itself if only its
//! server was killed, and what was durable is not sent again.
//!
//! `XDFS_TREE_KILLS=50` runs the long form.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use xdfs_test_cli::{LISTEN, Scene, Server, wait_until};

use super::judge::{differences, plant, same};

const FILES: usize = 150;

fn kills() -> u32 {
    std::env::var("XDFS_TREE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
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

/// What is ended in the middle of a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ended {
    Client,
    /// The client goes on by itself once a server is back.
    Server,
    Both,
}

/// A server that can be killed, and what became of the copies that ran meanwhile.
struct Course<'s> {
    scene: &'s Scene,
    server: Option<Server>,
    address: String,
    /// Copies that were not whole when they were ended, of each kind.
    ended: BTreeMap<Ended, u32>,
}

impl Course<'_> {
    fn url(&self, path: &str) -> String {
        self.server.as_ref().expect("it runs").url(path)
    }

    /// Runs `words`, which make `to`; ends something `after` so long, and makes `to` whole: by the literal same command where
    /// the client was ended, and else by nothing but a server that is there again.
    fn end(&mut self, ended: Ended, after: Duration, words: &[&str], to: &str) {
        let running = self.scene.start(words);
        // A client that never had a server does not wait for one, so there is a session first: it makes the top of the copy.
        let top = self.scene.path(to);
        wait_until("the copy has begun, or ended", || top.exists() || !running.is_running());
        pass(after);
        if ended != Ended::Client {
            self.server.take().expect("it runs").kill();
        }
        let was_whole = match ended {
            Ended::Server => {
                self.server = Some(serve(self.scene, &self.address));
                let outcome = running.wait();
                outcome.ends_with(0);
                outcome.objects().iter().all(|object| object["retries"].as_u64().unwrap_or_default() == 0)
            }
            Ended::Client | Ended::Both => {
                // By the kill, or before it because it was done: not for a reason of its own.
                let killed = running.kill();
                assert!(matches!(killed.code, None | Some(0)), "{words:?}: {:?}: {}", killed.code, killed.messages);
                self.server.get_or_insert_with(|| serve(self.scene, &self.address));
                // cp copies into what is whole once more, as sync does not.
                let is_whole = differences(&self.scene.path("tree"), &top, false).is_empty();
                if !is_whole {
                    self.scene.run(words).ends_with(0);
                }
                is_whole
            }
        };
        same(self.scene, "tree", to, false);
        *self.ended.entry(ended).or_default() += u32::from(!was_whole);
    }
}

/// Lets so much time pass, without sleeping through the moment that is meant.
fn pass(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// A moment from a seed, spread over the time that a whole copy takes.
fn moment(number: u32, whole: Duration) -> Duration {
    let share = (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
    whole.mul_f64(share)
}

#[test]
fn after_a_kill_of_either_side_the_same_command_makes_the_copy_whole() {
    let scene = Scene::new();
    plant(&scene, "tree", FILES, 3);
    let server = serve(&scene, LISTEN);
    let address = server.address().to_owned();
    let since = Instant::now();
    scene.run(["cp", "-r", "tree", &server.url("first")]).ends_with(0);
    let whole = since.elapsed();
    let mut course = Course { scene: &scene, server: Some(server), address, ended: BTreeMap::new() };
    let mut number = 0;
    for _ in 0..kills() {
        for ended in [Ended::Client, Ended::Server, Ended::Both] {
            let command: &[&str] = if number % 2 == 0 { &["cp", "-r", "--json"] } else { &["sync", "--json"] };
            let (copy, back) = (format!("copy{number}"), format!("back{number}"));
            let url = course.url(&copy);
            course.end(
                ended,
                moment(2 * number, whole),
                &[command, &["tree", &url]].concat(),
                &format!("server/{copy}"),
            );
            course.end(ended, moment(2 * number + 1, whole), &[command, &[&url, &back]].concat(), &back);
            number += 1;
        }
    }
    for ended in [Ended::Client, Ended::Server, Ended::Both] {
        assert!(course.ended.get(&ended).is_some_and(|times| *times > 0), "{ended:?} in no copy: {:?}", course.ended);
    }
    drop(course);
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
