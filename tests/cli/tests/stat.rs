//! `xdfs stat`: what a file on a server is.

use std::fs::FileTimes;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use xdfs_test_cli::{Scene, exit};

#[test]
fn a_file_is_described_for_people_and_as_json() {
    let scene = Scene::new();
    let path = scene.write("server/a b.bin", &[7; 12_345]);
    std::fs::hard_link(&path, scene.path("server/again")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5);
    let times = FileTimes::new().set_modified(modified).set_accessed(modified + Duration::from_secs(60));
    std::fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let here = std::fs::metadata(&path).unwrap();
    let server = scene.serve();
    let url = server.url("a%20b.bin");
    let people = scene.run(["stat", &url]);
    people.ends_with(0).is_silent();
    let owner = format!("user {}", here.uid());
    for part in [
        "a b.bin",
        "regular file",
        "12345 bytes (12.3 kB)",
        "0640 (rw-r-----)",
        "links  2",
        "mtime  2023-11-14 22:13:20.000000005 UTC",
        "atime  2023-11-14 22:14:20.000000005 UTC",
        owner.as_str(),
    ] {
        assert!(people.text().contains(part), "{part} in {}", people.text());
    }
    let json = scene.run(["stat", "--json", &url]);
    json.ends_with(0).is_silent();
    let line = &json.objects()[0];
    let fields: [(&str, serde_json::Value); 13] = [
        ("event", "stat".into()),
        ("url", url.into()),
        ("name", "a b.bin".into()),
        ("type", "file".into()),
        ("size", 12_345.into()),
        ("mode", "0640".into()),
        ("mtime", 1_700_000_000.into()),
        ("mtime_nanoseconds", 5.into()),
        ("atime", 1_700_000_060.into()),
        ("uid", here.uid().into()),
        ("gid", here.gid().into()),
        ("links", 2.into()),
        ("allocated", (here.blocks() * 512).into()),
    ];
    for (field, value) in fields {
        assert_eq!(line[field], value, "{field} in {line}");
    }
}

#[test]
fn a_link_is_described_itself_and_a_store_without_a_tree_as_far_as_it_knows() {
    let scene = Scene::new();
    scene.directory("server");
    std::os::unix::fs::symlink("nowhere/at all", scene.path("server/link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("server/pipe"), 0o600.into()).unwrap();
    let server = scene.serve_with(&["--export", "ram=memory:"]);
    let people = scene.run(["stat", &server.url("link"), &server.url("pipe")]);
    people.ends_with(0).is_silent();
    for part in ["symbolic link", "target nowhere/at all", "type   pipe"] {
        assert!(people.text().contains(part), "{part} in {}", people.text());
    }
    let json = scene.run(["stat", "--json", &server.url("link")]).objects();
    assert_eq!((&json[0]["type"], &json[0]["target"]), (&"symlink".into(), &"nowhere/at all".into()));
    let endless = scene.run(["stat", &server.url_in("ram", "zero")]);
    assert!(endless.ends_with(0).text().contains("endless"), "{}", endless.text());
}

#[test]
fn a_directory_is_described_too() {
    let scene = Scene::new();
    scene.directory("server/d");
    let server = scene.serve();
    let outcome = scene.run(["stat", "--json", &server.url("d"), &server.url("d/")]);
    outcome.ends_with(0);
    for line in outcome.objects() {
        assert_eq!(line["type"], "directory");
    }
    let top = scene.run(["stat", &server.url("")]);
    assert!(top.ends_with(0).text().contains("(the export's top)"), "{}", top.text());
    scene.write("server/f", b"x");
    scene.run(["stat", &server.url("f/")]).ends_with(exit::USAGE).says(&["not a directory"]);
}

#[test]
fn what_is_missing_is_named_and_the_rest_is_still_shown() {
    let scene = Scene::new();
    scene.write("server/there", b"x");
    let server = scene.serve();
    let alone = scene.run(["stat", &server.url("gone")]);
    alone.ends_with(exit::NOT_FOUND).says(&["gone", "no such file"]);
    let both = scene.run(["stat", &server.url("gone"), &server.url("there")]);
    both.ends_with(exit::SOME_FAILED).says(&["gone"]);
    assert!(both.text().contains("there"));
}
