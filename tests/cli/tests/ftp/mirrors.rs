//! Trees from one FTP server to another: what is left out, what is removed, and what a dry run says of both.

use std::os::unix::fs::symlink;
use std::path::Path;

use xdfs_test_cli::{Outcome, Scene, exit};

use super::run;
use super::scripted::{Say, Scripted};
use super::servers::FtpServer;

/// All names below a directory, sorted; those of directories end with a slash.
fn names(directory: &Path) -> Vec<String> {
    fn walk(directory: &Path, above: &str, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
            let name = format!("{above}{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("its type").is_dir() {
                names.push(format!("{name}/"));
                walk(&entry.path(), &format!("{name}/"), names);
            } else {
                names.push(name);
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, "", &mut found);
    found.sort();
    found
}

/// What the last line of a report in JSON says of a tree: files, names left alone, removed, failed.
#[track_caller]
fn counts(outcome: &Outcome) -> [u64; 4] {
    let told = outcome.objects().pop().expect("a tree");
    ["files", "skipped", "deleted", "failed"]
        .map(|name| told[name].as_u64().unwrap_or_else(|| panic!("no number of {name}: {told}")))
}

/// Two servers, one of which has a tree and the other an older one.
fn pair() -> [(FtpServer, FtpServer); 2] {
    let servers = [(FtpServer::globus(), FtpServer::globus()), (FtpServer::proftpd(""), FtpServer::globus())];
    for (one, other) in &servers {
        for (name, bytes) in [("t/a", "new"), ("t/d/b.tmp", "temporary"), ("t/d/c", "text"), ("t/skip/x", "x")] {
            one.put(name, bytes.as_bytes());
        }
        for name in ["t/a", "t/gone", "t/old/deep/y", "t/old/z", "t/keep.tmp", "t/old/.xdfs-0123456789abcdef.part"] {
            other.put(name, b"older than that");
        }
        symlink("a", other.here.join("t/link")).expect("a link");
    }
    servers
}

#[test]
fn a_dry_run_names_what_would_be_copied_and_removed_and_changes_nothing() {
    for (one, other) in pair() {
        let scene = Scene::new();
        let before = (names(&one.here), names(&other.here));
        let words = ["sync", "--dry-run", "--delete", &one.url("t"), &other.url("t")];
        let done = run(&scene, &words);
        let mut lines: Vec<_> = done.ends_with(0).text().lines().map(str::to_owned).collect();
        lines.sort();
        let expected = ["copy d/b.tmp", "copy d/c", "copy skip/x", "delete gone", "delete keep.tmp", "delete link"];
        assert_eq!(lines[..6], expected, "{lines:?}");
        assert_eq!(lines[6..].iter().filter(|line| line.starts_with("delete old")).count(), 5, "{lines:?}");
        assert_eq!(lines[11..], ["replace a"], "{lines:?}");
        assert_eq!((names(&one.here), names(&other.here)), before);
        let copied = run(&scene, &["cp", "-r", "--dry-run", "--json", &one.url("t"), &other.url("new")]);
        assert_eq!(counts(copied.ends_with(0)), [4, 0, 0, 0]);
        assert_eq!(names(&other.here), before.1);
    }
}

#[test]
fn what_the_source_does_not_have_is_removed_but_what_patterns_leave_out() {
    for (one, other) in pair() {
        let scene = Scene::new();
        let words = |more: &[&str]| -> Outcome {
            let (from, to) = (one.url("t"), other.url("t"));
            run(
                &scene,
                &[&["sync", "--json", "--exclude", "*.tmp", "--exclude", "skip/"], more, &[&from, &to]].concat(),
            )
        };
        assert_eq!(counts(words(&[]).ends_with(0)), [2, 0, 0, 0]);
        assert_eq!(other.read("t/gone"), b"older than that");
        let refused = words(&["--delete", "--max-delete", "6"]);
        refused.ends_with(exit::SOME_FAILED).says(&["7 names would be removed, more than 6: nothing was removed"]);
        assert_eq!(other.read("t/gone"), b"older than that");
        let looked = words(&["--dry-run", "--delete", "--max-delete", "6"]);
        looked.ends_with(exit::SOME_FAILED).says(&["7 names would be removed, more than 6: so none is"]);
        assert!(looked.text().contains("gone") && !looked.messages.contains("look first"), "{}", looked.text());
        assert_eq!(other.read("t/gone"), b"older than that");
        assert_eq!(counts(words(&["--delete"]).ends_with(0)), [0, 2, 7, 0]);
        assert_eq!(names(&other.here.join("t")), ["a", "d/", "d/c", "keep.tmp"]);
        assert_eq!((other.read("t/a"), other.read("t/d/c")), (b"new".to_vec(), b"text".to_vec()));
    }
}

#[test]
fn nothing_is_removed_where_something_failed_or_names_may_be_missing() {
    let scene = Scene::new();
    let (one, other) = (FtpServer::globus(), FtpServer::globus());
    one.put("t/d/x", b"x");
    other.put("t/d", b"in the way");
    other.put("t/gone", b"stays");
    let failed = run(&scene, &["sync", "--delete", &one.url("t"), &other.url("t")]);
    failed
        .ends_with(exit::SOME_FAILED)
        .says(&["not a directory", "1 names that the source does not have were not removed"]);
    assert_eq!(names(&other.here.join("t")), ["d", "gone"]);
    // A directory with a name that patterns leave out.
    other.put("u/x", b"older");
    other.put("u/old/keep.tmp", b"stays");
    one.put("u/x", b"x");
    let kept = run(&scene, &["sync", "--delete", "--exclude", "*.tmp", &one.url("u"), &other.url("u")]);
    kept.ends_with(exit::SOME_FAILED).says(&["names that are left out"]);
    assert_eq!(names(&other.here.join("u")), ["old/", "old/keep.tmp", "x"]);
    let hiding = FtpServer::vsftpd("");
    hiding.put("t/x", b"x");
    for (from, to) in [(hiding.url("t"), other.url("t")), (one.url("t"), hiding.url("t"))] {
        let refused = run(&scene, &["sync", "--delete", &from, &to]);
        refused.ends_with(exit::REFUSED).says(&["--delete: this server lists names alone"]);
    }
    assert_eq!(hiding.read("t/x"), b"x");
}

#[test]
fn a_directory_that_holds_its_source_is_not_made_like_it() {
    let scene = Scene::new();
    for server in [FtpServer::proftpd(""), FtpServer::globus()] {
        server.put("a/b/x", b"x");
        server.put("a/gone", b"older");
        let before = names(&server.here);
        // Another user may see the same files.
        let as_user = server.url("a").replace("ftp://1", "ftp://anonymous:x@1");
        for to in [server.url("a"), server.url("").trim_end_matches('/').to_owned(), as_user] {
            for more in [&["--delete"][..], &["--delete", "--dry-run"]] {
                let from = server.url("a/b");
                let refused = run(&scene, &[&["sync"], more, &[&from[..], &to]].concat());
                refused.ends_with(exit::REFUSED).says(&["the source is in this directory", "help: leave --delete out"]);
                assert_eq!(names(&server.here), before);
            }
        }
        // Without it nothing is lost.
        run(&scene, &["sync", &server.url("a/b"), &server.url("a")]).ends_with(0);
        assert_eq!(names(&server.here), ["a/", "a/b/", "a/b/x", "a/gone", "a/x"]);
    }
}

#[test]
fn a_link_in_the_target_is_in_the_way_and_not_followed() {
    let (scene, one, other) = (Scene::new(), FtpServer::globus(), FtpServer::globus());
    one.put("t/d/x", b"x");
    other.put("elsewhere/gone", b"stays");
    other.put("t/here", b"stays");
    symlink("../elsewhere", other.here.join("t/d")).expect("a link");
    scene.write("server/elsewhere/gone", b"stays");
    scene.write("server/t/here", b"stays");
    symlink("../elsewhere", scene.path("server/t/d")).expect("a link");
    let server = scene.serve();
    for (to, here) in [(other.url("t"), other.here.clone()), (server.url("t"), scene.path("server"))] {
        let before = names(&here);
        for more in [&[][..], &["--delete"], &["--delete", "--dry-run"]] {
            let failed = run(&scene, &[&["sync"], more, &[&one.url("t")[..], &to]].concat());
            failed.fails().says(&["t/d", "not a directory, and in the way"]);
            assert_eq!(names(&here), before, "{more:?}");
        }
    }
    // A server that follows a link where it is asked about it alone.
    let following = Scripted::start(|line| match line {
        "MLST /t" | "MLST /t/d" => Some(Say::Reply("250-x\r\n type=dir; /t\r\n250 end")),
        "MKD /t" | "MKD /t/d" => Some(Say::Reply("550 it is there")),
        "MLSD /t" => Some(Say::Send(b"type=OS.unix=slink:/elsewhere; d\r\n".to_vec())),
        "MLSD /t/d" => Some(Say::Send(b"type=file;size=5; gone\r\n".to_vec())),
        _ if line.starts_with("MLST ") => Some(Say::Reply("550 no such file")),
        _ => None,
    });
    let failed = run(&scene, &["sync", "--delete", &one.url("t"), &following.url("//t")]);
    failed.fails().says(&["t/d", "not a directory, and in the way"]);
    assert!(following.heard("STOR").is_empty() && following.heard("DELE").is_empty());
}
