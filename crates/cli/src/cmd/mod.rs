//! One file per command; this is the list.

mod generate;

use crate::exit::{Exit, Failure};
use crate::plan::Plan;

/// Does what was planned.
pub(crate) fn run(plan: Plan) -> Result<Exit, Failure> {
    match plan {
        Plan::Generate(what, directory) => generate::run(what, &directory),
        Plan::Serve(_) | Plan::Copy(_) | Plan::Stat(_) | Plan::Demo(_) => {
            Err(Failure::new(Exit::Usage, "this build has no client and no server yet"))
        }
    }
}
