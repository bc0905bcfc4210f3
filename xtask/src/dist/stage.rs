//! The tree of files that a package unpacks.

use super::{Release, pages};
use crate::{Failure, process, tree};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Files that are packaged as they are, and where they go.
const FILES: [(&str, &str); 9] = [
    ("packaging/xdfs.service", "usr/lib/systemd/system/xdfs.service"),
    ("packaging/server.toml", "etc/xdfs/server.toml"),
    ("packaging/logrotate", "etc/logrotate.d/xdfs"),
    ("docs/completions/xdfs.bash", "usr/share/bash-completion/completions/xdfs"),
    // Where Debian looks, and where Fedora does.
    ("docs/completions/_xdfs", "usr/share/zsh/vendor-completions/_xdfs"),
    ("docs/completions/_xdfs", "usr/share/zsh/site-functions/_xdfs"),
    ("docs/completions/xdfs.fish", "usr/share/fish/vendor_completions.d/xdfs.fish"),
    ("LICENSE-MIT", "usr/share/doc/xdfs/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/xdfs/LICENSE-APACHE"),
];

/// What mount(8) calls for `-t xdfs`, in the directory to which /sbin leads: the program by another name.
const MOUNT_HELPER: (&str, &str) = ("usr/sbin/mount.xdfs", "../bin/xdfs");

/// Puts everything in its place below `staged`; the program and the list of what is built in come from `folder`.
pub(super) fn fill(staged: &Path, folder: &Path, release: &Release) -> Result<(), Failure> {
    for (from, to) in FILES {
        copy(from, staged, to)?;
    }
    place(&folder.join("xdfs"), &staged.join("usr/bin/xdfs"), 0o755)?;
    link(&staged.join(MOUNT_HELPER.0), MOUNT_HELPER.1)?;
    place(&folder.join("xdfs.cdx.json"), &staged.join("usr/share/doc/xdfs/xdfs.cdx.json"), 0o644)?;
    write(&staged.join("usr/share/doc/xdfs/copyright"), COPYRIGHT.as_bytes())?;
    documents(staged)?;
    manual(staged, folder)?;
    // Everything is as old as the commit, links and directories too.
    let date = format!("--date=@{}", release.date);
    process::run(Command::new("find").arg(staged).args(["-exec", "touch", "--no-dereference", &date, "{}", "+"]))
}

const COPYRIGHT: &str = "\
xdfs is licensed under MIT or Apache-2.0, whichever you like: LICENSE-MIT and
LICENSE-APACHE are beside this file. The libraries that are built in, with
their versions and licences, are listed in xdfs.cdx.json (CycloneDX).
";

/// The pages for users, in the places that help, unit and manual name: `docs/mount.md` beside `README.md`.
fn documents(staged: &Path) -> Result<(), Failure> {
    let folder = staged.join("usr/share/doc/xdfs");
    copy("README.md", &folder, "README.md")?;
    let docs = tree::root().join("docs");
    let entries = std::fs::read_dir(&docs).map_err(|error| format!("{}: {error}", docs.display()))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names.iter().filter_map(|name| name.to_str()).filter(|name| name.ends_with(".md")) {
        copy(&format!("docs/{name}"), &folder, &format!("docs/{name}"))?;
    }
    for picture in ["copy.svg", "resume.svg"] {
        copy(&format!("docs/pictures/{picture}"), &folder, &format!("docs/pictures/{picture}"))?;
    }
    pages::drop_dead_links(&folder)?;
    pages::drop_dead_links(&folder.join("docs"))
}

/// The man pages, as the program itself writes them.
fn manual(staged: &Path, folder: &Path) -> Result<(), Failure> {
    let pages = staged.join("usr/share/man");
    for section in ["man1", "man5"] {
        make_directory(&pages.join(section))?;
    }
    process::run(Command::new(folder.join("xdfs")).args(["generate", "man"]).arg(&pages))?;
    let mut compress = Command::new("find");
    compress.arg(&pages).args([
        "-type",
        "f",
        "-exec",
        "chmod",
        "644",
        "{}",
        "+",
        "-exec",
        "gzip",
        "-9",
        "--no-name",
        "{}",
        "+",
    ]);
    process::run(&mut compress)
}

/// A program without what only debuggers read.
pub(super) fn strip(program: &Path, to: &Path) -> Result<(), Failure> {
    process::run(Command::new("strip").arg("-o").arg(to).arg(program))?;
    set_mode(to, 0o755)
}

/// Copies a file of the repository, and returns its new name.
pub(super) fn copy(from: &str, to: &Path, name: &str) -> Result<String, Failure> {
    place(&tree::root().join(from), &to.join(name), 0o644)?;
    Ok(name.to_owned())
}

/// Makes a symbolic link that leads to `target`.
fn link(at: &Path, target: &str) -> Result<(), Failure> {
    at.parent().map_or(Ok(()), make_directory)?;
    std::os::unix::fs::symlink(target, at).map_err(|error| format!("{}: {error}", at.display()).into())
}

fn place(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    to.parent().map_or(Ok(()), make_directory)?;
    std::fs::copy(from, to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
    set_mode(to, mode)
}

/// Writes a file that everybody may read.
pub(super) fn write(to: &Path, content: &[u8]) -> Result<(), Failure> {
    std::fs::write(to, content).map_err(|error| format!("{}: {error}", to.display()))?;
    set_mode(to, 0o644)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), Failure> {
    let set = std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
    set.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Makes a directory that everybody may enter, and those above it, whatever the umask.
pub(super) fn make_directory(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), make_directory)?;
    std::fs::create_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    set_mode(path, 0o755)
}
