//! What the kernel does by itself with files of a mount, and times that are the server's own.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use xdfs_test_cli::Scene;

use crate::Mount;

#[test]
fn the_change_time_is_the_servers() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
    let time = |metadata: fs::Metadata| (metadata.ctime(), metadata.ctime_nsec());
    let (here, there) = (mount.path("file"), scene.path("server/file"));
    let first = time(fs::metadata(&here).unwrap());
    assert_eq!(first, time(fs::metadata(&there).unwrap()));
    let mut last = first;
    // Until the clock of the file system has gone on.
    while last == first {
        fs::set_permissions(&here, PermissionsExt::from_mode(0o600)).unwrap();
        last = time(fs::metadata(&here).unwrap());
        assert_eq!(last, time(fs::metadata(&there).unwrap()));
    }
    mount.unmount();
}

#[test]
fn the_time_of_the_last_access_is_the_servers() {
    let scene = Scene::new();
    let server = scene.serve();
    let there = scene.write("server/file", b"content");
    let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
    let here = mount.path("file");
    let time = |path| fs::metadata(path).unwrap().accessed().unwrap();
    // Older than the last change: file systems with `relatime` set it at the next read.
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    File::open(&here).unwrap().set_times(fs::FileTimes::new().set_accessed(old)).unwrap();
    assert_eq!((time(&here), time(&there)), (old, old));
    assert_eq!(fs::read(&here).unwrap(), b"content");
    assert_eq!(time(&here), time(&there));
    mount.unmount();
}

#[test]
fn pipes_and_sockets_connect_programs_of_this_machine_and_devices_are_not_opened() {
    let scene = Scene::new();
    let server = scene.serve_with(&["--keep", "special,modes"]);
    let mount = Mount::new(&scene, &server, &[]);
    let (pipe, socket, device) = (mount.path("pipe"), mount.path("socket"), mount.path("device"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, b"through the pipe").unwrap());
        assert_eq!(fs::read(&pipe).unwrap(), b"through the pipe");
    });
    let listener = UnixListener::bind(&socket).unwrap();
    UnixStream::connect(&socket).unwrap().write_all(b"through the socket").unwrap();
    let mut said = String::new();
    listener.accept().unwrap().0.read_to_string(&mut said).unwrap();
    assert_eq!(said, "through the socket");
    for name in ["pipe", "socket"] {
        let kind = fs::metadata(scene.path("server").join(name)).unwrap().file_type();
        assert!(kind.is_fifo() || kind.is_socket(), "{name}");
    }
    // /dev/null
    mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, rustix::fs::makedev(1, 3)).unwrap();
    assert!(fs::metadata(&device).unwrap().file_type().is_char_device());
    assert_eq!(File::open(&device).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.split(' ').nth(4) == mount.point.to_str()).unwrap();
    let options: Vec<&str> = line.split(' ').nth(5).unwrap().split(',').collect();
    drop(listener);
    assert!(options.contains(&"nosuid") && options.contains(&"nodev"), "{line}");
    mount.unmount();
}

#[test]
fn inotify_tells_of_what_was_changed_through_the_mount_alone() {
    let scene = Scene::new();
    let server = scene.serve();
    let mount = Mount::new(&scene, &server, &["-o", "valid=0"]);
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, &mount.point, WatchFlags::CREATE).unwrap();
    let mut room = [MaybeUninit::uninit(); 1024];
    let mut events = inotify::Reader::new(&watch, &mut room);
    for round in 0..3 {
        let (theirs, ours) = (format!("theirs{round}"), format!("ours{round}"));
        fs::write(scene.path("server").join(&theirs), b"").unwrap();
        assert!(mount.path(&theirs).exists());
        OpenOptions::new().write(true).create_new(true).open(mount.path(&ours)).unwrap();
        // It tells of changes in their order.
        let event = events.next().unwrap();
        assert_eq!(OsStr::from_bytes(event.file_name().unwrap().to_bytes()), OsStr::new(&ours));
        assert!(event.events().contains(ReadFlags::CREATE));
    }
    mount.unmount();
}
