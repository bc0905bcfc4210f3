//! Things made from the code and kept in the repository: drawings of state machines and golden frames. And the fuzz
//! program.
//!
//! A generator lives beside what it shows: as an example of its crate that compares instead of writing with `--check`,
//! or as a module of tests of the same name.

use crate::{Failure, Outcome, ci, process, programs, tally::Tally, tree};
use std::process::Command;

/// Packages with their folders that have generated files.
const PACKAGES: [(&str, &str); 2] = [("xdfs-proto", "crates/proto"), ("xdfs-secure", "crates/secure")];

/// Compares the drawn state machines of docs/states with the code.
pub(crate) fn states() -> Outcome {
    fresh("states")
}

/// Compares the golden frames of vectors/ with the code.
pub(crate) fn vectors() -> Outcome {
    fresh("vectors")
}

/// Does some crate have a generator of this name?
pub(crate) fn exists(name: &str) -> bool {
    PACKAGES.iter().any(|(_, folder)| generator(folder, name).is_some())
}

/// Runs the fuzz program with `arguments`: `--short` is CI's share (the corpus again, then a fixed number of executions), which runs
/// as the tests are built; `--guided` is guided by coverage. What it leaves out is counted.
pub(crate) fn fuzz(arguments: &[&str], tally: &mut Tally) -> Outcome {
    let mut command = match arguments {
        ["--short"] => Command::new(ci::built("xdfs-fuzz")?),
        _ => process::cargo(&["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "xdfs-fuzz", "--"]),
    };
    process::run_counted(command.args(arguments), tally)?;
    Ok("the fuzz program found nothing".to_owned())
}

/// How a crate compares its generated files with the code.
#[derive(Clone, Copy, Debug)]
enum Generator {
    Example,
    Tests,
}

fn generator(folder: &str, name: &str) -> Option<Generator> {
    let folder = tree::root().join(folder);
    let is_there = |parts: &[String]| parts.iter().any(|part| folder.join(part).exists());
    if is_there(&[format!("examples/{name}.rs"), format!("examples/{name}/main.rs")]) {
        Some(Generator::Example)
    } else if is_there(&[format!("src/{name}.rs"), format!("src/{name}/mod.rs")]) {
        Some(Generator::Tests)
    } else {
        None
    }
}

fn fresh(name: &str) -> Outcome {
    let mut checked = Vec::new();
    for (package, folder) in PACKAGES {
        match generator(folder, name) {
            Some(Generator::Example) => example(package, folder, name)?,
            // The filter ends in `::`, so that only the tests of the module of this name run.
            Some(Generator::Tests) => {
                let mut tests = Command::new(programs::unit_tests(folder)?);
                process::run(tests.args(["--quiet", &format!("{name}::")]).current_dir(tree::root().join(folder)))?;
            }
            None => continue,
        }
        checked.push(package);
    }
    if checked.is_empty() {
        return Err(format!("no crate has a generator named {name}").into());
    }
    Ok(format!("{name} are up to date: {}", checked.join(", ")))
}

fn example(package: &str, folder: &str, name: &str) -> Result<(), Failure> {
    let mut command = Command::new(programs::example(folder, name)?);
    process::run(command.arg("--check").current_dir(tree::root())).map_err(|Failure(message)| {
        format!("{message}\nto bring the files up to date: cargo run -p {package} --example {name}").into()
    })
}
