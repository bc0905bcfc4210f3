//! Deliberate mistakes, which show that the tests can fail: `xtask long bugs`, and a part of them in CI.
//!
//! The product has no switch for any of them. Each is a change of its text, made in a copy of the sources below the target
//! directory: all are in one build, which asks the variable `XDFS_BUG` for the one that is selected. Then an ordinary test,
//! which passes in every run, has to fail there, and to tell the property that the mistake breaks. It must not have tests of
//! its own: what finds a mistake is what checks the product.

mod built;
mod copy;
mod fault;
mod faults;

use crate::{Failure, Outcome, metadata};
use built::Built;
use fault::{Fault, Run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A fault, and a test that has to find it.
type Row = (&'static Fault, &'static Run);

/// Every fault, or those whose names contain `only`.
pub(crate) fn long(only: Option<&str>) -> Outcome {
    find(rows(|fault, _| only.is_none_or(|only| fault.name.contains(only))), true)
}

/// The faults in the protocol's crate that the model finds: it depends on that crate alone, so the copy is built soon. That
/// the model holds without them is what CI has just seen.
pub(crate) fn short() -> Outcome {
    find(rows(|fault, run| fault.is_in_proto() && run.program.package == "xdfs-test-model"), false)
}

fn rows(is_wanted: impl Fn(&Fault, &Run) -> bool) -> Vec<Row> {
    let all = faults::all().flat_map(|fault| fault.runs.iter().map(move |run| (fault, run)));
    all.filter(|(fault, run)| is_wanted(fault, run)).collect()
}

/// Makes each fault and runs what has to find it; before that, where it is to be `tried`, each test without a fault.
fn find(rows: Vec<Row>, tried: bool) -> Outcome {
    if rows.is_empty() {
        return Err("no fault has such a name".into());
    }
    // Cargo takes what is at the same place of another workspace for the same: in one target directory each of them would build
    // anew what the other has built.
    let target = metadata::target_directory()?.join("bugs");
    let (sources, outputs) = (target.join("sources"), target.join("output"));
    fs::create_dir_all(&outputs).map_err(|error| format!("{}: {error}", outputs.display()))?;
    let began = Instant::now();
    copy::make(&sources)?;
    let built = Built::new(&sources, &target.join("target"), &rows.iter().map(|(_, run)| run.program).collect())?;
    println!("built in {:.0} s", began.elapsed().as_secs_f64());
    if tried {
        holds_without(&built, &rows, &outputs)?;
    }
    let mut missed = Vec::new();
    for (fault, run) in &rows {
        let (began, output) = (Instant::now(), output(&outputs, fault.name, run));
        let passed = built.passes(run, Some(fault.name), &output)?;
        let found = !passed && run.tells(&output)?;
        let took = began.elapsed().as_secs_f64();
        println!("{} in {took:5.1} s: {}: {}", if found { "found" } else { "MISSED" }, fault.name, run.shown());
        if !found {
            let how = if passed { "passes".into() } else { format!("does not tell '{}'", run.says) };
            missed.push(format!("{} ({}): {} {how}, see {}", fault.name, fault.what, run.shown(), output.display()));
        }
    }
    let faults: BTreeSet<&str> = rows.iter().map(|(fault, _)| fault.name).collect();
    match missed.as_slice() {
        [] => Ok(format!("{} faults are found by {} runs", faults.len(), rows.len())),
        missed => Err(Failure(format!("not found:\n{}", missed.join("\n")))),
    }
}

/// Without a fault each of the tests passes, or its failure would prove nothing.
fn holds_without(built: &Built, rows: &[Row], outputs: &Path) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for (_, run) in rows {
        // One that looks for another property in the same is the same without a fault.
        let program = run.program;
        if !known.insert((program.package, program.test, program.filter, run.amount)) {
            continue;
        }
        let (began, output) = (Instant::now(), output(outputs, "none", run));
        if !built.passes(run, None, &output)? {
            return Err(format!("{} fails without a fault, see {}", run.shown(), output.display()).into());
        }
        println!("holds in {:5.1} s: {}", began.elapsed().as_secs_f64(), run.shown());
    }
    Ok(())
}

/// Where a run prints to.
fn output(outputs: &Path, fault: &str, run: &Run) -> PathBuf {
    let name: String = format!("{fault} {}", run.shown());
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    outputs.join(name.replace(|letter| !is_kept(letter), "-") + ".log")
}
