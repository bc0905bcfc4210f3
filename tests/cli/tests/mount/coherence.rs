//! Writes that the server has later than the program, and reads that it was asked for earlier.

use std::fs;
use std::path::Path;
use std::process::Command;

use xdfs_test_cli::{Scene, with_file_systems};

use crate::{Mount, python};

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
            os.fsync(file)\n\
            os.write(file, bytes(4096))\n\
            fails(os.close, file)\n";
        python(&mount.point, script);
        assert_eq!(fs::metadata(disks.tmpfs.join("file")).unwrap().len(), 0);
        mount.unmount();
    });
}
