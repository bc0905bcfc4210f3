//! What other users of both machines see of a copy over ssh: the command lines of its processes.

use std::fs;

use rustix::process::Pid;
use xdfs_test_cli::{Running, Scene, exit, pattern};

use super::sshd::Sshd;
use super::{start, told, url, wait_until};

/// The words of a command line that nobody but the user may know: it is in the name of the file alone.
const CANARY: &str = "canary-7f3a";

fn command_line(process: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).unwrap_or_default()
}

fn parent(process: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().and_then(Pid::from_raw)
}

fn processes() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").expect("it is there").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)).collect()
}

/// The process of ssh that the command started, with what it was started with.
fn ssh_of(copy: &Running) -> Option<(Pid, String)> {
    let ours = processes()
        .into_iter()
        .find(|process| parent(*process) == Some(copy.process()) && command_line(*process).starts_with(b"ssh\0"))?;
    Some((ours, String::from_utf8_lossy(&command_line(ours)).replace('\0', " ")))
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

#[test]
fn no_path_and_no_secret_is_on_a_command_line_at_either_end() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    // It leaves its process id, and then is the usual command.
    let note = format!("#!/bin/sh\necho $$ > {}\nexec xdfs serve --stdio\n", scene.path("pid").display());
    let script = scene.write("bin/start", note.as_bytes());
    fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for up in [true, false] {
        let name = format!("there/{CANARY}");
        let target = url(&scene, "box", &name);
        scene.directory("there");
        let fifo = scene.path("fifo");
        let (mut copy, _reader) = if up {
            (start(&scene, &["cp", "-P", "2", "-", &target, "--remote-command=start"]), None)
        } else {
            // Nobody reads what comes, so that the copy stays under way.
            rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
            let copy = start(&scene, &["cp", "-P", "2", &target, "fifo", "--remote-command=start"]);
            (copy, Some(fs::File::options().read(true).write(true).open(&fifo).unwrap()))
        };
        let server = told(&scene);
        if up {
            assert!(copy.feed(&pattern(9 << 20, 1)));
            wait_until("the upload", || !scene.names("there").is_empty());
        }
        wait_until("the server itself", || command_line(server).starts_with(b"xdfs\0"));
        assert_eq!(command_line(server), b"xdfs\0serve\0--stdio\0");
        let (ssh, line) = ssh_of(&copy).expect("ssh runs below the command");
        assert_eq!(line.trim_end(), format!("ssh -F {} box start", scene.path("ssh_config").display()));
        // The user typed it, and it is the only one.
        let having: Vec<Pid> =
            processes().into_iter().filter(|process| contains(&command_line(*process), CANARY)).collect();
        assert_eq!(having, [copy.process()]);
        for process in [server, ssh] {
            let path = format!("/proc/{}/environ", process.as_raw_nonzero());
            assert!(!contains(&fs::read(path).unwrap(), CANARY), "nor is it in its environment");
        }
        fs::remove_file(scene.path("pid")).unwrap();
        if up {
            copy.wait().ends_with(exit::DONE);
        } else {
            drop(copy);
        }
    }
}
