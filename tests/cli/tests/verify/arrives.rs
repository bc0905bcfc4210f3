//! What is checked before a file gets its name: bits that turn over on the wire and in the part file.

use std::os::unix::fs::FileExt;

use serde_json::Value;
use xdfs_test_cli::{Outcome, Relay, Scene, Server, exit, pattern};

/// Stands at the start of every page of a file, for the relay to find payload by.
const MARK: &[u8] = b"-- a mark that no message contains --";
/// Sent from buffers, and sent by the kernel with a thread that hashes beside it.
const SIZES: [usize; 2] = [3_000_001, 24_000_001];

fn marked(length: usize) -> Vec<u8> {
    let mut content = pattern(length, 17);
    content
        .chunks_mut(4096)
        .filter(|page| page.len() > MARK.len())
        .for_each(|page| page[..MARK.len()].copy_from_slice(MARK));
    content
}

fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

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

fn arrived(scene: &Scene, upload: bool) -> Vec<u8> {
    scene.read(if upload { "server/file" } else { "copy" })
}

#[test]
fn a_bit_that_turns_over_on_the_wire_is_sent_again_at_clear() {
    for (upload, channels, size) in
        [(true, "1", SIZES[0]), (true, "4", SIZES[1]), (false, "4", SIZES[0]), (false, "1", SIZES[1])]
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
        // Only what was hit: two pieces of a megabyte, and blocks that went twice for want of an acknowledgement.
        assert!(again < 2 * size as u64, "{line}");
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
        let left = scene.names(if upload { "server" } else { "." });
        assert!(!left.iter().any(|name| name.ends_with(".part")), "{left:?}");
    }
}

/// Uploads through a relay that stops before the end; a bit of the part file turns over meanwhile.
fn altered_on_disk(server: &Server, scene: &Scene, content: &[u8], verify: &str) -> Outcome {
    scene.write("source", content);
    let relay = Relay::holding(server, 1, content.len() as u64 - 200_000);
    scene.trust(&relay.address(), server);
    let url = relay.url("file");
    let running = scene.start([
        "cp",
        "--json",
        "-P",
        "1",
        "--protection",
        "clear",
        "-b",
        "64KiB",
        "--verify",
        verify,
        "source",
        &url,
    ]);
    relay.wait_until_held();
    let part = scene.names("server").into_iter().find(|name| name.ends_with(".part")).expect("a part file");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(scene.path(format!("server/{part}")))
        .expect("it can be written");
    let mut byte = [0];
    // The first page was written long ago.
    while byte[0] != content[1] {
        file.read_exact_at(&mut byte, 1).expect("the page is there");
    }
    file.write_all_at(&[byte[0] ^ 4], 1).expect("it takes a byte");
    relay.release();
    running.wait()
}

#[test]
fn a_bit_that_turns_over_in_the_part_file_is_found_by_reading_it_again_and_by_nothing_else() {
    let content = marked(12_000_000);
    for (verify, found) in [("reread", true), ("hash", false)] {
        let scene = Scene::new();
        let server = scene.serve();
        let outcome = altered_on_disk(&server, &scene, &content, verify);
        outcome.ends_with(0);
        assert_eq!(arrived(&scene, true) == content, found, "{verify}");
        let line: &Value = &outcome.objects()[0];
        assert_eq!(line["verify"], verify);
        assert_eq!(line["hash"], hash(&content));
    }
}

#[test]
fn every_way_to_verify_moves_every_kind_of_file() {
    let scene = Scene::new();
    let server = scene.serve();
    for length in [0, 1, 1024, 1025, 1 << 20, (1 << 20) + 1, 9_000_000] {
        let content = marked(length);
        scene.write("source", &content);
        for verify in ["none", "wire", "hash", "reread"] {
            for protection in ["private", "integrity", "clear"] {
                if (verify, protection) == ("wire", "clear") {
                    continue;
                }
                let options = ["--json", "--verify", verify, "--protection", protection];
                for pair in [["source", &server.url("up")], [&server.url("up"), "down"]] {
                    let outcome = scene.run([&["cp"], &options[..], &pair].concat());
                    outcome.ends_with(0);
                    let line = &outcome.objects()[0];
                    assert_eq!(line["verify"], verify, "{line}");
                    let expected =
                        if matches!(verify, "hash" | "reread") { Value::from(hash(&content)) } else { Value::Null };
                    assert_eq!(line["hash"], expected, "{line}");
                }
                assert!(scene.read("server/up") == content && scene.read("down") == content, "{options:?}");
            }
        }
    }
}

#[test]
fn pipes_are_hashed_too_and_what_cannot_be_read_back_is_said() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = marked(5_000_000);
    scene.write("source", &content);
    let script = format!("cat source | \"$0\" cp --json --verify reread - '{}'", server.url("piped"));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).arg(xdfs_test_cli::xdfs_binary()).current_dir(scene.path("."));
    scene.dress("somebody", &mut command);
    let outcome = xdfs_test_cli::Running::start(command).wait();
    outcome.ends_with(0);
    assert_eq!(outcome.objects()[0]["hash"], hash(&content));
    assert_eq!(outcome.objects()[0]["verify"], "reread");
    assert!(scene.read("server/piped") == content);
    let outcome = scene.run(["cp", "--json", "--verify", "reread", &server.url("piped"), "null:"]);
    outcome.ends_with(0).says(&["cannot be read back"]);
    assert_eq!(
        (&outcome.objects()[0]["verify"], &outcome.objects()[0]["hash"]),
        (&"hash".into(), &hash(&content).into())
    );
    let outcome = scene.run(["cp", &server.url("piped"), "-"]);
    outcome.ends_with(0);
    assert!(outcome.output == content);
}
