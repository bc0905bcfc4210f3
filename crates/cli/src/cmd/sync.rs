//! `xdfs sync`: makes a directory like another one, by means of `cp -r`.

use crate::exit::{Exit, Failure};
use crate::plan::SyncPlan;

/// Carries out a sync; names that fail are reported and do not stop the others.
pub(crate) fn run(plan: SyncPlan) -> Result<Exit, Failure> {
    super::cp::sync(&plan)
}
