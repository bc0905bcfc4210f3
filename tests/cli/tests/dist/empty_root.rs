//! The program in a root directory with nothing else, as the container file has it.

use std::path::{Path, PathBuf};
use std::process::Command;

use xdfs_test_cli::{Scene, Server, exit, pattern};

use crate::{PATH, dist, done, released};

/// The static program must stay below this.
const STATIC_BYTES_MAX: u64 = 15_000_000;

/// A command inside of another root directory, as a user of it (`name:group`).
fn inside(root: &Path, user: &str) -> Command {
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={user}")).arg(root).env_clear().env("PATH", PATH);
    command
}

/// What a container file says behind a word, as JSON.
fn words_of(container: &str, word: &str) -> Vec<String> {
    let line = container.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_else(|| panic!("no {word}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{word}{line}: {error}"))
}

/// The libraries that a program is linked with, and their loader: none of a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().expect("it comes with the C library");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    // `libm.so.6 => /lib/libm.so.6 (0x1)`, `/lib64/ld.so (0x2)`, and `linux-vdso.so.1 (0x3)`, which the kernel has.
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/') && word.contains(".so"));
    paths.map(PathBuf::from).collect()
}

#[test]
fn the_program_serves_and_copies_in_an_empty_root_as_in_a_container() {
    assert!(xdfs_test_needs::root("to enter another root directory"));
    let scene = Scene::new();
    let root = scene.directory("root");
    let program = root.join("xdfs");
    // By another program: what another test starts has the descriptors of this process for a moment, and nobody
    // executes a file that is open for writing.
    let copied = Command::new("cp").arg(dist().join("xdfs")).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let libraries = libraries(&program);
    if released().is_some() {
        assert_eq!(libraries, [""; 0].map(PathBuf::from), "it is static");
        let size = std::fs::metadata(&program).expect("it is there").len();
        assert!(size < STATIC_BYTES_MAX, "{size} bytes");
        assert!(xdfs_test_needs::program("readelf", "binutils"));
        let sections = done(Command::new("readelf").args(["--sections", "--wide"]).arg(&program));
        // A debugger finds the place of its scripts in a section that is part of the program.
        assert!(
            ![".symtab", ".debug_info", ".debug_line"].iter().any(|name| sections.contains(name)),
            "it is stripped: {sections}"
        );
    }
    for library in libraries {
        let inside = root.join(library.strip_prefix("/").expect("an absolute path"));
        std::fs::create_dir_all(inside.parent().expect("it is in a directory")).expect("the root is ours");
        std::fs::copy(&library, inside).expect("the program is linked with it");
    }
    let container = std::fs::read_to_string(dist().join("Containerfile")).expect("it is part of it");
    let user = container.lines().find_map(|line| line.strip_prefix("USER ")).expect("not root");
    for volume in container.lines().filter_map(|line| line.strip_prefix("VOLUME /")) {
        let made = scene.directory(format!("root/{volume}"));
        done(Command::new("chown").arg(user).arg(made));
    }
    let command = |words: &[String]| {
        let mut command = inside(&root, user);
        command.args(words);
        for pair in container.lines().filter_map(|line| line.strip_prefix("ENV ")) {
            let (name, value) = pair.split_once('=').expect("NAME=value");
            command.env(name, value);
        }
        command
    };
    let entry = words_of(&container, "ENTRYPOINT ");
    let serve = [entry.clone(), words_of(&container, "CMD ")].concat();
    let server = Server::start(command(&serve), &["--json", "--listen", "127.0.0.1:0", "--allow-anonymous", "rw"]);
    std::fs::write(root.join("file"), pattern(3_000_000, 2)).expect("the root is ours");
    done(command(&entry).args(["cp", "/file", &server.url("file")]));
    assert_eq!(std::fs::read(root.join("srv/xdfs/file")).expect("it arrived"), pattern(3_000_000, 2));
    done(command(&entry).args(["cp", &server.url("file"), "/srv/xdfs/back"]));
    assert_eq!(std::fs::read(root.join("srv/xdfs/back")).expect("it came back"), pattern(3_000_000, 2));
    assert_eq!(server.stop(), Some(exit::DONE));
}
