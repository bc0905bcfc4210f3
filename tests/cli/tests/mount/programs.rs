//! Programs that people use, on a mount.

use std::fs;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Delay, Scene};

use crate::torture::is_the_servers;
use crate::{Mount, python, shell};

#[test]
fn git_works_and_its_repository_is_sound() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let script = format!(
        "git init --quiet repository; cd repository; git config user.name A; git config user.email a@example.org\n\
         cp -a {source} .; git add .; git commit --quiet -m one\n\
         echo more >> src/lib.rs; git commit --quiet -a -m two; git gc --quiet; git checkout --quiet -b other HEAD~1\n\
         git merge --quiet master 2> /dev/null || git merge --quiet main; git status --porcelain; git fsck --full --strict"
    );
    assert_eq!(shell(&mount.point, &script), "");
    // What the server has is the same repository.
    shell(&scene.path("server/repository"), "git -c safe.directory='*' fsck --full --strict");
    mount.unmount();
}

#[test]
fn a_tree_that_is_copied_is_the_same_to_rsync() {
    assert!(xdfs_test_needs::program("rsync", "rsync"));
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let script = format!(
        "cp -a {source} copy; ln copy/server.md copy/second; ln -s second copy/link; cp -a copy again\n\
         rsync -anHc --itemize-changes --delete copy/ again/; diff -r --no-dereference copy again; rm -r copy"
    );
    assert_eq!(shell(&mount.point, &script), "");
    let compare = format!("rsync -anc --itemize-changes --exclude=second --exclude=link {source}/ again/");
    // Times of directories, which later links changed, are not compared.
    assert_eq!(shell(&scene.path("server"), &compare).replace(".d..t...... ./\n", ""), "");
    mount.unmount();
}

#[test]
fn a_database_lives_on_the_mount() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let script = "import sqlite3\n\
        for mode in ['delete', 'wal']:\n\
        \x20   c = sqlite3.connect(mode + '.db')\n\
        \x20   c.execute('pragma journal_mode=' + mode)\n\
        \x20   c.execute('create table t (a integer primary key, b text)')\n\
        \x20   for i in range(30):\n\
        \x20       c.execute('insert into t values (?, ?)', (i, 'x' * 1000)); c.commit()\n\
        \x20   c.execute('update t set b = a'); c.execute('delete from t where a % 2'); c.commit()\n\
        \x20   assert c.execute('pragma integrity_check').fetchone() == ('ok',)\n\
        \x20   c.close()\n\
        \x20   assert sqlite3.connect(mode + '.db').execute('select count(*) from t').fetchone() == (15,)\n";
    python(&mount.point, script);
    python(
        &scene.path("server"),
        "import sqlite3\nassert sqlite3.connect('wal.db').execute('pragma integrity_check').fetchone() == ('ok',)",
    );
    is_the_servers(&scene, &mount);
    mount.unmount();
}

#[test]
fn a_database_is_changed_through_two_mounts() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &[]);
    let other = Mount::of(&scene, &server.url(""), "other", &[]);
    python(
        &mount.point,
        "import sqlite3\nc = sqlite3.connect('d.db'); c.execute('create table t (a integer)')\n\
         c.execute('insert into t values (0)'); c.execute('create table r (b text)'); c.commit()",
    );
    let script = "import sqlite3\n\
        c = sqlite3.connect('d.db', timeout=60, isolation_level=None)\n\
        for i in range(60):\n\
        \x20   c.execute('begin immediate'); c.execute('update t set a = a + 1')\n\
        \x20   c.execute('insert into r values (?)', ('x' * 3000,)); c.execute('commit')\n";
    std::thread::scope(|scope| {
        for point in [&mount.point, &mount.point, &other.point] {
            scope.spawn(move || python(point, script));
        }
    });
    python(
        &scene.path("server"),
        "import sqlite3\nc = sqlite3.connect('d.db')\n\
         assert c.execute('pragma integrity_check').fetchone() == ('ok',)\n\
         assert c.execute('select a, (select count(*) from r) from t').fetchone() == (180, 180)",
    );
    is_the_servers(&scene, &mount);
    other.unmount();
    mount.unmount();
}

#[test]
fn a_listing_asks_for_the_attributes_of_many_files_together_and_shows_each_right() {
    assert!(xdfs_test_needs::program("setfacl", "acl") && xdfs_test_needs::program("setfattr", "attr"));
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "acl,xattr,modes"]);
    for directory in 0..4 {
        let directory = scene.directory(format!("server/{directory}"));
        (0..100).for_each(|file| fs::write(directory.join(format!("{file:02}")), b"x").unwrap());
    }
    // The names of the last one are longer than what is asked for together.
    let script = "setfacl -m u:1234:r 42 && setfattr -n user.a -v b 43\n\
        for letter in m n; do setfattr -n \"user.$(printf %0200d 0 | tr 0 $letter)\" -v b 45; done";
    shell(&scene.path("server/2"), script);
    let latency = Duration::from_millis(10);
    let delay = Delay::new(&server, latency);
    // A round trip for each name would take 8 s, and `ls` makes two calls for each. Beside other tests a
    // round trip may take longer: one try of several has to be fast.
    let mount = (0..4).find_map(|_| {
        let mount = Mount::of(&scene, &delay.url_in("data", ""), "mounted", &[]);
        let began = Instant::now();
        shell(&mount.point, "test \"$(ls -lR | grep -- '--+ ' | grep -o '..$')\" = 42");
        if began.elapsed() < latency * 2 * 200 {
            return Some(mount);
        }
        mount.unmount();
        None
    });
    let mount = mount.expect("a listing with few round trips");
    // What this mount sets is there at once, also where it was just told that there is none.
    python(
        &mount.path("2"),
        "import os\n\
         def value(name):\n\
         \x20try: return os.getxattr(name, 'user.a')\n\
         \x20except OSError as error: return error.errno\n\
         # One attribute that the server does not have says nothing of others.\n\
         try: os.getxattr('44', 'system.none')\n\
         except OSError as error: assert error.errno == 95, error\n\
         with os.scandir('.') as entries:\n\
         \x20next(entries)\n\
         \x20assert value('43') == b'b' and value('44') == 61 and os.listxattr('43') == ['user.a']\n\
         \x20assert sorted(os.listxattr('45')) == ['user.' + 200 * 'm', 'user.' + 200 * 'n']\n\
         \x20assert os.getxattr('45', 'user.' + 200 * 'n') == b'b'\n\
         \x20os.setxattr('44', 'user.a', b'c')\n\
         \x20assert value('44') == b'c'\n\
         \x20os.removexattr('43', 'user.a')\n\
         \x20assert value('43') == 61 and os.listxattr('43') == []\n",
    );
    mount.unmount();
}

/// Sets, changes and removes lists of files and of a directory.
const LISTS: &str = "umask 027; mkdir d; touch f; ln -s f link\n\
    setfacl -m u:1234:rw,g:77:x f; setfacl -m u:1235:r link; chmod 640 f; cp -p f copied; cp f plain\n\
    touch other; setfacl -m u:7:r other; setfacl -x u:7 other; setfacl -b other\n\
    mv f d; mkdir inherited; setfacl -m u:1:rwx,d:g:77:rwx,d:u:5:r d inherited; setfacl -k d; touch d/later\n\
    mkdir g u; setfacl -m d:u::rwx,d:g::rwx,d:o::- g; setfacl -m d:u::rw,d:u:5:rwx,d:g::r,d:m::rw,d:o::x u\n\
    for i in g u; do touch $i/f; (umask 0; touch $i/all); mkdir $i/d; mkfifo $i/p; touch $i/d/f; done\n\
    setfacl -k g; touch g/without; mkdir g/plain; touch g/plain/f; chmod g-w g/d; touch g/d/g\n\
    getfacl -nR .";

#[test]
fn access_control_lists_are_as_on_a_file_system_of_this_machine_where_they_are_granted() {
    assert!(xdfs_test_needs::program("setfacl", "acl"));
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "acl,modes,special"]);
    let (here, there) = (scene.directory("local"), scene.path("server"));
    let mount = Mount::new(&scene, &server, &[]);
    let expected = shell(&here, LISTS);
    assert!(expected.contains("user:1234:rw") && expected.contains("default:group:77:rwx"), "{expected}");
    assert_eq!(shell(&mount.point, LISTS), expected);
    assert_eq!(shell(&there, "getfacl -nR ."), expected, "the server has them");
    // What is set at the server is shown here.
    shell(&there, "setfacl -m u:4321:x other");
    let shown = "for i in $(seq 100); do getfacl -n other | grep -qx user:4321:--x && exit 0; done; exit 1";
    assert_eq!(shell(&mount.point, shown), "");
    mount.unmount();
}

/// Makes things in directories with and without a default list.
const SHARED: &str = "umask 022; cd shared; touch f; mkdir d; touch d/f; mkfifo d/p; mkdir d/d; (umask 0; touch d/d/all)\n\
    cd ../plain; touch f; mkdir d; (umask 077; touch d/f)\n\
    cd ..; find . -mindepth 1 -printf '%P %m\\n' | sort";

#[test]
fn the_default_list_of_a_directory_takes_the_place_of_the_umask_also_where_lists_cannot_be_set() {
    assert!(xdfs_test_needs::program("setfacl", "acl"));
    let made = |directory: &std::path::Path| {
        shell(directory, "mkdir shared plain; setfacl -m d:u::rwx,d:g::rwx,d:o::- shared");
    };
    for valid in ["valid=0", "valid=1"] {
        let scene = Scene::new();
        let server = scene.serve_with(&["--keep", "modes,special"]);
        let here = scene.directory("local");
        let mount = Mount::new(&scene, &server, &["-o", valid]);
        made(&here);
        made(&scene.path("server"));
        let expected = shell(&here, SHARED);
        assert!(expected.contains("shared/f 660") && expected.contains("plain/f 644"), "{expected}");
        assert_eq!(shell(&mount.point, SHARED), expected);
        mount.unmount();
    }
}

#[test]
fn access_control_lists_and_attributes_that_are_not_granted_are_refused_as_such() {
    assert!(xdfs_test_needs::program("setfacl", "acl"));
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "modes"]);
    scene.write("server/file", b"content");
    shell(&scene.path("server"), "setfacl -m u:1234:rw file");
    let mount = Mount::new(&scene, &server, &[]);
    let script = "import os, struct\n\
        entry = lambda tag, bits, name=0xffffffff: struct.pack('<HHI', tag, bits, name)\n\
        acl = struct.pack('<I', 2) + entry(1, 6) + entry(2, 6, 7) + entry(4, 4) + entry(16, 6) + entry(32, 4)\n\
        def fails(call, *of):\n\
        \x20try: call(*of)\n\
        \x20except OSError as error: assert error.errno == 95, error\n\
        \x20else: raise SystemExit(f'{call} {of} is no error')\n\
        for name, value in [('system.posix_acl_access', acl), ('user.a', b'b')]:\n\
        \x20fails(os.setxattr, 'file', name, value)\n\
        \x20fails(os.removexattr, 'file', name)\n\
        fails(os.getxattr, 'file', 'user.a')\n\
        assert os.listxattr('file') == []\n\
        # For lists the kernel itself says that there is none.\n\
        try: os.getxattr('file', 'system.posix_acl_access')\n\
        except OSError as error: assert error.errno == 61, error\n\
        else: raise SystemExit('it is shown')\n";
    python(&mount.point, script);
    let said = "if setfacl -m u:7:r file 2> ../said; then exit 1; fi; grep -q 'Operation not supported' ../said";
    assert_eq!(shell(&mount.point, said), "");
    assert!(shell(&scene.path("server"), "getfacl -n file").contains("user:1234:rw-"), "it stays as it was");
    mount.unmount();
}

/// Round trips of 20 ms: to list each of 200 directories when it is read would take two of them, and to look up each name one.
#[test]
fn a_tree_is_gone_through_with_few_round_trips_and_is_what_it_is_now() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "modes"]);
    for number in 0..100 {
        let directory = scene.directory(format!("server/{number:02}/below"));
        for name in ["one", "two", "../three"] {
            fs::write(directory.join(name), vec![b'x'; number]).unwrap();
        }
        std::os::unix::fs::symlink(format!("below/{number}"), directory.join("../link")).unwrap();
    }
    let latency = Duration::from_millis(10);
    let delay = Delay::new(&server, latency);
    let took = |work: &str| {
        let mount = Mount::of(&scene, &delay.url_in("data", ""), "mounted", &[]);
        let began = Instant::now();
        shell(&mount.point, work);
        (began.elapsed(), mount)
    };
    let list = "find . -printf '%p %y %m %s %T@ %n %l\\n' | sort";
    let script = format!("{list} > {:?}; ls -lR > /dev/null", scene.path("found"));
    // Beside other tests a round trip may take longer: one try of several has to be fast.
    let mount = (0..4).find_map(|_| {
        let (listed, mount) = took(&script);
        shell(&scene.path("server"), &format!("{list} | cmp - {:?}", scene.path("found")));
        if listed < latency * 2 * 200 {
            return Some(mount);
        }
        mount.unmount();
        None
    });
    let mount = mount.expect("a listing with few round trips");
    // What this mount changes is seen at once, and what others change within a second.
    python(
        &mount.point,
        &format!(
            "import os, time\n\
             there = {:?}\n\
             def walk(): return sum(len(names) + len(files) for _, names, files in os.walk('.'))\n\
             walk()\n\
             os.mkdir('07/new'); os.chmod('08/below', 0o700); os.unlink('09/three'); os.rename('10', '07/new/ten')\n\
             open('11/below/more', 'w').write('xyz')\n\
             walk()\n\
             assert sorted(os.listdir('07')) == ['below', 'link', 'new', 'three'], os.listdir('07')\n\
             assert os.stat('08/below').st_mode & 0o777 == 0o700\n\
             assert sorted(os.listdir('09')) == ['below', 'link'] and not os.path.exists('10/three')\n\
             assert os.stat('07/new/ten/three').st_size == 10 and os.stat('11/below/more').st_size == 3\n\
             os.symlink('here', '12/other'); os.unlink('12/link'); os.symlink('there', '12/link')\n\
             assert (os.readlink('12/other'), os.readlink('12/link')) == ('here', 'there')\n\
             walk()\n\
             open(there + '/13/below/theirs', 'w').write('x'); os.unlink(there + '/14/below/one')\n\
             began = time.monotonic()\n\
             while True:\n\
             \x20looked = time.monotonic()\n\
             \x20if 'theirs' in os.listdir('13/below') and 'one' not in os.listdir('14/below'): break\n\
             \x20assert looked < began + 1.5\n",
            scene.path("server")
        ),
    );
    mount.unmount();
    // Names that are looked up one after the other.
    let flat = scene.directory("server/flat");
    (0..300).for_each(|number| fs::write(flat.join(number.to_string()), vec![b'x'; number]).unwrap());
    let looked = || {
        let (looked, mount) = took("cd flat; test \"$(stat -c %s $(seq 0 299))\" = \"$(seq 0 299)\"");
        mount.unmount();
        looked
    };
    assert!((0..4).any(|_| looked() < latency * 2 * 100));
}

#[test]
fn attributes_are_those_of_a_file_and_not_of_what_was_moved_to_its_name() {
    assert!(xdfs_test_needs::program("setfattr", "attr"));
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "xattr"]);
    let there = scene.path("server");
    shell(&there, "touch a b z; setfattr -n user.x -v A a");
    let mount = Mount::new(&scene, &server, &["-o", "valid=30"]);
    let script = format!(
        "import os\n\
         there = {there:?}\n\
         with os.scandir('.') as entries:\n\
         \x20next(entries)\n\
         \x20for name in 'abz': os.stat(name)\n\
         \x20os.rename(there + '/a', there + '/c')\n\
         \x20os.rename(there + '/b', there + '/a')\n\
         \x20assert os.listxattr('z') == []\n\
         \x20assert os.listxattr('c') == ['user.x'] and os.getxattr('c', 'user.x') == b'A'\n"
    );
    python(&mount.point, &script);
    mount.unmount();
}
