//! Things made from the code and kept in the repository: drawings of state machines and golden frames. And the fuzz
//! program, which stands outside of the workspace.
//!
//! The generators live beside what they show, as examples of its crate, and compare instead of writing with `--check`.

use crate::{Failure, Outcome, process, tree};

/// Packages with their folders that may offer an example named `vectors`.
const VECTORS: [(&str, &str); 2] = [("xdfs-proto", "crates/proto"), ("xdfs-secure", "crates/secure")];

/// Compares the drawn state machines of docs/states with the code.
pub(crate) fn states() -> Outcome {
    fresh("states", &[("xdfs-proto", "crates/proto")])
}

/// Compares the golden frames of vectors/ with the code.
pub(crate) fn vectors() -> Outcome {
    fresh("vectors", &VECTORS)
}

/// Is there something for `states` to compare?
pub(crate) fn has_states() -> bool {
    has_example("crates/proto", "states")
}

/// Is there something for `vectors` to compare?
pub(crate) fn has_vectors() -> bool {
    VECTORS.iter().any(|(_, folder)| has_example(folder, "vectors"))
}

/// Is there a fuzz program?
pub(crate) fn has_fuzz() -> bool {
    tree::root().join("fuzz/Cargo.toml").exists()
}

/// Runs the fuzz program: `--short` is CI's share (the corpus again, then a fixed number of executions).
pub(crate) fn fuzz(short: bool) -> Outcome {
    if !has_fuzz() {
        return Err("there is no fuzz/Cargo.toml".into());
    }
    let mut command = process::cargo(&["run", "--quiet", "--release", "--manifest-path", "fuzz/Cargo.toml", "--"]);
    if short {
        command.arg("--short");
    }
    process::run(&mut command)?;
    Ok("the fuzz program found nothing".to_owned())
}

fn fresh(example: &str, packages: &[(&str, &str)]) -> Outcome {
    let mut checked = Vec::new();
    for (package, folder) in packages {
        if has_example(folder, example) {
            let arguments = ["run", "--quiet", "--locked", "--package", package, "--example", example, "--", "--check"];
            process::run(&mut process::cargo(&arguments)).map_err(|Failure(message)| {
                format!("{message}\nto bring the files up to date: cargo run -p {package} --example {example}")
            })?;
            checked.push(*package);
        }
    }
    if checked.is_empty() {
        return Err(format!("no crate has an example named {example}").into());
    }
    Ok(format!("{example} are up to date: {}", checked.join(", ")))
}

fn has_example(folder: &str, example: &str) -> bool {
    let examples = tree::root().join(folder).join("examples");
    examples.join(format!("{example}.rs")).exists() || examples.join(example).join("main.rs").exists()
}
