//! A disk that fills up while data flow: the old file stays, what came is kept, it is said how much is missing, and the same command
//! goes on when there is room.

use rustix::process::Signal;
use xdfs_test_cli::{
    Outcome, Relay, Running, Scene, Server, exit, pattern, seen_by, until, with_file_systems, with_small_disk,
    xdfs_binary,
};

const SIZE: usize = 16 << 20;
const DISK_MEBIBYTES: u32 = 24;
/// So much has passed when somebody else takes what the rest would need; what is under way then still fits.
const PASSED: u64 = 4 << 20;
const TAKEN: usize = 13 << 20;
/// The same for small files, of which 64 fit.
const TAKEN_NEARLY_ALL: usize = (DISK_MEBIBYTES as usize * 1024 - 512) << 10;

/// A server of the directory `server`, which is a disk of so many mebibytes, as the shell's words make it ready.
fn serve(scene: &Scene, mebibytes: u32, script: &str) -> Server {
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw", "--state", "state"];
    let mut command = with_small_disk(&scene.directory("server"), mebibytes, script);
    command.arg(xdfs_binary()).args(words).current_dir(scene.path(""));
    Server::start(command, &["--quiet", "--export", "data=server"])
}

/// What the one says who cannot go on, and who can.
#[track_caller]
fn judge(full: &Outcome, again: &Outcome) {
    full.ends_with(exit::NO_SPACE).says(&["no space left on device", " needed, ", " free, ", " missing"]);
    again.ends_with(0).says(&["resumes at", " %"]);
    let resumed = again.objects()[0]["resumed_bytes"].as_u64().expect("a number");
    assert!(resumed >= PASSED / 2, "only {resumed} bytes were kept");
}

#[test]
fn a_servers_disk_that_fills_up_leaves_the_old_file_and_what_came() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let directory = scene.directory("server");
    let server = serve(&scene, DISK_MEBIBYTES, "echo old > \"$0/file\" && exec \"$@\"");
    let content = pattern(SIZE, 31);
    scene.write("source", &content);
    let relay = Relay::holding(&server, 1, PASSED);
    let running = scene.start(["cp", "-P", "1", "-b", "64KiB", "source", &relay.url("file")]);
    relay.wait_until_held();
    let inside = seen_by(server.process(), &directory);
    std::fs::write(inside.join("others"), pattern(TAKEN, 32)).expect("there is room so far");
    relay.release();
    let full = running.wait();
    assert_eq!(std::fs::read(inside.join("file")).expect("it stays"), b"old\n");
    std::fs::remove_file(inside.join("others")).expect("it is ours");
    judge(&full, &scene.run(["cp", "--json", "source", &server.url("file")]));
    assert!(std::fs::read(inside.join("file")).expect("it is there") == content);
    // What is left of the part goes behind the answers.
    until(|| scene.names(&inside), |names| *names == ["file"]);
}

#[test]
fn the_list_of_what_failed_leaves_out_nothing_of_a_tree_that_ended_early() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let directory = scene.directory("server");
    let server = serve(&scene, DISK_MEBIBYTES, "exec \"$@\"");
    many_small(&scene, "tree");
    let inside = seen_by(server.process(), &directory);
    let names_in = |directory: &str| match std::fs::read_dir(inside.join(directory)) {
        Ok(names) => names.count(),
        Err(error) => panic!("{directory}: {error}"),
    };
    scene.write("listed", b"d1\nd2\nd3\n");
    for (list, before, directories) in [(vec!["--files-from", "listed"], 0, 3), (vec![], 3, 20)] {
        let taken = TAKEN_NEARLY_ALL - before * SMALL_FILES / 20 * SMALL_BYTES;
        std::fs::write(inside.join("others"), pattern(taken, 37)).expect("there is room so far");
        let to = server.url("into/");
        let words = [&["cp", "-r", "--failures", "failed"][..], &list, &["tree", &to]].concat();
        scene.run(words).ends_with(exit::NO_SPACE);
        std::fs::remove_file(inside.join("others")).expect("it is ours");
        scene.run(["cp", "-r", "--files-from", "failed", "tree", &to]).ends_with(0);
        assert_eq!(names_in("into/tree"), directories, "and nothing that was not asked for");
        (1..=3).for_each(|number| assert_eq!(names_in(&format!("into/tree/d{number}")), SMALL_FILES / 20));
    }
    assert_eq!(names_in("into/tree/d19"), SMALL_FILES / 20);
}

#[test]
fn a_local_disk_that_fills_up_leaves_the_old_file_and_what_came() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    let content = pattern(SIZE, 33);
    scene.write("server/file", &content);
    let server = scene.serve();
    let disk = scene.directory("disk");
    // Twice the same command, and between the two a word from here, when there is room again.
    let script = "echo old > disk/x; \"$1\" cp -P 1 -b 64KiB \"$2\" disk/x 2> first; echo $? > code; cat disk/x; read word; \
                  \"$1\" cp --json \"$3\" disk/x > second && cmp disk/x server/file";
    let relay = Relay::holding(&server, 1, PASSED);
    let mut command = with_small_disk(&disk, DISK_MEBIBYTES, script);
    command.arg(xdfs_binary()).args([relay.url("file"), server.url("file")]).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    let mut running = Running::start(command);
    relay.wait_until_held();
    let inside = seen_by(running.process(), &disk);
    std::fs::write(inside.join("others"), pattern(TAKEN, 34)).expect("there is room so far");
    relay.release();
    let since = std::time::Instant::now();
    while !scene.path("code").exists() {
        assert!(since.elapsed().as_secs() < 60, "it does not end");
        std::thread::yield_now();
    }
    std::fs::remove_file(inside.join("others")).expect("it is ours");
    assert!(running.feed(b"on\n"));
    let again = running.wait();
    assert!(again.text().starts_with("old\n"), "the old file stays until the new one is whole");
    let text = |name: &str| String::from_utf8(scene.read(name)).expect("UTF-8");
    let code = text("code").trim().parse().ok();
    let full = Outcome { code, output: Vec::new(), messages: text("first") };
    judge(&full, &Outcome { output: scene.read("second"), ..again });
}

/// Many more small files than a disk of this size takes.
const SMALL_FILES: usize = 2000;
const SMALL_BYTES: usize = 8 << 10;
const SMALL_DISK_MEBIBYTES: u32 = 8;

fn many_small(scene: &Scene, directory: &str) {
    for number in 0..SMALL_FILES {
        scene.write(format!("{directory}/d{}/f{number}", number % 20), &pattern(SMALL_BYTES, 41));
    }
}

#[track_caller]
fn stops_early(tree: &Outcome) {
    tree.ends_with(exit::NO_SPACE).says(&["no space left on device", "in a row had no room", "help: "]);
    // A name is told as it is in the tree, whoever found that there is no room.
    let named = |line: &&str| line.contains("no space left on device") && line.contains("/f");
    let whole: Vec<_> = tree.messages.lines().filter(named).filter(|line| line.contains("tree/d")).collect();
    assert!(whole.is_empty(), "{whole:#?}");
    let lines = tree.messages.lines().count();
    assert!(lines <= 80, "{lines} lines about {SMALL_FILES} names:\n{}", tree.messages);
}

#[test]
fn a_tree_that_goes_up_to_a_full_disk_stops_instead_of_naming_all_that_is_left() {
    let scene = Scene::new();
    many_small(&scene, "source");
    let server = serve(&scene, SMALL_DISK_MEBIBYTES, "exec \"$@\"");
    stops_early(&scene.run(["cp", "-r", "source", &server.url("tree")]));
}

#[test]
fn a_tree_that_comes_down_to_a_full_disk_stops_instead_of_naming_all_that_is_left() {
    let scene = Scene::new();
    many_small(&scene, "server/tree");
    let server = scene.serve();
    let disk = scene.directory("disk");
    let script = "exec \"$1\" cp -r \"$2\" disk/tree";
    let mut command = with_small_disk(&disk, SMALL_DISK_MEBIBYTES, script);
    command.arg(xdfs_binary()).arg(server.url("tree")).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    stops_early(&Running::start(command).wait());
}

/// A disk, what a visitor reserves of it, and what another user needs of it then.
const SHARED_DISK: u64 = 192 << 20;
const RESERVED: u64 = 140 << 20;
const NEEDED: u64 = 100 << 20;

#[test]
fn room_that_a_visitor_reserved_is_another_user_s_as_soon_as_they_leave() {
    if !xdfs_test_needs::root("a small ext4 is mounted") {
        return;
    }
    let test = "room_that_a_visitor_reserved_is_another_user_s_as_soon_as_they_leave";
    with_file_systems(test, SHARED_DISK, |disks| {
        // Not on a tmpfs, where nothing is reserved.
        let scene = Scene::below(&disks.ext4);
        let key = scene.run_as("anna", ["key", "create"]);
        scene.write("key.pub", key.ends_with(0).text().as_bytes());
        scene.run(["user", "add", "anna", "--key", "key.pub"]).ends_with(0);
        let server = scene.serve_with(&["--allow-anonymous", "create"]);
        let free = || {
            let disk = rustix::fs::statvfs(&disks.ext4).expect("it is mounted");
            disk.f_bavail * disk.f_frsize
        };
        // Sources with holes need no room of the same disk.
        for (name, size) in [("large", RESERVED), ("needed", NEEDED)] {
            std::fs::File::create(scene.path(name)).and_then(|file| file.set_len(size)).expect("a length");
        }
        let theirs = server.url("needed").replace("xdfs://", "xdfs://anna@");
        for (round, signal) in [Signal::KILL, Signal::INT, Signal::TERM].into_iter().enumerate() {
            let relay = Relay::holding(&server, 1, PASSED);
            let url = relay.url(&format!("visitor-{round}"));
            let visitor = scene.start(["cp", "-P", "1", "--retry", "0", "large", &url]);
            relay.wait_until_held();
            assert!(free() < NEEDED, "{} bytes are free: it was not reserved", free());
            let refused = scene.run_as("anna", ["cp", "needed", &theirs]);
            refused.ends_with(exit::NO_SPACE);
            visitor.signal(signal);
            drop(relay);
            visitor.wait();
            until(free, |free| *free >= NEEDED);
            scene.run_as("anna", ["cp", "needed", &theirs]).ends_with(0);
            scene.run_as("anna", ["rm", &theirs]).ends_with(0);
        }
        let names = scene.names("server");
        assert!(names.iter().any(|name| name.ends_with(".part")), "what had come is kept: {names:?}");
    });
}
