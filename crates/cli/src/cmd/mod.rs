//! One file per command; this is the list.

mod cp;
mod demo;
mod generate;
mod notify;
mod stat;

use crate::exit::{Exit, Failure};
use crate::plan::Plan;

/// Does what was planned.
pub(crate) fn run(plan: Plan) -> Result<Exit, Failure> {
    match plan {
        Plan::Generate(what, directory) => generate::run(what, &directory),
        Plan::Demo(plan) => demo::run(&plan),
        Plan::Serve(_) | Plan::Copy(_) | Plan::Stat(_) => {
            Err(Failure::new(Exit::Usage, "this build has no client and no server yet"))
        }
    }
}
