//! The long forms of suites whose short form is part of every run: one command each. It must not decide what they check: that is
//! said by the tests, which read how long from the environment.

use crate::{Outcome, compat, delays, dist, metadata, process, python, repeated, seeded_bugs, setup, tally::Tally};
use std::process::Command;

/// One long form.
struct Form {
    name: &'static str,
    package: &'static str,
    /// Tests whose names begin so; all where it is empty.
    filter: &'static [&'static str],
    /// What it reads, and how much is usual.
    variables: &'static [(&'static str, &'static str)],
}

const FORMS: &[Form] = &[
    Form {
        name: "seeds",
        package: "xdfs-test-sim",
        filter: &["many_sessions"],
        variables: &[("XDFS_SIM_SESSIONS", "1000000")],
    },
    Form {
        name: "tree-seeds",
        package: "xdfs-client",
        filter: &["--lib", "tree::simulation"],
        variables: &[("XDFS_TREES", "5000000")],
    },
    Form {
        name: "file-operations",
        package: "xdfs-client",
        filter: &["--test", "files", "a_file_is_what_a_buffer_is_though"],
        variables: &[("XDFS_OPERATIONS", "1000000"), ("XDFS_SERVER_MS", "500")],
    },
    Form {
        name: "file-cuts",
        package: "xdfs-test-crash",
        filter: &["--test", "remote_files", "a_file_is"],
        variables: &[("XDFS_OPERATIONS", "1000000"), ("XDFS_SERVER_MS", "5000")],
    },
    Form {
        name: "model",
        package: "xdfs-test-model",
        filter: &["--test", "settings"],
        variables: &[("XDFS_MODEL", "large")],
    },
    Form {
        name: "model-restarts",
        package: "xdfs-test-model",
        filter: &["--test", "restarts", "every_promise_holds"],
        variables: &[("XDFS_MODEL", "large")],
    },
    Form {
        name: "model-leases",
        package: "xdfs-test-model",
        filter: &["--test", "leases", "keep_their_promises"],
        variables: &[("XDFS_MODEL", "large")],
    },
    Form {
        name: "crash",
        package: "xdfs-test-crash",
        filter: &["--test", "trace"],
        variables: &[("XDFS_CRASH_STRIKES", "10000")],
    },
    Form {
        name: "cuts",
        package: "xdfs-test-crash",
        filter: &["--test", "loopback"],
        variables: &[("XDFS_CRASH_SECONDS", "7200")],
    },
    Form {
        name: "kills",
        package: "xdfs-test-crash",
        filter: &["--test", "kills"],
        variables: &[("XDFS_KILLS_BYTES", "5368709120"), ("XDFS_KILLS", "40"), ("XDFS_KILLS_OUTAGE", "30")],
    },
    Form {
        name: "tree-kills",
        package: "xdfs-test-cli",
        filter: &["--test", "trees", "killed"],
        variables: &[("XDFS_TREE_KILLS", "50")],
    },
    Form {
        name: "real-trees",
        package: "xdfs-test-cli",
        filter: &["--test", "real", "every_command"],
        variables: &[("XDFS_REAL_RUNS", "30")],
    },
    Form {
        name: "real-kills",
        package: "xdfs-test-cli",
        filter: &["--test", "real", "a_copy_that_was_killed"],
        variables: &[("XDFS_REAL_KILLS", "50")],
    },
    Form {
        name: "idle",
        package: "xdfs-test-cli",
        filter: &["--test", "idle"],
        variables: &[
            ("XDFS_IDLE_SESSIONS", "5000"),
            ("XDFS_IDLE_WATCHES", "1000"),
            ("XDFS_OPEN_HANDLES", "10000"),
            ("RUST_TEST_THREADS", "1"),
        ],
    },
    Form {
        name: "pipes",
        package: "xdfs-test-cli",
        filter: &["--test", "pipes", "what_one_command_writes"],
        variables: &[("XDFS_PIPE_BYTES", "10000000000")],
    },
    Form {
        name: "rates",
        package: "xdfs-test-cli",
        filter: &["--test", "rates"],
        variables: &[("XDFS_RATE_SECONDS", "10"), ("RUST_TEST_THREADS", "1")],
    },
    Form {
        name: "races",
        package: "xdfs-test-conformance",
        filter: &["--test", "store", "race"],
        variables: &[("XDFS_RACE_ROUNDS", "20000")],
    },
    Form {
        name: "paths",
        package: "xdfs-test-conformance",
        filter: &["--test", "store", "paths"],
        variables: &[("XDFS_PATH_CASES", "1000000")],
    },
    Form {
        name: "messages",
        package: "xdfs-test-cli",
        filter: &["--test", "attack", "messages"],
        variables: &[("XDFS_FLOOD_LOOKS", "100"), ("RUST_TEST_THREADS", "1")],
    },
    Form {
        name: "login-timing",
        package: "xdfs-client",
        filter: &["--test", "hostile", "b26_a_login_of_nobody"],
        variables: &[("XDFS_LOGIN_TRIES", "2000")],
    },
    Form { name: "stacked", package: "xdfs-test-cli", filter: &["--test", "stacked"], variables: &[] },
];

/// Long forms that are no tests of one package.
const OTHERS: &[&str] = &["bugs", "ci", "compat", "delays", "dist", "install", "mount", "python"];

/// Programs in Rust that try a mount, which Debian does not have.
const MOUNT_TOOLS: &[&str] = &["fsx@0.3.1", "pjdfstest@0.2.2"];

/// Runs the long form `name`; `amount` takes the place of its first figure.
pub(crate) fn run(name: &str, amount: Option<&str>) -> Outcome {
    if name == "bugs" {
        return seeded_bugs::long(amount);
    }
    if name == "compat" {
        return compat::run(amount);
    }
    if name == "ci" {
        return repeated::run(amount);
    }
    if name == "delays" {
        return delays::run(amount);
    }
    if name == "python" {
        return python::check(&mut Tally::default(), true);
    }
    if name == "dist" {
        return dist::long();
    }
    if name == "install" {
        return dist::install();
    }
    if name == "mount" {
        return mount(amount);
    }
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        let names: Vec<&str> = FORMS.iter().map(|form| form.name).chain(OTHERS.iter().copied()).collect();
        return Err(format!("there is no long form '{name}': {}", names.join(", ")).into());
    };
    let mut arguments = vec!["test", "--release", "--locked", "--package", form.package];
    arguments.extend(form.filter);
    arguments.extend(["--", "--nocapture"]);
    let mut command = process::cargo(&arguments);
    for (index, (variable, usual)) in form.variables.iter().enumerate() {
        command.env(variable, if index == 0 { amount.unwrap_or(usual) } else { usual });
    }
    process::run(&mut command)?;
    Ok(format!("the long form '{name}' held"))
}

/// A mount under programs that were written to break file systems, each for `amount` seconds; fsx makes 10^6 operations where
/// no amount is said, else 100 for each second.
fn mount(amount: Option<&str>) -> Outcome {
    setup::install()?;
    let tools = metadata::target_directory()?.join("tools");
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", "--root"]).arg(&tools).args(MOUNT_TOOLS);
    process::run(&mut install)?;
    let operations = match amount {
        None => 1_000_000,
        Some(text) => 100 * text.parse::<u64>().map_err(|error| format!("'{text}' seconds: {error}"))?,
    };
    let arguments =
        ["test", "--release", "--locked", "--package", "xdfs-test-cli", "--features", "long", "--test", "mount"];
    let mut command = process::cargo(&arguments);
    // One by one: two of them on one machine would wait for each other.
    command.args(["--", "--nocapture", "--test-threads=1", "torture::", "suites::", "killed::"]);
    command.env("XDFS_TORTURE_SECONDS", amount.unwrap_or("60"));
    command.env("XDFS_TORTURE_OPERATIONS", operations.to_string()).env("XDFS_TORTURE_TOOLS", tools.join("bin"));
    process::run(&mut command)?;
    Ok("the long form 'mount' held".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of the table names the command, and says when it was run last and what came of it.
    #[test]
    fn each_long_form_has_a_row_with_its_last_run() {
        let text = std::fs::read_to_string(crate::tree::root().join("docs/durability.md")).unwrap();
        for name in FORMS.iter().map(|form| form.name).chain(OTHERS.iter().copied()) {
            let command = format!("| `cargo run -p xtask -- long {name}` |");
            let row = text.lines().find(|line| line.starts_with(&command));
            let row = row.unwrap_or_else(|| panic!("docs/durability.md has no row for `long {name}`"));
            let last = row.rsplit('|').nth(1).unwrap_or_default();
            let is_date = |word: &str| word.len() >= 10 && word.starts_with("20") && word[4..5] == *"-";
            let is_told = last.split_whitespace().any(is_date) || last.contains("not run");
            assert!(is_told, "docs/durability.md does not say when `long {name}` was run last: {last}");
        }
    }
}
