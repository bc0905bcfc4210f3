//! What POSIX says of files, name by name: the rows of the table in docs/mount.md.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

use rustix::fs::{FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom};
use rustix::io::Errno;
use xdfs_test_cli::{Running, Scene, pattern, until};

use crate::{Mount, python, run, shell};

#[test]
fn files_are_made_written_read_cut_and_removed() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let content = pattern(3_000_000, 1);
    let path = mount.path("file");
    fs::write(&path, &content).unwrap();
    assert!(scene.read("server/file") == content, "the server has it");
    assert!(fs::read(&path).unwrap() == content);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.write_all_at(b"abc", 1_000_000).unwrap();
    file.set_len(1_000_002).unwrap();
    let mut tail = vec![0; 10];
    assert_eq!(file.read_at(&mut tail, 999_999).unwrap(), 3);
    assert_eq!(&tail[1..3], b"ab");
    file.sync_all().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 1_000_002);
    let exclusive = OpenOptions::new().write(true).create_new(true).open(&path);
    assert_eq!(exclusive.unwrap_err().kind(), ErrorKind::AlreadyExists);
    File::create(&path).unwrap();
    assert_eq!(scene.read("server/file"), b"");
    fs::remove_file(&path).unwrap();
    assert_eq!(File::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    drop(file);
    // The kernel tells of the close when it was made.
    until(|| scene.names("server"), Vec::is_empty);
    mount.unmount();
}

#[test]
fn a_name_that_is_too_long_is_refused_as_such() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let (longest, longer) = (mount.path(&"a".repeat(255)), mount.path(&"a".repeat(256)));
    fs::write(&longest, b"").unwrap();
    let too_long = |error: std::io::Error| assert_eq!(error.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
    too_long(fs::metadata(&longer).unwrap_err());
    too_long(fs::write(&longer, b"").unwrap_err());
    too_long(fs::create_dir(&longer).unwrap_err());
    too_long(fs::rename(&longest, &longer).unwrap_err());
    too_long(fs::remove_file(longer.join("below")).unwrap_err());
    mount.unmount();
}

#[test]
fn directories_links_and_renames_are_those_of_the_server() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    fs::create_dir_all(mount.path("one/two/three")).unwrap();
    fs::write(mount.path("one/two/three/file"), b"content").unwrap();
    let mut open = File::open(mount.path("one/two/three/file")).unwrap();
    fs::rename(mount.path("one/two"), mount.path("moved")).unwrap();
    assert_eq!(scene.read("server/moved/three/file"), b"content");
    assert_eq!(fs::read(mount.path("moved/three/file")).unwrap(), b"content");
    let mut content = String::new();
    open.read_to_string(&mut content).unwrap();
    assert_eq!(content, "content");
    assert_eq!(fs::remove_dir(mount.path("moved")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    symlink("moved/three/file", mount.path("link")).unwrap();
    assert_eq!(fs::read(mount.path("link")).unwrap(), b"content");
    fs::hard_link(mount.path("moved/three/file"), mount.path("second")).unwrap();
    let (first, second) = (fs::metadata(mount.path("link")).unwrap(), fs::metadata(mount.path("second")).unwrap());
    assert_eq!((first.ino(), first.nlink(), second.nlink()), (second.ino(), 2, 2));
    let root = File::open(mount.path("")).unwrap();
    let no_replace = rustix::fs::renameat_with(&root, "link", &root, "second", RenameFlags::NOREPLACE);
    assert_eq!(no_replace, Err(Errno::EXIST));
    let exchange = rustix::fs::renameat_with(&root, "link", &root, "second", RenameFlags::EXCHANGE);
    assert_eq!(exchange, Err(Errno::INVAL), "the protocol has no exchange");
    assert_eq!(fs::read_dir(mount.path("")).unwrap().count(), 4);
    drop((open, root));
    mount.unmount();
}

#[test]
fn a_file_that_is_removed_or_replaced_lives_on_for_those_who_have_it_open() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let path = mount.path("file");
    let mut removed = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    removed.write_all(b"one").unwrap();
    fs::remove_file(&path).unwrap();
    removed.write_all(b"two").unwrap();
    assert_eq!(removed.metadata().unwrap().nlink(), 0);
    assert!(fs::read_dir(mount.path("")).unwrap().next().is_none(), "nobody sees its hidden name");
    fs::write(&path, b"old").unwrap();
    let mut replaced = File::open(&path).unwrap();
    fs::write(mount.path("new"), b"new").unwrap();
    fs::rename(mount.path("new"), &path).unwrap();
    let mut content = String::new();
    replaced.read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), fs::read(&path).unwrap().as_slice()), ("old", &b"new"[..]));
    let mut bytes = [0; 6];
    removed.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"onetwo");
    drop((removed, replaced));
    // The kernel tells of the close when it was made.
    until(|| scene.names("server"), |names| *names == ["file"]);
    mount.unmount();
}

#[test]
fn a_directory_whose_files_were_removed_while_they_are_open_is_removed() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    fs::create_dir_all(mount.path("above/directory")).unwrap();
    let path = mount.path("above/directory/file");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(mount.path("above/directory/other"), b"").unwrap();
    let refused = fs::remove_dir(mount.path("above/directory")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    fs::remove_file(mount.path("above/directory/other")).unwrap();
    fs::remove_dir(mount.path("above/directory")).unwrap();
    fs::remove_dir(mount.path("above")).unwrap();
    assert!(fs::read_dir(mount.path("")).unwrap().next().is_none());
    file.write_all(b"still there").unwrap();
    let mut bytes = [0; 11];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still there");
    drop(file);
    // The kernel tells of the close when it was made.
    until(|| scene.names("server"), Vec::is_empty);
    mount.unmount();
}

#[test]
fn modes_times_and_owners_are_those_that_were_set() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "modes"]);
    let mount = Mount::new(&scene, &server, &[]);
    let path = mount.path("file");
    OpenOptions::new().write(true).create_new(true).mode(0o604).open(&path).unwrap();
    fs::create_dir(mount.path("directory")).unwrap();
    fs::set_permissions(mount.path("directory"), PermissionsExt::from_mode(0o1771)).unwrap();
    assert_eq!(fs::metadata(mount.path("directory")).unwrap().mode() & 0o7777, 0o1771);
    let told = fs::metadata(&path).unwrap();
    let us = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    assert_eq!((told.mode() & 0o7777, told.uid(), told.gid()), (0o604, us.0, us.1));
    assert_eq!(fs::metadata(scene.path("server/file")).unwrap().mode() & 0o7777, 0o604);
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    File::open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), time);
    let foreign = std::os::unix::fs::chown(&path, Some(12_345), None);
    assert_eq!(foreign.unwrap_err().kind(), ErrorKind::PermissionDenied);
    mount.unmount();
}

#[test]
fn space_is_reserved_punched_and_searched() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("file")).unwrap();
    file.write_all_at(&[7; 65_536], 1 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 65_536));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1 << 20, 65_536).unwrap();
    let mut bytes = [1; 4];
    file.read_exact_at(&mut bytes, 1 << 20).unwrap();
    assert_eq!(bytes, [0; 4]);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    assert!(file.metadata().unwrap().blocks() >= 4096, "it takes its space");
    let space = rustix::fs::statvfs(mount.path("").as_path()).unwrap();
    assert!(space.f_blocks > 0 && space.f_bavail > 0);
    drop(file);
    mount.unmount();
}

#[test]
fn what_is_not_offered_is_refused_cleanly() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &["-o", "ro,noexec"]);
    let unnamed = rustix::fs::open(mount.path("").as_path(), OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR);
    assert!(matches!(unnamed, Err(Errno::OPNOTSUPP | Errno::ROFS)), "{unnamed:?}");
    let written = fs::write(mount.path("file"), b"");
    assert_eq!(written.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    mount.unmount();
    let mount = Mount::new(&scene, &server, &[]);
    let unnamed = rustix::fs::open(mount.path("").as_path(), OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR);
    assert_eq!(unnamed.err(), Some(Errno::OPNOTSUPP));
    let reserved = fs::write(mount.path(".xdfs-removed-1"), b"");
    assert_eq!(reserved.unwrap_err().kind(), ErrorKind::PermissionDenied);
    mount.unmount();
}

/// Three programs on two mounts append 200 lines each to `log`: all are there, whole, and those of each in their order.
pub(crate) fn append_together(scene: &Scene, [one, other]: [&Mount; 2], script: impl Fn(&str) -> String) {
    std::thread::scope(|scope| {
        for (mount, word) in [(one, "one"), (one, "two"), (other, "six")] {
            let (point, script) = (&mount.point, script(word));
            scope.spawn(move || python(point, &script));
        }
    });
    let text = String::from_utf8(scene.read("server/log")).unwrap();
    for word in ["one", "two", "six"] {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(word)).collect();
        let expected: Vec<String> = (0..200).map(|number| format!("{word} {number:06}")).collect();
        assert_eq!(lines, expected);
    }
    assert_eq!(text.lines().count(), 600);
    for mount in [one, other] {
        assert_eq!(fs::read_to_string(mount.path("log")).unwrap(), text);
    }
}

#[test]
fn appends_of_several_programs_and_of_other_clients_are_whole() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    let script = |word: &str| {
        format!(
            "import os\nf = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n\
             for i in range(200): os.write(f, b'{word} %06d\\n' % i)"
        )
    };
    append_together(&scene, [&mount, &other], script);
    other.unmount();
    mount.unmount();
}

#[test]
fn what_another_mount_wrote_is_seen_after_its_close() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    for round in 0..20_u32 {
        // The same length each time: only the change number tells.
        fs::write(other.path("file"), round.to_le_bytes()).unwrap();
        assert_eq!(fs::read(mount.path("file")).unwrap(), round.to_le_bytes());
        assert_eq!(fs::read(mount.path("file")).unwrap(), round.to_le_bytes(), "from the cache");
    }
    other.unmount();
    mount.unmount();
}

#[test]
fn what_another_client_renamed_is_not_what_is_opened_and_cut() {
    let scene = Scene::new();
    let server = scene.serve();
    // What this one believes of a name is found out when that is opened.
    let believes = Mount::of(&scene, &server.url(""), "believes", &["-o", "valid=60"]);
    // This one asks for every name.
    let asks = Mount::of(&scene, &server.url(""), "asks", &["-o", "valid=0"]);
    let content = |name: &str| fs::read(scene.path("server").join(name)).unwrap();
    for (mount, newest_first) in [(&believes, true), (&asks, true), (&asks, false)] {
        fs::write(mount.path("log"), "first").unwrap();
        fs::write(mount.path("log.1"), "second").unwrap();
        shell(&scene.path("server"), "mv log.1 log.2 && mv log log.1 && echo third > log");
        let (cut, one) = if newest_first { ("log", "log.1") } else { ("log.1", "log") };
        fs::write(mount.path(cut), "cut").unwrap();
        python(&mount.point, &format!("import os; os.truncate('{one}', 1)"));
        assert_eq!((content(cut), content(one).len()), (b"cut".to_vec(), 1));
        assert_eq!(content("log.2"), b"second", "nobody on the mount named it");
    }
    asks.unmount();
    believes.unmount();
}

#[test]
fn a_shared_mapping_is_at_the_server_after_msync_or_fsync() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", &pattern(100_000, 2));
    let mount = Mount::new(&scene, &server, &[]);
    let script = "import mmap, os\n\
        f = os.open('file', os.O_RDWR)\n\
        m = mmap.mmap(f, 100000)\n\
        assert m[:] == open('../server/file', 'rb').read()\n\
        m[50000:50005] = b'hello'\n\
        m.flush()\n\
        assert open('../server/file', 'rb').read()[50000:50005] == b'hello'\n\
        m[7:9] = b'fs'\n\
        os.fsync(f)\n\
        assert open('../server/file', 'rb').read()[7:9] == b'fs'\n\
        os.close(f)\n\
        m[0:3] = b'end'\n\
        m.close()\n";
    python(&mount.point, script);
    assert_eq!(&fs::read(mount.path("file")).unwrap()[..3], b"end");
    mount.unmount();
}

#[test]
fn ranges_are_locked_against_other_mounts_and_their_owners_keep_them_as_posix_says() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    // Another process, on the other mount, says what it can lock, and keeps nothing.
    let script = "import fcntl, os, struct, subprocess, sys\n\
        here, there = sys.argv[1:]\n\
        def others(at, exclusive=True):\n\
        \tscript = 'import fcntl, os, sys\\nf = os.open(sys.argv[1], os.O_RDWR)\\n'\\\n\
        \t\t'try: fcntl.lockf(f, int(sys.argv[2]) | fcntl.LOCK_NB, 1, int(sys.argv[3]))\\n'\\\n\
        \t\t'except BlockingIOError: sys.exit(7)\\n'\n\
        \thow = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH\n\
        \treturn subprocess.run([sys.executable, '-c', script, there, str(how), str(at)]).returncode == 0\n\
        one, two = os.open(here, os.O_RDWR), os.open(here, os.O_RDWR)\n\
        fcntl.lockf(one, fcntl.LOCK_EX, 10, 10)\n\
        assert [others(at) for at in (9, 10, 19, 20)] == [True, False, False, True]\n\
        fcntl.lockf(two, fcntl.LOCK_EX, 10, 15)  # the same owner: no conflict, through whichever file\n\
        assert not others(22)\n\
        fcntl.lockf(one, fcntl.LOCK_SH, 5, 10)\n\
        assert others(12, exclusive=False) and not others(12) and not others(16, exclusive=False)\n\
        wanted = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 100, 0)\n\
        far = os.open(there, os.O_RDWR)\n\
        found = struct.unpack('hhqqi4x', fcntl.fcntl(far, fcntl.F_GETLK, wanted))\n\
        assert found[0] == fcntl.F_RDLCK and found[2] == 10, found\n\
        os.close(two)  # POSIX: with any file of it that a process closes its locks end\n\
        assert others(12) and others(22)\n\
        own = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 5, 0)\n\
        fcntl.fcntl(one, 37, own)  # F_OFD_SETLK\n\
        os.close(os.open(here, os.O_RDWR))\n\
        assert not others(3) and others(5)\n\
        os.close(one)  # the kernel tells of it behind the call\n\
        assert any(others(3) for _ in range(500))\n";
    let mut python = std::process::Command::new("python3");
    run(python.args(["-c", script]).arg(mount.path("file")).arg(other.path("file")));
    // Who waits has it when its owner is killed.
    let holds = "import fcntl, os, sys\nf = os.open(sys.argv[1], os.O_RDWR)\nfcntl.lockf(f, fcntl.LOCK_EX)\n\
        open(sys.argv[2], 'w')\nsys.stdin.read()\n";
    let held = scene.path("held");
    let mut owner = std::process::Command::new("python3");
    owner.args(["-c", holds]).arg(mount.path("file")).arg(&held);
    let owner = Running::start(owner);
    while !held.exists() {
        assert!(!owner.has_ended());
    }
    let waits = "import fcntl, os, sys\nf = os.open(sys.argv[1], os.O_RDWR)\nfcntl.lockf(f, fcntl.LOCK_EX)\n";
    let mut waiter = std::process::Command::new("python3");
    waiter.args(["-c", waits]).arg(other.path("file"));
    let waiter = Running::start(waiter);
    let _ = owner.kill();
    assert_eq!(waiter.wait().code, Some(0));
    other.unmount();
    mount.unmount();
}

#[test]
fn who_gains_a_lock_reads_what_was_written_under_it_before() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", &0_u32.to_le_bytes());
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    // Both keep it open, and what they read of it. First one writes and the other one reads, then they wait
    // for each other.
    let script = "import fcntl, os, sys, threading\n\
        ends = [os.open(name, os.O_RDWR) for name in sys.argv[1:]]\n\
        def count(end, times):\n\
        \tfor _ in range(times):\n\
        \t\tfcntl.flock(end, fcntl.LOCK_EX)\n\
        \t\tnow = int.from_bytes(os.pread(end, 4, 0), 'little')\n\
        \t\tos.pwrite(end, (now + 1).to_bytes(4, 'little'), 0)\n\
        \t\tfcntl.flock(end, fcntl.LOCK_UN)\n\
        for number in range(100, 120):\n\
        \tfor end in ends:\n\
        \t\tfcntl.flock(end, fcntl.LOCK_EX)\n\
        \t\tif end == ends[0]:\n\
        \t\t\tos.pwrite(end, number.to_bytes(4, 'little'), 0)\n\
        \t\tassert int.from_bytes(os.pread(end, 4, 0), 'little') == number, number\n\
        \t\tfcntl.flock(end, fcntl.LOCK_UN)\n\
        os.pwrite(ends[0], bytes(4), 0)\n\
        both = [threading.Thread(target=count, args=(end, 30)) for end in ends]\n\
        [one.start() for one in both]\n\
        [one.join() for one in both]\n";
    let mut python = std::process::Command::new("python3");
    run(python.args(["-c", script]).arg(mount.path("file")).arg(other.path("file")));
    assert_eq!(fs::read(scene.path("server/file")).unwrap(), 60_u32.to_le_bytes());
    other.unmount();
    mount.unmount();
}

#[test]
fn a_lock_excludes_other_mounts_and_programs_of_the_server() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    let (here, there) = (File::create(mount.path("lock")).unwrap(), File::open(other.path("lock")).unwrap());
    here.lock().unwrap();
    assert!(there.try_lock().is_err());
    assert!(File::open(scene.path("server/lock")).unwrap().try_lock().is_err());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| there.lock());
        here.unlock().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(here.try_lock().is_err());
    drop((here, there));
    other.unmount();
    mount.unmount();
}

#[test]
fn a_directory_is_emptied_while_it_is_read() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/full");
    let name = |number: usize| format!("full/{number:0>200}");
    for number in 0..900 {
        scene.write(format!("server/{}", name(number)), b"");
    }
    let mount = Mount::new(&scene, &server, &[]);
    let directory = File::open(mount.path("full")).unwrap();
    // Room for three entries: what the kernel was told and the program has not is asked for again.
    let mut room = [std::mem::MaybeUninit::uninit(); 700];
    let mut entries = rustix::fs::RawDir::new(&directory, &mut room);
    while let Some(entry) = entries.next() {
        let name = entry.unwrap().file_name().to_owned();
        if !name.to_bytes().starts_with(b".") {
            rustix::fs::unlinkat(&directory, &name, rustix::fs::AtFlags::empty()).unwrap();
        }
    }
    assert_eq!(scene.names("server/full").len(), 0);
    drop(directory);
    mount.unmount();
}

#[test]
fn to_sync_a_directory_leaves_nothing_where_nothing_may_be_removed() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--allow-anonymous", "create"]);
    scene.directory("server/inbox");
    let mount = Mount::new(&scene, &server, &[]);
    let inbox = File::open(mount.path("inbox")).unwrap();
    assert_eq!(inbox.sync_all().unwrap_err().raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    assert_eq!(scene.names("server/inbox").len(), 0);
    drop(inbox);
    mount.unmount();
}

#[test]
fn a_file_that_another_client_removed_is_made_again() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"old");
    let mount = Mount::new(&scene, &server, &["-o", "valid=60"]);
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"old");
    fs::remove_file(scene.path("server/file")).unwrap();
    // The kernel believes that the file is there.
    fs::write(mount.path("file"), b"new").unwrap();
    assert_eq!(scene.read("server/file"), b"new");
    fs::remove_file(scene.path("server/file")).unwrap();
    assert_eq!(File::open(mount.path("file")).unwrap_err().kind(), ErrorKind::NotFound);
    mount.unmount();
}
