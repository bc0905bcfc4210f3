//! Servers that go away, with a mount that is in use.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene, Server, pass, pattern};

use crate::Mount;

/// The server of `scene` again, with the same key at the same address.
pub(crate) fn again(scene: &Scene, address: &str) -> Server {
    again_with(scene, address, &[])
}

/// The same with these options.
pub(crate) fn again_with(scene: &Scene, address: &str, options: &[&str]) -> Server {
    let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
    Server::start(scene.command(["serve", "--json", "--listen", address]), &[&words, options].concat())
}

#[test]
fn calls_wait_for_a_server_that_restarts_and_open_files_go_on() {
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    fs::create_dir(mount.path("directory")).unwrap();
    fs::write(mount.path("directory/file"), b"before ").unwrap();
    let removed = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("removed")).unwrap();
    removed.write_all_at(b"kept", 0).unwrap();
    fs::remove_file(mount.path("removed")).unwrap();
    // An open file follows its directory, and is found again there. A process of its own, since what its
    // parent writes while there is no server keeps a server from being started: exec closes files.
    let script = "import os, sys\nf = os.open('directory/file', os.O_RDWR)\nos.rename('directory', 'moved')\n\
        open('../opened', 'w')\nsys.stdin.read()\nos.pwrite(f, b'after', 7)\nos.fsync(f)\n";
    let mut waits = Running::start({
        let mut command = Command::new("python3");
        command.args(["-c", script]).current_dir(&mount.point);
        command
    });
    while !scene.path("opened").exists() {
        assert!(!waits.has_ended(), "{:?}", waits.wait());
    }
    server.kill();
    waits.close_input();
    let server = again(&scene, &address);
    let waited = waits.wait();
    assert_eq!(waited.code, Some(0), "{}", waited.messages);
    let mut kept = [0; 4];
    removed.read_exact_at(&mut kept, 0).unwrap();
    assert_eq!(&kept, b"kept");
    assert_eq!(fs::read(mount.path("moved/file")).unwrap(), b"before after");
    let file = OpenOptions::new().write(true).open(mount.path("moved/file")).unwrap();
    server.kill();
    let _server = again(&scene, &address);
    file.write_all_at(b", and again", 12).unwrap();
    drop((file, removed));
    assert_eq!(scene.read("server/moved/file"), b"before after, and again");
    mount.unmount();
}

#[test]
fn locks_of_ranges_are_had_again_after_a_restart_whatever_their_owner_changed_meanwhile() {
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    fs::write(mount.path("file"), [0; 100]).unwrap();
    let script = "import fcntl, os, sys\n\
        one, two = os.open('file', os.O_RDWR), os.open('file', os.O_RDWR)\n\
        fcntl.lockf(one, fcntl.LOCK_EX, 10)\n\
        os.pwrite(two, b'written', 0)\n\
        os.fsync(two)\n\
        os.chmod('file', 0o600)\n\
        os.rename('file', 'moved')\n\
        open('../done', 'w')\n\
        sys.stdin.read()\n\
        os.pwrite(two, b'again', 0)\n\
        os.fsync(one)\n\
        fcntl.lockf(one, fcntl.LOCK_EX, 10, 20)\n";
    let mut command = Command::new("python3");
    let mut locks = Running::start({
        command.args(["-c", script]).current_dir(&mount.point);
        command
    });
    while !scene.path("done").exists() {
        assert!(!locks.has_ended(), "{:?}", locks.wait());
    }
    let tries = "import fcntl, os\nf = os.open('moved', os.O_RDWR)\n\
        try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)\nexcept BlockingIOError: print('locked')\n";
    assert_eq!(crate::python(&other.point, tries), "locked\n");
    server.kill();
    let _server = again(&scene, &address);
    locks.close_input();
    let ended = locks.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    assert_eq!(&scene.read("server/moved")[..7], b"againen");
    drop(other);
    mount.unmount();
}

#[test]
fn a_lost_server_is_an_error_after_the_timeout_and_no_error_when_it_is_back() {
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &["--timeout", "1", "-o", "valid=0"]);
    server.kill();
    let began = Instant::now();
    assert_eq!(fs::metadata(mount.path("file")).unwrap_err().raw_os_error(), Some(5), "EIO");
    assert!(began.elapsed() < Duration::from_secs(30));
    let _server = again(&scene, &address);
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"content");
    mount.unmount();
}

/// A program of Python in the mount, which waits at each `step(name)` until that is passed. A process of its own: what its parent has
/// open of a lost server keeps every other program from being started.
pub(crate) fn in_steps(mount: &Mount, script: &str) -> Running {
    let steps = "import os, sys, time\ndef step(name): open('../' + name, 'w').close(); sys.stdin.readline()\n";
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{steps}{script}")]).current_dir(&mount.point);
    Running::start(command)
}

/// Waits until such a program has come to a step.
#[track_caller]
pub(crate) fn wait_for_step(scene: &Scene, program: &Running, name: &str) {
    while !scene.path(name).exists() {
        assert!(program.is_running(), "{name}");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_hangs_is_an_error_after_the_timeout_and_no_error_when_it_goes_on() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", &pattern(1_000_000, 3));
    scene.write("server/written", b"content");
    let mount = Mount::new(&scene, &server, &["--timeout", "2", "-o", "valid=0"]);
    let script = "f, w = os.open('file', os.O_RDONLY), os.open('written', os.O_WRONLY)\n\
        def write(): os.pwrite(w, b'changed', 0); os.fsync(w)\n\
        read, look = lambda: os.pread(f, 100, 500_000), lambda: os.stat('file')\n\
        step('opened')\n\
        for call in (read, look, lambda: os.mkdir('directory'), write):\n\
        \x20   began = time.monotonic()\n\
        \x20   try: call()\n\
        \x20   except OSError as error: assert error.errno == 5, error\n\
        \x20   else: raise SystemExit('no error')\n\
        \x20   took = time.monotonic() - began\n\
        \x20   assert 1 < took < 15, took\n\
        step('told')\n\
        read(); look()\n\
        try: os.mkdir('directory')\n\
        except FileExistsError: pass  # it was made when the server went on\n\
        assert os.path.isdir('directory')\n\
        try: os.close(w)\n\
        except OSError: pass  # who was told that something is lost is told so until the last close\n\
        with open('written', 'w') as new: new.write('written')\n";
    let mut program = in_steps(&mount, script);
    wait_for_step(&scene, &program, "opened");
    stop(&server);
    program.feed(b"\n");
    wait_for_step(&scene, &program, "told");
    server.signal(Signal::CONT);
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    assert_eq!(scene.read("server/written"), b"written");
    mount.unmount();
}

/// Whether all threads of a server stopped: a signal is sent before it has an effect.
fn is_stopped(server: &Server) -> bool {
    let tasks = format!("/proc/{}/task", server.process().as_raw_nonzero());
    fs::read_dir(tasks).unwrap().all(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
    })
}

/// Stops a server: it is there, and does not answer.
pub(crate) fn stop(server: &Server) {
    server.signal(Signal::STOP);
    while !is_stopped(server) {
        std::thread::yield_now();
    }
}

/// Runs a statement of Python in the mounted directory that the server does not answer for two seconds, while a signal that the
/// program handles reaches it ten times a second. Python makes a write again that was interrupted, and fails at other calls.
fn run_interrupted(scene: &Scene, server: &Server, mount: &Mount, statement: &str) {
    let script = format!(
        "import os, signal, sys\n\
        f = os.open('file', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n\
        open('../opened', 'w')\n\
        sys.stdin.read()\n\
        signals = 0\n\
        def on_signal(*_):\n\
        \x20   global signals\n\
        \x20   signals += 1\n\
        signal.signal(signal.SIGALRM, on_signal)\n\
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n\
        {statement}\n\
        signal.setitimer(signal.ITIMER_REAL, 0)\n\
        assert signals > 0\n"
    );
    let mut program = Running::start({
        let mut command = Command::new("python3");
        command.args(["-c", &script]).current_dir(&mount.point);
        command
    });
    while !scene.path("opened").exists() {
        assert!(program.is_running());
        std::thread::yield_now();
    }
    stop(server);
    program.close_input();
    pass(Duration::from_secs(2));
    assert!(program.is_running(), "{statement}: it is not told before it is known");
    server.signal(Signal::CONT);
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{statement}: {}", ended.messages);
    std::fs::remove_file(scene.path("opened")).unwrap();
}

#[test]
fn a_change_that_a_signal_interrupts_is_made_once() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    run_interrupted(&scene, &server, &mount, "os.write(f, b'line\\n')");
    assert_eq!(scene.read("server/file"), b"line\n");
    mount.unmount();
}

#[test]
fn who_handles_a_signal_is_not_told_that_a_look_or_an_attribute_was_interrupted() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "xattr"]);
    let mount = Mount::new(&scene, &server, &[]);
    run_interrupted(&scene, &server, &mount, "os.setxattr('file', 'user.a', b'1')");
    run_interrupted(&scene, &server, &mount, "os.statvfs('file')");
    mount.unmount();
}

/// A mount whose server does not answer any more, without being gone.
fn mount_of_silent_server(scene: &Scene, name: &str) -> (Server, Mount) {
    let server = scene.serve();
    let mount = Mount::of(scene, &server.url(""), name, &["-o", "valid=0"]);
    fs::write(mount.path("file"), b"content").unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"content");
    (server, mount)
}

#[test]
fn a_mount_is_unmounted_soon_although_its_server_is_lost() {
    let scene = Scene::new();
    for (name, words) in [("one", ["umount", "--"]), ("two", ["fusermount3", "-u"])] {
        let (server, mount) = mount_of_silent_server(&scene, name);
        stop(&server);
        let began = Instant::now();
        crate::unmount_by(&words, &mount.point);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "{words:?}: {took:?} of the minute that calls wait");
        assert!(!crate::is_mounted(&mount.point));
        mount.end().ends_with(0).is_silent();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(30), "{words:?}: {took:?}");
    }
}

#[test]
fn what_a_lost_server_did_not_get_is_said_when_a_signal_ends_the_mount() {
    let scene = Scene::new();
    for signal in [Signal::TERM, Signal::INT] {
        let (server, mount) = mount_of_silent_server(&scene, "mounted");
        let script = "import os, signal, sys\nf = os.open('file', os.O_WRONLY)\nopen('../opened', 'w')\nsys.stdin.read()\n\
            os.write(f, bytes(1000))\nopen('../written', 'w')\nsignal.pause()\n";
        let mut writes = Running::start({
            let mut command = Command::new("python3");
            command.args(["-c", script]).current_dir(&mount.point);
            command
        });
        let wait_for = |name: &str, writes: &Running| {
            while !scene.path(name).exists() {
                assert!(writes.is_running());
                std::thread::yield_now();
            }
            fs::remove_file(scene.path(name)).unwrap();
        };
        wait_for("opened", &writes);
        stop(&server);
        writes.close_input();
        wait_for("written", &writes);
        let began = Instant::now();
        mount.running().signal(signal);
        mount.end().ends_with(4).says(&["in use", "does not have all that was written to: file"]);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?} of the minute that calls wait");
        let _ = writes.kill();
    }
}

#[test]
fn a_file_that_another_client_removed_works_on_until_its_session_is_lost() {
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    scene.write("server/file", &pattern(1_000_000, 3));
    let mount = Mount::new(&scene, &server, &[]);
    let file = OpenOptions::new().read(true).write(true).open(mount.path("file")).unwrap();
    fs::remove_file(scene.path("server/file")).unwrap();
    let mut bytes = [0; 100];
    file.read_exact_at(&mut bytes, 500_000).unwrap();
    assert_eq!(bytes, pattern(1_000_000, 3)[500_000..][..100]);
    file.write_all_at(b"written", 0).unwrap();
    file.sync_all().unwrap();
    server.kill();
    let _server = again(&scene, &address);
    assert_eq!(file.read_at(&mut bytes, 900_000).unwrap_err().raw_os_error(), Some(116), "ESTALE");
    drop(file);
    mount.unmount();
}

#[test]
fn exec_waits_for_what_the_process_has_written() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"");
    let mount = Mount::new(&scene, &server, &[]);
    let script = "import os, sys\n\
        f = os.open('file', os.O_WRONLY)\n\
        open('../opened', 'w').close()\n\
        sys.stdin.read()\n\
        os.write(f, b'written')\n\
        open('../written', 'w').close()\n\
        os.execv('/bin/touch', ['touch', '../executed'])\n";
    let mut program = Running::start({
        let mut command = Command::new("python3");
        command.args(["-c", script]).current_dir(&mount.point);
        command
    });
    while !scene.path("opened").exists() {
        assert!(program.is_running());
        std::thread::yield_now();
    }
    stop(&server);
    program.close_input();
    // Linux shows nothing of a process that executes another program: whoever looks at it waits, too.
    let began = Instant::now();
    while !scene.path("written").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "it did not write");
        std::thread::yield_now();
    }
    pass(Duration::from_secs(1));
    assert!(!scene.path("executed").exists(), "it did not wait");
    server.signal(Signal::CONT);
    assert_eq!(program.wait().code, Some(0));
    assert!(scene.path("executed").exists());
    assert_eq!(scene.read("server/file"), b"written");
    mount.unmount();
}

#[test]
fn what_one_of_two_open_files_wrote_before_the_other_one_is_not_written_again() {
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    scene.write("server/file", &[b'.'; 12]);
    let mount = Mount::new(&scene, &server, &[]);
    let script = "def has(content):\n\
        \x20   while open('../server/file', 'rb').read() != content: pass\n\
        one, two = os.open('file', os.O_RDWR), os.open('file', os.O_RDWR)\n\
        os.pwrite(one, b'one', 0); os.fsync(one)\n\
        os.pwrite(two, b'two', 6); has(b'one...two...')\n\
        step('first')\n\
        os.fsync(one); os.fsync(two)\n\
        os.pwrite(one, b'old', 3); has(b'oneoldtwo...')\n\
        os.pwrite(two, b'new', 3); has(b'onenewtwo...')\n\
        step('second')\n\
        try: os.fsync(one)\n\
        except OSError as error: assert error.errno == 5, error\n\
        else: raise SystemExit('no error')\n\
        # It is told of what the other one has lost.\n\
        try: os.fsync(two)\n\
        except OSError as error: assert error.errno == 5, error\n";
    let mut program = in_steps(&mount, script);
    wait_for_step(&scene, &program, "first");
    server.kill();
    let server = again(&scene, &address);
    program.feed(b"\n");
    wait_for_step(&scene, &program, "second");
    server.kill();
    let _server = again(&scene, &address);
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    assert_eq!(scene.read("server/file"), b"onenewtwo...");
    mount.unmount();
}

#[test]
fn a_write_that_timed_out_is_not_made_after_a_later_call_on_its_file() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &["--timeout", "1"]);
    let script = "there = '../server/file'\n\
        f = os.open('file', os.O_RDWR)\n\
        step('opened')\n\
        os.pwrite(f, b'written', 0)\n\
        try: os.fsync(f)\n\
        except OSError as error: assert error.errno == 5, error\n\
        else: raise SystemExit('no error')\n\
        step('told')\n\
        os.ftruncate(f, 7)\n\
        assert open(there).read() in ('content', 'written')\n\
        # What anybody writes from here on stays.\n\
        with open(there, 'w') as other: other.write('another')\n\
        os.ftruncate(f, 8)\n\
        try: os.close(f)\n\
        except OSError: pass\n";
    let mut program = in_steps(&mount, script);
    wait_for_step(&scene, &program, "opened");
    stop(&server);
    program.feed(b"\n");
    wait_for_step(&scene, &program, "told");
    server.signal(Signal::CONT);
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    mount.unmount();
    assert_eq!(scene.read("server/file"), b"another\0");
}
