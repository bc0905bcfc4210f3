//! `xdfs sum`: hashes of files, here and on a server.

use std::io::Write;
use std::process::Stdio;

use xdfs_test_cli::{Scene, exit, pattern};

fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

#[test]
fn files_here_and_there_are_hashed_in_order_as_b3sum_writes_it() {
    let scene = Scene::new();
    let (here, there) = (pattern(3_000_001, 1), pattern(300_000, 2));
    scene.write("here", &here);
    scene.write("server/a b", &there);
    scene.write("server/empty", b"");
    let server = scene.serve();
    let (url, empty) = (server.url("a%20b"), server.url("empty"));
    let outcome = scene.run(["sum", "here", &url, "zero:1000000", &empty]);
    outcome.ends_with(0).is_silent();
    let lines = [
        format!("{}  here", hash(&here)),
        format!("{}  {url}", hash(&there)),
        format!("{}  zero:1000000", hash(&vec![0; 1_000_000])),
        format!("{}  {empty}", hash(b"")),
    ];
    assert_eq!(outcome.text(), lines.join("\n") + "\n");
}

#[test]
fn a_range_is_hashed_alone_and_json_says_which() {
    let scene = Scene::new();
    let content = pattern(2_000_000, 3);
    scene.write("here", &content);
    scene.write("server/there", &content);
    let server = scene.serve();
    let url = server.url("there");
    let outcome = scene.run(["sum", "--json", "--offset", "777", "--length", "1MiB", "here", &url]);
    outcome.ends_with(0).is_silent();
    for (line, name) in outcome.objects().iter().zip(["here", url.as_str()]) {
        assert_eq!((line["event"].as_str(), line["file"].as_str()), (Some("sum"), Some(name)));
        assert_eq!((line["offset"].as_u64(), line["length"].as_u64()), (Some(777), Some(1 << 20)));
        assert_eq!(line["hash"], hash(&content[777..777 + (1 << 20)]));
    }
    for name in ["here", &url] {
        let beyond = scene.run(["sum", "--offset", "1999999", "--length", "2", name]);
        assert_ne!(beyond.code, Some(0), "{name}");
        let rest = scene.run(["sum", "--offset", "1999999", name]);
        rest.ends_with(0);
        assert_eq!(rest.text(), format!("{}  {name}\n", hash(&content[1_999_999..])));
    }
}

#[test]
fn standard_input_is_hashed_to_its_end() {
    let scene = Scene::new();
    let content = pattern(1_500_000, 4);
    let mut child = scene.command(["sum", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}  -\n", hash(&content)));
}

#[test]
fn what_cannot_be_hashed_is_told_and_the_rest_is_hashed() {
    let scene = Scene::new();
    scene.write("here", b"x");
    scene.directory("server/folder");
    let server = scene.serve();
    for (name, code, says) in [
        ("gone".to_owned(), exit::NOT_FOUND, "gone"),
        (server.url("gone"), exit::NOT_FOUND, "no such file"),
        (server.url("folder"), exit::USAGE, "directory"),
        (
            "xdfs://127.0.0.1:1/data/x#SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".to_owned(),
            exit::CONNECTION_LOST,
            "127.0.0.1",
        ),
    ] {
        scene.run(["sum", &name]).ends_with(code).says(&[says]);
    }
    let both = scene.run(["sum", "--json", "gone", "here"]);
    both.ends_with(exit::SOME_FAILED).says(&["gone"]);
    let lines = both.objects();
    assert_eq!((&lines[0]["event"], &lines[0]["code"]), (&"error".into(), &"not_found".into()));
    assert_eq!((&lines[1]["event"], &lines[1]["hash"]), (&"sum".into(), &hash(b"x").into()));
    for line in ["sum", "sum --offset 1 -", "sum null:", "sum xdfs://localhost/data/"] {
        scene.run(line.split_whitespace()).ends_with(exit::USAGE);
    }
}
