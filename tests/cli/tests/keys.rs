//! `xdfs key` and `xdfs trust`: who I am and whom I know, as files and words.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use xdfs_test_cli::{Running, Scene, exit};

const PLAIN: &[u8] = include_bytes!("../../../crates/secure/tests/keys/plain.key");
const PLAIN_PUBLIC: &str = include_str!("../../../crates/secure/tests/keys/plain.pub");
const LOCKED: &[u8] = include_bytes!("../../../crates/secure/tests/keys/locked.key");
const RSA: &[u8] = include_bytes!("../../../crates/secure/tests/keys/rsa.key");
const PKCS8: &[u8] = include_bytes!("../../../crates/secure/tests/keys/ed.pem");

/// Makes a file with these permissions in a person's home.
fn place(scene: &Scene, person: &str, name: &str, content: &[u8], mode: u32) -> std::path::PathBuf {
    let path = scene.write(format!("home-{person}/{name}"), content);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("its mode can be set");
    path
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).expect("it is there").mode() & 0o7777
}

#[test]
fn the_key_of_whoever_runs_it_is_in_their_home_also_of_root() {
    let scene = Scene::new();
    let mut command = scene.command(["key", "create"]);
    command.env_remove("XDG_STATE_HOME");
    Running::start(command).wait().ends_with(exit::DONE);
    let state = "home-somebody/.local/state/xdfs";
    assert!(scene.path(format!("{state}/id_ed25519")).is_file());
    let mut command = scene.command(["trust", "pin", "host.example", &format!("{state}/id_ed25519.pub")]);
    command.env_remove("XDG_STATE_HOME");
    Running::start(command).wait().ends_with(exit::DONE);
    assert!(scene.path(format!("{state}/known_hosts")).is_file());
}

#[test]
fn without_home_the_systems_list_of_users_says_where_it_is() {
    if !xdfs_test_needs::root("runs a program as another user") {
        return;
    }
    let mut command = std::process::Command::new(xdfs_test_cli::xdfs_binary());
    // As mount(8) starts a program for a user.
    command.args(["key", "show"]).env_clear().uid(65_534).gid(65_534);
    Running::start(command).wait().ends_with(exit::NOT_FOUND).says(&["you have no key yet"]);
}

#[test]
fn a_host_key_is_shown_with_what_is_compared_first() {
    let scene = Scene::new();
    let server = scene.serve();
    let shown = scene.run(["key", "show", "--host"]);
    let lines: Vec<&str> = shown.ends_with(exit::DONE).text().lines().collect();
    let [fingerprint, key] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(fingerprint, server.host_key());
    assert!(key.starts_with("ssh-ed25519 AAAA") && !shown.messages.contains("SHA256:"), "{shown:?}");
}

#[test]
fn a_file_without_a_key_is_no_reason_to_change_its_mode() {
    let scene = Scene::new();
    scene.write("notes", b"anything but a key\n");
    scene.run(["trust", "pin", "host.example", "notes"]).ends_with(exit::LOCAL).says(&["notes", "no key"]);
    scene.run(["user", "add", "anna", "--key", "notes"]).ends_with(exit::LOCAL).says(&["notes", "no key"]);
}

#[test]
fn a_key_is_made_once_and_shown_as_often_as_wanted() {
    let scene = Scene::new();
    scene.run_as("anna", ["key", "show"]).ends_with(exit::NOT_FOUND).says(&["no key yet", "xdfs key create"]);
    let made = scene.run_as("anna", ["key", "create"]);
    made.ends_with(0).says(&["SHA256:", "id_ed25519"]);
    assert!(made.text().starts_with("ssh-ed25519 AAAA") && made.text().contains(" anna@"), "{}", made.text());
    assert_eq!(scene.run_as("anna", ["key", "show"]).text(), made.text());
    let (private, public) =
        (scene.home("anna", "state/xdfs/id_ed25519"), scene.home("anna", "state/xdfs/id_ed25519.pub"));
    assert_eq!((mode(&private), mode(&public)), (0o600, 0o644));
    assert_eq!(std::fs::read_to_string(public).unwrap(), made.text());
    scene.run_as("anna", ["key", "create"]).ends_with(exit::EXISTS).says(&["have a key already", "--out"]);
    let json = scene.run_as("anna", ["key", "show", "--json"]);
    assert_eq!(json.objects()[0]["public_key"], made.text().trim_end());
    assert!(made.messages.contains(json.objects()[0]["fingerprint"].as_str().unwrap()));
    // Nobody else's key is seen.
    scene.run_as("bert", ["key", "show"]).ends_with(exit::NOT_FOUND);
    scene.run_as("bert", ["key", "create", "--out", "b", "--comment", "for work"]).ends_with(0);
    assert_eq!(mode(&scene.path("b")), 0o600);
    assert!(String::from_utf8(scene.read("b.pub")).unwrap().ends_with(" for work\n"));
    scene.run_as("bert", ["key", "create", "--out", "b"]).ends_with(exit::EXISTS).says(&["already exists"]);
}

#[test]
fn the_key_of_ssh_is_found_and_a_bad_one_is_explained() {
    let scene = Scene::new();
    for (person, content, mode, part) in [
        ("open", PLAIN, 0o644, "chmod"),
        ("rsa", RSA, 0o600, "ssh-rsa"),
        ("cut", &PLAIN[..200], 0o600, "damaged"),
        ("public", PLAIN_PUBLIC.as_bytes(), 0o600, "without .pub"),
        ("pkcs8", PKCS8, 0o600, "xdfs key import"),
        ("empty", b"", 0o600, "no key"),
        ("huge", &[b'x'; 100_000], 0o600, "bytes"),
    ] {
        place(&scene, person, ".ssh/id_ed25519", content, mode);
        scene.run_as(person, ["key", "show"]).ends_with(exit::NOT_FOUND).says(&[
            part,
            ".ssh/id_ed25519",
            "xdfs key create",
        ]);
        // A key that was chosen is the only one, whatever else is there.
        scene.run_as(person, ["key", "create"]).ends_with(0);
    }
    place(&scene, "good", ".ssh/id_ed25519", PLAIN, 0o600);
    place(&scene, "good", ".ssh/id_ed25519.pub", PLAIN_PUBLIC.as_bytes(), 0o644);
    let shown = scene.run_as("good", ["key", "show"]);
    shown.ends_with(0).says(&[".ssh/id_ed25519"]);
    assert_eq!(shown.text(), PLAIN_PUBLIC);
    place(&scene, "locked", ".ssh/id_ed25519", LOCKED, 0o600);
    scene.run_as("locked", ["key", "show"]).ends_with(0);
    // Both: one's own comes first.
    let own = scene.run_as("good", ["key", "create"]);
    let all = scene.run_as("good", ["key", "show", "--all"]);
    assert_eq!(all.text(), format!("{}{PLAIN_PUBLIC}", own.text()));
}

#[test]
fn keys_go_to_x509_and_come_back_and_the_private_half_only_into_files() {
    let scene = Scene::new();
    place(&scene, "anna", "site.pem", PKCS8, 0o600);
    let imported = scene.run_as("anna", ["key", "import", "home-anna/site.pem", "--comment", "site"]);
    imported.ends_with(0);
    let exported = scene.run_as("anna", ["key", "export", "--name", "host.example", "--private", "out.pem"]);
    exported.ends_with(0).is_silent();
    assert!(exported.text().starts_with("-----BEGIN CERTIFICATE-----\n"), "{}", exported.text());
    assert!(!exported.text().contains("PRIVATE"));
    assert_eq!(mode(&scene.path("out.pem")), 0o600);
    let back = scene.run_as("bert", ["key", "import", "out.pem", "--comment", "site"]);
    assert_eq!(back.text(), imported.text());
    scene.run_as("bert", ["key", "export", "--out", "out.pem"]).ends_with(exit::EXISTS).says(&["already exists"]);
    scene.run_as("bert", ["key", "export", "--name", "not a name"]).ends_with(exit::USAGE).says(&["--name"]);
    place(&scene, "carl", "site.pem", PKCS8, 0o644);
    scene
        .run_as("carl", ["key", "import", "home-carl/site.pem"])
        .ends_with(exit::PERMISSION_DENIED)
        .says(&["0644", "chmod"]);
    // A key that is used as it is; and it is.
    scene.run_as("dora", ["key", "create", "--out", "key"]).ends_with(0);
    scene
        .run_as("dora", ["key", "import", "key"])
        .ends_with(exit::LOCAL)
        .says(&["key: this is an OpenSSH key", "--identity FILE"]);
    scene
        .run_as("carl", ["key", "import", "nothing.pem"])
        .ends_with(exit::NOT_FOUND)
        .says(&["nothing.pem", "no such file"]);
}

#[test]
fn servers_are_pinned_listed_and_forgotten() {
    let scene = Scene::new();
    let key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let other = "SHA256:AAAAQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    assert_eq!(scene.run_as("anna", ["trust", "list"]).ends_with(0).text(), "");
    scene.run_as("anna", ["trust", "pin", "Host.Example", key]).ends_with(0).is_silent();
    let again = scene.run_as("anna", ["trust", "pin", "host.example:2799", other]);
    again.ends_with(0);
    assert!(again.text().contains("no longer") && again.text().contains(key), "{}", again.text());
    scene.write("key.pub", PLAIN_PUBLIC.as_bytes());
    scene.run_as("anna", ["key", "trust", "[::1]:40001", "key.pub"]).ends_with(0);
    let shown = scene.run_as("anna", ["key", "show", "key.pub", "--json"]).objects()[0]["fingerprint"].clone();
    let known = scene.run_as("anna", ["trust", "list", "--json"]).objects();
    let pairs: Vec<_> = known.iter().map(|line| (line["host"].clone(), line["host_key"].clone())).collect();
    assert_eq!(pairs, [("[::1]:40001".into(), shown), ("host.example:2799".into(), other.into())]);
    scene.run_as("anna", ["trust", "forget", "host.example"]).ends_with(0);
    scene.run_as("anna", ["trust", "forget", "host.example"]).ends_with(exit::NOT_FOUND).says(&["not known"]);
    for (words, part) in [
        (["trust", "pin", "host", "SHA256:short"], "SHA256"),
        (["trust", "pin", "host:0", key], "port"),
        (["trust", "pin", "ho st", key], "host"),
    ] {
        scene.run_as("anna", words).ends_with(exit::USAGE).says(&[part]);
    }
    scene.run_as("anna", ["trust", "pin", "host", "missing.pub"]).ends_with(exit::NOT_FOUND).says(&["missing.pub"]);
    scene.write("home-anna/state/xdfs/known_hosts", b"nonsense\n");
    scene.run_as("anna", ["trust", "list"]).ends_with(exit::LOCAL).says(&["known_hosts", "line 1"]);
}

#[test]
fn a_state_folder_that_others_may_write_is_refused() {
    let scene = Scene::new();
    let folder = scene.directory("state");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    for words in [&["key", "create"][..], &["trust", "list"], &["user", "list"]] {
        let words = words.iter().copied().chain(["--state", "state"]);
        scene.run_as("anna", words).ends_with(exit::PERMISSION_DENIED).says(&["0777", "chmod go-w"]);
    }
}
