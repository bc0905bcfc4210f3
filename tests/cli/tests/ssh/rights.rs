//! The other end has the rights of the user who logs in there, and their umask, as with scp.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use xdfs_test_cli::{Scene, exit};

use super::sshd::{Options, PERSON, Sshd};
use super::{run, url};

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").mode() & 0o7777
}

#[test]
fn new_files_get_the_umask_of_the_other_end() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    for (name, bits) in [("tree", 0o777), ("tree/file", 0o666), ("tree/program", 0o777)] {
        if name == "tree" {
            scene.directory(name);
        } else {
            scene.write(name, b"x");
        }
        chmod(&scene.path(name), bits);
    }
    for (mask, file, program) in [("027", 0o640, 0o750), ("077", 0o600, 0o700), ("002", 0o664, 0o775)] {
        let command = format!("--remote-command=umask {mask}; exec xdfs serve --stdio");
        let there = url(&scene, "box", mask);
        run(&scene, &["mkdir", &there, &command]).ends_with(exit::DONE);
        run(&scene, &["cp", "-r", "tree", &format!("{there}/"), &command]).ends_with(exit::DONE);
        run(&scene, &["cp", "tree/file", &format!("{there}/alone"), &command]).ends_with(exit::DONE);
        run(&scene, &["touch", &format!("{there}/touched"), &command]).ends_with(exit::DONE);
        run(&scene, &["mkfifo", &format!("{there}/pipe"), &command]).ends_with(exit::DONE);
        let got = |name: &str| mode(&scene.path(format!("{mask}/{name}")));
        for (name, bits) in [("tree/file", file), ("alone", file), ("touched", file), ("pipe", file)] {
            assert_eq!(got(name), bits, "{name} under {mask}: {:o}", got(name));
        }
        for name in ["", "tree", "tree/program"] {
            assert_eq!(got(name), program, "{name} under {mask}: {:o}", got(name));
        }
    }
}

/// What only root, and what only `person` may reach.
fn a_machine_of_two(scene: &Scene) {
    for (name, owner, bits) in [("of-root", 0, 0o700), ("of-person", PERSON, 0o700)] {
        let directory = scene.directory(name);
        let file = scene.write(format!("{name}/file"), b"x");
        for path in [&directory, &file] {
            chown(path, Some(owner), Some(owner)).expect("root may");
        }
        chmod(&directory, bits);
    }
    // Everybody may look into it, and only root may write.
    scene.write("open/secret", b"x");
    chmod(&scene.path("open/secret"), 0o600);
    scene.write("open/public", b"x");
}

#[test]
fn a_user_without_roots_rights_has_their_own_there_and_no_others() {
    if !xdfs_test_needs::root("another user logs in") {
        return;
    }
    let scene = Scene::new();
    let _sshd = Sshd::start_with(&scene, &Options { person: true, ..Options::default() });
    a_machine_of_two(&scene);
    let at = |name: &str| url(&scene, "person@box", name);
    scene.write("a", b"mine");
    chown(scene.path("a"), Some(5001), Some(5002)).unwrap();
    chmod(&scene.path("a"), 0o640);
    // What is theirs they read and write; nothing is given away, and -a says so or leaves it.
    run(&scene, &["cp", &at("of-person/file"), "got"]).ends_with(exit::DONE);
    run(&scene, &["cp", "a", &at("of-person/new")]).ends_with(exit::DONE).is_silent();
    run(&scene, &["cp", "a", "ssh:person@box:at-home"]).ends_with(exit::DONE).is_silent();
    run(&scene, &["cp", "-a", "a", &at("of-person/kept")]);
    for name in ["of-person/new", "home/at-home", "of-person/kept"] {
        let file = scene.path(name).metadata().unwrap();
        assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (PERSON, PERSON, 0o640), "{name}");
    }
    run(&scene, &["cat", &at("open/public")]).ends_with(exit::DONE);
    for words in [
        &["cat", &at("of-root/file")][..],
        &["cat", &at("open/secret")],
        &["ls", &at("of-root/")],
        &["cp", &at("of-root/file"), "none"],
        &["cp", &at("open/secret"), "none"],
        &["cp", "a", &at("of-root/new")],
        &["cp", "a", &at("open/new")],
        &["rm", &at("open/public")],
        &["mv", &at("open/public"), &at("of-person/public")],
        &["chmod", "777", &at("open/public")],
        &["mkdir", &at("open/new")],
    ] {
        run(&scene, words).ends_with(exit::PERMISSION_DENIED).says(&["permission"]);
    }
    run(&scene, &["cp", "-r", &at("of-root"), "tree"]).ends_with(exit::SOME_FAILED).says(&["permission denied"]);
    assert_eq!(scene.names("open"), ["public", "secret"]);
    assert_eq!(scene.names("of-root"), ["file"]);
    assert!(!scene.path("none").exists());
}
