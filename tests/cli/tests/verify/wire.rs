//! Bits that turn over on the wire, where no driver below finds them.

use xdfs_test_cli::{Outcome, Relay, Scene, exit, until};

use super::arrives::{MARK, arrived, hash, marked};

/// Sent from buffers, and sent by the kernel with a thread that hashes beside it.
const SIZES: [usize; 2] = [3_000_001, 24_000_001];
/// What comes again where something differs.
const PIECE: u64 = 1 << 20;

/// Copies `content` up and down through `relay`.
fn copies(scene: &Scene, relay: &Relay, content: &[u8], upload: bool, options: &[&str]) -> Outcome {
    let url = relay.url("file");
    let words: Vec<&str> = if upload {
        scene.write("source", content);
        vec!["cp", "--json", "source", &url]
    } else {
        scene.write("server/file", content);
        vec!["cp", "--json", &url, "copy"]
    };
    scene.run([&words[..], options].concat())
}

#[test]
fn a_bit_that_turns_over_on_the_wire_is_sent_again_at_clear() {
    for (upload, channels, size) in
        [(true, "1", SIZES[0]), (true, "4", SIZES[1]), (false, "1", SIZES[0]), (false, "4", SIZES[1])]
    {
        let scene = Scene::new();
        let server = scene.serve();
        let relay = Relay::altering(&server, MARK, 2);
        scene.trust(&relay.address(), &server);
        let content = marked(size);
        let outcome = copies(&scene, &relay, &content, upload, &["--protection", "clear", "-P", channels]);
        outcome.ends_with(0);
        assert_eq!(relay.altered(), 2);
        assert!(arrived(&scene, upload) == content, "upload {upload}, {size} bytes");
        let line = &outcome.objects()[0];
        assert_eq!((line["verify"].as_str(), line["hash"].as_str()), (Some("hash"), Some(hash(&content).as_str())));
        let again = line["channel_bytes"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).sum::<u64>();
        assert!(again > size as u64, "{line}");
        // Only what was hit: two pieces of a megabyte. One channel shows it; with others any block may go twice for want of an
        // acknowledgement.
        let once = size as u64 + 2 * PIECE;
        assert!(again <= once * if channels == "1" { 1 } else { 2 }, "{line}");
    }
}

#[test]
fn without_a_check_the_bit_arrives_which_shows_that_it_was_turned() {
    let scene = Scene::new();
    let server = scene.serve();
    let relay = Relay::altering(&server, MARK, 1);
    scene.trust(&relay.address(), &server);
    let content = marked(SIZES[0]);
    copies(&scene, &relay, &content, true, &["--protection", "clear", "--verify", "none"]).ends_with(0);
    assert!(arrived(&scene, true) != content);
}

#[test]
fn a_wire_that_alters_every_time_leaves_the_old_file_and_says_where() {
    for upload in [true, false] {
        let scene = Scene::new();
        let server = scene.serve();
        let relay = Relay::altering(&server, MARK, usize::MAX);
        scene.trust(&relay.address(), &server);
        scene.write(if upload { "server/file" } else { "copy" }, b"old");
        let outcome = copies(&scene, &relay, &marked(SIZES[0]), upload, &["--protection", "clear"]);
        outcome.ends_with(exit::CORRUPTED).says(&[
            "content differs in bytes 0..",
            "not what was sent",
            "after 3 repetitions",
        ]);
        assert_eq!(outcome.objects()[0]["code"], "corrupted");
        assert_eq!(arrived(&scene, upload), b"old");
        let without_parts = |names: &Vec<String>| !names.iter().any(|name| name.ends_with(".part"));
        // A server answers first and removes then.
        let names = if upload { until(|| scene.names("server"), without_parts) } else { scene.names(".") };
        assert!(without_parts(&names), "{names:?}");
    }
}
