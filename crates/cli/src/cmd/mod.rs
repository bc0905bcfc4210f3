//! The list of commands, one file each.

mod authorities;
mod complete;
pub(crate) mod connect;
mod cp;
mod demo;
mod ftp;
mod generate;
mod key;
mod key_files;
mod lock;
mod login;
mod meant;
mod mount;
mod names;
mod notify;
mod pattern;
mod pause;
mod pipe;
pub(crate) mod remote;
mod serve;
pub(crate) mod ssh;
mod sum;
mod sync;
mod trust;
mod user;

use std::process::ExitCode;

use crate::exit::Failure;
use crate::plan::Plan;

/// Carries out a plan.
pub(crate) fn run(plan: Plan) -> Result<ExitCode, Failure> {
    let exit = match plan {
        // Its exit code is that of another program.
        Plan::Lock(plan) => return lock::run(&plan),
        Plan::Serve(plan) => serve::run(plan),
        Plan::CheckServe(plan) => serve::check(&plan),
        Plan::ServeStdio(plan) => serve::run_stdio(&plan),
        Plan::Copy(plan) => cp::run(plan),
        Plan::Sync(plan) => sync::run(plan),
        Plan::Names(plan) => names::run(&plan),
        Plan::Mount(plan) => mount::run(&plan),
        Plan::Sum(plan) => sum::run(&plan),
        Plan::Demo(plan) => demo::run(&plan),
        Plan::User(command) => user::run(command),
        Plan::Key(command) => key::run(command),
        Plan::Trust(command) => trust::run(command),
        Plan::Complete(args) => complete::run(&args),
        Plan::Generate(what, directory) => generate::run(what, &directory),
    };
    exit.map(ExitCode::from)
}
