//! Stable storage through a mount: whoever has a sync answered knows of all that was written before it, whichever descriptor it was
//! written through.

use std::process::Command;

use xdfs_test_cli::{LISTEN, Scene, Server, xdfs_binary};

use crate::Mount;
use crate::losses::{again, in_steps, wait_for_step};

/// The same server on a machine that was started so many times: it reads another id of that.
fn on_machine(scene: &Scene, address: &str, starts: u32) -> Server {
    let id = scene.write(format!("boot-{starts}"), format!("0123abcd-4567-89ef-0011-{starts:012x}\n").as_bytes());
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id || exit 99; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(id).arg(xdfs_binary());
    command.args(["serve", "--json", "--listen", address]).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    Server::start(command, &["--quiet", "--export", "data=server", "--allow-anonymous", "rw"])
}

#[test]
fn a_sync_is_one_of_what_other_descriptors_wrote_and_a_restart_lost() {
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    scene.write("server/file", &[b'.'; 6]);
    let mount = Mount::new(&scene, &server, &[]);
    let script = "one, two = os.open('file', os.O_RDONLY), os.open('file', os.O_RDWR)\n\
        os.pwrite(two, b'two', 0)\n\
        while open('../server/file', 'rb').read() != b'two...': pass\n\
        step('written')\n\
        for file in (one, two, one):\n\
        \x20   try: os.fsync(file)\n\
        \x20   except OSError as error: assert error.errno == 5, error\n\
        \x20   else: raise SystemExit('what is lost is said to be there')\n";
    let mut program = in_steps(&mount, script);
    wait_for_step(&scene, &program, "written");
    server.kill();
    // Whoever wrote does not write over this.
    scene.write("server/file", &[b'.'; 6]);
    let _server = again(&scene, &address);
    program.feed(b"\n");
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    mount.unmount();
}

#[test]
fn a_sync_is_one_of_what_was_closed_and_renamed_before_the_machine_started_again() {
    let scene = Scene::new();
    scene.directory("server");
    let server = on_machine(&scene, LISTEN, 1);
    let address = server.address().to_owned();
    scene.trust(&address, &server);
    let mount = Mount::new(&scene, &server, &[]);
    // The last one is on stable storage when its write is answered.
    let script = "files = ('written', 'cut', 'appended')\n\
        for name in files: os.mknod(name, 0o600)\n\
        others = [os.open(name, os.O_RDONLY) for name in files]\n\
        def write():\n\
        \x20   with open('written', 'w') as file: file.write('content')\n\
        \x20   os.truncate('cut', 7)\n\
        \x20   file = os.open('appended', os.O_WRONLY | os.O_APPEND | os.O_SYNC | os.O_TRUNC)\n\
        \x20   os.write(file, b'content'); os.close(file)\n\
        \x20   while [os.stat('../server/' + name).st_size for name in files] != [7, 7, 7]: pass\n\
        def sync(file):\n\
        \x20   try: os.fsync(file)\n\
        \x20   except OSError as error: return error.errno\n\
        \x20   return 0\n\
        for name in ('made', 'moved'): os.mkdir(name)\n\
        made, moved = [os.open(name, os.O_RDONLY) for name in ('made', 'moved')]\n\
        write(); open('made/file', 'w').close(); step('first')\n\
        assert [sync(directory) for directory in (made, moved)] == [0, 0]\n\
        assert [sync(file) for file in others] == [0, 0, 0], 'the machine was there all the time'\n\
        write(); os.rename('made/file', 'moved/file'); step('second')\n\
        assert [sync(directory) for directory in (made, moved)] == [5, 5], 'the rename may be lost'\n\
        assert [sync(directory) for directory in (made, moved)] == [0, 0], 'once'\n\
        assert [sync(file) for file in others] == [5, 5, 0]\n\
        for file in others: os.close(file)\n\
        others = [os.open(name, os.O_RDONLY) for name in files]\n\
        write(); step('third')\n\
        new = os.open('written', os.O_WRONLY)\n\
        assert sync(new) == 5, 'also of who opened it later'\n\
        try: os.close(new)\n\
        except OSError as error: assert error.errno == 5, error\n\
        new = os.open('written', os.O_WRONLY)\n\
        assert sync(new) == 0, 'once'\n\
        new = os.open('cut', os.O_WRONLY | os.O_TRUNC)\n\
        assert sync(new) == 0, 'nothing of what was in it is'\n";
    let mut program = in_steps(&mount, script);
    let mut server = Some(server);
    for (step, machine) in [("first", 1), ("second", 2), ("third", 3)] {
        wait_for_step(&scene, &program, step);
        if let Some(server) = server.take() {
            server.kill();
        }
        server = Some(on_machine(&scene, &address, machine));
        program.feed(b"\n");
    }
    let ended = program.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    mount.unmount();
}
