//! One file per command; this is the list.

mod cp;
mod demo;
mod generate;
mod notify;
mod remote;
mod serve;
mod stat;

use crate::exit::{Exit, Failure};
use crate::plan::Plan;

/// Does what was planned.
pub(crate) fn run(plan: Plan) -> Result<Exit, Failure> {
    match plan {
        Plan::Serve(plan) => serve::run(plan),
        Plan::Copy(plan) => cp::run(plan),
        Plan::Stat(plan) => stat::run(&plan),
        Plan::Demo(plan) => demo::run(&plan),
        Plan::Generate(what, directory) => generate::run(what, &directory),
    }
}
