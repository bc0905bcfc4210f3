//! What goes wrong: the message names the file and the cause, the exit code the kind, and no file is half there.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::net::{AddressFamily, SocketType};
use xdfs_test_cli::{Running, Scene, Server, exit, pattern, until, with_small_disk, xdfs_binary};

/// An address where nobody listens, as long as the socket has it.
fn dead_address() -> (OwnedFd, String) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = rustix::net::getsockname(&socket).expect("its address");
    (socket, SocketAddr::try_from(address).expect("one of IPv4").to_string())
}

/// The export may be written, and says so: what cannot be is the file system.
#[test]
fn a_file_system_that_is_read_only_is_told_from_an_export_that_is() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let directory = scene.directory("server");
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw", "--state", "state"];
    let mut command =
        with_small_disk(&directory, 1, "echo old > \"$0/file\" && mount -o remount,ro \"$0\" && exec \"$@\"");
    command.arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    let server = Server::start(command, &["--quiet", "--export", "data=server"]);
    scene.write("b", b"new");
    for number in 0..400 {
        scene.write(format!("tree/d{}/{number}", number % 7), &pattern(1000, number));
    }
    for words in [["cp", "-r", "tree", &server.url("new")].as_slice(), &["sync", "tree", &server.url("")]] {
        let told = scene.run(words);
        told.ends_with(exit::PERMISSION_DENIED).says(&["read-only"]);
        assert_eq!(told.messages.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", told.messages);
    }
    for words in
        [["mkdir", &server.url("new")].as_slice(), &["rm", &server.url("file")], &["cp", "b", &server.url("b")]]
    {
        let told = scene.run(words);
        told.ends_with(exit::PERMISSION_DENIED).says(&["read-only", "file system is mounted read-only"]);
        assert!(!told.messages.contains("choose an export"), "{}", told.messages);
    }
}

#[test]
fn a_missing_source_is_named() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.run(["cp", "gone", &server.url("x")]).ends_with(exit::NOT_FOUND).says(&["error: ", "gone", "no such file"]);
    scene.run(["cp", &server.url("gone"), "x"]).ends_with(exit::NOT_FOUND).says(&["error: ", "gone", "no such file"]);
    scene.run(["cp", &server.url_in("nowhere", "x"), "x"]).ends_with(exit::NOT_FOUND).says(&["nowhere"]);
    assert!(!scene.path("x").exists());
    assert!(scene.names("server").is_empty());
}

#[test]
fn a_missing_local_source_needs_no_server_to_be_noticed() {
    let scene = Scene::new();
    let (_socket, address) = dead_address();
    let url = format!("xdfs://{address}/data/x");
    scene.run(["cp", "gone", &url]).ends_with(exit::NOT_FOUND).says(&["gone"]);
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_address() {
    let scene = Scene::new();
    scene.write("a", b"x");
    let (_socket, address) = dead_address();
    let url = format!("xdfs://{address}/data/x");
    scene.run(["cp", "a", &url]).ends_with(exit::CONNECTION_LOST).says(&["error: ", &address, "refused", "xdfs serve"]);
    scene.run(["cp", &url, "b"]).ends_with(exit::CONNECTION_LOST).says(&[&address]);
    scene.run(["stat", &url]).ends_with(exit::CONNECTION_LOST).says(&[&address]);
    let json = scene.run(["cp", "--json", &url, "b"]);
    json.ends_with(exit::CONNECTION_LOST);
    let line = &json.objects()[0];
    assert_eq!((line["event"].as_str(), line["code"].as_str()), (Some("error"), Some("connection_lost")), "{line}");
}

#[test]
fn a_target_whose_directory_is_missing_is_named() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("a", b"x");
    scene.write("server/a", b"x");
    scene.run(["cp", "a", &server.url("no/such/x")]).ends_with(exit::NOT_FOUND).says(&["no"]);
    scene.run(["cp", &server.url("a"), "no/such/x"]).ends_with(exit::NOT_FOUND).says(&["no/such"]);
    scene.run(["cp", &server.url("a"), "newdirectory/"]).ends_with(exit::NOT_FOUND).says(&["newdirectory/"]);
    assert!(!scene.path("no").exists() && !scene.path("server/no").exists());
}

#[test]
fn what_is_no_file_is_not_copied() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("d");
    scene.directory("server/d");
    scene.write("a", b"x");
    scene.run(["cp", "d", &server.url("x")]).ends_with(exit::USAGE).says(&["d", "directory"]);
    scene.run(["cp", &server.url("d"), "x"]).ends_with(exit::USAGE).says(&["d", "directory"]);
    scene.directory("server/e/a");
    scene.run(["cp", "a", &server.url("e")]).ends_with(exit::USAGE).says(&["directory"]);
    let status = Command::new("mkfifo").arg(scene.path("server/fifo")).status().unwrap();
    assert!(status.success());
    scene.run(["cp", &server.url("fifo"), "x"]).ends_with(exit::REFUSED).says(&["fifo", "regular file"]);
    scene.run(["cp", "a", &server.url("fifo")]).ends_with(exit::REFUSED).says(&["fifo"]);
    assert!(!scene.path("x").exists());
}

#[test]
fn links_inside_an_export_do_not_lead_out_of_it() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("secret", b"secret");
    scene.write("a", b"a");
    for (link, target) in [("file", "../secret"), ("directory", ".."), ("absolute", "/etc/passwd")] {
        std::os::unix::fs::symlink(target, scene.path(format!("server/{link}"))).unwrap();
    }
    for path in ["file", "directory/secret", "absolute"] {
        scene.run(["cp", &server.url(path), "stolen"]).ends_with(exit::REFUSED);
    }
    scene.run(["cp", "a", &server.url("directory/secret")]).ends_with(exit::REFUSED);
    assert!(!scene.path("stolen").exists());
    assert_eq!(scene.read("secret"), b"secret");
}

/// A command as somebody who may not read the files of others: root is only root over what it owns there.
fn as_somebody(scene: &Scene, words: &[&str]) -> Running {
    Running::start(command_as_somebody(scene, words))
}

fn command_as_somebody(scene: &Scene, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    command
}

/// Takes all rights to `path` from the user of the tests.
fn lock(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our own file");
    if rustix::process::geteuid().is_root() {
        chown(path, Some(12_345), Some(12_345)).expect("root may");
    }
}

#[test]
fn a_file_that_may_not_be_read_or_written_is_told_so() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let server = scene.serve();
    lock(&scene.write("secret", b"x"), 0o600);
    lock(&scene.directory("locked"), 0o555);
    scene.write("server/a", b"x");
    let upload = as_somebody(&scene, &["cp", "secret", &server.url("x")]).wait();
    upload.ends_with(exit::PERMISSION_DENIED).says(&["secret", "ermission denied"]);
    let download = as_somebody(&scene, &["cp", &server.url("a"), "locked/x"]).wait();
    download.ends_with(exit::PERMISSION_DENIED).says(&["locked/x", "ermission denied"]);
    assert_eq!(scene.names("server"), ["a"]);
}

#[test]
fn a_read_only_export_refuses_uploads_and_serves_downloads() {
    let scene = Scene::new();
    scene.write("server/a", b"old");
    scene.write("b", b"new");
    for (options, reason) in [
        (&["--export", "ro=server:ro"][..], "read-only"),
        (&["--export", "ro=server", "--allow-anonymous", "ro"], "may read"),
    ] {
        let server = scene.serve_with(options);
        let outcome = scene.run(["cp", "b", &server.url_in("ro", "a")]);
        outcome.ends_with(exit::PERMISSION_DENIED).says(&[reason]);
        if reason == "read-only" {
            outcome.says(&[&format!(
                "\nhelp: choose an export that may be written: xdfs ls -l 'xdfs://{}/#",
                server.address()
            )]);
        }
        scene.run(["cp", "b", &server.url_in("ro", "new")]).ends_with(exit::PERMISSION_DENIED);
        scene.run(["cp", &server.url_in("ro", "a"), "back"]).ends_with(0);
        assert_eq!(scene.read("back"), b"old");
        assert_eq!(scene.names("server"), ["a"]);
    }
}

#[test]
fn some_files_that_fail_leave_the_others_copied() {
    let scene = Scene::new();
    let server = scene.serve();
    for name in ["a", "c"] {
        scene.write(name, name.as_bytes());
    }
    scene.directory("server/into");
    let outcome = scene.run(["cp", "--json", "a", "gone", "c", &server.url("into/")]);
    outcome.ends_with(exit::SOME_FAILED).says(&["gone"]);
    assert_eq!(scene.names("server/into"), ["a", "c"]);
    let events: Vec<String> =
        outcome.objects().iter().map(|line| line["event"].as_str().unwrap_or("none").to_owned()).collect();
    assert_eq!(events.iter().filter(|event| *event == "transfer").count(), 2, "{events:?}");
    assert_eq!(events.iter().filter(|event| *event == "error").count(), 1, "{events:?}");
}

#[test]
fn a_full_disk_of_the_server_is_told_and_leaves_nothing() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let directory = scene.directory("server");
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw", "--state", "state"];
    let mut command = with_small_disk(&directory, 8, "exec \"$@\"");
    command.arg(xdfs_binary()).args(words);
    command.current_dir(scene.path(""));
    let server = Server::start(command, &["--export", "data=server"]);
    scene.trust(server.address(), &server);
    scene.write("large", &pattern(20_000_000, 1));
    scene.write("small", &pattern(1_000_000, 2));
    scene.run(["cp", "large", &server.url("large")]).ends_with(exit::NO_SPACE).says(&["large", "no space"]);
    // A pipe's size is not known before, so the disk fills up while data flow.
    let mut piped = scene.start(["cp", "-", &server.url("piped")]);
    piped.feed(&pattern(20_000_000, 3));
    piped.wait().ends_with(exit::NO_SPACE).says(&["piped", "no space"]);
    // What failed gives its room back, behind the answer.
    let copied =
        until(|| scene.run(["cp", "small", &server.url("small")]), |copied| copied.code != Some(exit::NO_SPACE));
    copied.ends_with(0);
    scene.run(["stat", &server.url("large")]).ends_with(exit::NOT_FOUND);
    scene.run(["stat", &server.url("piped")]).ends_with(exit::NOT_FOUND);
}

#[test]
fn a_full_local_disk_is_told_and_leaves_the_old_file() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    scene.write("server/large", &pattern(20_000_000, 1));
    let server = scene.serve();
    let disk = scene.directory("disk");
    let url = server.url("large");
    let script = "echo old > disk/x && \"$1\" cp \"$2\" disk/x; code=$?; cat disk/x; ls -A disk | wc -l; exit $code";
    let mut command = with_small_disk(&disk, 8, script);
    command.arg(xdfs_binary()).arg(url);
    command.current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    let outcome = Running::start(command).wait();
    outcome.ends_with(exit::NO_SPACE).says(&["disk/x", "no space"]);
    assert_eq!(outcome.text(), "old\n1\n");
    assert!(disk.exists());
}

#[test]
fn a_reader_of_standard_output_that_leaves_is_no_error() {
    let scene = Scene::new();
    scene.write("server/large", &pattern(10_000_000, 1));
    let server = scene.serve();
    let script = "\"$0\" cp \"$1\" - | head -c 5 >/dev/null; exit ${PIPESTATUS[0]}";
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(xdfs_binary()).arg(server.url("large"));
    scene.dress("somebody", &mut command);
    Running::start(command).wait().ends_with(0).is_silent();
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    let scene = Scene::new();
    scene.write("server/a", &pattern(100_000, 1));
    let server = scene.serve();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" cp \"$1\" - >/dev/full"]).arg(xdfs_binary()).arg(server.url("a"));
    scene.dress("somebody", &mut command);
    Running::start(command).wait().ends_with(exit::NO_SPACE).says(&["no space"]);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let scene = Scene::new();
    scene.run(["serve", "--export", "data=gone", "--listen", "127.0.0.1:0"]).ends_with(exit::NOT_FOUND).says(&["gone"]);
    scene.write("file", b"x");
    scene
        .run(["serve", "--export", "data=file", "--listen", "127.0.0.1:0"])
        .ends_with(exit::USAGE)
        .says(&["file", "directory"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    scene.directory("data");
    let refused = scene.run(["serve", "--export", "data=data", "--listen", &address]);
    refused.ends_with(exit::CONNECTION_LOST).says(&[
        &format!("cannot listen on {address}: "),
        "in use",
        "--listen ADDR:PORT",
    ]);
    assert_eq!(refused.messages.matches("cannot listen").count(), 1, "{}", refused.messages);
}

#[test]
fn a_server_that_may_not_enter_what_it_offers_does_not_start() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    lock(&scene.directory("locked"), 0o700);
    scene.write("server.toml", b"[exports.data]\ndirectory = \"locked\"\n");
    for (options, named) in [
        (["--export", "data=locked"], "--export data=locked: permission denied"),
        (["--config", "server.toml"], "locked: "),
    ] {
        let words = ["serve", "--listen", "127.0.0.1:0", "--state", "state"];
        let words: Vec<&str> = words.into_iter().chain(options).collect();
        as_somebody(&scene, &words).wait().ends_with(exit::PERMISSION_DENIED).says(&[
            named,
            "permission denied",
            "help: offer a directory that the user of the server may enter",
        ]);
    }
    // Files whose names are known can be fetched from a directory that only hides its names.
    lock(&scene.directory("hidden"), 0o711);
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--state", "state", "--export", "data=hidden"];
    let server = Server::start(command_as_somebody(&scene, &words), &[]);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn something_that_is_no_xdfs_server_is_told_apart() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = std::thread::spawn(move || {
        use std::io::Write;
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let outcome = scene.run(["cp", &format!("xdfs://{address}/data/x"), "x"]);
    outcome.ends_with(exit::REFUSED).says(&[&address.to_string()]);
    stranger.join().unwrap();
    assert!(!scene.path("x").exists());
}
