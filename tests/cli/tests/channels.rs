//! Channels that die or stop during a transfer: it goes on over the others, byte-exact.

use xdfs_test_cli::{Relay, Scene, exit, pattern};

/// Large enough that every channel has blocks on its way when the relay holds.
const SIZE: usize = 64_000_000;
/// Where the relay holds: every channel carries data by then, and the end is far.
const HOLD_AT: u64 = 16_000_000;

/// Sends and fetches a file over 4 channels through a relay that cuts the connections `cut` in its middle.
fn survives_cutting(cut: &[usize]) {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 1);
    scene.write("source", &content);
    scene.write("server/remote", &content);
    for direction in ["up", "down"] {
        let relay = Relay::holding(&server, 4, HOLD_AT);
        let words = match direction {
            "up" => vec!["cp".to_owned(), "-P4".to_owned(), "source".to_owned(), relay.url("up")],
            _ => vec!["cp".to_owned(), "-P4".to_owned(), relay.url("remote"), "down".to_owned()],
        };
        let client = scene.start(words);
        relay.wait_until_held();
        cut.iter().for_each(|&index| relay.cut(index));
        relay.release();
        client.wait().ends_with(0);
        let result = if direction == "up" { "server/up" } else { "down" };
        assert!(scene.read(result) == content, "{direction}, cut {cut:?}");
    }
}

#[test]
fn a_transfer_outlives_the_first_three_of_four_channels() {
    survives_cutting(&[0, 1, 2]);
}

#[test]
fn a_transfer_outlives_the_last_three_of_four_channels() {
    survives_cutting(&[1, 2, 3]);
}

#[test]
fn a_transfer_that_loses_every_channel_is_a_lost_connection() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(SIZE, 2));
    scene.write("server/remote", &pattern(SIZE, 3));
    scene.write("down", b"old");
    let relay = Relay::holding(&server, 4, HOLD_AT);
    let upload = scene.start(["cp", "-P4", "--retry", "0", "source", &relay.url("up")]);
    relay.wait_until_held();
    drop(relay);
    upload.wait().ends_with(exit::CONNECTION_LOST).says(&["up", "lost"]);
    let relay = Relay::holding(&server, 4, HOLD_AT);
    let download = scene.start(["cp", "-P4", "--retry", "0", &relay.url("remote"), "down"]);
    relay.wait_until_held();
    drop(relay);
    download.wait().ends_with(exit::CONNECTION_LOST).says(&["lost"]);
    assert_eq!(scene.read("down"), b"old");
    assert_eq!(server.stop(), Some(0));
    let mut names = scene.names("server");
    // What had arrived waits for another attempt.
    names.retain(|name| !name.starts_with(".xdfs-staging/"));
    assert_eq!(names, ["remote"]);
}

#[test]
fn a_channel_that_stalls_does_not_keep_the_file_from_arriving() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(SIZE, 4);
    scene.write("source", &content);
    let relay = Relay::holding(&server, 4, HOLD_AT);
    let upload = scene.start(["cp", "-P", "4", "source", &relay.url("up")]);
    relay.wait_until_held();
    relay.stall(2);
    relay.release();
    upload.wait().ends_with(0);
    assert!(scene.read("server/up") == content);
}
