//! Ways to verify, for every kind of file, and bits that turn over in the part file.

use std::os::unix::fs::FileExt;

use serde_json::Value;
use xdfs_test_cli::{Outcome, Relay, Scene, Server, pattern};

/// Stands at the start of every page of a file, for the relay to find payload by.
pub(crate) const MARK: &[u8] = b"-- a mark that no message contains --";
pub(crate) fn marked(length: usize) -> Vec<u8> {
    let mut content = pattern(length, 17);
    content
        .chunks_mut(4096)
        .filter(|page| page.len() > MARK.len())
        .for_each(|page| page[..MARK.len()].copy_from_slice(MARK));
    content
}

pub(crate) fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

pub(crate) fn arrived(scene: &Scene, upload: bool) -> Vec<u8> {
    scene.read(if upload { "server/file" } else { "copy" })
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
    let mut upload = scene.start(["cp", "--json", "--verify", "reread", "-", &server.url("piped")]);
    assert!(upload.feed(&content), "it reads standard input to its end");
    let outcome = upload.wait();
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
