//! What somebody types who knows find, cp, chmod and touch.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use xdfs_test_cli::{Outcome, Scene};

fn lines(outcome: &Outcome) -> Vec<&str> {
    outcome.ends_with(0).text().lines().collect()
}

#[test]
fn names_are_found_by_tests_as_find_finds_them() {
    let scene = Scene::new();
    let server = scene.serve();
    for (name, size) in [("run/a.txt", 10), ("run/b.TXT", 3000), ("run/deep/c.txt", 0), ("run/deep/d e.bin", 5000)] {
        scene.write(format!("server/{name}"), &vec![b'x'; size]);
    }
    scene.directory("server/run/empty");
    std::os::unix::fs::symlink("a.txt", scene.path("server/run/link")).unwrap();
    scene.run(["touch", "-d", "2001-01-01", &server.url("run/a.txt")]).ends_with(0);
    let top = format!("xdfs://{}/data/run", server.address());
    let find = |tests: &[&str]| {
        let words = [&["find", &top], tests].concat();
        let found = scene.run(&words);
        let mut names: Vec<String> =
            lines(&found).iter().map(|line| line.strip_prefix(&top).unwrap_or(line).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(find(&["-name", "*.txt"]), ["/a.txt", "/deep/c.txt"]);
    assert_eq!(find(&["-iname", "*.txt", "-size", "+0"]), ["/a.txt", "/b.TXT"]);
    assert_eq!(find(&["-type", "d"]), ["", "/deep", "/empty"]);
    assert_eq!(find(&["-type", "l"]), ["/link"]);
    assert_eq!(find(&["-empty"]), ["/deep/c.txt", "/empty"]);
    assert_eq!(find(&["-size", "+4k"]), ["/deep/d%20e.bin"]);
    assert_eq!(find(&["-mtime", "+7"]), ["/a.txt"]);
    assert_eq!(find(&["-type", "f", "!", "-mtime", "+7", "-name", "*.txt"]), ["/deep/c.txt"]);
    assert_eq!(find(&["-maxdepth", "1", "-mindepth", "1", "-type", "d"]), ["/deep", "/empty"]);
    assert_eq!(find(&["-path", "*/deep/*"]), ["/deep/c.txt", "/deep/d%20e.bin"]);
    let newer = format!("{top}/a.txt");
    assert_eq!(find(&["-type", "f", "-newer", &newer]), ["/b.TXT", "/deep/c.txt", "/deep/d%20e.bin"]);
    let zeros = scene.run(["find", &top, "-name", "d*n", "-print0"]);
    assert_eq!(zeros.ends_with(0).output, format!("{top}/deep/d%20e.bin\0").into_bytes());
    // What is found can be typed again.
    scene.run(["stat", &format!("{top}/deep/d%20e.bin")]).ends_with(0);
    scene.run(["find", &top, "-nmae", "x"]).ends_with(2).says(&["-nmae: there is no such test", "-mtime"]);
    scene.run(["find", "-name", "x"]).ends_with(2).says(&["no URL"]);
    for words in [["find", "--json", &top], ["find", &top, "--json"]] {
        scene.run(words).ends_with(2).says(&["--json: 'xdfs find' has no such option", "xdfs ls -R --json URL"]);
    }
    scene.run(["find", &format!("{top}/absent")]).ends_with(6).says(&["no such file"]);
}

#[test]
fn a_list_of_exports_tells_what_one_may_do_there() {
    let scene = Scene::new();
    scene.directory("one");
    let exports = ["--allow-anonymous", "create", "--export", "drop=one", "--export", "read=one:ro"];
    let server = scene.serve_with(&exports);
    let listed = scene.run(["ls", "-l", &format!("xdfs://{}/", server.address())]);
    let modes: Vec<_> = lines(&listed).iter().map(|line| (&line[..10], line.rsplit(' ').next().unwrap())).collect();
    assert!(modes.contains(&("drwxrwxrwt", "drop")) && modes.contains(&("dr-xr-xr-x", "read")), "{modes:?}");
}

#[test]
fn a_quoted_pattern_stands_for_the_names_that_fit_at_the_server() {
    let scene = Scene::new();
    for name in ["a.txt", "b.txt", ".c.txt", "d.bin", "e[1].txt", "one/x.log", "two/x.log", "two/y.log", "two/y/z"] {
        scene.write(format!("server/{name}"), name.as_bytes());
    }
    let server = scene.serve();
    let url = |pattern: &str| format!("xdfs://{}/data/{pattern}", server.address());
    let names = |words: &[&str]| lines(&scene.run(words)).iter().map(|line| line.to_string()).collect::<Vec<_>>();
    let cat = |pattern: &str| scene.run(["cat", &url(pattern)]).ends_with(0).text().to_owned();
    assert_eq!(cat("[ab].txt"), "a.txtb.txt");
    assert_eq!(cat("[!b].*"), "a.txtd.bin");
    assert_eq!(cat(".*"), ".c.txt");
    assert_eq!(cat("*/x.log"), "one/x.logtwo/x.log", "a literal name behind a pattern");
    assert_eq!(cat("t*/y*g"), "two/y.log");
    assert_eq!(cat("e[1].txt"), "e[1].txt", "a name that is there is no pattern");
    scene.write("server/e1.txt", b"another one");
    scene.run(["rm", &url("e%5B1%5D.txt")]).ends_with(0);
    let gone = scene.run(["rm", &url("e%5B1%5D.txt")]);
    gone.ends_with(6).says(&["e%5B1%5D.txt: no such file"]);
    assert_eq!(cat("e%31*"), "another one", "what is encoded is no pattern: the name of another file is not removed");
    std::fs::rename(scene.path("server/e1.txt"), scene.path("server/e[1].txt")).unwrap();
    assert_eq!(names(&["ls", &url("*/")]).len(), 4, "what is in the directories");
    let sums = names(&["sum", &url("[a-b].txt")]);
    assert!(sums.len() == 2 && sums[0].ends_with(&url("a.txt")) && sums[1].ends_with(&url("b.txt")), "{sums:?}");
    scene.directory("here");
    scene.run(["cp", &url("*.txt"), "here"]).ends_with(0);
    assert_eq!(scene.names("here"), ["a.txt", "b.txt", "e[1].txt"]);
    scene.run(["cp", "-r", &url("t*"), "here"]).ends_with(0);
    assert_eq!(scene.read("here/two/y.log"), b"two/y.log");
    // What fits nothing ends a copy before it begins.
    let none = scene.run(["cp", &url("d.bin"), &url("*.nothing"), "here"]);
    none.ends_with(6).says(&["*.nothing: no name fits this pattern"]);
    assert!(!scene.path("here/d.bin").exists());
    scene.run(["cp", &url("*.txt"), "-"]).ends_with(2).says(&["xdfs cat"]);
    scene.run(["cp", &url("*.txt"), "one-file"]).ends_with(6).says(&["directory"]);
    scene.run(["rm", "-f", &url("*.nothing")]).ends_with(0);
    let removed = scene.run(["rm", &url("*.nothing"), &url("*.txt")]);
    removed.says(&["*.nothing: no name fits this pattern"]);
    assert_eq!(scene.names("server"), [".c.txt", "d.bin", "one", "two"]);
    scene.run(["mkdir", &url("new*")]).ends_with(0);
    assert!(scene.path("server/new*").is_dir(), "a name that is made is no pattern");
}

#[test]
fn what_is_no_directory_has_no_names_that_fit_a_pattern() {
    let scene = Scene::new();
    for name in ["d/a.txt", "file", "link-target/b.txt"] {
        scene.write(format!("server/q/{name}"), name.as_bytes());
    }
    for (target, link) in [("d", "to-directory"), ("file", "to-file"), ("nothing", "to-nothing"), ("..", "up")] {
        std::os::unix::fs::symlink(target, scene.path(format!("server/q/{link}"))).unwrap();
    }
    let fifo = scene.path("server/q/fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    let server = scene.serve();
    assert_eq!(scene.run(["cat", &server.url("q/*/*.txt")]).ends_with(0).text(), "d/a.txtlink-target/b.txt");
    assert_eq!(scene.run(["cat", &server.url("q/*/a.txt")]).ends_with(0).text(), "d/a.txt");
    scene.run(["ls", &server.url("q/to-*/*.txt")]).ends_with(6).says(&["no name fits this pattern"]);
}

#[test]
fn a_slash_at_the_end_means_into_for_trees_too() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("many/one", b"1");
    scene.write("other/two", b"2");
    scene.run(["cp", "-r", "many", &server.url("far/")]).ends_with(0);
    assert_eq!(scene.read("server/far/many/one"), b"1");
    scene.run(["cp", "-r", "many", "other", &server.url("both/deep/")]).ends_with(0);
    assert_eq!(scene.read("server/both/deep/other/two"), b"2");
    // Without a slash the directory gets the name.
    scene.run(["cp", "-r", "many", &server.url("near")]).ends_with(0);
    assert_eq!(scene.read("server/near/one"), b"1");
    scene.run(["cp", "-r", &server.url("near"), "back/"]).ends_with(0);
    assert_eq!(scene.read("back/near/one"), b"1");
    scene.run(["cp", "-r", &server.url("near"), &server.url("far"), "several/"]).ends_with(0);
    assert_eq!(scene.read("several/far/many/one"), b"1");
    scene.run(["cp", "-r", &server.url("near"), "as"]).ends_with(0);
    assert_eq!(scene.read("as/one"), b"1");
}

#[test]
fn modes_and_times_are_typed_as_chmod_and_touch_take_them() {
    let scene = Scene::new();
    let server = scene.serve();
    let path = scene.write("server/f", b"x");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    scene.run(["chmod", "640", &server.url("f")]).ends_with(0);
    scene.run(["chmod", "u+x,o+r", &server.url("f")]).ends_with(0).is_silent();
    assert_eq!(mode(), 0o744);
    scene.run(["chmod", "-x", &server.url("f")]).ends_with(0);
    assert_eq!(mode(), 0o644);
    scene.run(["chmod", "u+q", &server.url("f")]).ends_with(2).says(&["u+x, go-w"]);
    scene.run(["touch", "-d", "2001-02-03 04:05:06", &server.url("f"), &server.url("new")]).ends_with(0);
    for name in ["server/f", "server/new"] {
        assert_eq!(std::fs::metadata(scene.path(name)).unwrap().mtime(), 981_173_106, "{name}");
    }
    scene.run(["touch", "-d", "yesterday", &server.url("f")]).ends_with(2).says(&["2027-01-31"]);
}

#[test]
fn sizes_are_for_people_with_h_owners_have_names_and_df_is_a_table() {
    let scene = Scene::new();
    let server = scene.serve_for("anna", "anna");
    scene.write("server/f", &[0; 1_500_000]);
    let url = server.url("f").replace("xdfs://", "xdfs://anna@");
    let long = scene.run_as("anna", ["ls", "-lh", &url]);
    assert!(long.ends_with(0).text().contains(" 1.50 MB "), "{}", long.text());
    let (names, numbers) = (scene.run_as("anna", ["ls", "-l", &url]), scene.run_as("anna", ["ls", "-n", &url]));
    let column = |outcome: &Outcome| outcome.ends_with(0).text().split_whitespace().nth(2).unwrap().to_owned();
    let uid = std::fs::metadata(scene.path("server/f")).unwrap().uid();
    assert_eq!(column(&numbers), uid.to_string());
    let name = std::process::Command::new("id").args(["-nu", &uid.to_string()]).output().expect("coreutils are there");
    assert_eq!(column(&names), String::from_utf8_lossy(&name.stdout).trim());
    // A visitor does not learn who has an account.
    assert_eq!(column(&scene.run(["ls", "-l", &server.url("f")])), uid.to_string());
    scene.run(["du", "-h", &server.url("f")]).ends_with(0);
    let room = scene.run(["df", "-h", &server.url(""), &server.url("")]);
    let rows = lines(&room);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), ["Size", "Used", "Avail", "Use%", "URL"]);
    assert!(rows[1].contains("%  xdfs://"), "{}", rows[1]);
    let help = scene.run(["ls", "--help"]);
    assert!(help.ends_with(0).text().contains("-h, --human"));
}

#[test]
fn of_directories_with_one_name_the_first_is_copied_and_the_contents_of_several_go_together() {
    let scene = Scene::new();
    for (name, text) in [("a/x/f", "a"), ("b/x/f", "bb"), ("b/x/g", "b")] {
        scene.write(name, text.as_bytes());
        scene.write(format!("server/{name}"), text.as_bytes());
    }
    let server = scene.serve();
    scene.directory("down");
    let (one, other) = (server.url("a/x"), server.url("b/x"));
    for (sources, target, here) in
        [(["a/x", "b/x"], server.url("up/"), "server/up"), ([&one[..], &other[..]], "down/".to_owned(), "down")]
    {
        let refused = scene.run(["cp", "-r", sources[0], sources[1], &target]);
        refused.ends_with(1).says(&["another source was copied to", "as x already"]);
        assert_eq!((scene.names(here), scene.names(format!("{here}/x"))), (vec!["x".into()], vec!["f".into()]));
        assert_eq!(scene.read(format!("{here}/x/f")), b"a");
    }
    scene.directory("server/together");
    scene.run(["cp", "-r", "a/x/.", "b/x/.", "b/x", &server.url("together/")]).ends_with(0);
    assert_eq!(scene.names("server/together"), ["f", "g", "x"]);
    assert_eq!(scene.read("server/together/f"), b"bb");
}
