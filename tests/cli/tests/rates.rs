//! What a limit of bandwidth promises: bytes within five percent, no bursts, even shares, a listing that overtakes, and
//! patience with a slow rate. A short run is part of every run of the tests, where others may use the machine: nothing is
//! quicker than its limit, and slower only within reason. `cargo run -p xtask -- long rates` is strict in both directions.

use std::time::{Duration, Instant};

use xdfs_test_cli::{Relay, Running, Scene, Server, all_but_one_below, exit, pass, pattern};

/// Bytes a second of the limits.
const RATE: u64 = 4 << 20;

/// Seconds of a measurement, and by which factor it may be slow.
fn effort() -> (u64, f64) {
    let seconds = std::env::var("XDFS_RATE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    // What was missed before a copy began is made up for: up to a tenth of a second.
    (seconds, if seconds >= 10 { 1.05 } else { 2.0 })
}

/// A measurement is made so often at most until it is in time: a busy machine makes one late, and a wrong limit all.
fn tries() -> usize {
    if effort().0 >= 10 { 1 } else { 3 }
}

/// It took no less than it must, and whether it took no more.
#[track_caller]
fn is_in_time(what: &str, seconds: f64, expected: f64) -> bool {
    let (_, slowest) = effort();
    println!("{what}: {seconds:.2} s of {expected:.2} s");
    assert!(seconds >= expected * 0.95 - 0.1, "{what}: {seconds} s of {expected} s");
    seconds < expected * slowest + 0.2
}

/// Whether both took about the same time.
fn is_even(took: [f64; 2]) -> bool {
    let ratio = took[0].max(took[1]) / took[0].min(took[1]);
    println!("{took:.2?} s: {ratio:.3} of each other");
    ratio < if effort().0 >= 10 { 1.1 } else { 1.5 }
}

fn serve(scene: &Scene, limits: &str) -> Server {
    serve_limited(scene, limits, "")
}

/// The same with what the export `made` is limited to.
fn serve_limited(scene: &Scene, limits: &str, made: &str) -> Server {
    scene.directory("data");
    let config = format!(
        "{limits}[exports.data]\ndirectory = \"data\"\nanonymous = \"rw\"\n\
         [exports.made]\ndirectory = \"memory:\"\nanonymous = \"ro\"\n{made}"
    );
    scene.write("server.toml", config.as_bytes());
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]);
    command.env("XDFS_LOG", "off");
    Server::start(command, &["--config", "server.toml"])
}

#[test]
fn the_bytes_of_a_limited_copy_take_their_time_in_both_directions() {
    let (seconds, _) = effort();
    let scene = Scene::new();
    let server = serve(&scene, "");
    let size = usize::try_from(RATE * seconds).expect("a few MiB");
    scene.write("source", &pattern(size, 3));
    let url = server.url_in("data", "file");
    for (protection, channels) in [("private", "4"), ("clear", "16")] {
        for words in [["source", &url], [&url, "copy"]] {
            let options = ["cp", "--json", "--bwlimit", "4M", "-P", channels, "--protection", protection];
            // The disk's time is not the limit's.
            let options = [&options[..], &["--durability", "written"]].concat();
            let what = format!("{} at {protection}", if words[0] == "source" { "up" } else { "down" });
            let copies_in_time = || {
                let outcome = scene.run(options.iter().chain(&words));
                let took = outcome.ends_with(exit::DONE).objects()[0]["seconds"].as_f64().expect("a number");
                is_in_time(&what, took, seconds as f64)
            };
            assert!((0..tries()).any(|_| copies_in_time()), "{what}");
        }
    }
    assert!(scene.read("copy") == pattern(size, 3));
}

#[test]
fn no_tenth_of_a_second_gets_more_than_its_share_and_that_of_one_burst() {
    let (seconds, _) = effort();
    let scene = Scene::new();
    let server = serve(&scene, "");
    let relay = Relay::paced(&server, 1 << 40);
    let size = usize::try_from(RATE * seconds).expect("a few MiB");
    scene.write("source", &pattern(size, 3));
    let url = relay.url("file");
    let most = || {
        let copy = scene.start(["cp", "--bwlimit", "4M", "--protection", "clear", "source", &url]);
        let mut seen: Vec<(Instant, u64)> = Vec::new();
        while !copy.has_ended() {
            seen.push((Instant::now(), relay.passed()));
            pass(Duration::from_millis(10));
        }
        copy.wait().ends_with(exit::DONE);
        let mut most = 0.0_f64;
        for (index, (from, before)) in seen.iter().enumerate() {
            for (to, after) in &seen[index..] {
                let allowed = (to.duration_since(*from).as_secs_f64() + 0.1) * RATE as f64;
                most = most.max((after - before) as f64 / allowed);
            }
        }
        println!("at most {:.0} % of what any time and one burst may have", most * 100.0);
        most
    };
    // Heads of blocks and messages come on top, and what a buffer of the kernel held back. What waits for a relay
    // that has no processor goes at once then: that comes by chance, and what a limit lets through comes each time.
    assert!((0..5).any(|_| most() < 1.25));
}

#[test]
fn sessions_of_a_user_share_his_limit_evenly() {
    let (seconds, _) = effort();
    let scene = Scene::new();
    let server = serve(&scene, "[limits]\nbandwidth-per-user = \"4M\"\n");
    let half = (RATE * seconds / 2).to_string();
    let url = server.url_in("made", "random");
    let share_evenly = || {
        // One asks for many channels, and gets no more for it.
        let began = Instant::now();
        let copies =
            ["1", "8"].map(|channels| scene.start(["cp", "--json", "-P", channels, "--length", &half, &url, "null:"]));
        let took = copies.map(took);
        is_in_time("two sessions", began.elapsed().as_secs_f64(), seconds as f64) && is_even(took)
    };
    assert!((0..tries()).any(|_| share_evenly()));
}

/// The seconds that a copy says it took.
fn took(copy: Running) -> f64 {
    copy.wait().ends_with(exit::DONE).objects()[0]["seconds"].as_f64().expect("a number")
}

/// What a session moved too early is owed by the next one: who begins one for each request gets no burst for each.
#[test]
fn a_session_for_each_request_is_no_way_around_a_limit() {
    let (seconds, _) = effort();
    let scene = Scene::new();
    let server = serve(&scene, "[limits]\nbandwidth-per-user = \"4M\"\n");
    let (part, url) = ((RATE / 8).to_string(), server.url_in("made", "random"));
    let began = Instant::now();
    for _ in 0..8 * seconds {
        scene.run(["cp", "--length", &part, &url, "null:"]).ends_with(exit::DONE);
    }
    let (took, expected) = (began.elapsed().as_secs_f64(), seconds as f64);
    println!("{} sessions, one after the other: {took:.2} s of {expected:.2} s", 8 * seconds);
    // A tenth of a second's worth may come early, once.
    assert!(took >= expected * 0.95 - 0.1, "{took} s of {expected} s");
}

#[test]
fn an_export_has_its_rate_for_all_its_users_and_no_other_export_has_it() {
    let (seconds, _) = effort();
    let scene = Scene::new();
    let server = serve_limited(&scene, "", "bandwidth = \"4M\"\n");
    scene.run(["user", "add", "anna"]).ends_with(exit::DONE);
    scene.run(["user", "token", "anna", "--export", "made", "--out", "token"]).ends_with(exit::DONE);
    let size = RATE * seconds;
    scene.write("data/free", &pattern(usize::try_from(size).expect("a few MiB"), 9));
    let (half, url) = ((size / 2).to_string(), server.url_in("made", "random"));
    let share_evenly = || {
        let began = Instant::now();
        // A user and a visitor, who have nothing else in common.
        let copies = [true, false].map(|named| {
            let mut command = scene.command(["cp", "--json", "-P", "4", "--length", &half, &url, "null:"]);
            if named {
                command.env("XDFS_TOKEN_FILE", scene.path("token"));
            }
            Running::start(command)
        });
        // Nobody limits this one, and it has the bytes of both long before.
        let alone = took(scene.start(["cp", "--json", &server.url_in("data", "free"), "null:"]));
        let is_before = copies.iter().all(|copy| !copy.has_ended());
        println!("the other export: {alone:.2} s");
        let took = copies.map(took);
        let is_in_time = is_in_time("two users of an export", began.elapsed().as_secs_f64(), seconds as f64);
        is_before && is_in_time && is_even(took)
    };
    assert!((0..tries()).any(|_| share_evenly()));
}

#[test]
fn a_listing_overtakes_what_waits_for_its_share() {
    let scene = Scene::new();
    let server = serve(&scene, "[limits]\nbandwidth-per-user = \"256K\"\n");
    for number in 0..100 {
        scene.write(format!("data/d/{number}"), b"x");
    }
    let copies = [["-P", "1"], ["-P", "8"]].map(|channels| {
        let made = server.url_in("made", "random");
        let words = [&["cp"], &channels[..], &["--length", "100M", &made, "null:"]].concat();
        scene.start(words)
    });
    let mut took = Vec::new();
    for _ in 0..10 {
        let began = Instant::now();
        scene.run(["ls", &server.url_in("data", "d")]).ends_with(exit::DONE);
        took.push(began.elapsed());
    }
    println!("ten listings: {took:.0?}");
    assert!(copies.iter().all(|copy| !copy.has_ended()));
    // The copies have minutes to go.
    assert!(all_but_one_below(&took, Duration::from_secs(2)), "{took:?}");
    for copy in copies {
        copy.kill();
    }
}

#[test]
fn a_slow_rate_is_no_stall() {
    let (seconds, slowest) = effort();
    // 512 KiB at 10 KiB/s is longer than any wait of either side for a sign of life.
    let size = if seconds >= 10 { 512 << 10 } else { 160 << 10 };
    let scene = Scene::new();
    let server = serve(&scene, "");
    scene.write("source", &pattern(size, 4));
    let url = server.url_in("data", "slow");
    let began = Instant::now();
    let outcome = scene.run(["cp", "--json", "--retry", "0", "--bwlimit", "10K", "source", &url]);
    outcome.ends_with(exit::DONE);
    assert_eq!(outcome.messages, "", "no retry, no lost channel");
    assert_eq!(outcome.objects()[0]["retries"], 0);
    let expected = size as f64 / 10_240.0;
    println!("{:.1} s of {expected:.1} s", began.elapsed().as_secs_f64());
    assert!(began.elapsed().as_secs_f64() < expected * slowest.max(1.2) + 2.0);
    assert!(scene.read("data/slow") == pattern(size, 4));
}
