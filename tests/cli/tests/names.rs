//! The commands on names of a server: what each does there, what it says, and what it does where it cannot.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xdfs_test_cli::{Outcome, Scene, Server, exit, pattern, xdfs_binary};

/// A server that is root only over what root owns here, which `locked` then is not.
fn serve_without_rights(scene: &Scene, locked: &Path) -> Server {
    std::fs::set_permissions(locked, PermissionsExt::from_mode(0o700)).expect("our own");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(locked, Some(12_345), Some(12_345)).expect("root may");
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(xdfs_binary()).args(["serve", "--json", "--listen", "127.0.0.1:0"]);
    command.current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    Server::start(command, &["--quiet", "--export", "data=server", "--allow-anonymous", "rw"])
}

fn lines(outcome: &Outcome) -> Vec<&str> {
    outcome.text().lines().collect()
}

#[test]
fn directories_are_made_listed_and_removed_with_all_they_hold() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.run(["mkdir", &server.url("a/b")]).ends_with(exit::NOT_FOUND);
    scene.run(["mkdir", "-p", "-m", "750", &server.url("a/b/c"), &server.url("a/b")]).ends_with(0);
    assert_eq!(std::fs::metadata(scene.path("server/a/b/c")).unwrap().permissions().mode() & 0o777, 0o750);
    for name in ["one", "two", ".hidden", "b/three"] {
        scene.write(format!("server/a/{name}"), b"12345");
    }
    std::os::unix::fs::symlink("one", scene.path("server/a/link")).unwrap();
    let listed = scene.run(["ls", &server.url("a")]);
    assert_eq!(lines(listed.ends_with(0)), [".hidden", "b", "link", "one", "two"]);
    let long = scene.run(["ls", "-l", &server.url("a")]);
    let row = |name: &str| lines(&long).into_iter().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(row("link").starts_with('l') && row("link").ends_with("link -> one"), "{}", row("link"));
    assert!(row("two").starts_with("-rw") && row("two").contains(" 5 "), "{}", row("two"));
    let all = scene.run(["ls", "-R", "--json", &server.url("a")]);
    let names: Vec<String> = all.objects().iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, [".hidden", "b", "link", "one", "two", "c", "three"]);
    let one = &all.objects()[3];
    assert_eq!(
        (one["type"].as_str(), one["size"].as_u64(), one["event"].as_str()),
        (Some("file"), Some(5), Some("entry"))
    );
    let top = server.url("").replacen("/data/", "/", 1);
    assert_eq!(lines(scene.run(["ls", &top]).ends_with(0)), ["data"]);
    let recursive = scene.run(["ls", "-R", &top]);
    assert!(lines(recursive.ends_with(0)).contains(&"three"), "{}", recursive.text());
    scene.run(["du", &top]).ends_with(exit::USAGE).says(&["names no export"]);
    scene.run(["rm", &server.url("a")]).ends_with(exit::USAGE).says(&["is a directory", "-r"]);
    scene
        .run(["rm", &server.url("a/one"), &server.url("a/absent")])
        .ends_with(exit::SOME_FAILED)
        .says(&["absent", "no such file"]);
    scene.run(["rm", "-r", &server.url("a")]).ends_with(0);
    assert!(!scene.path("server/a").exists());
    scene.run(["rm", "-rf", &server.url("a")]).ends_with(0);
    scene.run(["rm", "-rf", &server.url("")]).ends_with(exit::USAGE).says(&["top of an export"]);
}

#[test]
fn names_move_and_multiply_and_their_attributes_change() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(100_000, 3);
    scene.write("server/f", &content);
    scene.directory("server/d");
    scene.run(["chmod", "604", &server.url("f")]).ends_with(0).is_silent();
    assert_eq!(std::fs::metadata(scene.path("server/f")).unwrap().permissions().mode() & 0o7777, 0o604);
    scene
        .run(["chmod", "4755", &server.url("f")])
        .ends_with(exit::PERMISSION_DENIED)
        .says(&["your rights on this export", "help: ask the administrator"]);
    scene.run(["chmod", "u+q", &server.url("f")]).ends_with(exit::USAGE).says(&["octal"]);
    scene.run(["ln", &server.url("f"), &server.url("d/g")]).ends_with(0);
    scene.run(["ln", "-s", "../f", &server.url("d/s")]).ends_with(0);
    let inode = |name: &str| std::fs::symlink_metadata(scene.path(name)).unwrap().ino();
    assert_eq!(inode("server/f"), inode("server/d/g"));
    assert_eq!(std::fs::read_link(scene.path("server/d/s")).unwrap(), OsStr::new("../f"));
    scene.run(["mv", &server.url("f"), &server.url("d/")]).ends_with(0);
    assert!(scene.path("server/d/f").exists() && !scene.path("server/f").exists());
    scene.run(["mv", "-n", &server.url("d/f"), &server.url("d/g")]).ends_with(exit::EXISTS).says(&["exists"]);
    scene.run(["mv", &server.url("d/f"), &server.url_in("other", "f")]).ends_with(exit::USAGE).says(&["one export"]);
    scene.run(["mv", &server.url("d"), &server.url("d/e/in")]).ends_with(exit::USAGE).says(&["below itself"]);
    scene.run(["mv", &server.url(""), &server.url("e")]).ends_with(exit::USAGE).says(&["top of an export"]);
    scene.run(["ln", "-s", "", &server.url("e")]).ends_with(exit::USAGE).says(&["empty name"]);
    let pattern = scene.run(["mv", &server.url("d/*"), &server.url("e")]);
    pattern.ends_with(exit::NOT_FOUND).says(&["no such file", "are no patterns in this command"]);
    let reserved = scene.run(["mkdir", &server.url(".xdfs-staging")]);
    reserved.ends_with(exit::REFUSED).says(&["invalid path", "xdfs reserves such names"]);
    let on_the_way = scene.run(["stat", &server.url("d/s/x")]);
    on_the_way.ends_with(exit::REFUSED).says(&["a symbolic link is not followed in the middle of a path"]);
    let link = scene.run(["chmod", "600", &server.url("d/s")]);
    link.ends_with(exit::REFUSED).says(&["if it is a symbolic link", "no permission bits"]);
    for (text, relative) in [
        (server.url("f"), "../../f"),
        (server.url("d/g h"), "'../g h'"),
        (server.url("d/e"), "."),
        (server.url("d/e/x"), "x"),
        ("ssh:host:f".to_owned(), "../NAME"),
        (server.url_in("other", "f"), "../NAME"),
    ] {
        let refused = scene.run(["ln", "-s", &text, &server.url("d/e/s")]);
        refused.ends_with(exit::USAGE).says(&[&format!("xdfs ln -s {relative} URL")]);
    }
    let before = std::fs::metadata(scene.path("server/d/g")).unwrap().mtime();
    scene.run(["touch", &server.url("d/g"), &server.url("new")]).ends_with(0);
    scene.run(["touch", "-c", &server.url("none")]).ends_with(0);
    assert!(std::fs::metadata(scene.path("server/d/g")).unwrap().mtime() >= before);
    assert_eq!((scene.read("server/new"), scene.path("server/none").exists()), (Vec::new(), false));
    let shown = scene.run(["cat", &server.url("d/g"), &server.url("new"), &server.url("d/f")]);
    assert!(shown.ends_with(0).output == [&content[..], &content[..]].concat());
}

#[test]
fn cat_writes_a_range_and_follows_a_file_that_grows() {
    let scene = Scene::new();
    let server = scene.serve();
    let content = pattern(3_000_000, 7);
    scene.write("server/f", &content);
    scene.write("server/short", b"short");
    let args = ["cat", "--offset", "1000000", "--length", "1500000", &server.url("f"), &server.url("short")];
    assert!(scene.run(args).ends_with(0).output == content[1_000_000..2_500_000]);
    let args = ["cat", "--offset", "2", &server.url("short"), &server.url("absent")];
    assert_eq!(scene.run(args).ends_with(exit::SOME_FAILED).says(&["no such file"]).output, b"ort");
    let log = scene.path("server/short");
    let (path, grown) = (log.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let grows = std::sync::Arc::clone(&grown);
    let writer = std::thread::spawn(move || {
        // Each append comes after the reader has begun, or it is read at once: both are right.
        for part in [&b" one"[..], b" two", b" three"] {
            use std::io::Write;
            let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(part).unwrap();
        }
        grows.store(true, std::sync::atomic::Ordering::Release);
    });
    // As long as both together: it ends when the last byte is there.
    let followed = scene.run(["cat", "--follow", "--length", "19", &server.url("short")]);
    writer.join().unwrap();
    assert!(grown.load(std::sync::atomic::Ordering::Acquire));
    assert_eq!(followed.ends_with(0).output, b"short one two three");
}

/// How long `cat --follow` took to write what was appended, when it had written everything before and waited.
fn followed_after(scene: &Scene, server: &Server, name: &str) -> Duration {
    let path = scene.write(format!("server/{name}"), b"begun");
    let mut command = scene.command(["cat", "--follow", "--length", "9", &server.url(name)]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("xdfs runs");
    let mut output = child.stdout.take().expect("it is piped");
    let mut begun = [0; 5];
    output.read_exact(&mut begun).expect("what is there already");
    assert_eq!(&begun, b"begun");
    let since = Instant::now();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("our own");
    file.write_all(b" end").expect("our own");
    let mut end = Vec::new();
    output.read_to_end(&mut end).expect("what was appended");
    assert_eq!((end.as_slice(), child.wait().expect("it ends").code()), (&b" end"[..], Some(0)));
    since.elapsed()
}

#[test]
fn cat_follows_by_what_the_server_tells_and_by_looking_where_it_cannot() {
    let scene = Scene::new();
    let server = scene.serve();
    // Without a notice the next look is after 30 s.
    let told = (0..3).map(|number| followed_after(&scene, &server, &format!("told{number}"))).max().unwrap();
    assert!(told < Duration::from_secs(20), "{told:?}");
    let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]).arg(xdfs_binary());
    command.args(["serve", "--json"]).current_dir(scene.path("."));
    scene.dress("somebody", &mut command);
    let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw", "--listen", "127.0.0.1:0"];
    let deaf = Server::start(command, &words);
    scene.trust(deaf.address(), &deaf);
    assert!(followed_after(&scene, &deaf, "looked") < Duration::from_secs(20), "it looks again and again");
}

#[test]
fn a_name_that_cannot_be_moved_is_told_which_of_both_names_is_wrong() {
    let scene = Scene::new();
    let server = scene.serve();
    for file in ["f", "g", "d/x", "full/d/x"] {
        scene.write(format!("server/{file}"), b"");
    }
    for (from, to, code, part) in [
        ("f", "none/", exit::NOT_FOUND, "data/none/f: no such directory 'none'"),
        ("f", "none/g", exit::NOT_FOUND, "data/none/g: no such directory 'none'"),
        ("f", "d/none/g", exit::NOT_FOUND, "no such directory 'd/none'"),
        ("f", "g/h", exit::USAGE, "data/g/h: 'g' is not a directory"),
        ("f", "d", exit::USAGE, "data/d: 'd' is a directory\nhelp: write 'd/' to move into it"),
        ("d", "full/", exit::EXISTS, "data/full/d: 'd' is a directory that is not empty\nhelp: write 'd/'"),
        ("d", "g", exit::USAGE, "data/g: not a directory"),
        ("none", "d/", exit::NOT_FOUND, "data/none: no such file"),
        ("none", "absent/", exit::NOT_FOUND, "data/none: no such file"),
        ("f/none", "h", exit::USAGE, "'data/f/none': not a directory"),
    ] {
        // Without the key behind '#', what follows the name is the message.
        let [from, to] = [from, to].map(|path| server.url(path).replace(&format!("#{}", server.host_key()), ""));
        scene.run(["mv", &from, &to]).ends_with(code).says(&[part]);
    }
    let [from, to] = ["f", "g"].map(|path| server.url(path));
    scene.run(["mv", "-n", &from, &to]).ends_with(exit::EXISTS).says(&[&format!("{to}: already exists")]);
    assert_eq!(scene.names("server"), ["d", "f", "full", "g"]);
    // As it is told.
    scene.run(["mv", &from, &server.url("d/")]).ends_with(0);
    assert_eq!(scene.names("server/d"), ["f", "x"]);
}

#[test]
fn room_is_told_and_a_file_with_two_names_takes_it_once() {
    let scene = Scene::new();
    let server = scene.serve();
    for number in 0..50 {
        scene.write(format!("server/t/{}/f{number}", number % 40), &[1; 1000]);
    }
    std::fs::hard_link(scene.path("server/t/0/f0"), scene.path("server/t/1/again")).unwrap();
    let counted = scene.run(["du", "--json", &server.url("t")]);
    let line = &counted.ends_with(0).objects()[0];
    let number = |name: &str| line[name].as_u64().unwrap();
    assert_eq!((number("bytes"), number("files"), number("directories"), number("unread")), (50_000, 50, 41, 0));
    assert!(number("allocated") >= 50_000);
    scene.run(["du", "-H", &server.url("t")]).ends_with(0);
    let room = scene.run(["df", "--json", &server.url("")]);
    assert!(room.ends_with(0).objects()[0]["bytes"].as_u64().unwrap() > 0);
    scene.run(["df", &server.url("absent")]).ends_with(exit::NOT_FOUND).says(&["no such file"]);
}

#[test]
fn room_below_a_directory_that_cannot_be_read_is_told_as_not_all() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    scene.write("server/t/f", &[1; 1000]);
    scene.write("server/t/locked/f", &[1; 1000]);
    let server = serve_without_rights(&scene, &scene.path("server/t/locked"));
    let counted = scene.run(["du", "--json", &server.url("t")]);
    counted.ends_with(exit::PERMISSION_DENIED).says(&["t/locked", "permission denied"]);
    let line = &counted.objects()[0];
    assert_eq!((&line["bytes"], &line["unread"]), (&1000.into(), &1.into()));
    scene.write("server/t/other/g", b"");
    let listed = scene.run(["ls", "-R", &server.url("t")]);
    listed.ends_with(exit::PERMISSION_DENIED).says(&["t/locked", "permission denied"]);
    assert!(listed.text().ends_with(":\ng\n"), "the others are listed all the same: {}", listed.text());
    scene.run(["du", &server.url("t/f")]).ends_with(0).is_silent();
}

#[test]
fn a_name_commands_no_terminal_and_says_in_json_when_it_is_escaped() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/n");
    for name in [&b"\x1b[2Jx"[..], b"line\nbreak", b"\xff\xfe", "gr\u{fc}n".as_bytes()] {
        std::fs::write(scene.path("server/n").join(OsStr::from_bytes(name)), b"").unwrap();
    }
    let url = server.url("n");
    let (code, shown) = scene.terminal_as("somebody", ["ls", &url]).wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.chars().any(|c| c.is_control() && !"\r\n".contains(c)), "{shown:?}");
    assert!(shown.contains("line\\nbreak") && shown.contains("\\xff\\xfe"), "{shown:?}");
    // A program gets them as they are.
    assert_eq!(scene.run(["ls", &url]).output, b"\x1b[2Jx\ngr\xc3\xbcn\nline\nbreak\n\xff\xfe\n");
    for words in [vec!["ls", "-l"], vec!["ls", "--json"]] {
        let outcome = scene.run(words.iter().copied().chain([url.as_str()]));
        let text = outcome.ends_with(0).text();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(text.lines().count(), 4, "{text:?}");
    }
    let listed = scene.run(["ls", "--json", &server.url("n")]);
    let of = |name: &str| listed.objects().into_iter().find(|line| line["name"] == name).unwrap();
    assert_eq!(of("\\xff\\xfe")["name_escaped"], true);
    assert!(of("gr\u{fc}n").get("name_escaped").is_none() && of("line\nbreak").get("name_escaped").is_none());
}

#[test]
fn a_large_directory_is_listed_as_it_comes_and_removed() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/large");
    for number in 0..12_000 {
        std::fs::write(scene.path("server/large").join(format!("{number}")), b"").unwrap();
    }
    let mut names: Vec<String> =
        scene.run(["ls", &server.url("large")]).ends_with(0).text().lines().map(str::to_owned).collect();
    names.sort();
    let sorted = scene.run(["ls", "--sort", &server.url("large")]);
    assert_eq!(names.len(), 12_000);
    assert_eq!(lines(sorted.ends_with(0)), names.iter().map(String::as_str).collect::<Vec<_>>());
    scene.run(["rm", "-r", &server.url("large")]).ends_with(0);
    assert!(!scene.path("server/large").exists());
}
