//! `--bwlimit`: a copy moves at the rate that was asked for, in both directions, whatever its protection and its number of
//! channels, and is as correct as any other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xdfs_test_cli::{Outcome, Running, Scene, least, pattern};

const RATE: usize = 2 << 20;
const SIZE: usize = 4 << 20;

/// The seconds that a copy says it took are those of its bytes at the limited rate.
#[track_caller]
fn takes_its_time(copy: impl Fn() -> Outcome) {
    let due = SIZE as f64 / RATE as f64;
    let most = Duration::from_secs_f64(due * 2.0);
    let took = least(most, |_| {
        let outcome = copy();
        let seconds = outcome.ends_with(0).objects()[0]["seconds"].as_f64().unwrap_or_default();
        // What was missed before it began is made up for, so it may be a little quicker.
        assert!(seconds >= due * 0.95 - 0.1, "{seconds} s for {due} s");
        Duration::from_secs_f64(seconds)
    });
    assert!(took < most, "{took:?} for {due} s");
}

#[test]
fn uploads_and_downloads_keep_to_the_limit_at_every_protection() {
    for (protection, channels) in [("clear", "1"), ("clear", "8"), ("private", "8")] {
        let scene = Scene::new();
        let server = scene.serve();
        let content = pattern(SIZE, 5);
        scene.write("source", &content);
        let url = server.url("file");
        let options = ["--json", "--bwlimit", "2M", "-P", channels, "--protection", protection];
        let copy = |words: [&str; 2]| scene.run(["cp"].iter().chain(&options).chain(&words));
        takes_its_time(|| copy(["source", &url]));
        assert!(scene.read("server/file") == content);
        takes_its_time(|| copy([&url, "copy"]));
        assert!(scene.read("copy") == content);
    }
}

#[test]
fn a_limited_copy_comes_over_all_of_its_channels_and_no_block_of_it_twice() {
    const MANY: u64 = 32 << 20;
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", &pattern(MANY as usize, 5));
    let copied = || {
        let outcome = scene.run(["cp", "--json", "--bwlimit", "10M", "-P", "4", &server.url("file"), "copy"]);
        let channels = &outcome.ends_with(0).objects()[0]["channel_bytes"];
        let channels: Vec<u64> = channels.as_array().unwrap().iter().flat_map(|one| one.as_u64()).collect();
        assert!(channels.len() == 4 && channels.iter().all(|bytes| *bytes >= MANY / 16), "{channels:?}");
        channels.iter().sum::<u64>()
    };
    // Blocks that wait behind those of other channels grow old, and are sent again; a busy machine delays a few, or some of
    // one try.
    assert!((0..3).any(|_| copied() <= MANY + MANY / 32));
}

#[test]
fn a_tree_of_small_files_keeps_to_the_limit() {
    let scene = Scene::new();
    let server = scene.serve();
    for number in 0..64 {
        scene.write(format!("tree/{number}"), &pattern(SIZE / 64, number));
    }
    let began = std::time::Instant::now();
    scene.run(["cp", "-r", "--bwlimit", "2M", "tree", &server.url("")]).ends_with(0);
    let seconds = began.elapsed().as_secs_f64();
    assert!(seconds >= SIZE as f64 / RATE as f64 * 0.9, "{seconds} s");
    assert_eq!(scene.names("server/tree").len(), 64);
}

#[test]
fn off_and_an_hour_without_a_limit_are_no_limit() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(SIZE, 5));
    for limit in ["off", "00:00,off 12:00,off"] {
        let outcome = scene.run(["cp", "--json", "--bwlimit", limit, "source", &server.url("file")]);
        outcome.ends_with(0);
        let channels = outcome.objects()[0]["channel_bytes"].as_array().map(Vec::len);
        assert!(channels > Some(1), "{channels:?}");
    }
}

/// A zone in which the minute has so many seconds left, and this minute and the next one as `--bwlimit` reads them there.
fn zone_before_a_minute(left: u64) -> (String, [String; 2]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    // East of Greenwich by less than a minute; POSIX writes that with the other sign.
    let east = (60 - left + 60 - now % 60) % 60;
    let minute = (now + east) / 60;
    let shown = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    (format!("XDF-00:00:{east:02}"), [shown(minute), shown(minute + 1)])
}

#[test]
fn a_running_copy_changes_its_rate_at_the_time_of_day_that_was_given() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 6);
    scene.write("source", &content);
    let url = server.url("file");
    for words in [["source", &url], [&url, "copy"]] {
        let (zone, [now, next]) = zone_before_a_minute(8);
        // At the first rate alone it would take 32 seconds, at the second one half of one.
        let limit = format!("{now},128K {next},8M");
        let mut command = scene.command(["cp", "--json", "--bwlimit", &limit].iter().chain(&words));
        command.env("TZ", zone);
        let outcome = Running::start(command).wait();
        outcome.ends_with(0);
        let seconds = outcome.objects()[0]["seconds"].as_f64().unwrap_or_default();
        assert!((1.5..16.0).contains(&seconds), "{seconds} s: {limit}");
    }
    assert!(scene.read("copy") == content);
}

#[test]
fn what_is_no_rate_is_refused_with_what_to_write() {
    let scene = Scene::new();
    for (limit, words) in
        [("fast", "10M or 1.5G"), ("24:00,1M", "write it as 08:00"), ("10M 5M", "'08:00,10M 19:00,off'")]
    {
        scene.run(["cp", "--bwlimit", limit, "a", "xdfs://localhost/data/"]).ends_with(2).says(&[words]);
    }
    // Rather than a copy at full speed.
    let outcome = scene.run(["cp", "--bwlimit", "1M", "a", "ftp://localhost/data/"]);
    outcome.ends_with(2).says(&["--bwlimit: FTP servers cannot do that"]);
}
