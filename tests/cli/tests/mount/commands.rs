//! Mounting and unmounting: by users, by mount(8), with signals, and after a crash.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use xdfs_test_cli::{Running, Scene, Server, xdfs_binary};

use crate::losses::again;
use crate::{Mount, is_mounted, run, unmount_by};

#[test]
fn the_command_ends_when_it_is_mounted_and_a_signal_or_umount_unmounts() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let point = scene.directory("point");
    let point_name = point.to_str().unwrap();
    scene.run(["mount", &server.url(""), point_name]).ends_with(0).is_silent();
    assert_eq!(fs::read(point.join("file")).unwrap(), b"content");
    unmount_by(&["umount", "--"], &point);
    assert!(!is_mounted(&point));
    for signal in [Signal::TERM, Signal::INT] {
        let mount = Mount::new(&scene, &server, &[]);
        mount.running().signal(signal);
        let directory = mount.point.clone();
        mount.end().ends_with(0).is_silent();
        assert!(!is_mounted(&directory));
    }
}

#[test]
fn what_cannot_be_mounted_is_explained() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let point = scene.directory("point");
    let point = point.to_str().unwrap();
    scene.run(["mount", &server.url("file"), point]).ends_with(2).says(&["not a directory"]);
    scene.run(["mount", &server.url("missing"), point]).ends_with(6).says(&["no such file"]);
    scene.run(["mount", &server.url(""), "nowhere"]).ends_with(6).says(&["nowhere", "mkdir"]);
    scene.run(["mount", &server.url(""), point, "-o", "rsize=5"]).ends_with(2).says(&["-o rsize=5"]);
    scene.run(["mount", "ftp://host/", point]).ends_with(2).says(&["FTP"]);
    let lists = format!("xdfs ls 'xdfs://{}/", server.address());
    scene.run(["mount", &server.url_in("dtaa", ""), point]).ends_with(6).says(&["dtaa", &lists, "lists the exports"]);
}

#[test]
fn what_mount_8_starts_ends_with_the_codes_of_mount_8() {
    let scene = Scene::new();
    let server = scene.serve();
    std::os::unix::fs::symlink(xdfs_binary(), scene.path("mount.xdfs")).unwrap();
    let point = scene.directory("point");
    let point = point.to_str().unwrap();
    let helper = |words: &[&str]| Running::start(scene.command_of(&scene.path("mount.xdfs"), "somebody", words)).wait();
    helper(&[&server.url(""), point, "-o", "rw,rsize=5"]).ends_with(1).says(&["-o rsize=5"]);
    helper(&[&server.url("")]).ends_with(1);
    helper(&[&server.url("missing"), point, "-o", "rw"]).ends_with(32).says(&["no such file"]);
    helper(&[&server.url(""), "nowhere", "-o", "rw"]).ends_with(32).says(&["mkdir"]);
    helper(&["--help"]).ends_with(0);
    let remounted = helper(&[&server.url(""), point, "-o", "rw,remount,ro"]);
    let again = format!("{point} && xdfs mount -o ro '{}' {point}", server.url(""));
    remounted.ends_with(1).says(&["-o remount: a mount cannot be changed", "help: unmount it", &again]);
}

#[test]
fn a_directory_on_which_a_server_is_mounted_is_not_mounted_on_again() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.directory("server/below");
    let mount = Mount::new(&scene, &server, &[]);
    let point = mount.point.to_str().unwrap().to_owned();
    let there = format!("'xdfs://{}/data/' is mounted there", server.address());
    let refused = scene.run(["mount", &server.url("below"), &point]);
    refused.ends_with(11).says(&[&point, &there, &format!("umount {point}")]);
    std::os::unix::fs::symlink(&point, scene.path("link")).unwrap();
    scene.run(["mount", &server.url(""), scene.path("link").to_str().unwrap()]).ends_with(11).says(&[&there]);
    // In it is another directory.
    let below = Mount::of(&scene, &server.url(""), "mounted/below", &[]);
    below.unmount();
    mount.unmount();
}

#[test]
fn a_mount_whose_process_was_killed_is_found_and_explained() {
    let scene = Scene::new();
    let server = scene.serve();
    let mut mount = Mount::new(&scene, &server, &[]);
    let _ = mount.running.take().unwrap().kill();
    let point = mount.point.to_str().unwrap().to_owned();
    let refused = scene.run(["mount", &server.url(""), &point]);
    refused.ends_with(11).says(&["whose process is gone", &format!("umount {point}")]);
    run(Command::new("umount").arg(&point));
    Mount::new(&scene, &server, &[]).unmount();
}

/// A script that root runs in a mount namespace of its own.
fn in_own_namespace(scene: &Scene, words: &[&str], script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]).args(words);
    scene.dress("somebody", &mut command);
    command.current_dir(scene.path(""));
    command
}

/// Runs one to its end.
fn in_namespace(scene: &Scene, words: &[&str], script: &str) {
    let output = in_own_namespace(scene, words, script).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
}

/// Makes the command known to mount(8) as `$2`. The helper has to be in /sbin: a directory over the real one, in this namespace alone.
const HELPER: &str = "mkdir point upper; mount -t tmpfs tmpfs upper; mkdir upper/above upper/work\n\
    mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=upper/above,workdir=upper/work /usr/sbin\n\
    ln -s \"$2\" /usr/sbin/mount.xdfs\n";

#[test]
fn a_user_mounts_and_unmounts_without_root() {
    assert!(xdfs_test_needs::root("a device for everybody"));
    assert!(xdfs_test_needs::program("fusermount3", "fuse3"));
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    scene.directory("point");
    let script = "mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse; chown nobody:nogroup point; mkdir home\n\
        chown nobody home; export HOME=$PWD/home XDG_STATE_HOME=$PWD/home\n\
        as='setpriv --reuid nobody --regid nogroup --clear-groups'; cp \"$2\" xdfs; chmod 755 xdfs; chmod 777 server\n\
        $as ./xdfs mount \"$1\" point\n\
        $as cat point/file; test \"$($as stat -c %u:%g point/file)\" = \"$($as id -u):$($as id -g)\"\n\
        grep -q \"$PWD/point .*user_id=$($as id -u),\" /proc/self/mountinfo\n\
        $as sh -c 'head -c 300000 /dev/urandom > point/new; cmp point/new server/new; wc -c < point/new' | grep -qx 300000\n\
        $as sh -c 'mv point/new point/moved; rm point/moved'; test \"$(ls server)\" = file\n\
        ! cat point/file 2> /dev/null || { echo 'root may look into it'; exit 1; }\n\
        $as fusermount3 -u point; ! test -e point/file";
    in_namespace(&scene, &[&server.url(""), xdfs_binary().to_str().unwrap()], script);
}

#[test]
fn mount_and_fstab_know_the_type() {
    assert!(xdfs_test_needs::root("a mount namespace with its own /sbin"));
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let script = "mount -t xdfs \"$1\" \"$PWD/point\" -o ro,_netdev,timeout=5; cat point/file; ! touch point/new 2> /dev/null\n\
        umount point\n\
        echo \"$1 $PWD/point xdfs noauto,nofail,x-systemd.automount 0 0\" > fstab\n\
        mount -T fstab \"$PWD/point\"; test \"$(cat point/file)\" = content; umount point";
    in_namespace(&scene, &[&server.url(""), xdfs_binary().to_str().unwrap()], &format!("{HELPER}{script}"));
}

#[test]
fn what_a_line_of_fstab_mounts_goes_on_when_the_server_is_restarted() {
    assert!(xdfs_test_needs::root("a mount namespace with its own /sbin"));
    let scene = Scene::new();
    let server = scene.serve();
    let address = server.address().to_owned();
    scene.write("server/file", b"content");
    let script = "echo \"$1 $PWD/point xdfs _netdev,nofail 0 0\" > fstab\n\
        mount -T fstab \"$PWD/point\"; exec 3>> point/log; echo before >&3; test \"$(cat point/file)\" = content\n\
        echo > mounted; read restarted || true\n\
        echo after >&3; exec 3>&-; cat point/file; echo changed > point/file; umount point; mount -T fstab \"$PWD/point\"\n\
        cat point/file point/log; umount point; ! test -e point/file";
    let words = [&server.url(""), xdfs_binary().to_str().unwrap()];
    let mut program = Running::start(in_own_namespace(&scene, &words, &format!("{HELPER}{script}")));
    while !scene.path("mounted").exists() {
        assert!(program.is_running(), "{:?}", program.wait());
    }
    assert_eq!(server.stop(), Some(0));
    program.close_input();
    let _server = again(&scene, &address);
    let ended = program.wait();
    ended.ends_with(0).is_silent();
    assert_eq!(ended.text(), "contentchanged\nbefore\nafter\n");
}

#[test]
fn what_is_in_use_for_a_moment_is_unmounted_in_silence_and_what_stays_in_use_is_said() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    for closes in [true, false] {
        let mount = Mount::new(&scene, &server, &[]);
        let mut user = Command::new("sh");
        user.args(["-c", "exec 3< file; echo > ../opened; read line"]).current_dir(&mount.point);
        let mut user = Running::start(user);
        while !scene.path("opened").exists() {
            assert!(!user.has_ended());
        }
        std::fs::remove_file(scene.path("opened")).unwrap();
        mount.running().signal(Signal::TERM);
        if closes {
            user.close_input();
            mount.end().ends_with(0).is_silent();
        } else {
            mount.end().ends_with(0).says(&["in use"]);
        }
        let _ = user.kill();
    }
}

#[test]
fn an_unmounted_directory_ends_its_session_in_order() {
    let scene = Scene::new();
    scene.directory("server");
    let log = fs::File::create(scene.path("log")).unwrap();
    let mut command = scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]);
    command.stderr(log).env("XDFS_LOG", "session=info");
    let server = Server::start(command, &["--export", "data=server", "--allow-anonymous", "rw"]);
    scene.trust(server.address(), &server);
    let mount = Mount::new(&scene, &server, &[]);
    fs::write(mount.path("file"), b"content").unwrap();
    mount.unmount();
    assert_eq!(server.stop(), Some(0));
    let log = String::from_utf8(scene.read("log")).unwrap();
    let sessions: Vec<&str> = log.lines().filter(|line| line.contains(" session: ")).collect();
    assert!(sessions.iter().any(|line| line.contains("closed by the client")), "{log}");
    assert!(sessions.iter().all(|line| line.contains(" info ")), "{log}");
}
