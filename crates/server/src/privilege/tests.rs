//! Tests from inside a confined thread: what was granted works, everything else fails. Confinement
//! binds a thread and those that it starts, so each test confines a thread of its own.
#![allow(clippy::disallowed_methods, reason = "the probes are what a taken-over process would try")]

use super::*;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as Io, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use tempfile::TempDir;
use xdfs_proto::base::RelPath;

/// A temporary directory that is removed on drop.
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path();
        for part in ["read", "write", "log", "outside"] {
            fs::create_dir(path.join(part)).unwrap();
            fs::write(path.join(part).join("file"), b"content").unwrap();
        }
        Self(scratch)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn needs(&self) -> Needs {
        let keep = Preserve::default();
        Needs {
            readable: vec![self.at("read")],
            writable: vec![self.at("write")],
            appendable: vec![self.at("log")],
            keep,
            pipes: false,
        }
    }
}

impl std::ops::Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `act` on a thread that is confined to the scene.
fn confined(scene: &Scene, act: impl FnOnce(&Scene) + Send) {
    std::thread::scope(|threads| {
        let inside = threads.spawn(|| {
            let confined = confine(&scene.needs(), Confinement::Automatic).unwrap();
            assert!(confined.calls, "{:?}", confined.notes);
            confined.files.then(|| act(scene)).ok_or(confined.notes)
        });
        let acted = inside.join().unwrap();
        xdfs_test_needs::found(acted.map_err(|notes| format!("a kernel with Landlock: {notes:?}")));
    });
}

fn denied<T>(result: std::io::Result<T>, what: &str) {
    match result {
        Ok(_) => panic!("{what} was possible"),
        Err(error) => assert!(matches!(error.kind(), Io::PermissionDenied | Io::CrossesDevices), "{what}: {error}"),
    }
}

#[test]
fn exports_are_within_reach_and_nothing_else_is() {
    let scene = Scene::new();
    symlink(scene.at("outside/file"), scene.at("read/link")).unwrap();
    symlink("/etc/passwd", scene.at("write/link")).unwrap();
    confined(&scene, |scene| {
        assert_eq!(fs::read(scene.at("read/file")).unwrap(), b"content");
        assert_eq!(fs::read(scene.at("write/file")).unwrap(), b"content");
        fs::write(scene.at("write/new"), b"more").unwrap();
        fs::rename(scene.at("write/new"), scene.at("write/newer")).unwrap();
        fs::create_dir(scene.at("write/below")).unwrap();
        fs::write(scene.at("write/below/file"), b"more").unwrap();
        fs::remove_file(scene.at("write/newer")).unwrap();
        let mut log = OpenOptions::new().append(true).create(true).open(scene.at("log/audit")).unwrap();
        log.write_all(b"line\n").unwrap();

        denied(fs::read(scene.at("outside/file")), "reading beside the exports");
        denied(fs::read(scene.at("read/link")), "reading through a link in an export");
        denied(fs::read(scene.at("write/link")), "reading /etc/passwd through a link");
        denied(fs::read_dir("/"), "listing the root");
        denied(File::open("/etc/passwd"), "reading /etc/passwd");
        denied(fs::write(scene.at("read/new"), b""), "writing to a read-only export");
        denied(OpenOptions::new().write(true).open(scene.at("read/file")), "opening a read-only file for writing");
        denied(fs::remove_file(scene.at("log/file")), "removing the log");
        denied(fs::write(scene.at("outside/new"), b""), "writing beside the exports");
        denied(fs::rename(scene.at("write/file"), scene.at("outside/moved")), "moving a file out");
        symlink("/etc", scene.at("write/etc")).unwrap();
        denied(fs::read_dir(scene.at("write/etc")), "listing /etc through a link of its own");
        fs::rename(scene.at("write/below/file"), scene.at("write/moved")).unwrap();
        fs::hard_link(scene.at("write/moved"), scene.at("write/below/second")).unwrap();
        denied(fs::hard_link(scene.at("read/file"), scene.at("write/stolen")), "linking a read-only file");
        denied(make_fifo(&scene.at("write/fifo")), "making a pipe");
        // Threads started later are bound as well.
        std::thread::scope(|threads| {
            threads.spawn(|| denied(File::open("/etc/passwd"), "reading on a later thread"));
        });
    });
}

#[test]
fn a_confined_store_puts_small_files_without_part_files() {
    use xdfs_io::store::{Existing, LocalStore, SmallFile, Store};
    let scene = Scene::new();
    let store = LocalStore::open_root(&scene.at("write"), true).unwrap();
    confined(&scene, move |scene| {
        for (name, existing) in
            [("new", Existing::Keep), ("file", Existing::Replace), ("made/on/the/way", Existing::Keep)]
        {
            let target = xdfs_proto::base::RelPath::parse(name.as_bytes()).unwrap();
            let (content, base, parents) = (b"small".as_slice(), None, true);
            let (modified, holes) = (None, false);
            let file = SmallFile { target, content, mode: 0o600, modified, existing, base, parents, holes };
            let mut group = store.stage_small(std::slice::from_ref(&file), true);
            group.finish(0, &file).unwrap();
            assert!(!scene.at("write").join(".xdfs-staging").exists(), "{name} has a part file");
            drop(group);
            assert!(store.put_small(&[file], true).iter().all(Result::is_ok), "{name}");
            assert_eq!(fs::read(scene.at("write").join(name)).unwrap(), b"small");
        }
    });
}

#[test]
fn a_confined_process_starts_no_program_and_makes_no_connection() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = scene.at("write/service");
    let service = UnixListener::bind(&socket).unwrap();
    confined(&scene, move |_| {
        denied(std::process::Command::new("/bin/true").spawn(), "starting a program");
        denied(TcpStream::connect(address), "connecting");
        denied(TcpListener::bind("127.0.0.1:0"), "listening");
        denied(UdpSocket::bind("127.0.0.1:0"), "a datagram socket");
        denied(UnixStream::connect(&socket), "connecting to a local service");
        denied(UnixDatagram::unbound(), "a local datagram socket");
        denied(std::os::unix::fs::chroot("/"), "changing the root");
    });
    drop((listener, service));
}

#[test]
fn root_keeps_what_concerns_files_and_nothing_else() {
    if !xdfs_test_needs::root("nobody else has capabilities to give up") {
        return;
    }
    let scene = Scene::new();
    confined(&scene, |_| {
        use rustix::thread::CapabilitySet;
        let left = rustix::thread::capabilities(None).unwrap();
        let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
        assert!(kept.contains(left.permitted) && left.effective == left.permitted, "{left:?}");
    });
}

#[test]
fn an_export_that_takes_owners_and_special_files_gets_what_they_need() {
    let scene = Scene::new();
    std::thread::scope(|threads| {
        let inside = threads.spawn(|| {
            let keep = Preserve { owner: true, special: true, ..Preserve::default() };
            confine(&Needs { keep, ..scene.needs() }, Confinement::Automatic).unwrap();
            make_fifo(&scene.at("write/fifo")).unwrap();
            denied(make_fifo(&scene.at("outside/fifo")), "making a pipe beside the exports");
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(scene.at("write/fifo"), Some(4711), None).unwrap();
            }
        });
        inside.join().unwrap();
    });
}

#[test]
fn an_export_with_pipes_gets_these_and_nothing_else_that_is_special() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let scene = Scene::new();
    let needs = Needs { pipes: true, ..scene.needs() };
    std::thread::scope(|threads| {
        let inside = threads.spawn(|| {
            assert!(confine(&needs, Confinement::Automatic).unwrap().calls);
            make_fifo(&scene.at("write/fifo")).unwrap();
            denied(make_fifo(&scene.at("outside/fifo")), "making a pipe beside the exports");
            let make = |kind: FileType| Ok(mknodat(CWD, scene.at("write/node"), kind, Mode::RUSR, 0)?);
            for kind in [FileType::CharacterDevice, FileType::BlockDevice, FileType::Socket, FileType::RegularFile] {
                denied(make(kind), &format!("making {kind:?}"));
            }
            // Neither end waits; both are open at once.
            let store = xdfs_io::store::LocalStore::open_root(&scene.at("write"), true).unwrap();
            let open = |write| xdfs_io::store::Store::open_pipe(&store, &RelPath::parse(b"fifo").unwrap(), write);
            assert!(open(true).unwrap().end.is_none(), "nobody reads");
            let reads = open(false).unwrap().end.unwrap();
            assert_eq!(open(true).unwrap().end.unwrap().write(b"through").unwrap(), 7);
            let mut bytes = [0; 9];
            assert_eq!(reads.read(&mut bytes).unwrap(), xdfs_io::store::PipeRead::Bytes(7));
            assert_eq!(reads.read(&mut bytes).unwrap(), xdfs_io::store::PipeRead::End);
        });
        inside.join().unwrap();
    });
}

fn make_fifo(path: &Path) -> std::io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

#[test]
fn a_directory_that_is_not_there_is_an_error_and_off_is_said() {
    let gone = Needs { readable: vec![Path::new("/nonexistent/xdfs").into()], ..Needs::default() };
    std::thread::spawn(move || {
        let off = confine(&gone, Confinement::Off).unwrap();
        assert!(!off.files && !off.calls && off.notes.len() == 1);
        assert!(confine(&gone, Confinement::Automatic).is_err());
    })
    .join()
    .unwrap();
}
