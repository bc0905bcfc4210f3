//! Trees as real machines have them, taken from this machine without a network.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xdfs_test_cli::pattern;

use super::random::Random;

/// Neighbours that come together when only a part of a tree is taken.
const NEIGHBOURS: usize = 60;

/// How much of a tree is taken.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub names: usize,
    pub bytes: u64,
}

/// A tree of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tree {
    Share,
    Lib,
    Toolchain,
    NodeModules,
    Git,
}

impl Tree {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Share, Self::Lib, Self::Toolchain, Self::NodeModules, Self::Git];

    /// Its name in messages and directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Lib => "lib",
            Self::Toolchain => "toolchain",
            Self::NodeModules => "node_modules",
            Self::Git => "git",
        }
    }

    /// Copies it to `to`, or a part of it that fits `bounds`.
    pub fn copy(self, to: &Path, bounds: Bounds, seed: u64) {
        fs::create_dir_all(to).expect("a directory can be made");
        let mut random = Random::new(seed);
        match self {
            Self::Share => copy_part(Path::new("/usr/share"), to, bounds, &mut random),
            Self::Lib => copy_part(Path::new("/usr/lib"), to, bounds, &mut random),
            Self::Toolchain => copy_part(&toolchain(), to, bounds, &mut random),
            Self::NodeModules => match installed_modules() {
                Some(modules) => copy_part(modules, to, bounds, &mut random),
                None => made_modules(to, bounds, seed),
            },
            Self::Git => repository(to, bounds, &mut random),
        }
    }
}

fn toolchain() -> PathBuf {
    let output = run(Command::new("rustc").args(["--print", "sysroot"]));
    PathBuf::from(OsStr::from_bytes(output.trim_ascii_end()))
}

/// Where npm or Debian's packages have put modules on this machine.
fn installed_modules() -> Option<&'static Path> {
    ["/usr/lib/node_modules", "/usr/local/lib/node_modules", "/usr/share/nodejs"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.is_dir())
}

/// Modules as npm installs them, for a machine without: nested, scoped, with programs that `.bin` links to.
fn made_modules(top: &Path, bounds: Bounds, seed: u64) {
    fs::create_dir_all(top.join(".bin")).expect("a directory can be made");
    let write = |path: PathBuf, size: usize, seed: usize| {
        fs::create_dir_all(path.parent().expect("it is below the top")).expect("a directory can be made");
        fs::write(path, pattern(size, seed as u64)).expect("a file can be made");
    };
    // Of each module: 7 files, 4 directories and a link.
    for number in 0..bounds.names.min(40_000) / 12 {
        let (name, inner) = (format!("module-{number}"), format!("node_modules/inner-{number}"));
        let module = if number % 4 == 0 { top.join("@scope").join(&name) } else { top.join(&name) };
        for (file, size) in [
            ("package.json".to_owned(), 900),
            ("README.md".to_owned(), 4_000),
            ("cli.js".to_owned(), 300),
            ("lib/index.js".to_owned(), number * 131 % 40_000),
            ("lib/[...slug].d.ts".to_owned(), number % 3 * 70),
            (format!("{inner}/package.json"), 700),
            (format!("{inner}/dist.min.js"), number * 977 % 200_000),
        ] {
            write(module.join(file), size, seed as usize + number);
        }
        fs::set_permissions(module.join("cli.js"), fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        let target = Path::new("..").join(module.strip_prefix(top).expect("it is below")).join("cli.js");
        symlink(target, top.join(".bin").join(&name)).expect("a link can be made");
    }
}

/// The `.git` of a repository with a history of documents: packs, loose objects, hooks, logs.
fn repository(to: &Path, bounds: Bounds, random: &mut Random) {
    let work = to.with_extension("work");
    fs::create_dir_all(&work).expect("a directory can be made");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "gc.auto=0"]).args(arguments);
        run(command.current_dir(&work).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1"));
    };
    git(&["init", "-q"]);
    for commit in 0..4 {
        // Most files become an object each, besides those of the directories.
        let part = Bounds { names: bounds.names.min(40_000) / 4, bytes: bounds.bytes / 4 };
        copy_part(Path::new("/usr/share"), &work, part, random);
        git(&["add", "--all", "--force"]);
        git(&["commit", "-q", "--allow-empty", "-m", &format!("commit {commit}")]);
        if commit == 1 {
            git(&["gc", "-q"]);
        }
    }
    fs::remove_dir(to).expect("it is still empty");
    fs::rename(work.join(".git"), to).expect("it is there");
    fs::remove_dir_all(&work).expect("it is ours");
}

/// Copies `from` to `to` with all its metadata: the whole of it where it fits `bounds`, else groups of neighbours from all over it.
fn copy_part(from: &Path, to: &Path, bounds: Bounds, random: &mut Random) {
    let mut names = Vec::new();
    list(from, Path::new(""), &mut names);
    names.sort();
    let mut chosen = BTreeSet::new();
    let mut bytes = 0;
    let mut take = |index: usize, chosen: &mut BTreeSet<usize>| {
        if let Some((_, size)) = names.get(index)
            && chosen.len() < bounds.names
            && bytes + size <= bounds.bytes
            && chosen.insert(index)
        {
            bytes += size;
        }
    };
    if names.len() <= bounds.names {
        (0..names.len()).for_each(|index| take(index, &mut chosen));
    } else {
        for _ in 0..2 * bounds.names / NEIGHBOURS {
            let first = random.below(names.len());
            (first..first + NEIGHBOURS).for_each(|index| take(index, &mut chosen));
        }
    }
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAX", "--files-from=-", "--from0"]).args([from, to]).stdin(Stdio::piped());
    let mut rsync = rsync.spawn().expect("rsync is installed by the set-up of the tests");
    let mut input = rsync.stdin.take().expect("it is a pipe");
    for index in chosen {
        input.write_all(names[index].0.as_os_str().as_bytes()).and_then(|()| input.write_all(&[0])).expect("it reads");
    }
    drop(input);
    assert!(rsync.wait().expect("it ends").success(), "rsync cannot copy {}", from.display());
}

/// Names below `top` with the sizes of files.
fn list(top: &Path, below: &Path, names: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(top.join(below)).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = below.join(entry.file_name());
        let metadata = entry.metadata().expect("it is there");
        if metadata.is_dir() {
            list(top, &name, names);
        }
        names.push((name, if metadata.is_file() { metadata.size() } else { 0 }));
    }
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn modules_are_made_where_none_are_installed() {
    let scene = xdfs_test_cli::Scene::new();
    let top = scene.directory("modules");
    made_modules(&top, Bounds { names: 600, bytes: u64::MAX }, 1);
    let mut names = Vec::new();
    list(&top, Path::new(""), &mut names);
    assert!((400..=700).contains(&names.len()), "{}", names.len());
    assert!(top.join(".bin/module-4").exists() && top.join(".bin/module-5").exists(), "the links lead somewhere");
}
