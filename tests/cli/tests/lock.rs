//! `xdfs lock`: a command that runs while a file on a server is locked.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene};

#[test]
fn the_command_runs_under_the_lock_and_its_exit_code_is_passed_on() {
    let scene = Scene::new();
    scene.directory("server");
    let server = scene.serve();
    let url = server.url("lock");
    let path = scene.path("server/lock");
    let flock = format!("flock --nonblock --conflict-exit-code 9 {} true", path.display());
    scene.run(["lock", &url, "--", "sh", "-c", &flock]).ends_with(9);
    let shared = format!("flock --shared --nonblock --conflict-exit-code 9 {} true", path.display());
    scene.run(["lock", "--shared", &url, "--", "sh", "-c", &shared]).ends_with(0).is_silent();
    scene.run(["lock", &url, "--", "sh", "-c", "kill -KILL $$"]).ends_with(128 + 9);
    scene.run(["lock", &url, "--", "/nowhere/at/all"]).ends_with(127).says(&["/nowhere/at/all"]);
    scene.run(["lock", &url, "--", path.to_str().unwrap()]).ends_with(126);
    scene.run(["lock", &url]).ends_with(2);
    scene.run(["lock", "--shared", &server.url("absent"), "--", "true"]).ends_with(6);
    File::open(&path).unwrap().try_lock().expect("the lock ends with the command");
}

#[test]
fn a_lock_of_somebody_else_is_waited_for_as_long_as_is_said() {
    let scene = Scene::new();
    let path = scene.write("server/lock", b"");
    let server = scene.serve();
    let url = server.url("lock");
    let held = File::open(&path).unwrap();
    held.lock().unwrap();
    let mark = scene.path("mark");
    let touch = ["--", "touch", mark.to_str().unwrap()];
    let try_it = |options: &[&str]| scene.run([&["lock"], options, &[url.as_str()], &touch].concat());
    try_it(&["--nonblock"]).ends_with(14).is_silent();
    try_it(&["-n", "-E", "75"]).ends_with(75);
    try_it(&["--timeout", "0.2"]).ends_with(14);
    try_it(&["--shared", "--nonblock"]).ends_with(14);
    assert!(!mark.exists(), "nothing was run");
    let waits = scene.start([&["lock", &url][..], &touch].concat());
    held.unlock().unwrap();
    waits.wait_within(Duration::from_secs(60)).ends_with(0);
    assert!(mark.exists());
}

#[test]
fn stat_shows_who_has_a_file_open_and_locked_where_it_is_asked() {
    let scene = Scene::new();
    scene.write("server/lock", b"");
    let server = scene.serve();
    let url = server.url("lock");
    let command = scene.command(["stat"]);
    let program = command.get_program().to_str().unwrap();
    let inside = |options: &[&str]| {
        let words = [&["lock", &url, "--", program, "stat"][..], options, &[&url]].concat();
        scene.run(words).ends_with(0).text().to_owned()
    };
    assert!(inside(&["--locks"]).contains("\n  open   (visitor): reads, writes, exclusive lock of the whole file\n"));
    assert!(!inside(&[]).contains("open "), "only where it is asked");
    let told: serde_json::Value = serde_json::from_str(&inside(&["--locks", "--json"])).unwrap();
    let one = serde_json::json!({"user": null, "read": true, "write": true, "deny_read": false, "deny_write": false,
        "lock": "exclusive", "locked_ranges": 0, "lease": null});
    assert_eq!((&told["open"], &told["open_complete"]), (&serde_json::json!([one]), &true.into()));
    assert!(scene.run(["stat", "--locks", &url]).ends_with(0).text().contains("open   by no client of the server"));
}

#[test]
fn a_named_user_sees_names_of_users_and_of_visitors_and_tokens_nothing_else() {
    let scene = Scene::new();
    scene.write("server/lock", b"");
    scene.run(["user", "add", "anna"]).ends_with(0);
    scene.run(["user", "token", "anna", "--export", "data", "--write", "--out", "token"]).ends_with(0);
    let server = scene.serve();
    let url = server.url("lock");
    let command = scene.command(["stat"]);
    let program = command.get_program().to_str().unwrap();
    let token = format!("XDFS_TOKEN_FILE={}", scene.path("token").display());
    for (opener, shown) in [(true, "anna"), (false, "(visitor)")] {
        let asked = ["lock", &url, "--", "env", &token, program, "stat", "--locks", &url];
        let mut command = scene.command(asked);
        if opener {
            command.env("XDFS_TOKEN_FILE", scene.path("token"));
        }
        let text = Running::start(command).wait().ends_with(0).text().to_owned();
        let line = format!("\n  open   {shown}: reads, writes, exclusive lock of the whole file\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// `xdfs lock` with a command that has begun; it ends with code 5 if it is asked to, and makes this file then.
fn begun(scene: &Scene, url: &str) -> (Running, PathBuf) {
    let (ready, ended) = (scene.path("ready"), scene.path("ended"));
    let trap = format!("trap 'touch {}; exit 5' TERM", ended.display());
    let script = format!("{trap}; touch {}; while :; do sleep 0.1; done", ready.display());
    let running = scene.start(["lock", url, "--", "sh", "-c", &script]);
    while !ready.exists() {
        assert!(running.is_running());
        std::thread::yield_now();
    }
    (running, ended)
}

#[test]
fn a_command_whose_lock_is_lost_is_ended() {
    let scene = Scene::new();
    scene.directory("server");
    let server = scene.serve();
    let (running, ended) = begun(&scene, &server.url("lock"));
    server.kill();
    running.wait_within(Duration::from_secs(60)).ends_with(4).says(&["lock is lost"]);
    assert!(ended.exists(), "it was asked to end");
}

#[test]
fn who_ends_xdfs_ends_the_command_under_its_lock() {
    let scene = Scene::new();
    scene.directory("server");
    let server = scene.serve();
    let (running, ended) = begun(&scene, &server.url("lock"));
    running.signal(Signal::TERM);
    running.wait_within(Duration::from_secs(60)).ends_with(5);
    assert!(ended.exists(), "the command goes on without the lock");
}
