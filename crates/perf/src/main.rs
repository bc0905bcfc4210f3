//! `xioperf`: measures how fast bulk data moves over a stack of drivers that is named on the command
//! line (the papers' XIOPerf). All its input and output goes through `xdfs-xio`, so that a driver is
//! measured as any program would use it; `docs/xioperf.md` describes it.

mod board;
mod datagrams;
mod ends;
mod options;
mod progress;
mod report;
mod run;
mod size;
mod stream;
mod tally;

use std::process::ExitCode;

/// What the process ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    /// Everything that was asked for.
    Success = 0,
    /// It could not connect, or the transfer failed.
    Failed = 1,
    /// Ctrl-C or SIGTERM. What had moved was reported.
    Cancelled = 130,
}

fn main() -> ExitCode {
    let plan = match options::Plan::of(std::env::args_os()) {
        Ok(plan) => plan,
        // Help, the version, or what is wrong with the command line.
        Err(error) => error.exit(),
    };
    match run::run(&plan) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            eprintln!("xioperf: {error}");
            ExitCode::from(Exit::Failed as u8)
        }
    }
}
