//! Files that arrive: every size, both directions, through directories, ranges, pipes and memory.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use xdfs_test_cli::{Scene, exit, pattern};

const BLOCK: usize = 64 << 10;

#[test]
fn files_around_the_block_size_arrive_byte_exact_both_ways() {
    let scene = Scene::new();
    let server = scene.serve();
    for channels in ["1", "4"] {
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 7 * BLOCK + 13] {
            let content = pattern(size, size as u64);
            scene.write("source", &content);
            let url = server.url(&format!("up-{channels}-{size}"));
            scene.run(["cp", "-b", "64KiB", "-P", channels, "source", &url]).ends_with(0).is_silent();
            assert!(scene.read(format!("server/up-{channels}-{size}")) == content, "{size} bytes up");
            let back = format!("back-{channels}-{size}");
            scene.run(["cp", "-b", "64KiB", "-P", channels, &url, &back]).ends_with(0).is_silent();
            assert!(scene.read(&back) == content, "{size} bytes down");
        }
    }
}

#[test]
fn a_large_file_arrives_over_8_channels_at_every_level() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(150_000_007, 1);
    scene.write("source", &content);
    for level in ["clear", "integrity", "private"] {
        let url = server.url(level);
        scene.run(["cp", "-P", "8", "--protection", level, "source", &url]).ends_with(0);
        assert!(scene.read(format!("server/{level}")) == content, "{level} up");
        scene.run(["cp", "-P", "8", "--protection", level, &url, "back"]).ends_with(0);
        assert!(scene.read("back") == content, "{level} down");
    }
}

#[test]
fn nothing_but_the_file_is_left_in_the_target_directory() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(3 * BLOCK, 2));
    scene.directory("into");
    scene.run(["cp", "source", &server.url("file")]).ends_with(0);
    scene.run(["cp", &server.url("file"), "into"]).ends_with(0);
    assert_eq!(scene.names("server"), ["file"]);
    assert_eq!(scene.names("into"), ["file"]);
}

#[test]
fn mode_and_modification_time_are_carried_and_no_set_user_id_bit() {
    let scene = Scene::new();
    let server = scene.serve();
    let source = scene.write("source", b"x");
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    for (mode, carried) in [(0o640, 0o640), (0o755, 0o755), (0o400, 0o400), (0o4755, 0o755)] {
        std::fs::File::open(&source).unwrap().set_modified(modified).unwrap();
        std::fs::set_permissions(&source, PermissionsExt::from_mode(mode)).unwrap();
        scene.run(["cp", "source", &server.url("up")]).ends_with(0);
        scene.run(["cp", &server.url("up"), "back"]).ends_with(0);
        for copy in ["server/up", "back"] {
            let metadata = std::fs::metadata(scene.path(copy)).unwrap();
            // The tests run with the usual umask, which takes no bit that is set here but those of 'group' and 'other'.
            assert_eq!(metadata.mode() & 0o7777 & !0o022, carried & !0o022, "{copy}");
            assert_eq!(metadata.modified().unwrap(), modified, "{copy}");
        }
    }
}

#[test]
fn a_directory_as_target_receives_the_sources_under_their_names() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/into");
    for name in ["a", "b c", "d%20e"] {
        scene.write(name, name.as_bytes());
    }
    // The existing directory is noticed without a slash, for one source as for several.
    scene.run(["cp", "a", &server.url("into")]).ends_with(0);
    scene.run(["cp", "b c", "d%20e", &server.url("into/")]).ends_with(0);
    assert_eq!(scene.names("server/into"), ["a", "b c", "d%20e"]);
    scene.directory("back");
    let urls = [server.url("into/a"), server.url("into/b%20c"), server.url("into/d%2520e")];
    scene.run(["cp", &urls[0], &urls[1], &urls[2], "back"]).ends_with(0);
    for name in ["a", "b c", "d%20e"] {
        assert_eq!(scene.read(format!("back/{name}")), name.as_bytes());
    }
    // The export itself is a directory, too.
    scene.run(["cp", "a", &format!("xdfs://{}/data#{}", server.address(), server.host_key())]).ends_with(0);
    assert_eq!(scene.read("server/a"), b"a");
}

#[test]
fn names_of_any_bytes_survive_the_round_trip() {
    let scene = Scene::new();
    let server = scene.serve();
    for (number, name) in [&b"line\nbreak"[..], b"\xff\xfe", b"%00", b"#?&", b"-n", b" "].into_iter().enumerate() {
        let name = std::ffi::OsString::from_vec(name.to_vec());
        scene.write(&name, &[number as u8]);
        let mut typed = std::ffi::OsString::from("./");
        typed.push(&name);
        scene.run([&"cp".into(), &typed, &server.url("").into()]).ends_with(0);
        let mut stored = std::ffi::OsString::from("server/");
        stored.push(&name);
        assert_eq!(scene.read(&stored), [number as u8]);
    }
}

#[test]
fn json_tells_names_as_they_are_and_marks_what_it_has_to_escape() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("down");
    for (name, told, escaped) in [
        (&b"line\nbreak\\n"[..], "line\nbreak\\n", false),
        (b"\\xff\xff", "\\\\xff\\xff", true),
        (b"plain", "plain", false),
    ] {
        let name = std::ffi::OsString::from_vec(name.to_vec());
        scene.write(&name, b"x");
        let url = server.url(&format!("new{}", told.len()));
        let both = |first: &std::ffi::OsStr, second: &std::ffi::OsStr| {
            let outcome = scene.run([&"cp".into(), &"--json".into(), &first.to_owned(), &second.to_owned()]);
            outcome.ends_with(0).objects().pop().unwrap()
        };
        let up = both(&name, url.as_ref());
        assert_eq!((&up["source"], &up["target"]), (&told.into(), &url.as_str().into()), "{up}");
        assert_eq!(up.get("source_escaped"), escaped.then_some(&true.into()), "{up}");
        assert_eq!(up.get("target_escaped"), None, "{up}");
        let mut below = std::ffi::OsString::from("down/");
        below.push(&name);
        let down = both(url.as_ref(), &below);
        assert_eq!(down["target"], format!("down/{told}"), "{down}");
        assert_eq!(down.get("target_escaped"), escaped.then_some(&true.into()), "{down}");
        assert_eq!(down.get("source_escaped"), None, "{down}");
        // A tree, too.
        let mut tree = std::ffi::OsString::from("tree-");
        tree.push(&name);
        scene.directory(&tree);
        let words = ["sync", "--json"].map(std::ffi::OsString::from);
        let target = std::ffi::OsString::from(server.url(&format!("tree{}/", told.len())));
        let synced = scene.run(words.iter().chain([&tree, &target]));
        let synced = synced.ends_with(0).objects().pop().unwrap();
        assert_eq!((&synced["event"], &synced["source"]), (&"tree".into(), &format!("tree-{told}").into()), "{synced}");
        assert_eq!(synced.get("source_escaped"), escaped.then_some(&true.into()), "{synced}");
    }
}

#[test]
fn an_existing_file_is_replaced_and_with_n_it_is_kept_and_said() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("new", b"new");
    scene.write("server/old", b"something longer that was there before");
    scene.write("local", b"something local");
    let url = server.url("old");
    scene.run(["cp", "-n", "new", &url]).ends_with(0).says(&["old", "kept"]);
    assert_eq!(scene.read("server/old"), b"something longer that was there before");
    scene.run(["cp", "new", &url]).ends_with(0).is_silent();
    assert_eq!(scene.read("server/old"), b"new");
    scene.run(["cp", "-n", &url, "local"]).ends_with(0).says(&["local", "kept"]);
    assert_eq!(scene.read("local"), b"something local");
    scene.run(["cp", "-n", "-q", &url, "local"]).ends_with(0).is_silent();
    scene.run(["cp", &url, "local"]).ends_with(0).is_silent();
    assert_eq!(scene.read("local"), b"new");
    let kept = scene.run(["cp", "-n", "--json", "new", &url]);
    kept.ends_with(0);
    assert_eq!(kept.objects()[0]["event"], "kept");
}

#[test]
fn a_range_is_all_that_the_target_holds() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(300_000, 3);
    scene.write("source", &content);
    scene.write("server/remote", &content);
    for (offset, length) in [(0, 1), (1, 65_536), (65_535, 2), (777, 200_000), (299_999, 1), (300_000, 0)] {
        let expected = &content[offset..offset + length];
        let range = [format!("--offset={offset}"), format!("--length={length}")];
        scene.run(["cp", "-b", "64KiB", &range[0], &range[1], "source", &server.url("up")]).ends_with(0);
        assert!(scene.read("server/up") == expected, "{range:?} up");
        scene.run(["cp", "-b", "64KiB", &range[0], &range[1], &server.url("remote"), "down"]).ends_with(0);
        assert!(scene.read("down") == expected, "{range:?} down");
    }
    scene.run(["cp", "--offset", "299990", &server.url("remote"), "tail"]).ends_with(0);
    assert_eq!(scene.read("tail"), content[299_990..]);
    scene.run(["cp", "--offset", "299990", "source", &server.url("tail")]).ends_with(0);
    assert_eq!(scene.read("server/tail"), content[299_990..]);
}

#[test]
fn a_range_outside_the_source_is_refused_and_makes_no_file() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(1000, 4));
    scene.write("server/remote", &pattern(1000, 4));
    for range in [["--offset", "1001"], ["--length", "1001"]] {
        let up = scene.run(["cp", range[0], range[1], "source", &server.url("up")]);
        up.ends_with(exit::LOCAL).says(&["source"]);
        let down = scene.run(["cp", range[0], range[1], &server.url("remote"), "down"]);
        down.ends_with(exit::REFUSED).says(&["remote"]);
    }
    assert!(!scene.path("down").exists());
    assert_eq!(scene.names("server"), ["remote"]);
}

#[test]
fn the_ends_of_a_sparse_file_of_8_tib_can_be_fetched_and_sent() {
    let scene = Scene::new();
    let server = scene.serve();
    let size: u64 = 8 << 40;
    for name in ["server/sparse", "sparse"] {
        let path = scene.write(name, b"first");
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(b"last!", size - 5).unwrap();
    }
    let end = (size - 5).to_string();
    for (offset, expected) in [("0", b"first"), (end.as_str(), b"last!")] {
        scene.run(["cp", "--offset", offset, "--length", "5", &server.url("sparse"), "part"]).ends_with(0);
        assert_eq!(scene.read("part"), expected);
        scene.run(["cp", "--offset", offset, "--length", "5", "sparse", &server.url("part")]).ends_with(0);
        assert_eq!(scene.read("server/part"), expected);
    }
}

#[test]
fn pipes_carry_data_of_unknown_length_over_8_channels_in_little_memory() {
    const MEMORY_MAX: u64 = 64 << 20;
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(100_000_003, 5);
    let mut upload = scene.start(["cp", "-P", "8", "-", &server.url("piped")]);
    assert!(upload.feed(&content), "it reads standard input to its end");
    let peak = upload.peak_memory();
    upload.wait().ends_with(0).is_silent();
    assert!(scene.read("server/piped") == content, "up");
    assert!(peak <= MEMORY_MAX, "{peak} bytes resident");
    let download = scene.run(["cp", "-P", "8", &server.url("piped"), "-"]);
    download.ends_with(0).is_silent();
    assert!(download.output == content, "down");
}

#[test]
fn an_empty_pipe_becomes_an_empty_file() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.start(["cp", "-", &server.url("empty")]).wait().ends_with(0);
    assert_eq!(scene.read("server/empty"), b"");
    let download = scene.run(["cp", &server.url("empty"), "-"]);
    download.ends_with(0);
    assert_eq!(download.output, b"");
}

#[test]
fn two_hundred_files_go_in_one_command() {
    let scene = Scene::new();
    let server = scene.serve();
    let names: Vec<String> = (0..200).map(|number| format!("file-{number:03}")).collect();
    for (number, name) in names.iter().enumerate() {
        scene.write(name, &pattern(number * 977, number as u64));
    }
    scene.directory("server/all");
    let target = server.url("all/");
    let words = ["cp", "--json"].into_iter().chain(names.iter().map(String::as_str)).chain([target.as_str()]);
    let outcome = scene.run(words);
    outcome.ends_with(0);
    assert_eq!(outcome.objects().len(), 200);
    for (number, name) in names.iter().enumerate() {
        assert!(scene.read(format!("server/all/{name}")) == pattern(number * 977, number as u64), "{name}");
    }
}

#[test]
fn one_command_fetches_from_two_servers() {
    let (first, second, here) = (Scene::new(), Scene::new(), Scene::new());
    first.write("server/a", b"from the first");
    second.write("server/b", b"from the second");
    let (first_server, second_server) = (first.serve(), second.serve());
    here.directory("into");
    here.trust(first_server.address(), &first_server);
    here.trust(second_server.address(), &second_server);
    here.run(["cp", &first_server.url("a"), &second_server.url("b"), "into"]).ends_with(0);
    assert_eq!(here.read("into/a"), b"from the first");
    assert_eq!(here.read("into/b"), b"from the second");
}

#[test]
fn two_clients_that_write_one_target_leave_one_content_whole() {
    let scene = Scene::new();
    let server = scene.serve();
    let contents = [pattern(20_000_000, 6), pattern(20_000_000, 7)];
    scene.write("a", &contents[0]);
    scene.write("b", &contents[1]);
    let url = server.url("both");
    let running = [scene.start(["cp", "a", &url]), scene.start(["cp", "b", &url])];
    for client in running {
        client.wait().ends_with(0);
    }
    let result = scene.read("server/both");
    assert!(contents.contains(&result), "neither content, {} bytes", result.len());
    assert_eq!(scene.names("server"), ["both"]);
}

#[test]
fn memory_exports_make_and_swallow_bytes() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--export", "mem=memory:"]);
    let up = scene.run(["cp", "--json", "zero:100MB", &server.url_in("mem", "null")]);
    up.ends_with(0);
    assert_eq!(up.objects()[0]["bytes"], 100_000_000);
    let down = scene.run(["cp", "--json", "--length", "100MB", &server.url_in("mem", "zero"), "null:"]);
    down.ends_with(0);
    assert_eq!(down.objects()[0]["bytes"], 100_000_000);
    scene.run(["cp", "--length", "100001", &server.url_in("mem", "zero"), "zeros"]).ends_with(0);
    assert!(scene.read("zeros") == vec![0; 100_001]);
    let random = scene.run(["cp", "--json", "--length", "100MB", &server.url_in("mem", "random"), "null:"]);
    assert_eq!(random.ends_with(0).objects()[0]["bytes"], 100_000_000);
    scene.run(["cp", "random:9000001", &server.url("random")]).ends_with(0);
    let random = scene.read("server/random");
    assert!(random.len() == 9_000_001 && random.iter().filter(|byte| **byte == 0).count() < 50_000);
    scene.run(["cp", "zero:70001", &server.url("zeros")]).ends_with(0);
    assert!(scene.read("server/zeros") == vec![0; 70_001]);
}

#[test]
fn ipv6_works_as_ipv4_does() {
    let scene = Scene::new();
    scene.directory("server");
    scene.write("a", b"six");
    let command = scene.command(["serve", "--json", "--listen", "[::1]:0", "--allow-anonymous", "rw"]);
    let server = xdfs_test_cli::Server::start(command, &["--export", "data=server"]);
    scene.trust(server.address(), &server);
    assert!(server.address().starts_with("[::1]:"), "{}", server.address());
    scene.run(["cp", "a", &server.url("a")]).ends_with(0);
    assert_eq!(scene.read("server/a"), b"six");
}

#[test]
fn a_json_line_tells_about_each_transfer() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(5_000_000, 8));
    let url = server.url("x");
    let outcome = scene.run(["cp", "--json", "-P", "4", "--protection", "integrity", "source", &url]);
    outcome.ends_with(0);
    let objects = outcome.objects();
    assert_eq!(objects.len(), 1);
    let line = &objects[0];
    let fields: [(&str, serde_json::Value); 10] = [
        ("event", "transfer".into()),
        ("source", "source".into()),
        ("target", url.into()),
        ("bytes", 5_000_000.into()),
        ("channels", 4.into()),
        ("protection", "integrity".into()),
        ("verify", "hash".into()),
        ("hash", blake3::hash(&pattern(5_000_000, 8)).to_hex().as_str().into()),
        ("resumed_bytes", 0.into()),
        ("ok", true.into()),
    ];
    for (field, value) in fields {
        assert_eq!(line[field], value, "{field} in {line}");
    }
    assert!(line["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
    assert!(line["congestion"].as_str().is_some_and(|name| !name.is_empty()), "{line}");
    let by_channel: Vec<u64> =
        line["channel_bytes"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).collect();
    assert_eq!(by_channel.len(), 4);
    // Blocks that were still on their way when nothing else was left go again on idle channels.
    let moved = by_channel.iter().sum::<u64>();
    assert!(moved >= 5_000_000, "{line}");
    assert_eq!(line["retries"], 0, "nothing was lost, whatever went twice: {line}");
}

#[test]
fn a_server_with_a_floor_gives_more_protection_than_asked_for_and_it_is_said() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--min-protection", "integrity"]);
    scene.write("a", &pattern(100_000, 9));
    let outcome = scene.run(["cp", "--json", "--protection", "clear", "a", &server.url("a")]);
    outcome.ends_with(0).says(&["clear", "insists on integrity"]);
    assert_eq!(outcome.objects()[0]["protection"], "integrity");
    assert_eq!(outcome.objects()[0]["verify"], "hash");
    let outcome = scene.run(["cp", "--json", "--protection", "clear", "--verify", "none", "a", &server.url("a")]);
    outcome.ends_with(0).says(&["insists on integrity"]);
    assert_eq!(outcome.objects()[0]["verify"], "wire");
}

#[test]
fn fewer_channels_than_asked_for_is_said() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--max-channels", "2"]);
    scene.write("a", b"x");
    let outcome = scene.run(["cp", "--json", "-P", "8", "a", &server.url("a")]);
    outcome.ends_with(0).says(&["8", "2 channels"]);
    assert_eq!(outcome.objects()[0]["channels"], 2);
}

#[test]
fn links_are_followed_and_a_replaced_target_keeps_its_link() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("real", b"content");
    std::os::unix::fs::symlink("real", scene.path("link")).unwrap();
    scene.run(["cp", "link", &server.url("up")]).ends_with(0);
    assert_eq!(scene.read("server/up"), b"content");
    scene.write("server/new", b"new content");
    scene.run(["cp", &server.url("new"), "link"]).ends_with(0);
    assert_eq!(scene.read("real"), b"new content");
    assert!(std::fs::symlink_metadata(scene.path("link")).unwrap().is_symlink());
}
