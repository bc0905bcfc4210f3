//! `xdfs-bench`: one command that runs xdfs beside its peers. See bench/README.md.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use xdfs_bench::args::Args;
use xdfs_bench::error::{Error, Result};
use xdfs_bench::machine::Machine;
use xdfs_bench::namespace::{self, Network};
use xdfs_bench::process::Account;
use xdfs_bench::report::Report;
use xdfs_bench::world::World;
use xdfs_bench::{goals, install, shapes};

/// 128 + SIGINT, as shells say it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xdfs-bench: {error}");
            if matches!(error, Error::Interrupted) { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

/// True when every system did all its runs. A missed goal is a finding, not a failure of the bench.
fn run(args: Args) -> Result<bool> {
    if args.install {
        install::missing_peers()?;
    }
    let (network, congestion) = namespace::enter(!args.no_namespace, &args.congestion)?;
    let args = Args { congestion, ..args };
    let world = World::create(args, network == Network::Own)?;
    let machine = Machine::look(&world, Account::open("probe").method());
    println!(
        "{} x {}, Linux {}, congestion control {}, load {}",
        machine.cpus, machine.cpu, machine.kernel, machine.congestion, machine.load_at_start
    );
    let mut report = Report::new(machine, shapes::rounds(&world.args));
    let mut outcome = Ok(());
    for shape in world.args.shapes.clone() {
        outcome = shapes::run(&world, shape, &mut report);
        if outcome.is_err() {
            break;
        }
    }
    report.goals = goals::check(&report);
    print!("{}", goals::terminal(&report.goals));
    if let Some(caveat) = report.caveat() {
        println!("\n{caveat}");
    }
    // What was measured before an interruption is not lost.
    report.write(&world)?;
    outcome?;
    let failures = report.failures();
    for failure in &failures {
        eprintln!("xdfs-bench: failed: {failure}");
    }
    Ok(failures.is_empty())
}
