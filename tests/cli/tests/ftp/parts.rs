//! Files under their temporary names: what continues them, what becomes of them, and who sees them.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use xdfs_test_cli::{Scene, exit, pattern};

use super::scripted::{Answer, Say, Scripted};
use super::servers::FtpServer;
use super::{PATIENCE, run};

/// The name of a part, as an upload that broke leaves it.
const PART: &str = ".xdfs-0123456789abcdef0123456789abcdef.part";

/// Changes a file when more than 2 MiB of it are in a directory of the server.
fn change_when_some_arrived(file: &Path, directory: &Path) {
    let until = Instant::now() + PATIENCE;
    let arrived = || {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum::<u64>()
    };
    while arrived() < 2 << 20 {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::yield_now();
    }
    let mut file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all(b"changed").unwrap();
}

#[test]
fn a_part_of_several_connections_is_not_continued_on_one() {
    // It may have holes, and its length says nothing of them.
    let server = Scripted::start(|line| match line {
        "FEAT" => Some(Say::Reply("211-F\r\n MLST type*;size*;\r\n PARALLEL\r\n211 End")),
        _ if line.starts_with("MLST ") => Some(Say::Reply("550 no")),
        _ if line.starts_with("STOR ") => Some(Say::Reply("552 full")),
        _ => None,
    });
    let scene = Scene::new();
    scene.write("f", &pattern(3_000_000, 1));
    let url = server.url("//f").replace("ftp://", "gsiftp://");
    let stored = |streams: &str| {
        let before = server.heard("STOR ").len();
        run(&scene, &["cp", "--retry", "0", "-P", streams, "f", &url]).fails();
        server.heard("STOR ").get(before).cloned().expect("an upload")
    };
    assert_ne!(stored("4"), stored("1"));
    assert_eq!(stored("4"), stored("4"));
}

#[test]
fn no_part_is_left_when_the_number_of_connections_changes() {
    let (scene, server) = (Scene::new(), FtpServer::globus());
    scene.write("f", &pattern(200_000_000, 1));
    let url = server.url("f");
    for streams in ["4", "1"] {
        let copy = scene.start(["cp", "-P", streams, "f", &url]);
        let until = Instant::now() + PATIENCE;
        while server.names().is_empty() {
            assert!(Instant::now() < until, "nothing arrives");
            std::thread::yield_now();
        }
        copy.kill();
        let other = if streams == "4" { "1" } else { "4" };
        run(&scene, &["cp", "-P", other, "f", &url]).ends_with(0);
        assert!(server.read("f") == scene.read("f"));
        assert_eq!(server.names(), ["f"]);
        std::fs::remove_file(server.here.join("f")).unwrap();
    }
}

#[test]
fn a_file_of_a_tree_that_changes_while_it_is_sent_gets_no_name() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    let path = scene.write("tree/f", &pattern(16 << 20, 6));
    let copy = scene.start(["cp", "-r", "--retry", "0", "tree", &slow.url("copy")]);
    change_when_some_arrived(&path, &slow.here.join("copy"));
    copy.wait().ends_with(1).says(&["changed while"]);
    assert_eq!(std::fs::read_dir(slow.here.join("copy")).unwrap().count(), 0);
}

#[test]
fn a_tree_that_is_written_in_place_says_so() {
    let (scene, server) = (Scene::new(), FtpServer::vsftpd("anon_other_write_enable=NO\n"));
    scene.write("tree/f", b"content");
    scene.write("tree/g", b"content");
    let copy = run(&scene, &["cp", "-r", "-P", "1", "tree", &server.url("copy")]);
    copy.ends_with(0).says(&["no temporary names"]);
    assert_eq!(copy.messages.matches("no temporary names").count(), 1);
    assert_eq!(server.read("copy/f"), b"content");
}

#[test]
fn parts_of_broken_uploads_are_not_copied() {
    let (scene, server) = (Scene::new(), FtpServer::globus());
    for name in [PART, "f", ".xdfs-mine.part", ".hidden"] {
        server.put(&format!("tree/{name}"), b"content");
    }
    run(&scene, &["sync", &server.url("tree"), "tree"]).ends_with(0);
    assert_eq!(scene.names("tree"), [".hidden", ".xdfs-mine.part", "f"]);
}

#[test]
fn a_part_does_not_keep_a_directory_that_is_deleted() {
    let (scene, server) = (Scene::new(), FtpServer::globus());
    server.put(&format!("tree/surplus/{PART}"), b"content");
    server.put("tree/f", b"content");
    scene.directory("tree");
    run(&scene, &["sync", "--delete", "tree", &server.url("tree")]).ends_with(0);
    assert_eq!(std::fs::read_dir(server.here.join("tree")).unwrap().count(), 0);
}

/// So many bytes arrive before a download is cut.
const CUT: usize = 12 << 20;

#[test]
fn a_file_of_a_tree_is_downloaded_from_where_it_was_cut() {
    static WAS_CUT: AtomicBool = AtomicBool::new(false);
    fn answer(line: &str) -> Option<Say> {
        match line {
            "FEAT" => Some(Say::Reply("211-F\r\n MLST type*;size*;modify*;\r\n CKSM SHA256:1;\r\n211 End")),
            "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
            "MLST /d/f" => Some(Say::Reply("250-x\r\n type=file;size=20000000;modify=20260102030405; /d/f\r\n250 end")),
            "MLSD /d" => Some(Say::Send(b"type=file;size=20000000;modify=20260102030405; f\r\n".to_vec())),
            "RETR /d/f" if !WAS_CUT.swap(true, Ordering::Relaxed) => {
                Some(Say::Cut(pattern(20_000_000, 4)[..CUT].to_vec()))
            }
            // What follows the bytes that are there.
            "RETR /d/f" => Some(Say::Send(pattern(20_000_000, 4)[CUT..].to_vec())),
            // That of the whole file.
            "CKSM SHA256 0 -1 /d/f" => {
                Some(Say::Reply("213 1fe7f0249bb67801d834a5812f894a37ba6d64d38847090d3c5d03c8c553d352"))
            }
            _ => None,
        }
    }
    let (scene, server) = (Scene::new(), Scripted::start(answer));
    let cut = run(&scene, &["sync", "--retry", "0", &server.url("//d"), "d"]);
    assert_ne!(cut.code, Some(0), "{}", cut.messages);
    assert!(!scene.path("d/f").exists());
    run(&scene, &["sync", &server.url("//d"), "d"]).ends_with(0);
    assert_eq!(server.heard("REST"), [format!("REST {CUT}")]);
    assert!(scene.read("d/f") == pattern(20_000_000, 4));
}

#[test]
fn a_file_of_a_tree_is_uploaded_from_where_it_was_cut() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    let content = pattern(24 << 20, 6);
    scene.write("tree/f", &content);
    slow.put("tree/x", b"x");
    let url = slow.url("tree");
    let part = || {
        let entries = std::fs::read_dir(slow.here.join("tree")).unwrap().flatten();
        entries.map(|entry| entry.path()).find(|path| path.file_name().is_some_and(|name| name != "x"))
    };
    let copy = scene.start(["sync", "tree", &url]);
    let until = Instant::now() + PATIENCE;
    while part().and_then(|path| path.metadata().ok()).is_none_or(|file| file.len() < 4 << 20) {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::yield_now();
    }
    copy.kill();
    slow.kill_sessions();
    // Only bytes that are not sent again keep this mark.
    let mut file = std::fs::OpenOptions::new().write(true).open(part().unwrap()).unwrap();
    file.write_all(b"mark").unwrap();
    drop(file);
    run(&scene, &["sync", "tree", &url]).ends_with(0);
    let there = slow.read("tree/f");
    assert!(there.starts_with(b"mark") && there[4..] == content[4..]);
    assert!(part().is_some_and(|path| path.ends_with("f")), "no part is left");
}

#[test]
fn no_part_of_an_upload_that_failed_is_left() {
    fn empty(line: &str) -> Option<Say> {
        line.starts_with("MLST ").then_some(Say::Reply("550 no"))
    }
    fn full(line: &str) -> Option<Say> {
        line.starts_with("STOR ").then_some(Say::Reply("552 full")).or_else(|| empty(line))
    }
    fn short(line: &str) -> Option<Say> {
        line.starts_with("SIZE /.xdfs-").then_some(Say::Reply("213 1")).or_else(|| empty(line))
    }
    fn wrong(line: &str) -> Option<Say> {
        match line {
            "FEAT" => Some(Say::Reply("211-F\r\n MLST type*;size*;\r\n CKSM SHA256:1;\r\n211 End")),
            _ if line.starts_with("CKSM ") => {
                Some(Say::Reply("213 1fe7f0249bb67801d834a5812f894a37ba6d64d38847090d3c5d03c8c553d352"))
            }
            _ => empty(line),
        }
    }
    let scene = Scene::new();
    scene.write("f", b"content");
    for (answer, words) in [
        (full as fn(&str) -> Option<Say>, "552 full"),
        (short, "the server has 1 bytes of 7"),
        (wrong, "what the server has"),
    ] {
        let server = Scripted::start(answer);
        let failed = run(&scene, &["cp", "--retry", "0", "f", &server.url("//f")]);
        failed.says(&[words]).fails();
        let stored = server.heard("STOR ").pop().expect("an upload");
        let part = stored.trim_start_matches("STOR ");
        assert!(part.starts_with("/.xdfs-"), "{part}");
        assert!(server.heard("DELE ").contains(&format!("DELE {part}")), "{words}: {:?}", server.heard("DELE "));
        assert!(server.heard("RNTO").is_empty(), "{words}");
    }
}

#[test]
fn no_part_of_a_file_that_changes_while_it_is_sent_is_left() {
    let (scene, slow) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=4000000\n"));
    let path = scene.write("f", &pattern(16 << 20, 6));
    let copy = scene.start(["cp", "--retry", "0", "f", &slow.url("f")]);
    change_when_some_arrived(&path, &slow.here);
    copy.wait().ends_with(exit::CHANGED).says(&["changed while"]);
    assert_eq!(slow.names(), [""; 0]);
}

/// What the server of the lies below says of its file.
fn facts(line: &str) -> Option<Say> {
    line.starts_with("MLST ").then_some(Say::Reply("250-facts\r\n type=file;size=10; /f\r\n250 end"))
}

#[test]
fn no_lie_of_a_server_leaves_a_file_here() {
    const LIES: [fn(&str) -> Option<Say>; 9] = [
        |line| line.starts_with("RETR ").then(|| Say::Send(vec![b'x'; 11])).or_else(|| facts(line)),
        |line| line.starts_with("RETR ").then(|| Say::Send(vec![b'x'; 9])).or_else(|| facts(line)),
        |line| line.starts_with("RETR ").then(|| Say::Send(Vec::new())).or_else(|| facts(line)),
        |line| line.starts_with("RETR ").then(|| Say::Cut(vec![b'x'; 10])).or_else(|| facts(line)),
        |line| line.starts_with("RETR ").then_some(Say::Reply("226 done")).or_else(|| facts(line)),
        |line| line.starts_with("RETR ").then_some(Say::Reply("550 no")).or_else(|| facts(line)),
        |line| line.starts_with("RETR ").then_some(Say::Reply("\x1b[2Jno reply")).or_else(|| facts(line)),
        |line| line.starts_with("MLST ").then_some(Say::Reply("250-facts\r\n type=file;size=x; /f\r\n250 end")),
        |line| line.starts_with("MLST ").then_some(Say::Reply("250-facts\r\n type=dir; /f\r\n250 end")),
    ];
    for (number, lie) in LIES.into_iter().enumerate() {
        let (scene, server) = (Scene::new(), Scripted::start(lie));
        scene.directory("here");
        let failed = run(&scene, &["cp", "--retry", "0", &server.url("//f"), "here/f"]);
        assert!(failed.code.is_some_and(|code| code > 0 && code < 100), "{number}: {}", failed.text());
        assert!(!failed.messages.contains('\x1b'), "{number}: {}", failed.messages);
        assert_eq!(scene.names("here"), Vec::<String>::new(), "{number}");
        // What was there before stays.
        scene.write("here/f", b"before");
        run(&scene, &["cp", "--retry", "0", &server.url("//f"), "here/f"]).fails();
        assert_eq!(scene.read("here/f"), b"before", "{number}");
    }
}

/// What a server of Mode E says before it sends.
fn speaks_mode_e(line: &str) -> Option<Say> {
    match line {
        "FEAT" => Some(Say::Reply("211-F\r\n MLST type*;size*;\r\n PARALLEL\r\n211 End")),
        _ if line.starts_with("MLST ") => Some(Say::Reply("250-facts\r\n type=file;size=3000000; /f\r\n250 end")),
        _ if line.starts_with("OPTS ") || line.starts_with("PORT ") => Some(Say::Reply("200 ok")),
        _ => None,
    }
}

/// The length of its file.
const LENGTH: u64 = 3_000_000;

/// A block of Mode E of this kind, with `count` bytes for `offset`.
fn block(kind: u8, offset: u64, count: u64) -> Vec<u8> {
    let head = [&[kind][..], &count.to_be_bytes(), &offset.to_be_bytes()].concat();
    [head, vec![b'x'; usize::try_from(count).unwrap()]].concat()
}

/// The last block of its connection.
const EOD: u8 = 0x08;
/// The end of the file, and the last block of its connection; the offset is how many connections end.
const EOF: u8 = 0x40 | EOD;

/// What a server of Mode E may send instead of its file, and a part of what is said of it. Half of the file has come before
/// most of it.
fn lies_of_mode_e() -> Vec<(Vec<Vec<u8>>, &'static str)> {
    let half = LENGTH / 2;
    let one = |blocks: &[Vec<u8>]| vec![blocks.concat()];
    let first = || block(0, 0, half);
    let huge = [&[0][..], &10_u64.to_be_bytes(), &u64::MAX.to_be_bytes()].concat();
    vec![
        (one(&[first(), block(0, half, half + 1)]), "outside the file"),
        (one(&[first(), block(0, LENGTH, 1)]), "outside the file"),
        (one(&[first(), huge]), "outside the file"),
        (one(&[first(), block(0, half - 1, half)]), "bytes at offset 1499999, and"),
        (vec![first(), block(EOD, 0, half)], "bytes at offset 0, and"),
        (one(&[first(), block(EOF, 0, 0)]), "announced that 0 data connections"),
        (one(&[first(), block(EOF, 5, 0)]), "announced that 5 data connections"),
        (one(&[first(), block(EOF, u64::MAX, 0)]), "announced that 18446744073709551615"),
        (one(&[first(), block(0x40, 2, 0), block(0x40, 2, 0)]), "the end of the file twice"),
        (one(&[first(), block(EOF, 1, 0)]), "1500000 bytes are missing"),
        // Found by what is missing or by what follows or ends besides, whichever is seen first.
        (vec![block(EOD, 0, half), block(EOD, half, half), block(EOF, 1, 0)], ""),
        (one(&[first(), block(EOF, 1, 0), block(0, half, half)]), ""),
        (one(&[first(), block(EOD, half, half), block(0, half, half)]), "whose end it had marked"),
        (one(&[first(), block(0x40, 2, 0), block(EOD, 0, 0), b"more".to_vec()]), "whose end it had marked"),
        (one(&[first(), block(0, half, half)[..1000].to_vec()]), "closed before its end was marked"),
        (one(&[first(), block(0, half, half)]), "closed before its end was marked"),
        (one(&[first(), block(0, half, half)[..9].to_vec()]), "closed before its end was marked"),
        (one(&[first(), block(0x80, half, half)]), "which Mode E does not have"),
        (one(&[first(), block(EOF, 1, 5)]), "the end of the file in a block with 5 bytes"),
        // One connection too many, or those that say nothing, whichever is seen first.
        (vec![first(), Vec::new(), Vec::new(), Vec::new(), Vec::new()], ""),
    ]
}

#[test]
fn no_lie_of_a_server_of_mode_e_leaves_a_file_here() {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    fn lie(line: &str) -> Option<Say> {
        let is_file = line.starts_with("RETR ");
        let blocks = || lies_of_mode_e().swap_remove(NUMBER.load(Ordering::Relaxed)).0;
        is_file.then(|| Say::Blocks(blocks())).or_else(|| speaks_mode_e(line))
    }
    for (number, (_, words)) in lies_of_mode_e().iter().enumerate() {
        NUMBER.store(number, Ordering::Relaxed);
        let (scene, server) = (Scene::new(), Scripted::start(lie));
        scene.directory("here");
        let url = server.url("//f").replace("ftp://", "gsiftp://");
        for before in [None, Some(b"before")] {
            if let Some(before) = before {
                scene.write("here/f", before);
            }
            let failed = run(&scene, &["cp", "--retry", "0", "-P", "4", &url, "here/f"]);
            failed.fails().says(&[words]);
            let names: &[&str] = if before.is_some() { &["f"] } else { &[] };
            assert_eq!(scene.names("here"), names, "{number}: {}", failed.messages);
            assert!(before.is_none_or(|before| scene.read("here/f") == before), "{number}");
        }
        assert_eq!(server.heard("OPTS RETR Parallelism=4,4,4;").len(), 2, "{number}");
    }
}

/// The same server when it does not lie, so that the lies above are refused for what they are.
#[test]
fn what_a_server_of_mode_e_sends_on_several_connections_is_taken() {
    let honest: Answer = |line| match line {
        "RETR /f" => Some(Say::Blocks(vec![
            block(EOD, 0, LENGTH / 2),
            [block(0, LENGTH / 2, LENGTH / 2), block(EOF, 2, 0)].concat(),
        ])),
        _ => speaks_mode_e(line),
    };
    let (scene, server) = (Scene::new(), Scripted::start(honest));
    let url = server.url("//f").replace("ftp://", "gsiftp://");
    run(&scene, &["cp", "-P", "4", &url, "f"]).ends_with(0);
    assert!(scene.read("f") == vec![b'x'; usize::try_from(LENGTH).unwrap()]);
}

/// No more than one part at a time is on the server of a tree.
#[test]
fn a_file_of_a_tree_between_servers_that_fails_leaves_no_part_behind_it() {
    let source: Answer = |line| match line {
        "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
        "MLSD /d" => Some(Say::Send(b"type=file;size=5; a\r\ntype=file;size=5; b\r\n".to_vec())),
        "MLST /d/a" | "MLST /d/b" => Some(Say::Reply("250-x\r\n type=file;size=5; /d/f\r\n250 end")),
        _ if line.starts_with("RETR ") => Some(Say::Send(b"12345".to_vec())),
        _ => None,
    };
    let target: Answer = |line| match line {
        "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
        "MLSD /d" => Some(Say::Send(Vec::new())),
        _ if line.starts_with("MLST ") => Some(Say::Reply("550 no such file")),
        _ if line.starts_with("STOR ") => Some(Say::Reply("452 no room")),
        _ => None,
    };
    let (scene, one, other) = (Scene::new(), Scripted::start(source), Scripted::start(target));
    let words = ["sync", "--retry", "0", &one.url("//d"), &other.url("//d")];
    run(&scene, &words).fails().says(&["452 no room"]);
    let heard = other.heard("");
    let parts: Vec<(&str, &str)> = heard.iter().filter_map(|line| line.split_once(' ')).collect();
    let parts: Vec<_> = parts.into_iter().filter(|(word, _)| matches!(*word, "STOR" | "DELE")).collect();
    assert_eq!(parts.iter().map(|(word, _)| *word).collect::<Vec<_>>(), ["STOR", "DELE", "STOR", "DELE"], "{parts:?}");
    assert!(parts[0].1 == parts[1].1 && parts[2].1 == parts[3].1, "{parts:?}");
}

/// What is there under the final name would be lost, and the transfer fail again.
#[test]
fn a_transfer_that_failed_at_the_server_is_not_repeated_under_the_final_name() {
    fn there(line: &str) -> Option<Say> {
        match line {
            "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /d\r\n250 end")),
            "MLSD /d" => Some(Say::Send(b"type=file;size=3; f\r\n".to_vec())),
            "MLST /d/f" => Some(Say::Reply("250-x\r\n type=file;size=3; /d/f\r\n250 end")),
            _ => None,
        }
    }
    let local_error: Answer = |line| match line {
        _ if line.starts_with("STOR ") => Some(Say::Reply("451 Local error in processing.")),
        _ => there(line),
    };
    let no_space: Answer = |line| match line {
        _ if line.starts_with("STOR ") => Some(Say::Reply("500-Command failed.\r\n500 No space left on device")),
        _ => there(line),
    };
    for answer in [local_error, no_space] {
        let (scene, server) = (Scene::new(), Scripted::start(answer));
        scene.write("tree/f", b"other");
        run(&scene, &["cp", "--retry", "0", "tree/f", &server.url("//d/f")]).fails();
        run(&scene, &["cp", "-r", "--retry", "0", "tree/.", &server.url("//d")]).fails();
        let stored: Vec<String> = server.heard("STOR ");
        assert!(stored.len() >= 2 && stored.iter().all(|line| line.contains("/.xdfs-")), "{stored:?}");
    }
}
