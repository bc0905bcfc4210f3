//! `xtask long tree-bugs`: known faults are put back into the code of tree copies, one at a time, and the simulation has to find
//! each. The code with the fault is a copy below the target directory; the product has no switch for any of them.

use std::path::Path;
use std::process::Command;

use crate::{Failure, Outcome, metadata, process, tree};

/// A fault: what stands in its place in a file of the tree copies.
struct Fault {
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "calls join the batch of a listing, which takes their room",
        file: "in_flight.rs",
        right: "        self.closed = true;\n",
        wrong: "",
    },
    Fault {
        name: "a directory of several pages is removed ahead of one in it",
        file: "up/clearing.rs",
        right: "if !cursor.is_empty() {",
        wrong: "if cursor.len() > 1000 {",
    },
    Fault {
        name: "a name is linked to one that was not copied",
        file: "state.rs",
        right: "        self.not_copied.hashes.insert(hash);\n",
        wrong: "        let _ = hash;\n",
    },
    Fault {
        name: "a batch that meets the loss of its session is forgotten",
        file: "in_flight.rs",
        right: "        let sent = remote.call(self.next, payload, room);\n",
        wrong: "        let sent = remote.call(self.next, payload, room);\n        if sent.is_err() {\n            return sent;\n        }\n",
    },
    Fault {
        name: "a directory is finished that was not made",
        file: "up/answers.rs",
        right: "!directory.made && !directory.locked)",
        wrong: "!directory.made && directory.made)",
    },
    Fault {
        name: "what was in flight when a session was lost is done again without a look",
        file: "up.rs",
        right: "            UploadTask::Entry(entry) => self.large_again(entry),\n",
        wrong: "",
    },
    Fault {
        name: "names are deleted although the source was not read completely",
        file: "state.rs",
        right: "if self.incomplete || self.summary.failed > self.in_the_way {",
        wrong: "if self.summary.failed > self.in_the_way + count {",
    },
    Fault {
        name: "a downloaded file keeps its own attributes",
        file: "down.rs",
        right: "            Ok(safety) => {\n                self.add_extras(observer, &entry);\n",
        wrong: "            Ok(safety) => {\n",
    },
];

/// Trees that the simulation copies with each fault, at most.
const TREES: &str = "100000";

/// Puts each fault into a copy of the sources and expects the simulation to fail there.
pub(crate) fn run() -> Outcome {
    let target = metadata::target_directory()?.join("tree-bugs");
    let sources = target.join("sources");
    copy_sources(&sources)?;
    // Without a fault it holds, or its failures would prove nothing.
    if !holds(&sources, &target, "2000")? {
        return Err("the simulation fails without any fault".into());
    }
    let mut missed = Vec::new();
    for fault in FAULTS {
        let path = sources.join("crates/client/src/tree").join(fault.file);
        let right = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if right.matches(fault.right).count() != 1 {
            return Err(format!("{}: the place of the fault '{}' is not there once", fault.file, fault.name).into());
        }
        write(&path, &right.replace(fault.right, fault.wrong))?;
        let found = !holds(&sources, &target, TREES)?;
        write(&path, &right)?;
        println!("{}: {}", if found { "found" } else { "missed" }, fault.name);
        missed.extend((!found).then_some(fault.name));
    }
    match missed.as_slice() {
        [] => Ok(format!("the simulation finds all {} faults", FAULTS.len())),
        missed => Err(format!("the simulation misses: {}", missed.join("; ")).into()),
    }
}

/// A copy of what git knows, as it is now.
fn copy_sources(to: &Path) -> Result<(), Failure> {
    let list = process::output(Command::new("git").args(["ls-files", "-z"]).current_dir(tree::root()))?;
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (tree::root().join(name), to.join(name));
        let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::copy(&from, &to)).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Whether the simulation of so many trees holds in `sources`. That it compiles is a condition.
fn holds(sources: &Path, target: &Path, trees: &str) -> Result<bool, Failure> {
    let cargo = |more: &[&str]| {
        let mut command = process::cargo(&["test", "--locked", "--package", "xdfs-client", "--lib", "--target-dir"]);
        command.arg(target.join("target")).args(more).current_dir(sources).env("RUSTFLAGS", "-Awarnings");
        command
    };
    process::run(&mut cargo(&["--no-run"]))?;
    let mut test = cargo(&["tree::simulation"]);
    let status = test.env("XDFS_TREES", trees).env("RUST_BACKTRACE", "0").output();
    status.map(|output| output.status.success()).map_err(|error| format!("the simulation: {error}").into())
}
