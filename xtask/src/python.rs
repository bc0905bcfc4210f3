//! The Python package: its wheel is built, installed in a clean environment, and tested there.

use crate::{Failure, Outcome, ci, metadata, process, setup, tally::Tally, tree};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds wheels; installed once, in an environment of its own.
const MATURIN: &str = "maturin==1.16.0";

/// The length of the Parquet file of which the long form reads a column.
const PARQUET_BYTES: &str = "1073741824";

/// Builds, installs and tests it; `long` is the long form.
pub(crate) fn check(tally: &mut Tally, long: bool) -> Outcome {
    let folder = metadata::target_directory()?.join("python");
    let before = tally.passed;
    let wheel = build(&folder, long)?;
    let clean = folder.join("clean");
    environment(&clean, true)?;
    let tests = tree::root().join("bindings/python/tests");
    let pip = clean.join("bin/pip");
    let mut install = Command::new(&pip);
    install.args(["install", "--quiet", "--disable-pip-version-check"]).arg(&wheel);
    install.arg("--requirement").arg(tests.join("requirements.txt"));
    process::run(&mut install)?;
    let mut command = Command::new(clean.join("bin/python"));
    command.args([
        "-m",
        "pytest",
        "--quiet",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::pytest.PytestRemovedIn10Warning",
    ]);
    command.arg(&tests).current_dir(&folder).stdin(Stdio::null());
    command.env("XDFS_BINARY", program(long)?);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    if long {
        command.env("XDFS_PARQUET_BYTES", PARQUET_BYTES);
    }
    process::run_counted(&mut command, tally)?;
    Ok(format!("{} tests", tally.passed - before))
}

/// The command that the tests use: the one that they are given, or one that is built.
fn program(long: bool) -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os("XDFS_BINARY") {
        return Ok(given.into());
    }
    if !long {
        return ci::tested("xdfs");
    }
    process::run(&mut process::cargo(&["build", "--quiet", "--release", "--locked", "--package", "xdfs"]))?;
    Ok(metadata::target_directory()?.join("release/xdfs"))
}

/// Builds the wheel: of a release where something is measured, else of the libraries that the tests have built.
fn build(folder: &Path, long: bool) -> Result<PathBuf, Failure> {
    let tools = folder.join("tools");
    let maturin = tools.join("bin/maturin");
    if !maturin.is_file() {
        environment(&tools, false)?;
        let arguments = ["install", "--quiet", "--disable-pip-version-check", MATURIN];
        process::run(Command::new(tools.join("bin/pip")).args(arguments))?;
    }
    let wheels = folder.join("wheels");
    clear(&wheels)?;
    let manifest = tree::root().join("bindings/python/Cargo.toml");
    let mut build = Command::new(&maturin);
    build.args(["build", "--profile", if long { "release" } else { "dev" }, "--locked", "--quiet"]);
    build.arg("--manifest-path").arg(manifest);
    // The profile of the tests itself makes a program with tests of a library.
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    build.arg("--interpreter").arg(tools.join("bin/python")).arg("--out").arg(&wheels);
    process::run(build.current_dir(tree::root()).stdin(Stdio::null()))?;
    let made = std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    let made: Vec<PathBuf> = made.flatten().map(|entry| entry.path()).collect();
    match &made[..] {
        [wheel] if wheel.to_string_lossy().contains("-abi3-") => Ok(wheel.clone()),
        [wheel] => Err(format!("{}: it is for one version of Python alone", wheel.display()).into()),
        _ => Err(format!("{}: {} wheels instead of one", wheels.display(), made.len()).into()),
    }
}

/// A virtual environment; a fresh one, or the one that is there.
fn environment(folder: &Path, fresh: bool) -> Result<(), Failure> {
    if fresh {
        clear(folder)?;
    }
    let python = setup::python_with("ensurepip").unwrap_or("python3");
    process::run(Command::new(python).args(["-m", "venv"]).arg(folder).stdin(Stdio::null()))
}

fn clear(folder: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()).into())
        }
        _ => Ok(()),
    }
}
