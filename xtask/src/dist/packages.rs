//! Packages of a staged tree, made by the programs of Debian and Fedora themselves.

use super::{Release, stage};
use crate::{Failure, process, tree};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Scripts of packages, with the name that Debian gives them.
const SCRIPTS: [(&str, &str); 3] =
    [("after-install", "postinst"), ("before-remove", "prerm"), ("after-remove", "postrm")];

/// Makes the `.deb` and returns its name.
pub(super) fn deb(staged: &Path, folder: &Path, release: &Release, level: u8) -> Result<String, Failure> {
    let about = staged.join("DEBIAN");
    stage::make_directory(&about)?;
    let control =
        template("packaging/deb/control", &[("VERSION", &release.version), ("ARCHITECTURE", &release.debian)])?;
    let control = control.replace("@KIB@", &kibibytes(staged)?);
    stage::write(&about.join("control"), control.as_bytes())?;
    stage::write(&about.join("conffiles"), b"/etc/logrotate.d/xdfs\n/etc/xdfs/server.toml\n")?;
    for (script, name) in SCRIPTS {
        stage::copy(&format!("packaging/{script}.sh"), &about, name)?;
        stage::set_mode(&about.join(name), 0o755)?;
    }
    let name = format!("xdfs_{}_{}.deb", release.version, release.debian);
    let mut build = Command::new("dpkg-deb");
    build.arg(format!("-z{level}")).args(["--root-owner-group", "--build"]).arg(staged).arg(folder.join(&name));
    process::output(build.env("SOURCE_DATE_EPOCH", &release.date))?;
    fs::remove_dir_all(&about).map_err(|error| format!("{}: {error}", about.display()))?;
    Ok(name)
}

/// Makes the `.rpm` and returns its name.
pub(super) fn rpm(staged: &Path, folder: &Path, release: &Release, level: u8) -> Result<String, Failure> {
    let work = folder.join("rpm");
    stage::make_directory(&work)?;
    let files: Vec<String> = files(staged)?.into_iter().filter(|file| !file.starts_with("/etc/")).collect();
    let scripts: Vec<String> =
        SCRIPTS.iter().map(|(name, _)| read(&format!("packaging/{name}.sh"))).collect::<Result<_, _>>()?;
    let spec = template(
        "packaging/rpm/xdfs.spec",
        &[
            ("LEVEL", &level.to_string()),
            ("VERSION", &release.version),
            ("STAGED", &staged.display().to_string()),
            ("AFTER_INSTALL", &scripts[0]),
            ("BEFORE_REMOVE", &scripts[1]),
            ("AFTER_REMOVE", &scripts[2]),
            ("FILES", &files.join("\n")),
        ],
    )?;
    let path = work.join("xdfs.spec");
    stage::write(&path, spec.as_bytes())?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", &release.machine, "--define"]);
    build.arg(format!("_topdir {}", work.display())).arg(&path);
    process::output(build.env("SOURCE_DATE_EPOCH", &release.date))?;
    let made = format!("xdfs-{}-1.{}.rpm", release.version, release.machine);
    let from = work.join("RPMS").join(&release.machine).join(&made);
    fs::rename(&from, folder.join(&made)).map_err(|error| format!("{}: {error}", from.display()))?;
    fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    Ok(made)
}

/// A file of the repository with values in place of `@NAME@`.
fn template(path: &str, values: &[(&str, &str)]) -> Result<String, Failure> {
    let text = read(path)?;
    Ok(values.iter().fold(text, |text, (name, value)| text.replace(&format!("@{name}@"), value)))
}

fn read(path: &str) -> Result<String, Failure> {
    fs::read_to_string(tree::root().join(path)).map_err(|error| format!("{path}: {error}").into())
}

/// The files and links below a directory as an installed system names them.
fn files(staged: &Path) -> Result<Vec<String>, Failure> {
    let found = process::output(Command::new("find").arg(staged).args(["!", "-type", "d", "-printf", "/%P\n"]))?;
    let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
    files.sort();
    Ok(files)
}

/// How much room a tree takes, as Debian counts it.
fn kibibytes(staged: &Path) -> Result<String, Failure> {
    let counted = process::output(Command::new("du").args(["-sk", "--apparent-size"]).arg(staged))?;
    Ok(counted.split_whitespace().next().unwrap_or("0").to_owned())
}
