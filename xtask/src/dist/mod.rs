//! `xtask dist`: what is given to people who do not build xdfs: the static program, packages of Debian and Fedora,
//! a container file, checksums and the list of all that is built in. It must not install anything here.

mod packages;
mod pages;
mod sbom;
mod stage;

use crate::{Failure, Outcome, ci, metadata, process, tally::Tally};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The static program must stay below this.
const PROGRAM_BYTES_MAX: u64 = 15_000_000;

/// How hard the packages are compressed, as `xz` and `zstd` count it.
struct Effort {
    xz: u8,
    zstd: u8,
}

const FOR_PEOPLE: Effort = Effort { xz: 6, zstd: 19 };
const FOR_TESTS: Effort = Effort { xz: 0, zstd: 1 };

/// What all packages say of themselves.
struct Release {
    version: String,
    /// As Debian calls the kind of machine.
    debian: String,
    /// As everybody else does.
    machine: String,
    /// Seconds since 1970 of the commit: files and packages are dated by it, so that the same sources give the same bytes.
    date: String,
}

/// Builds the static program and packages it into `TARGET/dist`.
pub(crate) fn run() -> Outcome {
    let program = static_program()?;
    let bytes = std::fs::metadata(&program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    let folder = metadata::target_directory()?.join("dist");
    let outcome = package_with(&program, &folder, &FOR_PEOPLE)?;
    let stripped = std::fs::metadata(folder.join("xdfs")).map_or(bytes, |file| file.len());
    if stripped >= PROGRAM_BYTES_MAX {
        return Err(format!("the static program has {stripped} bytes, {PROGRAM_BYTES_MAX} are too many").into());
    }
    Ok(format!("{outcome}; the program has {stripped} bytes"))
}

/// Packages a program that is there for the tests, which unpack it at once.
pub(crate) fn package(program: &Path, folder: &Path) -> Outcome {
    package_with(program, folder, &FOR_TESTS)
}

fn package_with(program: &Path, folder: &Path, effort: &Effort) -> Outcome {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let release = release()?;
    let staged = folder.join("staged");
    stage::make_directory(&staged)?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let staged = folder.join("staged");
    stage::strip(program, &folder.join("xdfs"))?;
    let list = folder.join("xdfs.cdx.json");
    stage::write(&list, sbom::list(&target()?)?.as_bytes())?;
    stage::fill(&staged, &folder, &release)?;
    let files = [
        "xdfs".to_owned(),
        "xdfs.cdx.json".to_owned(),
        packages::deb(&staged, &folder, &release, effort.xz)?,
        packages::rpm(&staged, &folder, &release, effort.zstd)?,
        stage::copy("packaging/Containerfile", &folder, "Containerfile")?,
    ];
    std::fs::remove_dir_all(&staged).map_err(|error| format!("{}: {error}", staged.display()))?;
    let sums = process::output(Command::new("sha256sum").args(&files).current_dir(&folder))?;
    stage::write(&folder.join("SHA256SUMS"), sums.as_bytes())?;
    Ok(format!("{} and SHA256SUMS are in {}", files.join(", "), folder.display()))
}

/// The tests of the command, which CI runs with a program that it builds for them, with the static program; those of its
/// packages install and use them.
pub(crate) fn long() -> Outcome {
    run()?;
    let folder = metadata::target_directory()?.join("dist");
    let variables = vec![("XDFS_BINARY", folder.join("xdfs")), ("XDFS_DIST", folder)];
    let tested = ci::test_with(&mut Tally::default(), "tests/cli/", variables)?;
    Ok(format!("what 'make dist' makes was installed and used: {tested}"))
}

/// What `cargo install` makes is used: a file goes to a server on this machine and back.
pub(crate) fn install() -> Outcome {
    let folder = metadata::target_directory()?.join("installed");
    let mut install = process::cargo(&["install", "--locked", "--path", "crates/cli", "--force", "--root"]);
    process::run(install.arg(&folder))?;
    process::run(Command::new(folder.join("bin/xdfs")).args(["demo", "--size", "16MiB"]))?;
    Ok("'cargo install' made a program that works".to_owned())
}

/// Builds the program for musl, whose C library may be linked statically: names of hosts still resolve, which glibc
/// leaves to libraries that a static program cannot load.
fn static_program() -> Result<PathBuf, Failure> {
    let target = target()?;
    let found = process::output(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if !Path::new(found.trim()).is_dir() {
        return Err(format!("Rust's library for {target} is missing: rustup target add {target}").into());
    }
    let mut build =
        process::cargo(&["build", "--profile", "dist", "--locked", "--package", "xdfs", "--target", &target]);
    // For the parts that are C: encryption, compression and the allocator.
    build.env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    process::run(&mut build)?;
    Ok(metadata::target_directory()?.join(target).join("dist/xdfs"))
}

fn target() -> Result<String, Failure> {
    Ok(format!("{}-unknown-linux-musl", std::env::consts::ARCH))
}

fn release() -> Result<Release, Failure> {
    let members = metadata::members()?;
    let version = members.into_iter().find(|member| member.name == "xdfs").map(|member| member.version);
    let debian = process::output(Command::new("dpkg").arg("--print-architecture"))?;
    let mut commit = Command::new("git");
    commit.args(["-c", "safe.directory=*", "log", "-1", "--format=%ct"]).current_dir(crate::tree::root());
    Ok(Release {
        version: version.ok_or("the workspace has no package xdfs")?,
        debian: debian.trim().to_owned(),
        machine: std::env::consts::ARCH.to_owned(),
        date: process::output(&mut commit)?.trim().to_owned(),
    })
}
