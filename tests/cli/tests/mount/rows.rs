//! Rows of the table in docs/mount.md that are about bounds, other users, and what the server's file system says.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FallocateFlags, StatVfs};
use rustix::io::Errno;
use xdfs_test_cli::{Delay, Running, Scene};

use crate::torture::serve;
use crate::{Mount, python, run, shell};

/// An owner that nobody here is.
const FOREIGN: u32 = 12_345;

#[test]
fn an_append_of_255_kib_is_one_step_for_all_clients() {
    const LENGTH: usize = 255 << 10;
    const EACH: usize = 20;
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    let script = |letter: char| {
        format!(
            "import os\nf = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n\
             for i in range({EACH}): assert os.write(f, b'{letter}' * {LENGTH}) == {LENGTH}"
        )
    };
    std::thread::scope(|scope| {
        for (mount, letter) in [(&mount, 'a'), (&mount, 'b'), (&other, 'c')] {
            let (point, script) = (&mount.point, script(letter));
            scope.spawn(move || python(point, &script));
        }
    });
    let content = scene.read("server/log");
    assert_eq!(content.len(), 3 * EACH * LENGTH);
    for (at, whole) in content.chunks(LENGTH).enumerate() {
        assert!(whole.iter().all(|byte| *byte == whole[0]), "the append at {at} is cut by another one");
    }
    other.unmount();
    mount.unmount();
}

#[test]
fn modes_of_fallocate_that_the_server_does_not_offer_are_eopnotsupp() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("file")).unwrap();
    file.write_all_at(&[7; 65_536], 0).unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    let modes = [
        FallocateFlags::ZERO_RANGE,
        FallocateFlags::ZERO_RANGE | keep,
        FallocateFlags::COLLAPSE_RANGE,
        FallocateFlags::INSERT_RANGE,
        FallocateFlags::UNSHARE_RANGE,
    ];
    for mode in modes {
        assert_eq!(rustix::fs::fallocate(&file, mode, 0, 4096), Err(Errno::OPNOTSUPP), "{mode:?}");
    }
    file.sync_all().unwrap();
    assert_eq!(scene.read("server/file"), [7; 65_536], "nothing was changed");
    drop(file);
    mount.unmount();
}

#[test]
fn statfs_tells_the_space_of_the_servers_file_system() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/below");
    let mount = Mount::new(&scene, &server, &[]);
    let space = |path: &Path| rustix::fs::statvfs(path).unwrap();
    for name in ["", "below"] {
        let (here, there) = (space(&mount.path(name)), space(&scene.path("server").join(name)));
        let bytes = |of: &StatVfs, blocks: u64| blocks * of.f_frsize;
        assert_eq!(bytes(&here, here.f_blocks), bytes(&there, there.f_blocks));
        // Other tests write to it meanwhile: all but a part of it is the same.
        let changing = |of: &StatVfs| [bytes(of, of.f_bfree), bytes(of, of.f_bavail), of.f_ffree];
        for (here, there) in changing(&here).into_iter().zip(changing(&there)) {
            assert!(here.abs_diff(there) <= there / 10, "{here} and {there}");
        }
        assert_eq!(here.f_files, there.f_files);
    }
    mount.unmount();
}

#[test]
fn names_that_are_there_all_the_time_are_told_once_while_others_are_removed_and_made() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/full");
    let name = |kind: &str, number: usize| format!("{kind}-{number:0>200}");
    for number in 0..600 {
        scene.write(format!("server/full/{}", name("stays", number)), b"");
        scene.write(format!("server/full/{}", name("goes", number)), b"");
    }
    // What is removed through the mount, and what at the server.
    for (round, at) in ["mounted/full", "server/full"].into_iter().enumerate() {
        let mount = Mount::new(&scene, &server, &[]);
        let directory = File::open(mount.path("full")).unwrap();
        let mut room = [std::mem::MaybeUninit::uninit(); 700];
        let mut entries = rustix::fs::RawDir::new(&directory, &mut room);
        let (mut told, mut count) = (BTreeMap::<String, usize>::new(), 0);
        while let Some(entry) = entries.next() {
            let name_told = entry.unwrap().file_name().to_str().unwrap().to_owned();
            *told.entry(name_told).or_default() += 1;
            if count < 300 {
                fs::remove_file(scene.path(at).join(name("goes", count + round * 300))).unwrap();
                fs::write(scene.path(at).join(name("new", count + round * 300)), b"").unwrap();
            }
            count += 1;
        }
        assert!(count > 600, "{count} entries");
        for number in 0..600 {
            assert_eq!(told.get(&name("stays", number)), Some(&1), "{number}");
        }
        assert!(told.values().all(|times| *times == 1), "nothing is told twice");
        drop(directory);
        mount.unmount();
    }
}

#[test]
fn owners_are_set_where_they_are_kept_and_eperm_elsewhere() {
    let scene = Scene::new();
    for (kept, shown) in [(false, false), (false, true), (true, false), (true, true)] {
        let keep: &[&str] = if kept { &["--keep", "modes,owner"] } else { &[] };
        let server = scene.serve_with(keep);
        let options: &[&str] = if shown { &["-o", "owner=server"] } else { &[] };
        let mount = Mount::new(&scene, &server, options);
        let file = format!("{kept}-{shown}");
        fs::write(mount.path(&file), b"").unwrap();
        let changed = chown(mount.path(&file), Some(FOREIGN), Some(FOREIGN));
        let facts = |path: &Path| fs::metadata(path).map(|told| (told.uid(), told.gid())).unwrap();
        let (here, there) = (facts(&mount.path(&file)), facts(&scene.path("server").join(&file)));
        if kept && shown {
            changed.unwrap();
            assert_eq!((here, there), ((FOREIGN, FOREIGN), (FOREIGN, FOREIGN)));
        } else {
            assert_eq!(changed.unwrap_err().kind(), ErrorKind::PermissionDenied, "{file}");
            assert_ne!(there.0, FOREIGN);
        }
        // What belongs to somebody else at the server.
        chown(scene.path("server").join(&file), Some(FOREIGN + 1), None).unwrap();
        mount.unmount();
        let mount = Mount::new(&scene, &server, options);
        let us = rustix::process::getuid().as_raw();
        assert_eq!(facts(&mount.path(&file)).0, if shown { FOREIGN + 1 } else { us });
        mount.unmount();
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn git_works_in_a_repository_that_belongs_to_somebody_else_at_the_server() {
    let scene = Scene::new();
    let server = serve(&scene);
    let script = "git init --quiet repository; cd repository; git config user.name A; git config user.email a@example.org\n\
        echo one > file; git add file; git commit --quiet -m one";
    shell(&scene.path("server"), script);
    run(Command::new("chown").args(["-R", &FOREIGN.to_string()]).arg(scene.path("server/repository")));
    let status = |directory: &Path| {
        let mut git = Command::new("git");
        // No setting that trusts it, and no sudo that does.
        git.args(["status", "--porcelain"]).current_dir(directory).env("HOME", scene.path(""));
        git.env_remove("SUDO_UID").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap()
    };
    let mount = Mount::new(&scene, &server, &[]);
    let there = status(&scene.path("server/repository"));
    assert!(String::from_utf8_lossy(&there.stderr).contains("dubious ownership"), "{there:?}");
    let here = status(&mount.path("repository"));
    assert!(here.status.success() && here.stdout.is_empty(), "{here:?}");
    shell(
        &mount.path("repository"),
        "echo two > file; git -c user.name=A -c user.email=a commit --quiet -a -m two; git fsck --strict",
    );
    mount.unmount();
    let mount = Mount::new(&scene, &server, &["-o", "owner=server"]);
    let refused = status(&mount.path("repository"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("dubious ownership"), "{refused:?}");
    mount.unmount();
}

#[test]
fn locks_hold_on_this_machine_alone_where_nothing_is_written() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &["-o", "ro"]);
    let other = Mount::of(&scene, &server.url(""), "other", &["-o", "ro"]);
    // A whole file, and a range that is read: each against another process of this machine, another mount, and the server.
    let script = "import fcntl, os, subprocess, sys\n\
        here, there, served = sys.argv[1:]\n\
        def others(path, how):\n\
        \tscript = 'import fcntl, os, sys\\nf = os.open(sys.argv[1], os.O_RDONLY)\\n'\\\n\
        \t\t'try: getattr(fcntl, sys.argv[2])(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\\n'\\\n\
        \t\t'except BlockingIOError: sys.exit(7)\\n'\n\
        \tended = subprocess.run([sys.executable, '-c', script, path, how])\n\
        \tassert ended.returncode in (0, 7), ended\n\
        \treturn ended.returncode == 0\n\
        f = os.open(here, os.O_RDONLY)\n\
        fcntl.flock(f, fcntl.LOCK_EX)\n\
        assert [others(path, 'flock') for path in (here, there, served)] == [False, True, True]\n\
        fcntl.flock(f, fcntl.LOCK_UN)\n\
        assert others(here, 'flock')\n\
        import struct\n\
        fcntl.lockf(f, fcntl.LOCK_SH)\n\
        wanted = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)\n\
        def found(path):\n\
        \tscript = 'import fcntl, os, struct, sys\\nf = os.open(sys.argv[1], os.O_RDONLY)\\n'\\\n\
        \t\t'wanted = struct.pack(\"hhqqi4x\", fcntl.F_WRLCK, 0, 0, 0, 0)\\n'\\\n\
        \t\t'sys.exit(struct.unpack(\"hhqqi4x\", fcntl.fcntl(f, fcntl.F_GETLK, wanted))[0] != fcntl.F_UNLCK)'\n\
        \treturn subprocess.run([sys.executable, '-c', script, path]).returncode == 1\n\
        assert [found(path) for path in (here, there, served)] == [True, False, False]\n";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(mount.path("file")).arg(other.path("file")).arg(scene.path("server/file"));
    run(&mut python);
    other.unmount();
    mount.unmount();
}

/// Writes as a user other than root, whom the kernel has the file system take the set-user-id bit for.
const WRITES_AS_USER: &str = "import os, sys, time\n\
    f = os.open('file', os.O_RDWR | os.O_CREAT, 0o666); os.fchmod(f, 0o755)\n\
    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
    def took(end=[0]):\n\
    \x20   began = time.monotonic()\n\
    \x20   for number in range(200): os.pwrite(f, bytes(4096), (end[0] + number) * 4096)\n\
    \x20   end[0] += 200\n\
    \x20   return time.monotonic() - began\n\
    print(min(took() for _ in range(4)), flush=True)\n\
    os.fsync(f); open('../written', 'w')\n\
    sys.stdin.read()\n\
    os.pwrite(f, b'x', 0); os.fsync(f)\n";

#[test]
fn writes_of_a_user_take_the_set_user_id_bit_and_no_round_trip_each() {
    const LATENCY: Duration = Duration::from_millis(10);
    let scene = Scene::new();
    let server = serve(&scene);
    fs::set_permissions(scene.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let delay = Delay::new(&server, LATENCY);
    let mount = Mount::of(&scene, &delay.url_in("data", ""), "mounted", &["-o", "allow_other"]);
    let mut command = Command::new("python3");
    command.args(["-c", WRITES_AS_USER]).current_dir(&mount.point);
    let writes = Running::start(command);
    while !scene.path("written").exists() {
        assert!(writes.is_running());
        std::thread::yield_now();
    }
    fs::set_permissions(mount.path("file"), PermissionsExt::from_mode(0o4755)).unwrap();
    let mode = || fs::metadata(scene.path("server/file")).unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o4755);
    let ended = writes.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    assert_eq!(mode(), 0o755, "who writes a file must not run it as its owner");
    // One try of several has to be fast: others have the machine, too.
    let took: f64 = ended.text().trim().parse().unwrap();
    assert!(took < 100.0 * LATENCY.as_secs_f64(), "200 writes took {took} s, and each round trip 0.02 s");
    mount.unmount();
}
