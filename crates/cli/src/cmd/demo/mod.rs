//! `xdfs demo`: a server and a client on this machine send a real file both ways, with the same
//! commands that a user would type, and compare every byte. For comparison, the same run measures a
//! bare socket copy.
//!
//! Everything it made is removed however it ends (except by SIGKILL), and it leaves no process
//! behind.

mod bound;
mod children;
mod file;
mod scratch;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use children::{Report, ServerProcess, States};
use scratch::Scratch;

use crate::exit::{Exit, Failure};
use crate::plan::DemoPlan;
use crate::signal;
use crate::size::{human, human_rate};
use crate::text::printable_path;

/// How long something took, for how many bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    bytes: u64,
    elapsed: Duration,
}

impl Measured {
    /// Bytes per second; infinite if nothing took no time.
    fn rate(self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs the demonstration.
pub(crate) fn run(plan: &DemoPlan) -> Result<Exit, Failure> {
    let stop = signal::stop_flag_for_cleanup()?;
    let scratch = Scratch::create(plan.directory.as_deref(), plan.size)?;
    say(&format!("files are made in {scratch} ({} free) and removed at the end", human(scratch.room())));
    let outcome = demonstrate(plan, &scratch, &stop);
    if stop.load(Ordering::Acquire) {
        return Err(Failure::new(Exit::Cancelled, "cancelled; what the demo made is removed"));
    }
    outcome
}

fn demonstrate(plan: &DemoPlan, scratch: &Scratch, stop: &AtomicBool) -> Result<Exit, Failure> {
    let source = scratch.path("source.bin");
    let back = scratch.path("back.bin");
    let export = scratch.path("server");
    let uploaded = export.join("copy.bin");
    scratch.make_directory(&export)?;

    say(&format!("making {} of random bytes", human(plan.size)));
    file::make_random(&source, plan.size, stop)?;

    let states = States::prepare(scratch.path("server-state"), scratch.path("client-state"))?;
    let server = ServerProcess::start(&export, &states)?;
    let url = server.url("copy.bin");
    let before = measure_bound(scratch, &source, plan.size, stop)?;
    file::warm_memory(plan.size, stop);
    let up = children::copy(plan, &states, source.as_os_str(), url.as_ref())?;
    check(stop)?;
    file::warm_memory(plan.size, stop);
    let down = children::copy(plan, &states, url.as_ref(), back.as_os_str())?;
    check(stop)?;
    let after = measure_bound(scratch, &source, plan.size, stop)?;
    server.stop()?;

    for copy in [&uploaded, &back] {
        if let Some(difference) = file::first_difference(&source, copy, stop)? {
            let message = format!("{}: byte {difference} differs from the source", printable_path(copy));
            return Err(Failure::new(Exit::SomeFailed, message));
        }
    }
    check(stop)?;
    show(&up, &down, before.zip(after));
    Ok(Exit::Done)
}

fn check(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Ordering::Acquire) { Err(Failure::new(Exit::Cancelled, "")) } else { Ok(()) }
}

/// Measures a bare socket copy of the file; `None`, with a note, if this system does not support
/// it.
fn measure_bound(scratch: &Scratch, source: &Path, size: u64, stop: &AtomicBool) -> Result<Option<Measured>, Failure> {
    file::warm_memory(size, stop);
    let target = scratch.path("bound.bin");
    let measured = bound::copy(source, &target, size, stop);
    scratch.remove(&target)?;
    check(stop)?;
    match measured {
        Ok(elapsed) => Ok(Some(Measured { bytes: size, elapsed })),
        Err(error) => {
            say(&format!("the bare socket copy cannot be measured here: {error}"));
            Ok(None)
        }
    }
}

fn show(up: &Report, down: &Report, bounds: Option<(Measured, Measured)>) {
    let bound_rate = bounds.map(|(before, after)| (before.rate() + after.rate()) / 2.0);
    for (direction, report) in [("up", up), ("down", down)] {
        let measured = report.measured;
        let fraction =
            bound_rate.map_or(String::new(), |bound| format!("   {:.2} of the bound", measured.rate() / bound));
        say(&format!(
            "{direction:<6} {} in {:.2} s   {}{fraction}   ({} channels, {}, {})",
            human(measured.bytes),
            measured.elapsed.as_secs_f64(),
            human_rate(measured.bytes, measured.elapsed),
            report.channels,
            report.protection,
            report.congestion,
        ));
    }
    if let Some((before, after)) = bounds {
        say(&format!(
            "bound  {} and {} before and after: a bare socket copy of the same file (splice, receive, write; one \
             connection, no protocol)",
            human_rate(before.bytes, before.elapsed),
            human_rate(after.bytes, after.elapsed),
        ));
    }
    say("verified: the server's copy and the copy fetched back equal the source in every byte");
}

/// A line of the demonstration, on standard error like everything for people.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
