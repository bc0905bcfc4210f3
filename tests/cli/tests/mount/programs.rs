//! Programs that people use, on a mount.

use xdfs_test_cli::Scene;

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
    other.unmount();
    mount.unmount();
}
