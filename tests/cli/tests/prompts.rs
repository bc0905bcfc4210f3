//! What happens while somebody is asked: signals end the command at once and leave the terminal as it was, and an answer
//! that is neither yes nor no is asked for again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use xdfs_test_cli::{Scene, Server, Terminal, exit, xdfs_binary};

const LOCKED: &[u8] = include_bytes!("../../../crates/secure/tests/keys/locked.key");

/// What the shell says of a terminal that is set as it was before.
const AS_BEFORE: &str = "the terminal is as it was";

/// Runs a command of bert's under a shell on a terminal that echoes, which tells afterwards whether it does so again.
fn asked(scene: &Scene, words: &[&str]) -> Terminal {
    let mut command = Command::new("sh");
    let line = format!(
        "stty echo; before=$(stty -g); echo $$ > shell; \"$0\" \"$@\"; code=$?; [ $(stty -g) = $before ] && echo '{AS_BEFORE}'; exit \
         $code"
    );
    command.args(["-c", &line]);
    command.arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    scene.dress("bert", &mut command);
    Terminal::start(&command)
}

/// The process that the shell waits for.
fn child_of_shell(scene: &Scene) -> Pid {
    let shell = String::from_utf8(scene.read("shell")).unwrap();
    let shell = shell.trim();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

fn known(scene: &Scene, server: &Server) {
    scene.run_as("bert", ["trust", "pin", server.address(), server.host_key()]).ends_with(exit::DONE);
}

#[test]
fn a_signal_ends_a_question_at_once_and_the_terminal_echoes_again() {
    let scene = Scene::new();
    scene.write("file", b"x");
    let server = scene.serve();
    let url = format!("xdfs://bert@{}/data/copy", server.address());
    let key = scene.write("locked", LOCKED);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let copy: &[&str] = &["cp", "file", &url];
    let stat: &[&str] = &["stat", &url];
    let stat_with_key: &[&str] = &["stat", "--identity", "locked", &url];
    let new_password: &[&str] = &["user", "add", "carl", "--password", "--state", "other"];
    let mut cases = vec![(new_password, "New password of carl: ", Signal::TERM)];
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        cases.extend([(stat, "Trust it and go on? ", signal), (copy, "Trust it and go on? ", signal)]);
    }
    let check = |cases: &[(&[&str], &str, Signal)]| {
        for (words, question, signal) in cases {
            let terminal = asked(&scene, words);
            terminal.expect(question);
            kill_process(child_of_shell(&scene), *signal).unwrap();
            let (code, shown) = terminal.wait();
            assert_eq!(code, Some(exit::CANCELLED), "{words:?} {signal:?}: {shown}");
            assert!(shown.contains("cancelled") && shown.contains(AS_BEFORE), "{words:?} {signal:?}: {shown}");
            assert!(!shown.contains("copied 0") && !shown.contains("to continue"), "{words:?} {signal:?}: {shown}");
        }
    };
    check(&cases);
    known(&scene, &server);
    let mut cases =
        vec![(stat_with_key, "Passphrase of ", Signal::TERM), (stat_with_key, "Passphrase of ", Signal::HUP)];
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        cases.extend([(stat, "Password of bert", signal), (copy, "Password of bert", signal)]);
    }
    check(&cases);
}

#[test]
fn a_signal_ends_the_second_question_as_it_ends_the_first() {
    let scene = Scene::new();
    let mut terminal = asked(&scene, &["user", "add", "carl", "--password", "--state", "other"]);
    terminal.expect("New password of carl: ");
    terminal.type_line("a long password");
    terminal.expect("Once more: ");
    kill_process(child_of_shell(&scene), Signal::TERM).unwrap();
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::CANCELLED), "{shown}");
    assert!(shown.contains("cancelled") && shown.contains(AS_BEFORE), "{shown}");
}

#[test]
fn a_password_that_is_too_short_is_not_asked_for_again() {
    let scene = Scene::new();
    let mut terminal = asked(&scene, &["user", "add", "carl", "--password", "--state", "other"]);
    terminal.expect("New password of carl: ");
    terminal.type_line("short");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::USAGE), "{shown}");
    assert!(shown.contains("at least 8 characters") && !shown.contains("Once more"), "{shown}");
}

#[test]
fn a_signal_after_a_question_ends_the_command_too() {
    let scene = Scene::new();
    scene.write("server/log", b"line\n");
    let server = scene.serve();
    let url = format!("xdfs://{}/data/log", server.address());
    let mut terminal = asked(&scene, &["cat", "--follow", &url]);
    terminal.expect("Trust it and go on? ");
    terminal.type_line("yes");
    terminal.expect("line");
    kill_process(child_of_shell(&scene), Signal::TERM).unwrap();
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::CANCELLED), "{shown}");
}

#[test]
fn an_answer_that_is_neither_yes_nor_no_is_asked_for_again() {
    let scene = Scene::new();
    let server = scene.serve();
    let url = format!("xdfs://{}/data/", server.address());
    let mut terminal = asked(&scene, &["ls", &url]);
    terminal.expect("Trust it and go on? [y/n] ");
    for (time, answer) in (1..).zip(["maybe", ""]) {
        terminal.type_line(answer);
        terminal.expect_times("Please type 'y' or 'n': ", time);
    }
    terminal.type_line("no");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(exit::NOT_TRUSTED), "{shown}");
    let pin = format!("xdfs trust pin {} {}", server.address(), server.host_key());
    assert!(shown.contains("is not trusted; nothing was sent") && shown.contains(&pin), "{shown}");
    let mut terminal = asked(&scene, &["ls", &url]);
    terminal.expect("Trust it and go on? [y/n] ");
    for time in 1..=2 {
        terminal.type_line("perhaps");
        terminal.expect_times("Please type 'y' or 'n': ", time);
    }
    terminal.type_line("perhaps");
    assert_eq!(terminal.wait().0, Some(exit::NOT_TRUSTED), "it does not ask for ever");
    let mut terminal = asked(&scene, &["ls", &url]);
    terminal.expect("Trust it and go on? [y/n] ");
    terminal.type_line("well");
    terminal.expect("Please type 'y' or 'n': ");
    terminal.type_line("YES");
    assert_eq!(terminal.wait().0, Some(exit::DONE));
}
