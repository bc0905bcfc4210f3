//! Writes that the server has later than the program, and reads that it was asked for earlier.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Delay, Scene, Server, with_file_systems};

use crate::{Mount, python, shell};

/// Two programs at a time, each with a file of its own.
const PROGRAMS: u64 = 2;
const CALLS: &str = "1500";

#[test]
fn a_file_is_what_a_buffer_is_after_random_calls_through_several_descriptors() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/random.py");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let start = |seed: u64| {
        let mut command = Command::new("python3");
        command.arg(&script).args([&seed.to_string(), CALLS]).current_dir(&mount.point).spawn().unwrap()
    };
    let mut programs: Vec<_> = (0..PROGRAMS).map(|program| start(now * PROGRAMS + program)).collect();
    for program in &mut programs {
        assert!(program.wait().unwrap().success(), "it has said which seed");
    }
    mount.unmount();
}

#[test]
fn a_full_disk_is_told_by_fsync_and_by_close_to_each_who_asks() {
    let test = "coherence::a_full_disk_is_told_by_fsync_and_by_close_to_each_who_asks";
    with_file_systems(test, 16 << 20, |disks| {
        let scene = Scene::new();
        let server = scene.serve_with(&["--export", &format!("small={}", disks.tmpfs.display())]);
        let url = server.url("").replace("/data", "/small");
        let mount = Mount::of(&scene, &url, "mounted", &[]);
        assert!(fs::write(disks.tmpfs.join("all"), vec![1; 32 << 20]).is_err(), "the disk is full");
        let script = "import errno, os\n\
            def fails(call, *of):\n\
            \x20try: call(*of)\n\
            \x20except OSError as error: assert error.errno == errno.ENOSPC, error\n\
            \x20else: raise SystemExit(f'{call} is no error')\n\
            file = os.open('file', os.O_WRONLY | os.O_CREAT)\n\
            os.write(file, bytes(4096))\n\
            fails(os.fsync, file)\n\
            os.write(file, bytes(4096))\n\
            fails(os.close, os.dup(file))\n\
            fails(os.fsync, file)\n\
            other = os.open('file', os.O_WRONLY)\n\
            fails(os.fsync, file)\n\
            fails(os.fsync, other)\n\
            fails(os.close, file)\n\
            fails(os.fsync, other)\n\
            fails(os.close, other)\n\
            # The kernel tells of the last close when it gets to it.\n\
            for _ in range(1000):\n\
            \x20new = os.open('file', os.O_WRONLY)\n\
            \x20try: os.fsync(new); os.close(new); break\n\
            \x20except OSError:\n\
            \x20\x20try: os.close(new)\n\
            \x20\x20except OSError: pass\n\
            else: raise SystemExit('it is told for ever')\n";
        python(&mount.point, script);
        assert_eq!(fs::metadata(disks.tmpfs.join("file")).unwrap().len(), 0);
        // Where a later write tells it first, what was taken for written before is lost all the same; nor does room mend it.
        fs::remove_file(disks.tmpfs.join("all")).unwrap();
        let script = format!(
            "import errno, os\n\
             file, written = os.open('other', os.O_WRONLY | os.O_CREAT), 0\n\
             try:\n\
             \x20while True: written += os.write(file, bytes(1 << 20))\n\
             except OSError as error: assert error.errno == errno.ENOSPC, error\n\
             assert written > os.stat({:?}).st_size, 'all of it is there'\n\
             for _ in range(2):\n\
             \x20try: os.fsync(file)\n\
             \x20except OSError as error: assert error.errno == errno.ENOSPC, error\n\
             \x20else: raise SystemExit('what is lost is said to be there')\n\
             \x20os.truncate({:?}, 0)\n",
            disks.tmpfs.join("other"),
            disks.tmpfs.join("other")
        );
        python(&mount.point, &script);
        // An append tells what of it is there.
        fs::write(disks.tmpfs.join("other"), vec![1; (15 << 20) + (600 << 10)]).unwrap();
        let script = "import errno, os\n\
            file = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n\
            written = os.write(file, bytes(1 << 20))\n\
            assert 0 < written < 1 << 20 and written <= os.fstat(file).st_size, written\n\
            try: os.write(file, bytes(1 << 20))\n\
            except OSError as error: assert error.errno == errno.ENOSPC, error\n\
            else: raise SystemExit('there is room')\n";
        python(&mount.point, script);
        mount.unmount();
    });
}

#[test]
fn who_sees_that_a_file_has_changed_reads_what_it_is_now() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
    scene.write("server/file", &[b'a'; 4 << 20]);
    let file = fs::File::open(mount.path("file")).unwrap();
    let mut part = vec![0; 64 << 10];
    for at in (0..1 << 20).step_by(64 << 10) {
        file.read_exact_at(&mut part, at).unwrap();
    }
    let before = file.metadata().unwrap().modified().unwrap();
    let changed = fs::OpenOptions::new().write(true).open(scene.path("server/file")).unwrap();
    // Until the file system's clock has gone on.
    while file.metadata().unwrap().modified().unwrap() == before {
        changed.write_all_at(&[b'b'; 4 << 20], 0).unwrap();
    }
    file.read_exact_at(&mut part, 1 << 20).unwrap();
    assert_eq!((part[0], part[part.len() - 1]), (b'b', b'b'));
    drop(file);
    mount.unmount();
}

#[test]
fn a_name_that_others_gave_to_another_file_leads_there_when_it_is_opened() {
    let scene = Scene::new();
    let server = scene.serve();
    let there = scene.directory("server/d");
    (0..9).for_each(|number| fs::write(there.join(format!("f{number}")), "old").unwrap());
    let mount = Mount::new(&scene, &server, &["-o", "valid=30"]);
    let script = format!(
        "import os\n\
         there = {there:?}\n\
         def replace(name):\n\
         \x20open(there + '/new', 'w').write('new'); os.rename(there + '/new', there + '/' + name)\n\
         # So many names that the directory is listed.\n\
         def look(): return [os.stat(f'd/f{{number}}').st_size for number in range(9)]\n\
         look(); look()\n\
         replace('f0'); assert open('d/f0').read() == 'new'\n\
         os.listdir('d'); look()\n\
         os.unlink(there + '/f1'); open('d/f1', 'x').write('made')\n\
         assert open(there + '/f1').read() == 'made'\n\
         look()\n\
         replace('f2'); open('d/f2', 'a').write('+'); assert open(there + '/f2').read() == 'new+'\n\
         # What was told of a file is not what is in it: its length is asked for again.\n\
         look()\n\
         open(there + '/f3', 'w').write('longer than before')\n\
         with open('d/f3') as file:\n\
         \x20assert file.read() == 'longer than before' and os.fstat(file.fileno()).st_size == 18\n"
    );
    python(&mount.point, &script);
    mount.unmount();
}

#[test]
fn what_is_done_to_an_open_file_is_not_done_to_another_one_that_has_its_name() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "modes,owner,xattr"]);
    let there = scene.directory("server");
    let mount = Mount::new(&scene, &server, &["-o", "valid=0,owner=server"]);
    let script = format!(
        "import errno, os\n\
         there = {there:?} + '/'\n\
         def facts(name):\n\
         \x20facts = os.stat(there + name)\n\
         \x20return (facts.st_mode, facts.st_uid, facts.st_mtime_ns, facts.st_ino, os.listxattr(there + name))\n\
         changes = (\n\
         \x20lambda file: os.fchmod(file, 0o666), lambda file: os.utime(file, (1, 1)), lambda file: os.fchown(file, 7, 7),\n\
         \x20lambda file: os.setxattr(file, 'user.a', b'1'), lambda file: os.removexattr(file, 'user.b'))\n\
         for number, change in enumerate(changes):\n\
         \x20name = f'file-{{number}}'\n\
         \x20open(there + name, 'w').write('old')\n\
         \x20os.setxattr(there + name, 'user.b', b'1')\n\
         \x20file = os.open(name, os.O_RDWR)\n\
         \x20change(file)\n\
         \x20open(there + 'new', 'w').write('new')\n\
         \x20os.setxattr(there + 'new', 'user.b', b'1')\n\
         \x20os.rename(there + 'new', there + name)\n\
         \x20before = facts(name)\n\
         \x20try: change(file)\n\
         \x20except OSError as error: assert error.errno == errno.ESTALE, error\n\
         \x20else: raise SystemExit(f'{{number}} is no error')\n\
         \x20assert facts(name) == before, (number, facts(name), before)\n"
    );
    python(&mount.point, &script);
    mount.unmount();
}

#[test]
fn what_is_changed_while_its_directory_is_read_is_not_undone_by_what_is_read_on() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "modes"]);
    let there = scene.directory("server/d");
    // The kernel asks for them in several parts.
    let name = |kind: char, number: usize| there.join(format!("{kind}{number:03}{}", "-".repeat(200)));
    for number in 0..300 {
        fs::write(name('f', number), "old").unwrap();
        std::os::unix::fs::symlink("old", name('l', number)).unwrap();
    }
    let mount = Mount::new(&scene, &server, &["-o", "valid=30"]);
    let script = "import os\n\
        def changed(kind, change, look, wanted):\n\
        \x20entries = os.scandir('d')\n\
        \x20os.lstat(next(entries).path)\n\
        \x20names = [f'd/{kind}{number:03}' + '-' * 200 for number in range(300)]\n\
        \x20for name in names: change(name)\n\
        \x20for entry in entries:\n\
        \x20\x20pass\n\
        \x20entries.close()\n\
        \x20wrong = [name[:6] for name in names if look(name) != wanted]\n\
        \x20assert not wrong, (kind, len(wrong), wrong[:9])\n\
        changed('f', lambda name: os.chmod(name, 0o600), lambda name: os.stat(name).st_mode & 0o777, 0o600)\n\
        changed('f', lambda name: os.utime(name, (5, 5)), lambda name: os.stat(name).st_mtime, 5)\n\
        def relink(name): os.unlink(name); os.symlink('new', name)\n\
        changed('l', relink, os.readlink, 'new')\n\
        changed('f', os.unlink, os.path.lexists, False)\n";
    python(&mount.point, script);
    mount.unmount();
}

#[test]
fn what_is_below_a_directory_is_found_while_that_is_moved() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
    let script = "import os, threading\n\
        os.makedirs('one/p/sub'); os.mkdir('two')\n\
        for number in range(9): open(f'one/p/sub/{number}', 'w').close()\n\
        below, ended, lost = os.open('one/p/sub', os.O_RDONLY), False, []\n\
        def look():\n\
        \x20while not ended:\n\
        \x20\x20for number in range(9):\n\
        \x20\x20\x20try: os.stat(str(number), dir_fd=below)\n\
        \x20\x20\x20except OSError as error: lost.append(error)\n\
        threads = [threading.Thread(target=look) for _ in range(3)]\n\
        for thread in threads: thread.start()\n\
        for _ in range(100): os.rename('one/p', 'two/p'); os.rename('two/p', 'one/p')\n\
        ended = True\n\
        for thread in threads: thread.join()\n\
        assert not lost, (len(lost), lost[0])\n\
        for number in range(9): os.rename(f'one/p/sub/{number}', f'two/{number}')\n";
    python(&mount.point, script);
    mount.unmount();
}

/// A server that grants leases, and many small files on it.
fn serve_small_files(scene: &Scene, count: usize) -> Server {
    scene.write("server.toml", b"[limits]\nlease-seconds = 2\n");
    for number in 0..count {
        scene.write(format!("server/files/{number:03}"), format!("{number:01000}").as_bytes());
    }
    scene.serve_with(&["--config", "server.toml"])
}

/// A server that has just been started grants none until those that it may have granted before are over; until then all wait.
fn wait_for_leases(mount: &Mount) {
    fs::write(mount.path("first"), b"").unwrap();
    assert_eq!(fs::read(mount.path("first")).unwrap(), b"");
}

/// Through round trips of 20 ms each open alone would take one.
#[test]
fn small_files_that_are_opened_in_order_cost_less_than_a_round_trip_each() {
    const FILES: usize = 200;
    let scene = Scene::new();
    let server = serve_small_files(&scene, FILES);
    let latency = Duration::from_millis(10);
    let delay = Delay::new(&server, latency);
    let took = || {
        let mount = Mount::of(&scene, &delay.url_in("data", ""), "mounted", &[]);
        wait_for_leases(&mount);
        let began = Instant::now();
        shell(&mount.point, &format!("cat files/* > {:?}", scene.path("read")));
        let took = began.elapsed();
        shell(&scene.path("server"), &format!("cat files/* | cmp - {:?}", scene.path("read")));
        mount.unmount();
        took
    };
    // Beside other tests a round trip may take longer: one try of several has to be fast.
    assert!((0..4).any(|_| took() < latency * (FILES as u32)));
}

#[test]
fn a_file_that_was_opened_before_it_is_asked_for_is_what_it_is_when_it_is() {
    const FILES: usize = 400;
    let scene = Scene::new();
    let server = serve_small_files(&scene, FILES);
    let delay = Delay::new(&server, Duration::from_millis(3));
    let mount = Mount::of(&scene, &delay.url_in("data", ""), "mounted", &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    wait_for_leases(&mount);
    let script = format!(
        "import os, time\n\
         other = {:?} + '/files/'\n\
         os.chdir('files')\n\
         names = sorted(os.listdir('.'))\n\
         def read(name):\n\
         \x20with open(name) as file: return file.read()\n\
         def write(name, text):\n\
         \x20with open(name, 'w') as file: file.write(text)\n\
         expected = {{name: '%01000d' % int(name) for name in names}}\n\
         for at, name in enumerate(names):\n\
         \x20here, there = names[min(at + 2, len(names) - 1)], names[min(at + 3, len(names) - 1)]\n\
         \x20if at % 10 == 5:\n\
         \x20\x20write(other + there, 'theirs'); expected[there] = 'theirs'\n\
         \x20if at % 10 == 7:\n\
         \x20\x20write(here, 'ours'); expected[here] = 'ours'\n\
         \x20if at % 10 == 9:\n\
         \x20\x20write('../new', 'moved'); os.rename('../new', here); expected[here] = 'moved'\n\
         \x20assert read(name) == expected[name], (name, read(name)[:20], expected[name][:20])\n\
         for name in names[:20]: read(name)\n\
         write(other + '../new', 'replaced'); os.rename(other + '../new', other + names[22])\n\
         until = time.monotonic() + 1.5\n\
         while True:\n\
         \x20looked = time.monotonic()\n\
         \x20if read(names[22]) == 'replaced': break\n\
         \x20assert looked < until\n",
        other.point
    );
    python(&mount.point, &script);
    other.unmount();
    mount.unmount();
}
