//! Programs that were written to break file systems, on a mount. Each runs for two seconds, or for as long as
//! `XDFS_TORTURE_SECONDS` says (`xtask long mount`).

use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Running, Scene, Server, pass, until};

use crate::losses::{again, again_with};
use crate::{Mount, run, shell};

/// How long each program runs.
pub(crate) fn seconds() -> u64 {
    std::env::var("XDFS_TORTURE_SECONDS").map_or(2, |text| text.parse().unwrap())
}

/// Options of a server that keeps everything.
const KEEPS: &[&str] = &["--keep", "modes,owner,acl,xattr,special"];

/// Such a server.
pub(crate) fn serve(scene: &Scene) -> Server {
    scene.serve_with(KEEPS)
}

/// What the mount shows is what the server has: all that rsync compares, of everything.
pub(crate) fn is_the_servers(scene: &Scene, mount: &Mount) {
    assert!(xdfs_test_needs::program("rsync", "rsync"));
    // What programs of the server have changed last, such as the times of a directory, is seen after `valid`.
    pass(Duration::from_millis(1100));
    let mut compare = Command::new("rsync");
    compare.args(["-aHAXnc", "--itemize-changes", "--delete"]);
    compare.arg(mount.point.join("")).arg(scene.path("server").join(""));
    assert_eq!(run(&mut compare), "");
}

#[test]
fn fio_reads_what_four_jobs_wrote_at_random() {
    assert!(xdfs_test_needs::program("fio", "fio"));
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &[]);
    let bytes = seconds().min(16) << 20;
    let (began, length, mut runs) = (Instant::now(), Duration::from_secs(seconds()), 0);
    // Whole runs, each with other places and sizes: one that is ended by a clock does not look at all that it wrote.
    while runs == 0 || began.elapsed() < length {
        runs += 1;
        let script = format!(
            "fio --name=verify --rw=randrw --bsrange=512-64k --size={bytes} --numjobs=4 --verify=crc32c --verify_fatal=1 \
             --ioengine=psync --fallocate=none --randseed={runs} --output-format=json"
        );
        let said = shell(&mount.point, &script);
        assert_eq!(said.matches("\"jobname\"").count(), 4, "{said}");
        assert_eq!(said.matches("\"error\" : 0,").count(), 4, "{said}");
    }
    println!("fio: {runs} runs of four jobs of {bytes} bytes in {:?}", began.elapsed());
    is_the_servers(&scene, &mount);
    mount.unmount();
}

#[test]
fn stress_ng_meets_no_error_with_locks_names_and_attributes() {
    assert!(xdfs_test_needs::program("stress-ng", "stress-ng"));
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &[]);
    let stressors = ["lockf", "flock", "lockofd", "rename", "dir", "link", "symlink", "xattr"];
    // In the short form all at once, each in one process.
    let (each, processes) = if seconds() < 10 { (stressors.len(), "1") } else { (1, "2") };
    for together in stressors.chunks(each) {
        let words: Vec<String> = together.iter().flat_map(|name| [format!("--{name}"), processes.to_owned()]).collect();
        let mut command = Command::new("stress-ng");
        command.args(words).args(["--verify", "--timeout", &seconds().to_string(), "--temp-path"]).arg(&mount.point);
        let said = command.output().unwrap();
        // All that it says, also that it skipped something, is on standard error.
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{together:?}: {}\n{text}", said.status);
        assert!(text.contains("successful run completed") && !text.contains("skipped"), "{text}");
    }
    is_the_servers(&scene, &mount);
    mount.unmount();
}

#[test]
fn dbench_meets_no_error() {
    assert!(xdfs_test_needs::program("dbench", "dbench"));
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &[]);
    let said = shell(&mount.point, &format!("dbench -t {} -c /usr/share/dbench/client.txt 2 2>&1", seconds()));
    // It ends with 0 whatever it met. The semaphore by which its processes begin together is the machine's.
    let met = |line: &str| ["ERROR", "failed"].iter().any(|word| line.contains(word)) && !line.contains("semaphore");
    assert!(!said.lines().any(met), "{said}");
    assert!(said.contains("Throughput "), "{said}");
    is_the_servers(&scene, &mount);
    mount.unmount();
}

/// Appends numbered lines, and says to standard output which of them were answered, and which with an error.
const APPENDS: &str = "import os, sys, time\n\
    f = os.open('appended', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)\n\
    end, number = time.monotonic() + float(sys.argv[1]), 0\n\
    while time.monotonic() < end or number < 100:\n\
    \x20   line = b'%d\\n' % number\n\
    \x20   try: os.write(f, line); print(number, 'written')\n\
    \x20   except OSError: print(number, 'failed')\n\
    \x20   number += 1\n";

#[test]
fn lines_that_are_appended_while_the_server_is_killed_are_there_once() {
    let scene = Scene::new();
    let mut server = scene.serve();
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let length = if seconds() < 10 { 3 } else { seconds() };
    let mut command = Command::new("python3");
    command.args(["-c", APPENDS, &length.to_string()]).current_dir(&mount.point);
    let appends = Running::start(command);
    let (began, between) = (Instant::now(), if length < 10 { 1 } else { 5 });
    let mut kills = 0;
    while began.elapsed() + Duration::from_secs(between) < Duration::from_secs(length) {
        pass(Duration::from_secs(between));
        server.kill();
        server = again(&scene, &address);
        kills += 1;
    }
    let ended = appends.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    let count = |word: &str| ended.text().lines().filter(|line| line.ends_with(word)).count() as u64;
    let (written, failed) = (count("written"), count("failed"));
    println!("appends: {kills} kills, {written} lines written, {failed} failed");
    assert!(kills + 2 >= length / between, "{kills} kills in {length} s");
    assert!(written >= 100 && failed <= kills, "{kills} kills, {written} written, {failed} failed");
    let content = String::from_utf8(scene.read("server/appended")).unwrap();
    let mut lines = content.lines().peekable();
    for told in ended.text().lines() {
        let (number, outcome) = told.split_once(' ').unwrap();
        // One that failed may be there; none is there twice, and none in another order.
        let there = lines.next_if_eq(&number).is_some();
        assert!(there || outcome == "failed", "line {number} is missing or not in its place");
    }
    assert_eq!(lines.next(), None, "a line is there twice");
    mount.unmount();
}

/// Makes, renames, links and removes names of every kind, and expects that each call does what it says, once. Says how many rounds
/// there were.
const NAMES: &str = "import os, sys, time\n\
    top, end, rounds = sys.argv[1], time.monotonic() + float(sys.argv[2]), 0\n\
    os.mkdir(top)\n\
    while time.monotonic() < end or not rounds:\n\
    \x20   d, x = f'{top}/d{rounds}', f'{top}/x{rounds}'\n\
    \x20   os.mkdir(d)\n\
    \x20   os.rename(d, x)\n\
    \x20   os.symlink('target', f'{x}/s')\n\
    \x20   os.mkfifo(f'{x}/p')\n\
    \x20   f = os.open(f'{x}/f', os.O_CREAT | os.O_EXCL | os.O_RDWR)\n\
    \x20   os.link(f'{x}/f', f'{x}/g')\n\
    \x20   os.rename(f'{x}/g', f'{x}/h')\n\
    \x20   os.setxattr(f'{x}/f', 'user.a', b'1', os.XATTR_CREATE)\n\
    \x20   os.removexattr(f'{x}/f', 'user.a')\n\
    \x20   os.close(os.open(f'{x}/e', os.O_CREAT | os.O_EXCL | os.O_WRONLY))\n\
    \x20   os.rename(f'{x}/e', f'{x}/f')\n\
    \x20   os.pwrite(f, b'kept', 0)\n\
    \x20   assert os.fstat(f).st_nlink >= 1 and os.pread(f, 9, 0) == b'kept'\n\
    \x20   assert sorted(os.listdir(x)) == ['f', 'h', 'p', 's'], os.listdir(x)\n\
    \x20   assert os.stat(f'{x}/f').st_size == 0 and os.readlink(f'{x}/s') == 'target'\n\
    \x20   for name in 'fhps': os.unlink(f'{x}/{name}')\n\
    \x20   os.close(f)\n\
    \x20   os.rmdir(x)\n\
    \x20   rounds += 1\n\
    os.rmdir(top)\n\
    print(rounds)\n";

#[test]
fn names_are_made_moved_and_removed_once_while_the_server_is_killed() {
    let scene = Scene::new();
    let mut server = scene.serve_with(KEEPS);
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let length = if seconds() < 10 { 4 } else { seconds() };
    let programs: Vec<Running> = (0..3)
        .map(|number| {
            let mut command = Command::new("python3");
            command.args(["-c", NAMES, &number.to_string(), &length.to_string()]).current_dir(&mount.point);
            Running::start(command)
        })
        .collect();
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(length) {
        pass(Duration::from_millis(150));
        server.kill();
        server = again_with(&scene, &address, KEEPS);
        kills += 1;
    }
    let mut rounds = 0;
    for program in programs {
        let ended = program.wait();
        assert_eq!(ended.code, Some(0), "after {kills} kills: {}", ended.messages);
        let own: u64 = ended.text().trim().parse().unwrap();
        assert!(own > 0);
        rounds += own;
    }
    println!("names: {kills} kills, {rounds} rounds");
    // A start of a server takes what it takes on a busy machine.
    assert!(kills >= length / 2, "{kills} kills in {length} s");
    // The kernel tells of the last close when it was made.
    until(|| scene.names("server"), |names| names.is_empty());
    mount.unmount();
}

/// What stress-ng makes has names of its own for each process, and each call does what it says, once.
#[test]
fn stress_ng_meets_no_error_with_names_while_the_server_is_killed() {
    assert!(xdfs_test_needs::program("stress-ng", "stress-ng"));
    let scene = Scene::new();
    let mut server = serve(&scene);
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let (length, between, processes) = if seconds() < 10 { (4, 1, "1") } else { (seconds(), 5, "2") };
    let mut command = Command::new("stress-ng");
    // Fewer directories than usual: each round makes and removes all of them.
    command.args(["--rename", processes, "--dir", processes, "--dir-dirs", "64", "--link", processes, "--verify"]);
    command.args(["--timeout", &length.to_string()]);
    command.arg("--temp-path").arg(&mount.point);
    let stress = Running::start(command);
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() + Duration::from_secs(between) < Duration::from_secs(length) {
        pass(Duration::from_secs(between));
        server.kill();
        server = again_with(&scene, &address, KEEPS);
        kills += 1;
    }
    // Each stressor removes what it has made, which is much.
    let ended = stress.wait_within(Duration::from_secs(length + 120));
    let text = ended.messages;
    println!("stress-ng: {kills} kills in {length} s");
    assert_eq!(ended.code, Some(0), "after {kills} kills: {text}");
    assert!(text.contains("successful run completed") && !text.contains("skipped"), "{text}");
    assert!(kills > u64::from(length >= 20) && !text.contains("fail:"), "after {kills} kills: {text}");
    // As above: the last close may be under way.
    until(|| scene.names("server"), |names| names.is_empty());
    is_the_servers(&scene, &mount);
    mount.unmount();
}
