//! The plan of `xdfs lock`.

use std::ffi::OsString;
use std::time::Duration;

use super::{LoginPlan, PlanError, is_empty, parse_url};
use crate::args::LockArgs;
use crate::url::Url;

/// A command that runs while a file is locked.
#[derive(Debug)]
pub(crate) struct LockPlan {
    /// The file.
    pub(crate) url: Url,
    /// Others may have the lock, too, if they say the same.
    pub(crate) shared: bool,
    /// How long it is waited for.
    pub(crate) patience: Duration,
    /// The exit code if somebody else has it.
    pub(crate) conflict: u8,
    /// What is run.
    pub(crate) program: OsString,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// The login.
    pub(crate) login: LoginPlan,
}

pub(super) fn resolve(args: LockArgs) -> Result<LockPlan, PlanError> {
    let mut arguments = args.command;
    if is_empty(&args.url) || arguments.first().is_none_or(is_empty) {
        return Err(PlanError::Empty);
    }
    let patience = match args.nonblock {
        true => Duration::ZERO,
        false => args.timeout.unwrap_or(Duration::MAX),
    };
    Ok(LockPlan {
        url: parse_url(&args.url)?,
        shared: args.shared,
        patience,
        conflict: args.conflict_exit_code,
        program: arguments.remove(0),
        arguments,
        login: args.login.into(),
    })
}
