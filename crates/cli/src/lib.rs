//! The `xdfs` command: the command line becomes a plan, the plan is carried out, the outcome
//! becomes an exit code.
//!
//! Everything that moves data is in the `client` and `server` crates; this crate is the user
//! interface. It is a library for the sake of [`access`], the way from a URL to a session that other
//! programs of ours share.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show URLs with [optional] parts; they are no links")]
pub mod access;
mod address;
mod args;
mod ask;
mod bandwidth;
mod calendar;
mod cmd;
mod config;
mod configure;
mod descriptors;
mod exit;
mod foreign;
mod glob;
mod greeting;
mod mode;
mod output;
mod plan;
mod protection;
mod signal;
mod size;
mod stack;
mod state;
mod text;
mod url;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use exit::{Exit, Failure};
use output::JsonLines;
use plan::PlanError;

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    let for_mount = std::env::args_os().next().is_some_and(|program| args::is_helper(&program));
    run().unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            output::report(&failure.message);
        }
        if for_mount { failure.exit.for_mount() } else { failure.exit.into() }
    })
}

/// Whether a command line that cannot be read asks for objects.
fn is_json_asked_for(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}

fn run() -> Result<ExitCode, Failure> {
    let mut typed = usage::parse(args::as_mount(std::env::args_os())).inspect_err(|failure| {
        if failure.exit == Exit::Usage && !failure.message.is_empty() && is_json_asked_for(std::env::args_os()) {
            // Where nothing can be written, the message for people says it.
            let _ = JsonLines.usage(&failure.message);
        }
    })?;
    let (json, as_a_whole) = (typed.command.wants_json(), typed.command.is_told_as_a_whole());
    let applied = configure::apply(&mut typed).inspect_err(|failure| {
        if json && failure.exit == Exit::Usage {
            // Where nothing can be written, the message for people says it.
            let _ = JsonLines.usage(&failure.message);
        }
    })?;
    let plan = plan::resolve(typed).map_err(|error| {
        // What a program reads as a file's content is not mixed with objects.
        let is_told = json && error != PlanError::JsonIntoTarget;
        let failure = applied.explain(error);
        if is_told {
            // Where nothing can be written, the message for people says it.
            let _ = JsonLines.usage(&failure.message);
        }
        failure
    })?;
    cmd::run(plan).inspect_err(|failure| {
        if as_a_whole && !failure.message.is_empty() {
            // Where nothing can be written, the message for people says it.
            let _ = JsonLines.failure(failure);
        }
    })
}
