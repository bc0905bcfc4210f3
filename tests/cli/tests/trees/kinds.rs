//! What a copy of a tree keeps: by default, and with all that an export can grant.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use xdfs_test_cli::{Delay, Relay, Scene, exit, pattern};

use super::judge::{differences, plant, same};

const EVERYTHING: &str = "modes,owner,acl,xattr,special";

fn set_mode(scene: &Scene, name: &str, mode: u32) {
    std::fs::set_permissions(scene.path(name), std::fs::Permissions::from_mode(mode)).expect("a mode can be set");
}

fn set_time(scene: &Scene, name: &str, seconds: u64, nanoseconds: u32) {
    let file = std::fs::File::open(scene.path(name)).expect("it can be opened");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)).expect("a time can be set");
}

/// A tree with every kind of inode and every byte that a name may have.
fn everything(scene: &Scene) {
    plant(scene, "tree", 60, 1);
    for byte in (1..=255).filter(|byte| *byte != b'/') {
        let name = std::ffi::OsString::from_vec_of(vec![b't', b'r', b'e', b'e', b'/', b'n', byte]);
        scene.write(name, &[byte]);
    }
    scene.write(format!("tree/{}", "x".repeat(255)), b"the longest name");
    let root = xdfs_test_needs::root("devices, owners, and files in a closed directory");
    for (name, mode) in [("set-user", 0o4755), ("set-group", 0o2711), ("none", 0), ("all", 0o777), ("odd", 0o153)] {
        scene.write(format!("tree/{name}"), name.as_bytes());
        set_mode(scene, &format!("tree/{name}"), mode);
    }
    scene.directory("tree/sticky/inner");
    set_mode(scene, "tree/sticky", 0o1777);
    if root {
        scene.write("tree/closed/file", b"in a directory that its owner may not write");
        set_mode(scene, "tree/closed", 0o500);
    } else {
        set_mode(scene, "tree/none", 0o400);
    }
    for link in ["one", "two", "d0/e0/three"] {
        std::fs::hard_link(scene.path("tree/all"), scene.path(format!("tree/{link}"))).expect("a second name");
    }
    symlink("/nowhere/at all", scene.path("tree/dangling")).expect("a link");
    symlink(std::ffi::OsStr::new("."), scene.path("tree/here")).expect("a link");
    let holes = std::fs::File::create(scene.path("tree/holes")).expect("a file");
    holes.set_len(8 << 20).expect("a length");
    holes.write_all_at(b"middle", 5 << 20).expect("bytes");
    for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
        rustix::fs::mknodat(CWD, scene.path(format!("tree/{name}")), kind, Mode::from_raw_mode(0o640), 0)
            .expect("a special file");
    }
    if root {
        let device = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(CWD, scene.path("tree/null"), FileType::CharacterDevice, Mode::RUSR, device)
            .expect("a device");
        for (name, owner) in [("tree/d2/e2/file-2", 4711), ("tree/sticky", 4712), ("tree/dangling", 4713)] {
            std::os::unix::fs::lchown(scene.path(name), Some(owner), Some(owner + 1)).expect("an owner");
        }
    }
    for (name, value) in [("user.short", &b"value"[..]), ("user.long", &[0xa5; 3000]), ("user.empty", b"")] {
        for file in ["tree/all", "tree/sticky"] {
            rustix::fs::setxattr(scene.path(file), name, value, XattrFlags::empty()).expect("an attribute");
        }
    }
    // An access control list: owner rw-, user 1234 r--, group r--, mask r--, others nothing.
    let entry =
        |tag: u16, bits: u16, id: u32| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let entries = [entry(1, 6, none), entry(2, 4, 1234), entry(4, 4, none), entry(16, 4, none), entry(32, 0, none)];
    let list = [&2u32.to_le_bytes()[..], &entries.concat()].concat();
    rustix::fs::setxattr(scene.path("tree/d3/e0/file-3"), "system.posix_acl_access", &list, XattrFlags::empty())
        .expect("an access control list");
    set_time(scene, "tree/d4/e1/file-4", 1, 999_999_999);
    set_time(scene, "tree/d4/e1", 1_000_000_000, 123_456_789);
    set_time(scene, "tree/empty", 7, 0);
}

trait FromVec {
    fn from_vec_of(bytes: Vec<u8>) -> Self;
}

impl FromVec for std::ffi::OsString {
    fn from_vec_of(bytes: Vec<u8>) -> Self {
        std::os::unix::ffi::OsStringExt::from_vec(bytes)
    }
}

/// Mode, owners and extended attributes.
type Kept = (u32, u32, u32, Vec<(Vec<u8>, Vec<u8>)>);

fn attributes(scene: &Scene, name: &str) -> Kept {
    let path = scene.path(name);
    let facts = std::fs::metadata(&path).expect("it is there");
    let mut list = vec![0; 4096];
    let length = rustix::fs::listxattr(&path, &mut list).expect("its attributes");
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut xattrs: Vec<_> = names
        .map(|name| {
            let mut value = vec![0; 4096];
            let length = rustix::fs::getxattr(&path, name, &mut value).expect("its value");
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect();
    xattrs.sort();
    (facts.mode() & 0o7777, facts.uid(), facts.gid(), xattrs)
}

#[test]
fn a_file_that_is_copied_alone_keeps_what_one_of_a_tree_does() {
    let scene = Scene::new();
    everything(&scene);
    let server = scene.serve_with(&["--keep", EVERYTHING]);
    for (number, name) in ["tree/all", "tree/d3/e0/file-3"].into_iter().enumerate() {
        let (up, down) = (server.url(&format!("alone{number}")), format!("back{number}"));
        scene.run(["cp", "-a", name, &up]).ends_with(0).is_silent();
        let wanted = attributes(&scene, name);
        assert!(!wanted.3.is_empty());
        assert_eq!(attributes(&scene, &format!("server/alone{number}")), wanted);
        scene.run(["cp", "-a", &up, &down]).ends_with(0).is_silent();
        assert_eq!(attributes(&scene, &down), wanted);
        // A file that is there already gets them, too.
        set_mode(&scene, &down, 0o600);
        scene.run(["cp", "-a", &up, &down]).ends_with(0).is_silent();
        assert_eq!(attributes(&scene, &down), wanted);
    }
    drop(server);
    // Without the grants it is said what is not kept.
    let server = scene.serve();
    scene.run(["cp", "-a", "tree/all", &server.url("reduced")]).ends_with(0).says(&[
        "could not be kept: ",
        "extended attribute",
        "\nhelp: the server's administrator grants them",
    ]);
    scene.run(["cp", "tree/all", &server.url("plain")]).ends_with(0).is_silent();
}

/// A way to the server so long that what a client says behind its file is still under way when the file has its name.
const LATENCY: Duration = Duration::from_millis(100);

#[test]
fn a_session_that_is_lost_behind_a_file_takes_nothing_from_what_is_kept_of_it() {
    let scene = Scene::new();
    everything(&scene);
    let server = scene.serve_with(&["--keep", EVERYTHING]);
    let wanted = attributes(&scene, "tree/all");
    scene.run(["cp", "-a", "tree/all", &server.url("source")]).ends_with(0);
    for options in ["-a", "-an"] {
        let relay = Relay::holding(&server, 1, u64::MAX);
        let way = Delay::through(&relay, LATENCY);
        let (up, down) = (format!("up{options}"), format!("down{options}"));
        let server_up = format!("server/{up}");
        let copies =
            [("tree/all", way.url_in("data", &up), &server_up), ("", way.url_in("data", "source"), &down)].into_iter();
        for (index, (source, url, copy)) in copies.enumerate() {
            let words = if source.is_empty() { [&*url, &down] } else { [source, &url] };
            let copying = scene.start([&["cp", options, "-P", "1"], &words[..]].concat());
            while !scene.path(copy).exists() {
                assert!(!copying.has_ended(), "it ended before there was a file");
                std::thread::yield_now();
            }
            // Every session is one connection, and each copy had one so far and made another.
            relay.cut(2 * index);
            copying.wait().ends_with(0);
            assert_eq!(attributes(&scene, copy), wanted, "{options} {copy}");
        }
    }
}

#[test]
fn with_every_grant_everything_goes_up_and_comes_down() {
    let scene = Scene::new();
    everything(&scene);
    let server = scene.serve_with(&["--keep", EVERYTHING]);
    for channels in ["1", "4"] {
        let name = format!("copy{channels}");
        scene.run(["cp", "-a", "-P", channels, "tree", &server.url(&name)]).ends_with(0).is_silent();
        same(&scene, "tree", &format!("server/{name}"), true);
        let back = format!("back{channels}");
        scene.run(["cp", "-a", "-P", channels, &server.url(&name), &back]).ends_with(0).is_silent();
        same(&scene, "tree", &back, true);
    }
    // The judge can tell: what is altered, in content or besides, is seen.
    set_mode(&scene, "back4/all", 0o640);
    scene.write("back1/d2/e2/file-2", b"other");
    assert!(differences(&scene.path("tree"), &scene.path("back4"), true).contains("all"));
    assert!(differences(&scene.path("tree"), &scene.path("back1"), true).contains("file-2"));
}

#[test]
fn without_grants_files_directories_and_links_arrive_and_the_rest_is_counted() {
    let scene = Scene::new();
    everything(&scene);
    let server = scene.serve();
    let outcome = scene.run(["cp", "-r", "--json", "tree", &server.url("plain")]);
    outcome.ends_with(0);
    let tree = outcome.objects().pop().expect("a line about the tree");
    assert_eq!((&tree["event"], &tree["failed"], &tree["reduced"]), (&"tree".into(), &0.into(), &0.into()), "{tree}");
    assert!(tree["passed_over"].as_u64() >= Some(2), "{tree}");
    assert!(!scene.path("server/plain/fifo").exists() && !scene.path("server/plain/socket").exists());
    let kind = |name: &str| std::fs::symlink_metadata(scene.path(format!("server/plain/{name}"))).expect("it is there");
    assert!(kind("dangling").is_symlink() && kind("empty").is_dir() && kind("holes").len() == 8 << 20);
    assert_eq!((kind("d4/e1/file-4").mtime(), kind("d4/e1/file-4").mtime_nsec()), (1, 999_999_999));
    assert_eq!((kind("d4/e1").mtime(), kind("d4/e1").mtime_nsec()), (1_000_000_000, 123_456_789));
    // -a asks for all of it: what the export did not grant is said, and nothing fails for it.
    let outcome = scene.run(["cp", "-a", "--json", "tree", &server.url("reduced")]);
    let tree = outcome.objects().pop().expect("a line about the tree");
    assert!(tree["reduced"].as_u64() > Some(0), "{tree}");
    let kinds = "owner, mode, access control list, extended attribute, special file";
    outcome.says(&[&format!("could not be kept: {kinds}\nhelp: "), "'keep'"]);
}

/// B06: special bits, owners and the like never come in by a manifest alone.
#[test]
fn b06_no_mode_from_0_to_7777_gets_a_special_bit_without_a_grant() {
    let scene = Scene::new();
    for mode in (0..=0o7777).step_by(37).chain([0o4755, 0o2755, 0o1777, 0o7777, 0o6000]) {
        scene.write(format!("tree/{mode:04o}"), b"x");
        set_mode(&scene, &format!("tree/{mode:04o}"), mode);
    }
    if !xdfs_test_needs::root("nobody else reads what its mode closes") {
        return;
    }
    let server = scene.serve();
    let check = |directory: &str, expected: &dyn Fn(u32) -> u32| {
        let mut seen = 0;
        for entry in std::fs::read_dir(scene.path(directory)).expect("a directory") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("it is there").mode() & 0o7777;
            let asked = u32::from_str_radix(&entry.file_name().to_string_lossy(), 8).expect("its name is a mode");
            assert_eq!(mode, expected(asked), "{asked:04o} in {directory}");
            seen += 1;
        }
        assert!(seen > 100);
    };
    scene.run(["cp", "-r", "tree", &server.url("up")]).ends_with(0);
    let usual = |asked| asked & 0o755;
    check("server/up", &usual);
    // -a asks for the mode as it is: of the bits that are not granted none comes.
    scene.run(["cp", "-a", "tree", &server.url("asked")]);
    check("server/asked", &|asked| asked & 0o777);
    // A client asks for no more than -r says, whatever a server lists.
    std::fs::remove_dir_all(scene.path("server/up")).expect("it can be removed");
    std::process::Command::new("cp")
        .args(["-a", "tree", "server/up"])
        .current_dir(scene.path(""))
        .status()
        .expect("cp");
    scene.run(["cp", "-r", &server.url("up"), "down"]).ends_with(0);
    check("down", &usual);
}

#[test]
fn a_directory_goes_where_cp_would_put_it() {
    let scene = Scene::new();
    plant(&scene, "tree", 20, 5);
    let server = scene.serve();
    // Nothing there: it becomes that. A directory there: it goes into it. A slash at the end means a directory, which is
    // made if it is missing.
    scene.run(["cp", "-r", "tree", &server.url("new")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/new", false);
    scene.run(["cp", "-r", "tree", &server.url("new")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/new/tree", false);
    scene.run(["cp", "-r", "tree", &server.url("")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/tree", false);
    scene.run(["cp", "-r", "tree", &server.url("slash/")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/slash/tree", false);
    // What has no name of its own gives its content.
    scene.run(["cp", "-r", "tree/.", &server.url("content")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/content", false);
    scene.run(["cp", "-r", &server.url("tree"), "down"]).ends_with(0).is_silent();
    same(&scene, "tree", "down", false);
    scene.run(["cp", "-r", &server.url("tree"), "down"]).ends_with(0).is_silent();
    same(&scene, "tree", "down/tree", false);
    for name in ["here", "server/there"] {
        scene.directory(name);
    }
    // With '/.' so even where a directory is there, on either side.
    scene.run(["cp", "-r", "tree/.", &server.url("there")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/there", false);
    scene.run(["cp", "-r", &server.url("tree/."), "here"]).ends_with(0).is_silent();
    same(&scene, "tree", "here", false);
    // A slash at the end of a source changes nothing.
    scene.run(["cp", "-r", "tree/", &server.url("there/")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/there/tree", false);
    // Files and directories together.
    scene.write("single", &pattern(1000, 3));
    scene.directory("server/both");
    scene.run(["cp", "-r", "single", "tree", &server.url("both/")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/both/tree", false);
    assert_eq!(scene.read("server/both/single"), pattern(1000, 3));
    scene.directory("gets");
    let (file, tree) = (server.url("both/single"), server.url("both/tree"));
    scene.run(["cp", "-r", &file, &tree, "gets"]).ends_with(0).is_silent();
    same(&scene, "tree", "gets/tree", false);
    assert_eq!(scene.read("gets/single"), pattern(1000, 3));
    // Without -r a directory is no file, and what is no directory takes none.
    scene.run(["cp", "tree", &server.url("x")]).says(&["-r"]);
    scene.run(["cp", "-r", "tree", &server.url("both/single")]).ends_with(exit::USAGE).says(&["not a directory"]);
    scene
        .run(["cp", "-r", "tree", &server.url("missing/inside")])
        .ends_with(exit::NOT_FOUND)
        .says(&["no such directory"]);
    scene.run(["cp", "-r", &server.url("nothing"), "y"]).ends_with(exit::NOT_FOUND).says(&["nothing"]);
    assert!(!scene.path("y").exists() && !scene.path("server/missing").exists());
}

/// Every attribute is a call that names the path again: together they are longer than a record, however short the values are.
#[test]
fn many_attributes_of_a_long_path_need_not_fit_into_one_record() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", EVERYTHING]);
    let path = format!("tree/{}file", format!("{}/", "d".repeat(200)).repeat(10));
    scene.write(&path, &pattern(1000, 3));
    for number in 0..40 {
        rustix::fs::setxattr(scene.path(&path), format!("user.n{number}"), b"a value", XattrFlags::empty())
            .expect("a note");
    }
    scene.run(["cp", "-a", "-P", "1", "--block", "64KiB", "tree", &server.url("up")]).ends_with(0);
    same(&scene, "tree", "server/up", true);
}

/// Whether the disk of the tests has stable storage says a file alone.
#[test]
fn beside_links_and_with_everything_kept_a_copy_is_as_durable_as_without() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", EVERYTHING]);
    scene.write("plain/file", &pattern(1000, 3));
    scene.write("mixed/file", &pattern(1000, 4));
    scene.write("mixed/below/file", &pattern(1000, 5));
    std::os::unix::fs::symlink("file", scene.path("mixed/link")).unwrap();
    set_mode(&scene, "mixed/below/file", 0o4755);
    let told = |words: &[&str]| -> Vec<String> {
        let outcome = scene.run(words);
        let copied = outcome.ends_with(0).objects();
        copied.iter().filter_map(|line| line["durability"].as_str().map(str::to_owned)).collect()
    };
    let plain = told(&["cp", "-r", "--json", "plain", &server.url("plain")]);
    assert_eq!(plain.len(), 1);
    assert_eq!(told(&["cp", "-r", "--json", "mixed", &server.url("mixed")]), [&plain[..], &plain].concat());
    assert_eq!(told(&["cp", "-a", "--json", "mixed", &server.url("all")]), [&plain[..], &plain].concat());
}

/// The names of a pipe need the same grant as the pipe.
#[test]
fn a_second_name_of_what_was_not_granted_is_counted_and_fails_no_more_than_the_first() {
    let scene = Scene::new();
    scene.directory("tree");
    rustix::fs::mknodat(CWD, scene.path("tree/fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).expect("a pipe");
    std::fs::hard_link(scene.path("tree/fifo"), scene.path("tree/second")).expect("a second name");
    let server = scene.serve_with(&["--keep", "modes,owner,acl,xattr"]);
    let outcome = scene.run(["cp", "-a", "--json", "tree", &server.url("copy")]);
    let told = outcome.ends_with(0).objects().pop().expect("a line about the tree");
    assert_eq!(told["failed"], 0, "{told}");
    assert!(scene.names("server/copy").is_empty());
}

#[test]
fn a_file_that_fails_stops_no_other_and_the_list_of_failures_can_be_fed_back() {
    let scene = Scene::new();
    plant(&scene, "tree", 30, 9);
    // In their way: directories where files are to be, in names that need care.
    scene.write("tree/odd\nname", b"odd");
    scene.write("tree/back\\slash", b"slash");
    for name in ["server/copy/odd\nname/x", "server/copy/back\\slash/x", "server/copy/d1/e1/file-1/x"] {
        scene.write(name, b"");
    }
    let server = scene.serve();
    let url = server.url("copy");
    let outcome = scene.run(["sync", "--failures", "failed", "tree", &url]);
    outcome.ends_with(exit::SOME_FAILED).says(&["file-1", "odd\\nname", "3 names failed\nhelp: the lines above"]);
    for name in ["odd\nname", "back\\slash", "d1/e1/file-1"] {
        std::fs::remove_dir_all(scene.path(format!("server/copy/{name}"))).expect("it can be removed");
    }
    let mut lines: Vec<_> = scene.read("failed").split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.sort();
    assert_eq!(lines, [&b""[..], b"back\\\\slash", b"d1/e1/file-1", b"odd\\nname"].map(<[u8]>::to_vec));
    // Only these are looked at: another one that was changed stays as it is.
    scene.write("server/copy/d2/e2/file-2", b"altered there");
    let outcome = scene.run(["sync", "--json", "--files-from", "failed", "tree", &url]);
    outcome.ends_with(0);
    let tree = outcome.objects().pop().expect("a line about the tree");
    assert_eq!((&tree["files"], &tree["skipped"]), (&3.into(), &0.into()), "{tree}");
    assert_eq!(scene.read("server/copy/d2/e2/file-2"), b"altered there");
    scene.run(["sync", "tree", &url]).ends_with(0).is_silent();
    same(&scene, "tree", "server/copy", false);
}

#[test]
fn an_atomic_copy_appears_whole_or_not_at_all() {
    let scene = Scene::new();
    plant(&scene, "tree", 30, 4);
    let server = scene.serve();
    scene.run(["cp", "-r", "--atomic", "tree", &server.url("whole")]).ends_with(0).is_silent();
    same(&scene, "tree", "server/whole", false);
    scene.run(["sync", "--atomic", &server.url("whole"), "back"]).ends_with(0).is_silent();
    same(&scene, "tree", "back", false);
    assert_eq!(scene.names("server"), ["whole"]);
    // For what is there already it promises nothing.
    scene.run(["sync", "--atomic", "tree", &server.url("whole")]).ends_with(exit::EXISTS).says(&["--atomic"]);
    scene.run(["sync", "--atomic", &server.url("whole"), "back"]).ends_with(exit::EXISTS).says(&["--atomic"]);
    // A part that fails keeps it from its name; the same command goes on where it was.
    scene.write("tree/d1/.xdfs-staging", b"a name that no server takes");
    let outcome = scene.run(["cp", "-r", "--atomic", "tree", &server.url("part")]);
    outcome.ends_with(exit::SOME_FAILED).says(&["not there", "the same command"]);
    assert!(!scene.path("server/part").exists());
    std::fs::rename(scene.path("tree/d1/.xdfs-staging"), scene.path("tree/d1/other")).expect("it can be renamed");
    let outcome = scene.run(["cp", "-r", "--json", "--atomic", "tree", &server.url("part")]);
    let tree = outcome.ends_with(0).objects().pop().expect("a line about the tree");
    assert_eq!(tree["files"], 1, "{tree}");
    same(&scene, "tree", "server/part", false);
    assert_eq!(scene.names("server"), ["part", "whole"]);
}
