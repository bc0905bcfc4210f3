//! The real programs where the system has no more descriptors or memory, or its storage is taken away: nobody hangs or turns in
//! circles, no name holds half a file, and what comes after the trouble works, with the same server where it lives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use xdfs_test_cli::{
    Outcome, Relay, Running, Scene, Server, exit, is_running, pattern, until, with_file_systems, xdfs_binary,
};

const SIZE: usize = 3 << 20;
/// A file system of a test's own.
const DISK_BYTES: u64 = 64 << 20;
/// Calls that make a descriptor.
const MAKING: &[&str] = &["openat2", "socket", "accept4", "epoll_create1", "eventfd2", "pipe2", "fcntl", "openat"];
/// How long a server that has no descriptors is watched, and the processor time that it may take then.
const WATCHED: Duration = Duration::from_secs(2);
const BUSY_MAX: Duration = Duration::from_millis(500);

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("client/file", &pattern(SIZE, 5));
    scene.write("server/file", &pattern(SIZE, 6));
    scene.directory("down");
    scene
}

fn proc(process: Pid, name: &str) -> PathBuf {
    Path::new("/proc").join(process.as_raw_nonzero().to_string()).join(name)
}

/// One upload, which is not tried again.
fn upload(scene: &Scene, server: &Server, name: &str) -> Outcome {
    scene.run(["cp", "-q", "--retry", "0", "-b", "64KiB", "-P", "2", "client/file", &server.url(name)])
}

/// The name has all of the file or is not there.
fn judge(path: &Path, content: &[u8], done: bool) {
    match std::fs::read(path) {
        Ok(found) => assert!(found == content, "{} has {} other bytes", path.display(), found.len()),
        Err(_) => assert!(!done, "{} was told, and is not there", path.display()),
    }
}

/// What works when the trouble is over, both ways.
fn works(scene: &Scene, server: &Server) {
    upload(scene, server, "after").ends_with(0);
    assert!(scene.read("server/after") == scene.read("client/file"));
    scene.run(["cp", "-q", &server.url("file"), "down/after"]).ends_with(0);
    assert!(scene.read("down/after") == scene.read("server/file"));
}

/// F01: a client that gets no descriptor, at each call that makes one.
#[test]
fn f01_a_client_that_gets_no_descriptor_fails_whole_and_says_so() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let scene = scene();
    let server = scene.serve();
    let mut struck = 0;
    for call in MAKING {
        // The first few of each: behind them they come again and again, a file each.
        for index in 1..=12 {
            let log = scene.path("strace.log");
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:error=EMFILE:when={index}"), "-o"]).arg(&log);
            let target = scene.path("down").join(format!("{call}{index}"));
            command.arg(xdfs_binary()).args(["cp", "-q", "--retry", "0"]).arg(server.url("file")).arg(&target);
            command.current_dir(scene.path(""));
            scene.dress("somebody", &mut command);
            let outcome = Running::start(command).wait();
            if !std::fs::read_to_string(&log).unwrap_or_default().contains("(INJECTED)") {
                break;
            }
            struck += 1;
            let done = outcome.code == Some(0);
            judge(&target, &scene.read("server/file"), done);
            assert!(done || !outcome.messages.is_empty(), "{call} {index}: nothing was said");
            assert!(outcome.code.is_some_and(|code| code < 100), "{call} {index}: {outcome:?}");
        }
    }
    println!("{struck} calls gave no descriptor");
    assert!(struck >= 20, "only {struck} calls");
    works(&scene, &server);
}

/// F01: a server that has no descriptor to give for a while.
#[test]
fn f01_a_server_without_descriptors_does_not_spin_and_goes_on_when_there_are_some() {
    let scene = scene();
    let server = scene.serve();
    // It has looked for what earlier ones left, and closed that.
    assert_eq!(server.next_line()["event"], "recovered");
    let at_rest = open_descriptors(server.process());
    works(&scene, &server);
    // The server closes what its sessions had behind its answers.
    until(|| open_descriptors(server.process()), |count| *count <= at_rest);
    // Channels that are there stay, and what they do finds no descriptor either.
    let relay = Relay::holding(&server, 1, 1 << 20);
    let held = scene.start(["cp", "-q", "--retry", "0", "-b", "64KiB", "client/file", &relay.url("held")]);
    relay.wait_until_held();
    let before = limit(server.process(), Some(open_descriptors(server.process())));
    let waiting: Vec<Running> = (0..8)
        .map(|number| {
            let url = server.url(&format!("waiting{number}"));
            scene.start(["cp", "-q", "--retry", "0", "client/file", &url])
        })
        .collect();
    let began = busy(server.process());
    let since = Instant::now();
    while since.elapsed() < WATCHED {
        assert!(is_running(server.process()), "the server ended");
        std::thread::yield_now();
    }
    let took = busy(server.process()) - began;
    assert!(took < BUSY_MAX, "{took:?} of processor time in {WATCHED:?}");
    relay.release();
    let held = held.wait();
    judge(&scene.path("server/held"), &scene.read("client/file"), held.code == Some(0));
    limit(server.process(), before);
    for (number, running) in waiting.into_iter().enumerate() {
        let done = running.wait().code == Some(0);
        judge(&scene.path(format!("server/waiting{number}")), &scene.read("client/file"), done);
    }
    works(&scene, &server);
}

/// F14: a server that gets no more memory.
#[test]
fn f14_a_server_without_memory_leaves_whole_files_and_works_when_started_again() {
    let scene = scene();
    // More room each time, so that the first request finds none, and later ones in the middle of a transfer. What finds none
    // is another thing each time: while blocks waited for memory without asking again, one series of these in thirty did not end.
    for (round, room) in [0, 256 << 10, 1 << 20, 4 << 20, 16 << 20].into_iter().cycle().take(50).enumerate() {
        let server = scene.serve();
        let status = std::fs::read_to_string(proc(server.process(), "status")).expect("it runs");
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("it has a size");
        let kibibytes: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
        let limit = Some(kibibytes * 1024 + room);
        prlimit(Some(server.process()), Resource::As, Rlimit { current: limit, maximum: limit }).expect("it is ours");
        let running: Vec<Running> = (0..4)
            .map(|number| {
                let url = server.url(&format!("round{round}-{number}"));
                scene.start(["cp", "-q", "--retry", "0", "-P", "4", "client/file", &url])
            })
            .collect();
        for (number, running) in running.into_iter().enumerate() {
            let done = running.wait().code == Some(0);
            judge(&scene.path(format!("server/round{round}-{number}")), &scene.read("client/file"), done);
        }
    }
    let server = scene.serve();
    works(&scene, &server);
}

/// F15: a file system that becomes read-only under an upload.
#[test]
fn f15_a_file_system_that_becomes_read_only_ends_the_upload_and_keeps_the_old_file() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = scene();
    let disk = scene.directory("disk");
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--export", "data=disk", "--allow-anonymous", "rw"];
    let mut command = xdfs_test_cli::with_small_disk(&disk, 64, "echo old > \"$0/file\" && exec \"$@\"");
    command.arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    let server = Server::start(command, &["--quiet"]);
    scene.trust(server.address(), &server);
    let inside = proc(server.process(), "root").join(disk.strip_prefix("/").expect("it is absolute"));
    let remount = |how: &str| {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--preserve-credentials", "--mount", "--target"]);
        command.arg(server.process().as_raw_nonzero().to_string()).args(["mount", "-o", how]).arg(&disk);
        let output = command.output().expect("nsenter is there");
        output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let relay = Relay::holding(&server, 1, 1 << 20);
    let held = scene.start(["cp", "--retry", "0", "-P", "1", "-b", "64KiB", "client/file", &relay.url("file")]);
    relay.wait_until_held();
    // A file that is open for writing keeps a mount from becoming read-only; the file system itself is told so, by force.
    let remounted = remount("remount,ro");
    if let Err(busy) = &remounted {
        assert!(busy.contains("busy"), "{busy}");
    }
    relay.release();
    let held = held.wait();
    let found = std::fs::read(inside.join("file")).expect("the file is there");
    if held.code == Some(0) {
        assert!(remounted.is_err() && found == scene.read("client/file"), "it cannot have been written");
    } else {
        held.says(&["read-only"]);
        assert_eq!(found, b"old\n");
    }
    remount("remount,ro").expect("nothing is open for writing now");
    upload(&scene, &server, "other").ends_with(exit::PERMISSION_DENIED).says(&["read-only"]);
    remount("remount,rw").expect("it was so before");
    upload(&scene, &server, "file").ends_with(0);
    assert!(std::fs::read(inside.join("file")).expect("it is there") == scene.read("client/file"));
}

/// F15: an ext4 that makes itself read-only since it has found an error, in the middle of an upload.
#[test]
fn f15_a_disk_with_an_error_ends_the_upload_and_the_old_file_can_still_be_read() {
    let test = "f15_a_disk_with_an_error_ends_the_upload_and_the_old_file_can_still_be_read";
    with_file_systems(test, DISK_BYTES, |mounted| {
        let remounted = Command::new("mount").args(["-o", "remount,errors=remount-ro"]).arg(&mounted.ext4).status();
        assert!(remounted.expect("util-linux is installed").success());
        let scene = Scene::below(&mounted.tmpfs);
        scene.write("client/file", &pattern(SIZE, 5));
        std::fs::write(mounted.ext4.join("file"), b"old").expect("there is room");
        let export = format!("data={}", mounted.ext4.display());
        let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--export", &export, "--allow-anonymous", "rw"];
        let server = Server::start(scene.command(words), &["--quiet"]);
        scene.trust(server.address(), &server);
        let relay = Relay::holding(&server, 1, 1 << 20);
        let held = scene.start(["cp", "--retry", "0", "-P", "1", "-b", "64KiB", "client/file", &relay.url("file")]);
        relay.wait_until_held();
        // What the kernel does when it reads a block of the disk that cannot be right.
        std::fs::write(ext4_setting(&mounted.ext4, "trigger_fs_error"), "an error").expect("root may do that");
        relay.release();
        let held = held.wait();
        held.ends_with(exit::PERMISSION_DENIED).says(&["read-only"]);
        upload(&scene, &server, "other").ends_with(exit::PERMISSION_DENIED).says(&["read-only"]);
        scene.run(["cp", &server.url("file"), "down"]).ends_with(0);
        assert_eq!(scene.read("down"), b"old");
        assert_eq!(server.stop(), Some(0));
    });
}

/// The file by which root sets `name` for the ext4 that is mounted here.
fn ext4_setting(mounted: &Path, name: &str) -> PathBuf {
    let device = rustix::fs::stat(mounted).expect("it is mounted").st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).expect("the kernel knows it");
    Path::new("/sys/fs/ext4").join(device.file_name().expect("a device has a name")).join(name)
}

/// Sets the limit of open descriptors; the one before.
fn limit(process: Pid, most: Option<u64>) -> Option<u64> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: most.or(maximum), maximum };
    prlimit(Some(process), Resource::Nofile, limit).expect("it is ours").current
}

fn open_descriptors(process: Pid) -> u64 {
    std::fs::read_dir(proc(process, "fd")).expect("it runs").count() as u64
}

/// Processor time that a process has taken.
fn busy(process: Pid) -> Duration {
    let stat = std::fs::read_to_string(proc(process, "stat")).expect("it runs");
    let behind_name = stat.rsplit_once(") ").expect("it has a name").1;
    let ticks: u64 = behind_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    // A tick is a hundredth of a second for programs, whatever the kernel's own.
    Duration::from_millis(ticks * 10)
}
