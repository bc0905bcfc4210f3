//! What was typed behind `xdfs lock`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::{LoginArgs, seconds};
use crate::exit::exit_codes;

const EXAMPLES: &str = concat!(
    "\
As flock(1), with a file on a server: programs on the server's machine that lock
the file with flock(2) take part. A missing file is made, but not with --shared.
A lock needs the right to change the file, since it shuts others out.

The lock ends with COMMAND, or when the connection is lost: then COMMAND gets
SIGTERM, a moment after the loss. SIGTERM and SIGHUP are passed on to it.

Examples:
  xdfs lock xdfs://anna@host/data/lock -- make install
  xdfs lock --shared --timeout 10 xdfs://anna@host/data/lock -- ./report
  xdfs lock --nonblock --conflict-exit-code 75 xdfs://anna@host/data/lock -- ./backup

The exit code is that of COMMAND, or 128 and the number of the signal that ended
it; 14, or what --conflict-exit-code says, if somebody else has the lock; 126 or
127 if COMMAND cannot be started; 4 if the lock was lost; otherwise:

",
    exit_codes!()
);

/// Runs a command while a file on a server is locked.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LockArgs {
    /// The file to lock
    #[arg(value_name = "URL")]
    pub(crate) url: OsString,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Several may have the lock at a time, if all of them say this
    #[arg(short, long)]
    pub(crate) shared: bool,

    /// Do not wait for the lock
    #[arg(short, long, conflicts_with = "timeout")]
    pub(crate) nonblock: bool,

    /// Wait so long for the lock; otherwise it is waited for as long as it takes
    #[arg(short = 'w', long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// The exit code if somebody else has the lock
    #[arg(short = 'E', long, value_name = "N", default_value = "14")]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) login: LoginArgs,
}
