//! What servers do not say in their listings: that a directory is a link, and that they refuse to list
//! one. Neither may end in files that are lost.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use xdfs_test_cli::Scene;

use super::run;
use super::scripted::{Say, Scripted};
use super::servers::FtpServer;

/// A directory to remove, with a link that leads out of it.
fn plant_link(server: &FtpServer) {
    server.put("kept/precious", b"precious");
    server.put("d/f", b"f");
    server.put("d/sub/f", b"f");
    symlink("../../kept", server.here.join("d/sub/link")).unwrap();
}

/// What a link leads to stays when the link is removed.
fn removal_ends_at_links(server: &FtpServer) {
    let scene = Scene::new();
    plant_link(server);
    run(&scene, &["rm", "-r", &server.url("d")]).ends_with(0);
    assert!(!server.here.join("d").exists());
    assert_eq!(server.read("kept/precious"), b"precious");
    plant_link(server);
    scene.directory("empty");
    run(&scene, &["sync", "--delete", "empty", &server.url("d")]).ends_with(0);
    assert_eq!(std::fs::read_dir(server.here.join("d")).unwrap().count(), 0);
    assert_eq!(server.read("kept/precious"), b"precious");
}

#[test]
fn removal_ends_at_links_with_globus() {
    removal_ends_at_links(&FtpServer::globus());
}

#[test]
fn removal_ends_at_links_with_proftpd() {
    removal_ends_at_links(&FtpServer::proftpd(""));
}

#[test]
fn removal_ends_at_links_with_pure_ftpd() {
    removal_ends_at_links(&FtpServer::pure_ftpd(&[]));
}

#[test]
fn a_server_that_does_not_tell_links_has_only_empty_directories_removed() {
    let (scene, server) = (Scene::new(), FtpServer::vsftpd(""));
    plant_link(&server);
    let refused = run(&scene, &["rm", "-r", &server.url("d")]);
    refused.says(&["names alone", "by their names"]).fails();
    scene.directory("empty");
    let refused = run(&scene, &["sync", "--delete", "empty", &server.url("d")]);
    refused.ends_with(3).says(&["--delete", "names alone", "links"]);
    assert_eq!(server.read("d/sub/f"), b"f");
    assert!(server.here.join("d/sub/link").is_symlink());
    assert_eq!(server.read("kept/precious"), b"precious");
    // File by file, then the directory.
    server.put("e/f", b"f");
    run(&scene, &["rm", &server.url("e/f")]).ends_with(0);
    run(&scene, &["rm", "-r", &server.url("e")]).ends_with(0);
    assert!(!server.here.join("e").exists());
}

/// A directory that others may enter and not list is no empty one.
fn a_refused_listing_is_said(server: &FtpServer) {
    let scene = Scene::new();
    server.put("closed/f", b"f");
    std::fs::set_permissions(server.here.join("closed"), Permissions::from_mode(0o711)).unwrap();
    server.put("open/f", b"f");
    std::fs::remove_file(server.here.join("open/f")).unwrap();
    scene.write("mine/f", b"mine");
    for words in [&["ls", &server.url("closed")][..], &["sync", &server.url("closed"), "mine"]] {
        let refused = run(&scene, words);
        assert_ne!(refused.code, Some(0), "{words:?}: {}", refused.text());
    }
    assert_eq!(run(&scene, &["ls", &server.url("open")]).ends_with(0).text(), "");
    run(&scene, &["sync", &server.url("open"), "mine"]).ends_with(0);
    assert_eq!(scene.read("mine/f"), b"mine");
}

#[test]
fn a_refused_listing_is_said_with_vsftpd() {
    a_refused_listing_is_said(&FtpServer::vsftpd(""));
}

#[test]
fn a_refused_listing_is_said_with_globus() {
    a_refused_listing_is_said(&FtpServer::globus());
}

#[test]
fn a_refused_listing_is_said_with_proftpd() {
    a_refused_listing_is_said(&FtpServer::proftpd(""));
}

#[test]
fn a_refused_listing_is_said_with_pure_ftpd() {
    a_refused_listing_is_said(&FtpServer::pure_ftpd(&[]));
}

/// pure-ftpd ends a long list at its limit, and calls that a success.
#[test]
fn what_a_server_leaves_out_of_a_long_list_is_not_removed() {
    let (scene, server, other) = (Scene::new(), FtpServer::pure_ftpd(&["-L", "5:5"]), FtpServer::globus());
    let names: Vec<String> = (0..20).map(|number| format!("name-{number:02}")).collect();
    for name in &names {
        server.put(&format!("d/{name}"), b"text");
        other.put(&format!("d/{name}"), b"text");
        scene.write(format!("d/{name}"), b"text");
    }
    let url = server.url("d");
    run(&scene, &["ls", &url]).fails().says(&["only some of the names", "Output truncated to 5 matches"]);
    for to in ["d", &other.url("d")] {
        run(&scene, &["sync", "--delete", &url, to]).fails();
        // Without it, too: what is not listed would not be copied.
        run(&scene, &["sync", &url, to]).fails();
        run(&scene, &["cp", "-r", &format!("{url}/."), to]).fails();
    }
    assert_eq!(scene.names("d"), names);
    assert_eq!(names_in(&other), names);
    // What is surplus there is not known, so that all is sent and nothing removed.
    std::fs::remove_file(scene.path("d/name-19")).unwrap();
    scene.write("d/name-00", b"new text");
    let sent = run(&scene, &["sync", "--delete", "d", &url]);
    sent.fails().says(&["more than the server allows"]);
    assert_eq!(names_in(&server), names);
    assert_eq!(server.read("d/name-00"), b"new text");
    // A directory of few names is listed.
    server.put("few/f", b"text");
    assert_eq!(run(&scene, &["ls", &server.url("few")]).ends_with(0).text(), "f\n");
}

fn names_in(server: &FtpServer) -> Vec<String> {
    let entries = std::fs::read_dir(server.here.join("d")).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A server that lists names alone does not say, either, which are missing.
#[test]
fn a_list_of_names_alone_that_was_cut_short_is_an_error() {
    let server = Scripted::start(|line| match line {
        "FEAT" => Some(Say::Reply("500 what")),
        "NLST" => Some(Say::Ends(b"a\r\nb\r\n".to_vec(), "226-Options: -a\r\n226 Output truncated to 2 matches")),
        "SIZE /d/a" | "SIZE /d/b" => Some(Say::Reply("213 1")),
        "MDTM /d/a" | "MDTM /d/b" => Some(Say::Reply("213 20260102030405")),
        _ if line.starts_with("SIZE ") || line.starts_with("MDTM ") => Some(Say::Reply("550 no")),
        _ => None,
    });
    let scene = Scene::new();
    run(&scene, &["ls", &server.url("//d")]).fails().says(&["Output truncated to 2 matches"]);
    run(&scene, &["sync", &server.url("//d"), "d"]).fails();
}

/// Servers without facts say in several ways that a directory is empty.
macro_rules! lists {
    ($name:ident, $reply:literal, $code:literal) => {
        #[test]
        fn $name() {
            let server = Scripted::start(|line| match line {
                "FEAT" | "SIZE /d" | "MDTM /d" => Some(Say::Reply("500 what")),
                "NLST" => Some(Say::Reply($reply)),
                _ => None,
            });
            run(&Scene::new(), &["ls", &server.url("//d")]).ends_with($code);
        }
    };
}

lists!(no_files_found_is_an_empty_directory, "550 No files found.", 0);
lists!(no_such_file_is_an_empty_directory, "450 *: No such file or directory", 0);
lists!(permission_denied_is_no_empty_directory, "550 Permission denied.", 7);
lists!(a_busy_server_has_no_empty_directory, "450 try later", 14);
