//! The command on servers that let users in by their certificates.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use xdfs_test_cli::{Outcome, Running, Scene, pattern};

use super::peers::survives_a_kill;
use super::servers::{FtpServer, log_with};
use super::site::Site;

/// Runs the command with a proxy of the site's user.
#[track_caller]
fn run(scene: &Scene, site: &Site, proxy: &Path, words: &[&str]) -> Outcome {
    let mut command = scene.command(words);
    command.env("X509_USER_PROXY", proxy).env("X509_CERT_DIR", site.path("certificates"));
    Running::start(command).wait()
}

#[test]
fn a_proxy_moves_files_and_trees_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let (scene, server) = (Scene::new(), FtpServer::globus_of(site));
    let with = |words: &[&str]| run(&scene, site, &site.path("proxy"), words);
    let content = pattern(5_000_001, 3);
    scene.write("f", &content);
    for protection in ["clear", "integrity", "private"] {
        for channels in ["1", "4", "16"] {
            let options = ["cp", "--json", "-P", channels, "--protection", protection];
            let up = with(&[&options[..], &["f", &server.url("f")]].concat());
            assert_eq!(up.ends_with(0).objects()[0]["protection"], protection);
            assert_eq!(up.objects()[0]["verify"], "hash", "{}", up.text());
            assert!(server.read("f") == content);
            let down = with(&[&options[..], &[&server.url("f"), "g"]].concat());
            assert_eq!(down.ends_with(0).objects()[0]["protection"], protection);
            assert!(scene.read("g") == content);
        }
    }
    for number in 0..24 {
        scene.write(format!("tree/{number}"), &pattern(100 + number, 1));
    }
    with(&["sync", "-P", "2", "tree", &server.url("tree")]).ends_with(0);
    with(&["sync", "-P", "2", &server.url("tree"), "back"]).ends_with(0);
    assert_eq!(scene.names("back").len(), 24);
    let listed = with(&["ls", &server.url("tree")]);
    assert_eq!(listed.ends_with(0).text().lines().count(), 24, "{}", listed.text());
    let found = with(&["stat", &server.url("f")]);
    assert!(found.ends_with(0).text().contains("5000001"), "{}", found.text());
    with(&["mv", &server.url("f"), &server.url("moved")]).ends_with(0);
    with(&["mkdir", &server.url("new")]).ends_with(0);
    with(&["rm", &server.url("moved")]).ends_with(0);
    assert_eq!(server.names(), ["new", "tree"]);
}

/// A certificate of the user's own and its key, without a proxy.
#[test]
fn a_certificate_without_a_proxy_logs_in_and_is_delegated() {
    let Some(site) = Site::of_process() else { return };
    let (scene, server) = (Scene::new(), FtpServer::globus_of(site));
    let run = |key: &Path, words: &[&str]| {
        let mut command = scene.command(words);
        command.env_remove("X509_USER_PROXY").env("X509_CERT_DIR", site.path("certificates"));
        command.env("X509_USER_CERT", site.path("user/usercert.pem")).env("X509_USER_KEY", key);
        Running::start(command).wait()
    };
    let (key, content) = (site.path("user/userkey.pem"), pattern(5_000_001, 3));
    scene.write("f", &content);
    for (protection, channels) in [("private", "4"), ("clear", "1")] {
        let options = ["cp", "--json", "-P", channels, "--protection", protection];
        // Data channels are authenticated, for which the server was given a proxy.
        let up = run(&key, &[&options[..], &["f", &server.url("f")]].concat());
        assert_eq!(up.ends_with(0).objects()[0]["protection"], protection);
        assert!(server.read("f") == content);
        run(&key, &[&options[..], &[&server.url("f"), "g"]].concat()).ends_with(0);
        assert!(scene.read("g") == content);
    }
    let open = site.path("open-key");
    std::fs::copy(&key, &open).expect("a copy");
    std::fs::set_permissions(&open, Permissions::from_mode(0o644)).expect("our own");
    run(&open, &["ls", &server.url("")]).ends_with(10).says(&["other users can read this private key"]);
    run(&site.path("host/hostkey.pem"), &["ls", &server.url("")]).ends_with(10).says(&["key"]);
}

#[test]
fn copies_with_a_certificate_go_on_after_their_server_was_killed() {
    let Some(site) = Site::of_process() else { return };
    let (scene, server) = (Scene::new(), FtpServer::globus_of(site));
    let start = |words: &[&str]| {
        let mut command = scene.command(words);
        command.env("X509_USER_PROXY", site.path("proxy")).env("X509_CERT_DIR", site.path("certificates"));
        Running::start(command)
    };
    survives_a_kill(&scene, &server, 256 << 20, &start);
}

/// What the server's log has of the protection that was asked for.
#[test]
fn data_are_protected_as_was_asked_for() {
    let Some(site) = Site::of_process() else { return };
    let scene = Scene::new();
    scene.write("f", &pattern(2_000_001, 3));
    for (protection, asked) in [("clear", "PROT C"), ("integrity", "PROT S"), ("private", "PROT P")] {
        let log = scene.path(protection);
        let server = FtpServer::globus_of_with(site, &["-d", "ALL", "-l", log.to_str().unwrap()]);
        for words in [["f", &server.url("f")], [&server.url("f"), "g"]] {
            let words = [&["cp", "-P", "4", "--protection", protection], &words[..]].concat();
            run(&scene, site, &site.path("proxy"), &words).ends_with(0);
        }
        let log = log_with(&log, |log| log.matches("[CLIENT]: PROT ").count() >= 2);
        let heard: Vec<&str> =
            log.lines().filter_map(|line| line.split_once("[CLIENT]: ")).map(|(_, said)| said).collect();
        let protected: Vec<&str> = heard.iter().copied().filter(|said| said.starts_with("PROT ")).collect();
        assert_eq!(protected, [asked, asked], "{heard:?}");
        assert_eq!(heard.iter().filter(|said| **said == "DCAU A").count(), 2, "{heard:?}");
        assert!(!heard.contains(&"DCAU N"), "{heard:?}");
    }
}

#[test]
fn files_cross_between_a_site_and_xdfs() {
    let Some(site) = Site::of_process() else { return };
    let (scene, ftp) = (Scene::new(), FtpServer::globus_of(site));
    let content = pattern(5_000_001, 3);
    scene.write("server/f", &content);
    let server = scene.serve();
    let with = |words: &[&str]| run(&scene, site, &site.path("proxy"), words);
    let there = with(&["cp", "--json", &server.url("f"), &ftp.url("f")]);
    assert_eq!(there.ends_with(0).objects()[0]["protection"], "private");
    let back = with(&["cp", "--json", &ftp.url("f"), &server.url("back")]);
    assert_eq!(back.ends_with(0).objects()[0]["protection"], "private");
    assert!(ftp.read("f") == content && scene.read("server/back") == content);
}

#[test]
fn without_a_good_proxy_nothing_is_sent_and_the_reason_said() {
    let Some(site) = Site::of_process() else { return };
    if !xdfs_test_needs::program("faketime", "faketime") {
        return;
    }
    let (scene, server) = (Scene::new(), FtpServer::globus_of(site));
    server.put("f", b"text");
    let url = server.url("f");
    site.proxy_at("-5 hours", "expired");
    std::fs::copy(site.path("proxy"), site.path("open")).expect("a copy");
    std::fs::set_permissions(site.path("open"), Permissions::from_mode(0o644)).expect("our own");
    let by_address = url.replace("localhost", "127.0.0.1");
    for (proxy, url, code, words) in [
        ("expired", &url, 10, "has expired: it was valid until 20"),
        ("open", &url, 10, "other users can read this private key; run: chmod 600 "),
        ("missing", &url, 10, "make a proxy with grid-proxy-init"),
        ("proxy", &by_address, 9, "is for '/O=Grid/OU=xdfs/CN=host/localhost' and not for the host '127.0.0.1'"),
    ] {
        let refused = run(&scene, site, &site.path(proxy), &["cp", url, "g"]);
        refused.ends_with(code).says(&[words]);
        assert!(!refused.messages.contains("PRIVATE KEY"), "{}", refused.messages);
        assert!(!scene.path("g").exists());
    }
    // A server that knows no certificates is not asked for its files in the clear.
    let plain = FtpServer::globus();
    plain.put("f", b"text");
    let refused = run(&scene, site, &site.path("proxy"), &["cp", &plain.url("f"), "g"]);
    assert_ne!(refused.code, Some(0), "{}", refused.text());
    assert!(!scene.path("g").exists());
    let anonymous = plain.url("f").replace("gsiftp://", "gsiftp://anonymous@");
    run(&scene, site, &site.path("proxy"), &["cp", &anonymous, "g"]).ends_with(0);
    assert_eq!(scene.read("g"), b"text");
}

/// Data channels of GSI have no end that could be told from a cut, so what is removed here is what a listing over the
/// control channel does not have. This server can have no data channel: its ports are refused.
#[test]
fn what_is_deleted_here_is_missing_from_a_list_that_nobody_can_cut() {
    let Some(site) = Site::of_process() else { return };
    let ports = vec![("GLOBUS_TCP_PORT_RANGE", "900,920".into())];
    let (scene, server) = (Scene::new(), FtpServer::globus_of_in(site, ports));
    for name in ["tree/kept", "tree/new/below"] {
        std::fs::create_dir_all(server.here.join(name)).expect("a directory");
    }
    scene.directory("here/kept");
    scene.write("here/gone", b"text");
    // A name that cannot be asked for.
    scene.write("here/two\nlines", b"text");
    let with = |words: &[&str]| run(&scene, site, &site.path("proxy"), words);
    with(&["ls", &server.url("tree")]).says(&["below 1024"]).fails();
    with(&["sync", "--delete", &server.url("tree"), "here"]).ends_with(0);
    assert_eq!(scene.names("here"), ["kept", "new"]);
    assert!(scene.path("here/new/below").is_dir());
    // More names than any other reply may have bytes for, and nothing is missing.
    for number in 0..3000 {
        std::fs::create_dir(server.here.join(format!("tree/{number:04}"))).expect("a directory");
    }
    with(&["sync", "--delete", &server.url("tree"), "here"]).ends_with(0);
    assert_eq!(scene.names("here").len(), 3002);
}

/// Runs a program where the first argument is the proxy in root's usual place.
const USUAL_PLACE: &str = r#"mount -t tmpfs none /tmp && install -m 600 "$1" /tmp/x509up_u0 && shift && exec "$@""#;

#[test]
fn a_proxy_in_the_usual_place_is_not_used_by_who_wants_none() {
    let (scene, server) = (Scene::new(), FtpServer::globus());
    server.put("f", b"text");
    // An anonymous login, whatever this machine has in /tmp.
    super::run(&scene, &["cp", &server.url("f"), "g"]).ends_with(0);
    assert_eq!(scene.read("g"), b"text");
    // And where there is one: in a file system that nobody else sees.
    let Some(site) = Site::of_process() else { return };
    let scene = Scene::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let with_usual = |named: Option<&str>| {
        let words = scene.command(["cp", &server.url("f"), "g"]);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", USUAL_PLACE, "sh"]).arg(site.path("proxy"));
        command.arg(words.get_program()).args(words.get_args());
        command.envs(words.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("X509_CERT_DIR", site.path("certificates")).current_dir(scene.path("."));
        match named {
            Some(named) => command.env("X509_USER_PROXY", named),
            None => command.env_remove("X509_USER_PROXY"),
        };
        Running::start(command).wait()
    };
    // It is found, and this server knows no certificates.
    with_usual(None).ends_with(10).says(&["the server offers no GSI"]);
    assert!(!scene.path("g").exists());
    with_usual(Some("")).ends_with(0);
    assert_eq!(scene.read("g"), b"text");
}

#[test]
fn no_key_of_a_proxy_is_said_or_left_behind() {
    let Some(site) = Site::of_process() else { return };
    let (scene, server) = (Scene::new(), FtpServer::globus_of(site));
    scene.write("f", &pattern(3_000_000, 3));
    let proxy = std::fs::read_to_string(site.path("proxy")).unwrap();
    let is_key = |line: &&str| !line.starts_with("-----");
    let key: Vec<&str> = proxy.split("PRIVATE KEY-----").nth(1).unwrap().lines().filter(is_key).collect();
    let lines: Vec<&str> = key.into_iter().filter(|line| line.len() >= 16).collect();
    assert!(lines.len() > 5, "a key has lines");
    let mut said = Vec::new();
    for words in [
        &["cp", "-v", "--json", "f", &server.url("f")][..],
        &["cp", "-v", &server.url("f"), "g"],
        &["ls", &server.url("")],
        &["cp", "-v", "f", &server.url("no/where")],
    ] {
        let mut command = scene.command(words);
        command.env("X509_USER_PROXY", site.path("proxy")).env("X509_CERT_DIR", site.path("certificates"));
        command.env("XDFS_LOG", "trace").env("RUST_LOG", "trace");
        let outcome = Running::start(command).wait();
        said.extend_from_slice(&outcome.output);
        said.extend_from_slice(outcome.messages.as_bytes());
    }
    let mut left = Vec::new();
    for entry in walk(&scene.path(".")).into_iter().chain(walk(&server.here)) {
        left.extend(std::fs::read(entry).unwrap());
    }
    for line in lines {
        let is_in = |all: &[u8]| all.windows(line.len()).any(|part| part == line.as_bytes());
        assert!(!is_in(&said), "a line of the key was said");
        assert!(!is_in(&left), "a line of the key was left in a file");
    }
}

/// All files below a directory.
fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
