//! `xdfs stat`: what a file on a server is.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use xdfs_test_cli::Scene;

#[test]
fn a_file_is_described_for_people_and_as_json() {
    let scene = Scene::new();
    let path = scene.write("server/a b.bin", &[7; 12_345]);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let server = scene.serve();
    let url = server.url("a%20b.bin");
    let people = scene.run(["stat", &url]);
    people.ends_with(0).is_silent();
    for part in ["a b.bin", "regular file", "12345", "0640", "rw-r-----", "2023-11-14 22:13:20"] {
        assert!(people.text().contains(part), "{part} in {}", people.text());
    }
    let json = scene.run(["stat", "--json", &url]);
    json.ends_with(0).is_silent();
    let line = &json.objects()[0];
    let fields: [(&str, serde_json::Value); 8] = [
        ("event", "stat".into()),
        ("url", url.into()),
        ("name", "a b.bin".into()),
        ("type", "file".into()),
        ("size", 12_345.into()),
        ("mode", "0640".into()),
        ("mtime", 1_700_000_000.into()),
        ("mtime_nanoseconds", 5.into()),
    ];
    for (field, value) in fields {
        assert_eq!(line[field], value, "{field} in {line}");
    }
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
}

#[test]
fn what_is_missing_is_named_and_the_rest_is_still_shown() {
    let scene = Scene::new();
    scene.write("server/there", b"x");
    let server = scene.serve();
    let alone = scene.run(["stat", &server.url("gone")]);
    alone.ends_with(3).says(&["gone", "no such file"]);
    let both = scene.run(["stat", &server.url("gone"), &server.url("there")]);
    both.ends_with(1).says(&["gone"]);
    assert!(both.text().contains("there"));
}
