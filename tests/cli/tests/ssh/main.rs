//! Copies over ssh, against a real sshd: nothing is set up at either end but the program.

mod commands;
mod listener;
mod open_files;
mod processes;
mod questions;
mod rights;
mod sshd;

use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use sshd::Sshd;
use xdfs_test_cli::{Outcome, Running, Scene, exit, is_running, pattern, wait_until};

fn url(scene: &Scene, host: &str, name: &str) -> String {
    format!("ssh://{host}{}", scene.path(name).display())
}

fn start(scene: &Scene, words: &[&str]) -> Running {
    // Behind the name of the command: some take what stands last for tests or for another command.
    let (command, rest) = words.split_first().expect("a command");
    let option = Sshd::option(scene);
    scene.start([&[command, option.as_str()][..], rest].concat())
}

#[track_caller]
fn run(scene: &Scene, words: &[&str]) -> Outcome {
    start(scene, words).wait()
}

#[test]
fn files_and_trees_move_both_ways_and_nobody_set_anything_up() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    let content = pattern(20 << 20, 1);
    scene.write("tree/large", &content);
    scene.write("tree/a b/%41;$(false)", b"odd");
    symlink("large", scene.path("tree/link")).unwrap();
    std::fs::set_permissions(scene.path("tree/large"), PermissionsExt::from_mode(0o640)).unwrap();
    let moved = run(&scene, &["cp", "--json", "-P", "4", "tree/large", &url(&scene, "box", "there")]);
    moved.ends_with(0).is_silent();
    let transfer = &moved.objects()[0];
    let by_channel: Vec<u64> = transfer["channel_bytes"].as_array().unwrap().iter().flat_map(|n| n.as_u64()).collect();
    assert!(by_channel.iter().filter(|bytes| **bytes > 0).count() > 1, "data moves beside ssh: {by_channel:?}");
    assert!(scene.read("there") == content);
    assert_eq!(scene.path("there").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    run(&scene, &["cp", &url(&scene, "box", "there"), "back"]).ends_with(0);
    assert!(scene.read("back") == content);
    run(&scene, &["cp", "-r", "tree", &url(&scene, "box", "copy")]).ends_with(0).is_silent();
    run(&scene, &["cp", "-r", &url(&scene, "box", "copy"), "returned"]).ends_with(0).is_silent();
    assert_eq!(scene.read("returned/a b/%41;$(false)"), b"odd");
    assert_eq!(std::fs::read_link(scene.path("copy/link")).unwrap().to_str(), Some("large"));
    scene.write("tree/new", b"new");
    std::fs::remove_dir_all(scene.path("tree/a b")).unwrap();
    run(&scene, &["sync", "--delete", "tree", &url(&scene, "box", "copy")]).ends_with(0);
    assert_eq!(scene.names("copy"), ["large", "link", "new"]);
    run(&scene, &["rm", "-r", &url(&scene, "box", "copy")]).ends_with(0);
    assert!(!scene.path("copy").exists());
    assert!(scene.names("home").is_empty(), "no state folder is made there");
}

#[test]
fn a_path_behind_a_colon_starts_at_home_and_is_taken_as_it_is_typed() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.write("a", b"a");
    run(&scene, &["cp", "a", "ssh:box:100%41 #?.txt"]).ends_with(0);
    assert_eq!(scene.read("home/100%41 #?.txt"), b"a");
    run(&scene, &["mkdir", "-p", "ssh:box:x/./y/"]).ends_with(0);
    run(&scene, &["cp", "a", "ssh:box:x/y/"]).ends_with(0);
    assert_eq!(scene.read("home/x/y/a"), b"a");
    let absolute = format!("ssh:box:{}", scene.path("a").display());
    assert_eq!(run(&scene, &["cat", &absolute]).ends_with(0).output, b"a");
    let listed = run(&scene, &["ls", "ssh:box:"]);
    assert_eq!(listed.ends_with(0).text().lines().count(), 2);
    run(&scene, &["cp", "a", "ssh:box:../a"]).ends_with(exit::USAGE).says(&["'..'"]);
}

#[test]
fn without_a_direct_way_data_goes_through_ssh_and_that_is_said() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    let content = pattern(9 << 20, 2);
    scene.write("a", &content);
    run(&scene, &["cp", "-P", "1", "a", &url(&scene, "piped", "b")]).ends_with(0).is_silent();
    run(&scene, &["cp", "-P", "4", &url(&scene, "piped", "b"), "c"]).ends_with(0);
    assert!(scene.read("b") == content && scene.read("c") == content);
    // It is not worth saying for what is over at once.
    let mut long = start(&scene, &["cp", "-P", "4", "-", &url(&scene, "piped", "d"), &telling(&scene)]);
    told(&scene);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        assert!(long.feed(&content[..64 << 10]));
    }
    long.wait().ends_with(0).says(&["went through ssh itself", "--ports"]);
}

#[test]
fn links_on_the_way_lead_where_they_lead_every_program_of_this_user() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.directory("real/deep");
    scene.write("a", b"a");
    symlink(scene.path("real"), scene.path("absolute")).unwrap();
    symlink("real/deep", scene.path("relative")).unwrap();
    run(&scene, &["cp", "a", &url(&scene, "box", "absolute/deep/x")]).ends_with(0);
    run(&scene, &["cp", "a", &url(&scene, "box", "relative/")]).ends_with(0);
    assert_eq!(scene.names("real/deep"), ["a", "x"]);
    symlink("x", scene.path("real/deep/latest")).unwrap();
    run(&scene, &["cp", &url(&scene, "box", "relative/latest"), "b"]).ends_with(0);
    assert_eq!(scene.read("b"), b"a");
    for (name, lines) in [("relative/", 3), ("relative", 1)] {
        let listed = run(&scene, &["ls", &url(&scene, "box", name)]);
        assert_eq!(listed.ends_with(0).text().lines().count(), lines, "{name}");
    }
    run(&scene, &["cp", "-r", &url(&scene, "box", "relative/"), "fetched"]).ends_with(0);
    assert_eq!(scene.names("fetched"), ["a", "latest", "x"]);
    scene.write("tree/new", b"new");
    run(&scene, &["sync", "tree", &url(&scene, "box", "relative/")]).ends_with(0);
    std::fs::remove_file(scene.path("real/deep/new")).unwrap();
    // What removes and replaces means the link itself.
    run(&scene, &["rm", "-r", &url(&scene, "box", "relative")]).ends_with(0);
    assert_eq!(scene.names("real/deep"), ["a", "latest", "x"]);
}

#[test]
fn a_target_is_replaced_whole_and_what_stages_it_is_beside_it() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.write("there/a", b"old");
    let mut running = start(&scene, &["cp", "-", &url(&scene, "box", "there/a")]);
    assert!(running.feed(&pattern(9 << 20, 3)));
    wait_until("a part file", || scene.names("there").len() > 1);
    assert_eq!(scene.read("there/a"), b"old");
    running.close_input();
    running.wait().ends_with(0);
    assert!(scene.read("there/a") == pattern(9 << 20, 3));
    assert_eq!(scene.names("there"), ["a"]);
}

/// A remote command that leaves its process id in the scene.
fn telling(scene: &Scene) -> String {
    format!("--remote-command=echo $$ > {}; exec xdfs serve --stdio", scene.path("pid").display())
}

fn told(scene: &Scene) -> Pid {
    wait_until("the other end", || std::fs::read(scene.path("pid")).is_ok_and(|text| text.ends_with(b"\n")));
    let text = String::from_utf8(scene.read("pid")).expect("text");
    text.trim().parse().ok().and_then(Pid::from_raw).expect("a process id")
}

#[test]
fn the_other_end_ends_with_the_client_and_the_same_command_continues() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.directory("there");
    let content = pattern(40 << 20, 4);
    scene.write("a", &content);
    let target = url(&scene, "box", "there/a");
    let words = ["cp", "-P", "2", "a", &target, &telling(&scene)];
    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        let running = start(&scene, &words);
        let process = told(&scene);
        wait_until("the upload", || running.has_ended() || !scene.names("there").is_empty());
        running.signal(signal);
        running.wait();
        wait_until("the end of the other end", || !is_running(process));
        std::fs::remove_file(scene.path("pid")).unwrap();
    }
    run(&scene, &words).ends_with(0);
    assert!(scene.read("there/a") == content);
    assert_eq!(scene.names("there"), ["a"]);
}

#[test]
fn what_has_arrived_is_kept_when_the_client_is_interrupted() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.directory("there");
    let content = pattern(60 << 20, 7);
    scene.write("a", &content);
    let target = url(&scene, "box", "there/a");
    let words = ["cp", "--json", "a", &target, &telling(&scene)];
    let running = start(&scene, &[&words[..], &["--bwlimit", "30M"]].concat());
    let process = told(&scene);
    // Longer files are kept now and then while they are written: this is before the first time.
    let has_arrived = || {
        let staging = std::fs::read_dir(scene.path("there")).unwrap().flatten();
        let mut parts = staging.flat_map(|staging| std::fs::read_dir(staging.path())).flatten().flatten();
        parts.any(|part| {
            let mut bytes = [0; 100];
            let read = std::fs::File::open(part.path()).and_then(|file| file.read_exact_at(&mut bytes, 20 << 20));
            read.is_ok() && bytes != [0; 100]
        })
    };
    wait_until("bytes of the upload", || running.has_ended() || has_arrived());
    running.signal(Signal::INT);
    running.wait().ends_with(130);
    wait_until("the end of the other end", || !is_running(process));
    let done = run(&scene, &words);
    done.ends_with(0);
    let resumed = done.objects().pop().and_then(|told| told["resumed_bytes"].as_u64());
    assert!(resumed > Some(15 << 20), "{resumed:?}");
    assert!(scene.read("there/a") == content);
}

#[test]
fn an_interrupted_tree_tells_what_was_done_and_where_the_rest_is() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    for number in 0..20 {
        scene.write(format!("tree/{number}"), b"small");
    }
    scene.write("tree/zz", &pattern(40 << 20, 8));
    let target = url(&scene, "box", "copy");
    let words = ["cp", "-rv", "--bwlimit", "2M", "tree", &target, &telling(&scene)];
    let running = start(&scene, &words);
    let process = told(&scene);
    // They have long been acknowledged when so much of the large one is there.
    let has_part = || {
        let staging = std::fs::read_dir(scene.path("copy/.xdfs-staging")).into_iter().flatten().flatten();
        let mut parts = staging.filter_map(|part| std::fs::File::open(part.path()).ok());
        let mut bytes = [0; 100];
        parts.any(|part| part.read_exact_at(&mut bytes, 4 << 20).is_ok() && bytes != [0; 100])
    };
    wait_until("the large file", || running.has_ended() || scene.path("copy/19").exists() && has_part());
    // As Ctrl-C does it, which ends ssh as well.
    rustix::process::kill_process(process, Signal::TERM).expect("it runs");
    running.signal(Signal::INT);
    let ended = running.wait();
    ended.ends_with(exit::CANCELLED).says(&["; run the same command to continue", "in .xdfs-staging, for seven days"]);
    let named = ended.messages.lines().filter(|line| line.starts_with("copied ")).count();
    assert!(ended.messages.contains(&format!(": copied {named} file")), "{}", ended.messages);
}

#[test]
fn what_a_shell_would_have_replaced_is_answered_with_what_works() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.write("home/a", b"a");
    run(&scene, &["cat", "ssh://box/~/a"]).ends_with(exit::NOT_FOUND).says(&["\nhelp: ", " ssh:box:a"]);
    run(&scene, &["cp", "ssh:box:~anna/x", "x"])
        .ends_with(exit::NOT_FOUND)
        .says(&["error: ssh:box:~anna/x: ", "as in ssh://box/home/anna/"]);
    let missing = url(&scene, "box", "none/x");
    let told = run(&scene, &["cp", &missing, "x"]);
    told.ends_with(exit::NOT_FOUND).says(&[&format!("'{}", scene.path("none").display())]);
    let listed = run(&scene, &["ls", "--json", "ssh:box:"]).objects();
    assert_eq!(listed[0]["directory"], "ssh:box:", "{listed:?}");
}

#[test]
fn a_lost_connection_is_made_again_and_the_copy_continues() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.directory("there");
    let content = pattern(200 << 20, 5);
    scene.write("a", &content);
    let running = start(&scene, &["cp", "--json", "a", &url(&scene, "box", "there/a"), &telling(&scene)]);
    let process = told(&scene);
    wait_until("the upload", || !scene.names("there").is_empty());
    rustix::process::kill_process(process, Signal::KILL).expect("it runs");
    running.wait().ends_with(0);
    assert!(scene.read("there/a") == content);
    assert_eq!(scene.names("there"), ["a"]);
}

#[test]
fn ctrl_c_ends_both_ends_in_order() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.directory("there");
    // A source without an end: whoever writes to it does not close it.
    let fifo = scene.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("coreutils").success());
    let words = ["cp".to_owned(), "fifo".to_owned(), url(&scene, "box", "there/a")];
    let words = words.into_iter().chain([Sshd::option(&scene), telling(&scene)]);
    let mut terminal = scene.terminal_as("somebody", words);
    let mut source = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    // More than a pipe holds: it returns once the client reads.
    std::io::Write::write_all(&mut source, &pattern(9 << 20, 6)).unwrap();
    let process = told(&scene);
    wait_until("the upload", || !scene.names("there").is_empty());
    terminal.type_key(3);
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(130), "{shown}");
    wait_until("the end of the other end", || !is_running(process));
}

#[test]
fn what_is_missing_there_is_said_with_the_remedy() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    let there = url(&scene, "box", "");
    let with = |command: &str| run(&scene, &["ls", &there, &format!("--remote-command={command}")]);
    with("nosuchprogram serve --stdio").ends_with(exit::NOT_FOUND).says(&[
        "box has no program 'nosuchprogram'",
        "install it",
        "--remote-command",
    ]);
    // It may be a matter of a moment, as where there is no memory.
    with("exit 1").ends_with(exit::CONNECTION_LOST).says(&["no xdfs answered over ssh", "ended with 1)"]);
    // As an older version answers an option that it does not know.
    with("exit 2").ends_with(exit::REFUSED).says(&["'exit 2' did not start to serve", "serve --stdio", "too old"]);
    with("exec true").ends_with(exit::REFUSED).says(&["no xdfs answered over ssh: it ended without a word"]);
    // As with rsync's --rsync-path, which names a program and not a command.
    with("xdfs").ends_with(exit::REFUSED).says(&["\nhelp: write --remote-command 'xdfs serve --stdio'"]);
    with("echo hello").ends_with(exit::REFUSED).says(&["instead it said 'hello'"]);
    with("yes").ends_with(exit::REFUSED).says(&["instead it said 'y'"]);
    with("printf 'a\\033[2Jb\\n'").ends_with(exit::REFUSED).says(&["a\\u{1b}[2Jb"]);
    with("printf 'a\\033[2Jb\\n' >&2; xdfs serve --stdio").ends_with(0).says(&["a\\u{1b}[2Jb"]);
    with("printf 'xdfs-stdio {}\\n'").ends_with(exit::REFUSED).says(&["is not xdfs"]);
    let newer = r#"printf 'xdfs-stdio {"version":2,"host_key":"","user":"","address":null}\n'"#;
    with(newer).ends_with(exit::REFUSED).says(&["another version"]);
    with("echo Welcome; echo; xdfs serve --stdio").ends_with(0);
    run(&scene, &["ls", "ssh://127.0.0.1:1/"]).ends_with(exit::CONNECTION_LOST).says(&["ssh could not connect"]);
    // Something that it leaves behind keeps its output open.
    let script = scene.write("left-behind", b"#!/bin/sh\nsleep 100 2> /dev/null &\nexit 255\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let asked = Instant::now();
    let outcome = scene.run(["ls", "ssh://h/", &format!("--ssh={}", script.display())]);
    outcome.ends_with(exit::CONNECTION_LOST).says(&["ssh ended, and no xdfs answered"]);
    assert!(asked.elapsed() < Duration::from_secs(60));
    scene
        .run(["ls", "ssh://h/", "--ssh=/no/such/program"])
        .ends_with(exit::NOT_FOUND)
        .says(&["/no/such/program", "install"]);
}

#[test]
fn it_works_as_the_only_command_of_a_key() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "restrict,command=\"xdfs serve --stdio\" ");
    scene.write("a", b"a");
    run(&scene, &["cp", "a", &url(&scene, "box", "b"), "--remote-command=anything"]).ends_with(0);
    assert_eq!(scene.read("b"), b"a");
}

#[test]
fn nobody_else_gets_into_the_server_that_listens_for_more_channels() {
    let scene = Scene::new();
    let mut command = scene.command(["serve", "--stdio"]);
    command.env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 2").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let request = format!("{{\"version\":1,\"key\":\"{}\",\"channels\":true}}\n", "07".repeat(32));
    std::io::Write::write_all(server.stdin.as_mut().unwrap(), request.as_bytes()).unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let greeting: serde_json::Value = serde_json::from_str(line.strip_prefix("xdfs-stdio ").unwrap()).unwrap();
    let (address, key) = (greeting["address"].as_str().unwrap(), greeting["host_key"].as_str().unwrap());
    scene.run(["key", "create"]).ends_with(0);
    for (user, why) in [("", "lets nobody in"), ("user@", "refused"), ("root@", "refused")] {
        let there = format!("xdfs://{user}{address}/root/#{key}");
        scene.run(["ls", &there]).ends_with(exit::LOGIN_REFUSED).says(&[why]);
    }
    // It ends with its standard input.
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

#[test]
fn what_speaks_at_standard_input_has_to_be_a_client() {
    let scene = Scene::new();
    scene.run(["serve", "--stdio"]).ends_with(exit::USAGE).says(&["--stdio", "ssh://"]);
    for line in ["hello\n", "{}\n", "{\"version\":1,\"key\":\"00\",\"channels\":true}\n", "{\"version\":9}\n"] {
        let mut running = scene.start(["serve", "--stdio"]);
        running.feed(line.as_bytes());
        let outcome = running.wait();
        assert!(matches!(outcome.code, Some(2 | 4)), "{line}: {outcome:?}");
    }
    scene.run(["serve", "--stdio", "--export", "a=."]).ends_with(exit::USAGE);
    for ports in ["0", "5-4", "x", "1-99999", ""] {
        scene.run(["serve", "--stdio", "--ports", ports]).ends_with(exit::USAGE).says(&["--ports"]);
    }
    let long = Command::new(xdfs_test_cli::xdfs_binary()).args(["serve", "--stdio"]).stdin(Stdio::piped()).spawn();
    let mut long = long.unwrap();
    // It may have left by then, which is what is wanted.
    let _ = std::io::Write::write_all(long.stdin.as_mut().unwrap(), &[b'x'; 100_000]);
    assert_eq!(long.wait().unwrap().code(), Some(2));
}
