//! Two mounts of a server that grants leases.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Running, Scene, Server};

use crate::posix::append_together;
use crate::{Mount, python};

/// Two mounts of a server with leases. A server that has just been started grants none until those that it may have granted before
/// are over.
fn two(scene: &Scene, options: &[&str]) -> (Server, Mount, Mount) {
    scene.write("server.toml", b"[limits]\nlease-seconds = 2\n");
    let server = scene.serve_with(&["--config", "server.toml"]);
    let one = Mount::of(scene, &server.url(""), "one", options);
    let two = Mount::of(scene, &server.url(""), "two", options);
    fs::write(one.path("first"), b"first").unwrap();
    assert_eq!(fs::read(two.path("first")).unwrap(), b"first");
    (server, one, two)
}

/// Runs `writes` in one mount, and `reads` in the other one until that has ended: it loops while `goes_on()`.
fn beside(scene: &Scene, (one, other): (&Mount, &Mount), writes: &str, reads: &str) {
    let ended = scene.path("ended");
    let prelude = format!("import os\ndef goes_on(): return not os.path.exists({ended:?})\n");
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{prelude}{reads}")]).current_dir(&other.point);
    let reader = Running::start(command);
    python(&one.point, writes);
    fs::write(&ended, b"").unwrap();
    let said = reader.wait();
    fs::remove_file(&ended).unwrap();
    assert_eq!(said.code, Some(0), "{}", said.messages);
    assert!(said.text().trim().parse::<u64>().unwrap() > 0, "it has read");
}

/// Appends blocks that tell their place, and says in a file how many there are at least.
const APPENDS: &str = "import os\n\
    block = lambda at: at.to_bytes(8, 'little') * 125\n\
    f, at = os.open('file', os.O_WRONLY | os.O_CREAT), 0\n\
    for number in range(300):\n\
    \x20   os.pwrite(f, block(at), at); at += 1000\n\
    \x20   if number % 3 == 1: os.fsync(f)\n\
    \x20   if number % 3 == 2: os.close(f); f = os.open('file', os.O_WRONLY)\n\
    os.close(f)\n";

/// Looks how long the file is, and reads so much.
const READS: &str = "block = lambda at: at.to_bytes(8, 'little') * 125\n\
    times, size, kept = 0, 0, None\n\
    while goes_on() or not times:\n\
    \x20   try: now = os.stat('file').st_size\n\
    \x20   except FileNotFoundError: continue\n\
    \x20   assert now >= size, (now, size); size = now\n\
    \x20   if kept is None: kept = os.open('file', os.O_RDONLY)\n\
    \x20   new = os.open('file', os.O_RDONLY)\n\
    \x20   for f in (new, kept):\n\
    \x20       data = os.pread(f, size, 0)\n\
    \x20       assert len(data) == size, (f == new, len(data), size)\n\
    \x20       assert data == b''.join(map(block, range(0, size, 1000)))[:size], (f == new, size)\n\
    \x20       assert os.fstat(f).st_size >= size\n\
    \x20   os.close(new); times += 1\n\
    print(times)\n";

#[test]
fn a_reader_never_sees_a_size_without_its_data() {
    for options in [&["-o", "valid=0"][..], &[]] {
        let scene = Scene::new();
        let (_server, one, other) = two(&scene, options);
        beside(&scene, (&one, &other), APPENDS, READS);
        // By name it may be as old as `valid` says.
        assert_eq!(fs::File::open(other.path("file")).unwrap().metadata().unwrap().len(), 300_000);
        other.unmount();
        one.unmount();
    }
}

/// Appends a block, syncs it, and then says at the start how long the file is.
const GROWS: &str = "import os\n\
    f = os.open('file', os.O_RDWR)\n\
    for number in range(1, 200):\n\
    \x20   size = 8 + number * 1000\n\
    \x20   os.pwrite(f, size.to_bytes(8, 'little') * 125, size - 1000); os.fsync(f)\n\
    \x20   os.pwrite(f, size.to_bytes(8, 'little'), 0); os.fsync(f)\n\
    \x20   if number % 3 == 0: os.close(f); f = os.open('file', os.O_RDWR)\n\
    os.close(f)\n";

/// Whoever has read how long the file is sees that it is so long, and what is at its end.
const SEES: &str = "times = 0\n\
    kept = os.open('file', os.O_RDONLY)\n\
    while goes_on() or not times:\n\
    \x20   new = os.open('file', os.O_RDONLY)\n\
    \x20   for f in (new, kept):\n\
    \x20       size = int.from_bytes(os.pread(f, 8, 0), 'little')\n\
    \x20       found = os.fstat(f).st_size\n\
    \x20       assert found >= size, (f == new, found, size)\n\
    \x20       if size > 8: assert os.pread(f, 1000, size - 1000) == size.to_bytes(8, 'little') * 125, (f == new, size)\n\
    \x20   os.close(new); times += 1\n\
    print(times)\n";

#[test]
fn a_reader_of_new_data_never_sees_the_size_before_it() {
    for options in [&["-o", "valid=0"][..], &[], &["-o", "valid=30"]] {
        let scene = Scene::new();
        let (_server, one, other) = two(&scene, options);
        fs::write(one.path("file"), 8_u64.to_le_bytes()).unwrap();
        beside(&scene, (&one, &other), GROWS, SEES);
        other.unmount();
        one.unmount();
    }
}

#[test]
fn a_reader_sees_at_once_what_was_closed() {
    let scene = Scene::new();
    let (_server, one, other) = two(&scene, &["-o", "valid=30"]);
    let directory = |mount: &Mount| mount.path("directory");
    fs::create_dir(directory(&one)).unwrap();
    // Files beside it that are read in order: it is opened before it is asked for.
    let names: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
    for name in &names {
        fs::write(directory(&one).join(name), b"0").unwrap();
    }
    for round in 0..10_u32 {
        for (writer, reader) in [(&one, &other), (&other, &one)] {
            for (at, name) in names.iter().enumerate() {
                let content = format!("{round} {at} {}", "x".repeat(round as usize * 100));
                let ahead = &names[(at + 3) % names.len()];
                fs::write(directory(writer).join(ahead), &content).unwrap();
                assert_eq!(fs::read_to_string(directory(reader).join(ahead)).unwrap(), content);
                let _ = fs::read(directory(reader).join(name)).unwrap();
            }
        }
    }
    other.unmount();
    one.unmount();
}

#[test]
fn appends_through_both_mounts_are_whole_and_in_their_order() {
    let scene = Scene::new();
    let (_server, one, other) = two(&scene, &[]);
    let script = |word: &str| {
        format!(
            "import os\nf = os.open('log', os.O_RDWR | os.O_APPEND | os.O_CREAT)\n\
             for i in range(200):\n\
             \x20   line = b'{word} %06d\\n' % i\n\
             \x20   os.write(f, line)\n\
             \x20   assert line in os.pread(f, 1 << 20, 0), 'it does not see its own line'\n"
        )
    };
    append_together(&scene, [&one, &other], script);
    other.unmount();
    one.unmount();
}

#[test]
fn a_file_that_is_renamed_over_another_is_what_is_opened_at_once() {
    let scene = Scene::new();
    let (_server, one, other) = two(&scene, &["-o", "valid=30"]);
    fs::write(one.path("file"), b"0").unwrap();
    for round in 1..20_u32 {
        for (writer, reader) in [(&one, &other), (&other, &one)] {
            let before = fs::read(reader.path("file")).unwrap();
            let kept = fs::File::open(reader.path("file")).unwrap();
            let content = format!("{round} {:?}", "y".repeat(round as usize));
            fs::write(writer.path("new"), &content).unwrap();
            fs::rename(writer.path("new"), writer.path("file")).unwrap();
            assert_eq!(fs::read_to_string(reader.path("file")).unwrap(), content);
            let mut bytes = vec![0; before.len()];
            kept.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, before, "who has it open has the old one");
        }
    }
    other.unmount();
    one.unmount();
}

/// Adds one to a number under a lock, so often, and writes so many numbers behind it as it says.
const COUNTS: &str = "import fcntl, os, sys\n\
    f = os.open('count', os.O_RDWR)\n\
    lock = getattr(fcntl, sys.argv[1])\n\
    for _ in range(40):\n\
    \x20   lock(f, fcntl.LOCK_EX)\n\
    \x20   data = os.pread(f, os.fstat(f).st_size, 0)\n\
    \x20   now = int.from_bytes(data[:8], 'little')\n\
    \x20   assert data == now.to_bytes(8, 'little') * (now + 1), (now, len(data))\n\
    \x20   os.pwrite(f, (now + 1).to_bytes(8, 'little') * (now + 2), 0)\n\
    \x20   lock(f, fcntl.LOCK_UN)\n";

#[test]
fn a_lock_is_handed_over_with_what_was_written_under_it() {
    let scene = Scene::new();
    let (_server, one, other) = two(&scene, &[]);
    for lock in ["flock", "lockf"] {
        fs::write(one.path("count"), [0; 8]).unwrap();
        std::thread::scope(|scope| {
            for mount in [&one, &one, &other, &other] {
                let mut command = Command::new("python3");
                command.args(["-c", COUNTS, lock]).current_dir(&mount.point);
                scope.spawn(move || crate::run(&mut command));
            }
        });
        assert_eq!(scene.read("server/count"), 160_u64.to_le_bytes().repeat(161), "{lock}");
    }
    other.unmount();
    one.unmount();
}

/// It becomes so within a second.
#[track_caller]
fn soon(what: &str, is_so: &dyn Fn() -> bool) {
    let began = Instant::now();
    loop {
        // Who looks later than that must see it.
        let looked = began.elapsed();
        if is_so() {
            return;
        }
        assert!(looked < Duration::from_secs(1), "{what}");
        std::thread::yield_now();
    }
}

/// What is told of files that nobody opens: the other mount, or a program of the server, changes them, and `valid` is long.
#[test]
fn what_others_change_is_told_within_a_second_however_long_names_are_used() {
    let scene = Scene::new();
    let (_server, one, other) = two(&scene, &["-o", "valid=60"]);
    fs::create_dir(one.path("d")).unwrap();
    for name in ["written", "cut", "moved", "replaced", "removed", "theirs"] {
        fs::write(one.path("d").join(name), name).unwrap();
    }
    let at = |name: &str| other.path("d").join(name);
    let length = |name: &str| fs::metadata(at(name)).ok().map(|told| told.len());
    let names =
        |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>();
    let times = |path: &Path| fs::metadata(path).map(|told| (told.mtime(), told.mtime_nsec())).unwrap();
    for by in [one.path("d"), scene.path("server/d")] {
        // All of it is known here, and used for a while.
        assert!(length("written").is_some() && length("new").is_none() && names(&other.path("d")).len() >= 6);
        soon("all", &|| names(&other.path("d")).iter().all(|name| length(name.to_str().unwrap()).is_some()));
        let change = |name: &str| by.join(name);
        let before = length("written").unwrap();
        fs::OpenOptions::new().append(true).open(change("written")).unwrap().write_all(b"more").unwrap();
        soon("a file grows", &|| length("written") == Some(before + 4));
        fs::OpenOptions::new().write(true).open(change("cut")).unwrap().set_len(1).unwrap();
        soon("a file is cut", &|| length("cut") == Some(1));
        fs::set_permissions(change("theirs"), PermissionsExt::from_mode(0o600)).unwrap();
        soon("a mode", &|| fs::metadata(at("theirs")).unwrap().mode() & 0o777 == 0o600);
        fs::set_permissions(change("theirs"), PermissionsExt::from_mode(0o640)).unwrap();
        soon("another mode", &|| fs::metadata(at("theirs")).unwrap().mode() & 0o777 == 0o640);
        fs::rename(change("moved"), change("there")).unwrap();
        soon("a file is moved", &|| length("moved").is_none() && length("there") == Some(5));
        fs::rename(change("there"), change("moved")).unwrap();
        soon("it is moved back", &|| length("there").is_none() && length("moved") == Some(5));
        fs::write(change("other"), "another one").unwrap();
        fs::rename(change("other"), change("replaced")).unwrap();
        soon("a file is replaced", &|| length("replaced") == Some(11) && length("other").is_none());
        fs::write(change("replaced"), "replaced").unwrap();
        fs::remove_file(change("removed")).unwrap();
        soon("a file is removed", &|| {
            length("removed").is_none() && !names(&other.path("d")).contains(OsStr::new("removed"))
        });
        fs::write(change("removed"), "removed").unwrap();
        soon("a file is made", &|| {
            length("removed") == Some(7) && names(&other.path("d")).contains(OsStr::new("removed"))
        });
        fs::create_dir(change("below")).unwrap();
        soon("a directory is made", &|| {
            fs::metadata(at("below")).is_ok() && times(&other.path("d")) == times(&scene.path("server/d"))
        });
        fs::write(change("below").join("file"), b"").unwrap();
        soon("what is in it", &|| {
            names(&at("below")).len() == 1 && times(&at("below")) == times(&scene.path("server/d/below"))
        });
        fs::remove_dir_all(change("below")).unwrap();
        soon("it is removed", &|| fs::metadata(at("below")).is_err());
    }
    other.unmount();
    one.unmount();
}

#[test]
fn a_program_that_is_in_a_directory_that_others_change_stays_there() {
    let scene = Scene::new();
    let (_server, one, other) = two(&scene, &["-o", "valid=60"]);
    fs::create_dir(one.path("d")).unwrap();
    fs::write(one.path("d/file"), b"").unwrap();
    let script =
        "import os, sys\nos.stat('file')\nsys.stdin.read()\nassert os.getcwd().endswith('/d') and os.stat('file')";
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(other.path("d"));
    let stays = Running::start(command);
    let mode = |of: u32| fs::metadata(other.path("d")).unwrap().mode() & 0o777 == of;
    for bits in [0o750, 0o700, 0o755] {
        fs::set_permissions(one.path("d"), PermissionsExt::from_mode(bits)).unwrap();
        soon("the mode of the directory", &|| mode(bits));
    }
    assert_eq!(stays.wait().code, Some(0));
    other.unmount();
    one.unmount();
}
