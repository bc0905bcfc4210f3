//! ssh asks, and takes its keys and its way, as it does alone: passwords and host keys on a terminal, an agent, a host
//! that is behind another one.

use std::process::{Child, Command, Stdio};

use xdfs_test_cli::{Running, Scene, Terminal, exit};

use super::sshd::{Options, PASSWORD, Sshd};
use super::{run, url, wait_until};

fn on_terminal(scene: &Scene, words: &[&str]) -> Terminal {
    scene.terminal_as("somebody", words.iter().map(|word| (*word).to_owned()).chain([Sshd::option(scene)]))
}

#[test]
fn the_questions_of_ssh_come_to_the_terminal_and_are_answered_there() {
    if !xdfs_test_needs::root("a user with a password logs in") {
        return;
    }
    let scene = Scene::new();
    let _sshd = Sshd::start_with(&scene, &Options { person: true, ..Options::default() });
    scene.write("a", b"content");
    let target = "ssh:person@asking:there";
    // The host is not known, and the answer is no.
    let mut refusing = on_terminal(&scene, &["cp", "a", target]);
    refusing.expect("Are you sure you want to continue connecting");
    refusing.type_line("no");
    let (code, shown) = refusing.wait();
    assert_eq!(code, Some(exit::NOT_TRUSTED), "{shown}");
    assert!(!scene.path("known").exists() && !scene.path("home/there").exists());
    // Yes, and a wrong password before the right one.
    let mut answering = on_terminal(&scene, &["cp", "a", target]);
    answering.expect("Are you sure you want to continue connecting");
    answering.type_line("yes");
    answering.expect("password: ");
    answering.type_line("a wrong one");
    answering.expect_times("password: ", 2);
    answering.type_line(PASSWORD);
    let (code, shown) = answering.wait();
    assert_eq!(code, Some(exit::DONE), "{shown}");
    assert!(!shown.contains(PASSWORD), "{shown}");
    assert_eq!(scene.read("home/there"), b"content");
    // It is known from then on; who has no terminal is not asked, and is told why.
    let mut knowing = on_terminal(&scene, &["cat", target]);
    knowing.expect("password: ");
    knowing.type_line(PASSWORD);
    let (code, shown) = knowing.wait();
    assert_eq!(code, Some(exit::DONE), "{shown}");
    assert!(shown.contains("content") && !shown.contains("Are you sure"), "{shown}");
}

#[test]
fn a_changed_host_key_is_refused_by_ssh_and_nothing_is_sent() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    scene.write("a", b"content");
    run(&scene, &["cp", "a", &url(&scene, "box", "first")]).ends_with(exit::DONE);
    let known = String::from_utf8(scene.read("known")).unwrap();
    let other = String::from_utf8(scene.read("user-key.pub")).unwrap();
    let keys = |text: &str| text.split_whitespace().find(|word| word.starts_with("AAAA")).unwrap().to_owned();
    scene.write("known", known.replace(&keys(&known), &keys(&other)).as_bytes());
    run(&scene, &["cp", "a", &url(&scene, "box", "second")])
        .ends_with(exit::NOT_TRUSTED)
        .says(&["Host key verification failed", "ssh could not connect or log in"]);
    assert!(!scene.path("second").exists());
}

/// An agent with the user's key; it ends with this value.
struct Agent(Child);

impl Agent {
    fn start(scene: &Scene) -> Self {
        let socket = scene.path("agent");
        let mut command = Command::new("ssh-agent");
        command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        let agent = Self(command.spawn().expect("it comes with ssh"));
        wait_until("the agent", || {
            let mut add = Command::new("ssh-add");
            add.arg("-q").arg(scene.path("user-key")).env("SSH_AUTH_SOCK", &socket).stderr(Stdio::null());
            add.status().expect("it comes with ssh").success()
        });
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_key_of_ssh_s_agent_is_enough() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    let _agent = Agent::start(&scene);
    scene.write("a", b"content");
    let copy = |target: &str, agent: bool| {
        let mut command = scene.command(["cp", "a", &url(&scene, "agent", target), &Sshd::option(&scene)]);
        if agent {
            command.env("SSH_AUTH_SOCK", scene.path("agent"));
        }
        Running::start(command).wait()
    };
    copy("b", true).ends_with(exit::DONE).is_silent();
    assert_eq!(scene.read("b"), b"content");
    copy("c", false).ends_with(exit::LOGIN_REFUSED).says(&["Permission denied", "ssh could not connect or log in"]);
    assert!(!scene.path("c").exists());
}

#[test]
fn a_host_behind_another_one_is_reached_through_it() {
    let scene = Scene::new();
    let sshd = Sshd::start(&scene, "");
    scene.write("a", &xdfs_test_cli::pattern(9 << 20, 3));
    run(&scene, &["cp", "-P", "4", "a", &url(&scene, "behind", "b")]).ends_with(exit::DONE).is_silent();
    assert!(scene.read("b") == scene.read("a"));
    assert_eq!(sshd.connections(), 2, "one to the host on the way, and one from there");
    run(&scene, &["cp", &url(&scene, "behind", "b"), "c"]).ends_with(exit::DONE).is_silent();
    assert!(scene.read("c") == scene.read("a"));
}
