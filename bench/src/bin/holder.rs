//! `holder`: sessions in which nothing happens, logins by the thousand, first bytes over a long way. See the crate's
//! module `holder`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde_json::json;
use xdfs_bench::error::{Result, exit_code};
use xdfs_bench::holder::remote_files::{self, Readers, Way};
use xdfs_bench::holder::{self, Login};

/// A client of xdfs that does what the command line cannot be asked for.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Opens sessions and holds them until standard input ends.
    Hold {
        #[command(flatten)]
        login: Login,
        /// How many.
        #[arg(long, default_value_t = 1)]
        sessions: u32,
        /// Channels of each.
        #[arg(long, default_value_t = 1)]
        channels: u16,
    },
    /// Logs in and closes, one after the other.
    Logins {
        #[command(flatten)]
        login: Login,
        /// How many times.
        #[arg(long)]
        count: u32,
    },
    /// Puts small files, durably, in batches.
    PutSmall {
        #[command(flatten)]
        login: Login,
        /// What they are below, EXPORT/path.
        #[arg(long)]
        base: String,
        /// How many.
        #[arg(long, default_value_t = 1000)]
        files: u32,
        /// Bytes of each.
        #[arg(long, default_value_t = 4096)]
        size: usize,
    },
    /// Copies a file as a program does that opens it, reads or writes it in its order, and closes it.
    Copy {
        #[command(flatten)]
        login: Login,
        /// Which way.
        way: Way,
        /// EXPORT/path.
        remote: String,
        /// The file of this machine.
        local: PathBuf,
        /// Channels of the session.
        #[arg(long, default_value_t = 4)]
        channels: u16,
    },
    /// Reads 4 KiB at random through a relay that delays each direction.
    RandomReads {
        #[command(flatten)]
        login: Login,
        /// EXPORT/path.
        remote: String,
        /// The same file on this machine, to compare with.
        local: PathBuf,
        /// Who reads.
        #[arg(long, default_value = "tasks")]
        readers: Readers,
        /// Reads on their way at a time.
        #[arg(long, default_value_t = 32)]
        in_flight: usize,
        /// How many.
        #[arg(long, default_value_t = 16_000)]
        count: usize,
        /// Milliseconds in each direction.
        #[arg(long, default_value_t = 10)]
        delay_ms: u64,
    },
    /// Times the first byte through a relay that delays each direction.
    FirstByte {
        #[command(flatten)]
        login: Login,
        /// How many times.
        #[arg(long, default_value_t = 5)]
        count: u32,
        /// Milliseconds in each direction.
        #[arg(long, default_value_t = 50)]
        delay_ms: u64,
    },
}

fn main() -> ExitCode {
    exit_code("holder", run(Cli::parse().command))
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Hold { login, sessions, channels } => holder::hold(&login, sessions, channels, |seconds| {
            println!("{}", json!({"event": "held", "sessions": sessions, "channels": channels, "seconds": seconds}));
        }),
        Command::Logins { login, count } => holder::logins(&login, count)
            .map(|seconds| println!("{}", json!({"event": "logins", "count": count, "seconds": seconds}))),
        Command::PutSmall { login, base, files, size } => holder::put_small(&login, &base, files, size)
            .map(|seconds| println!("{}", json!({"event": "files", "files": files, "seconds": seconds}))),
        Command::Copy { login, way, remote, local, channels } => {
            remote_files::copy(&login, channels, way, &remote, &local)
        }
        Command::RandomReads { login, remote, local, readers, in_flight, count, delay_ms } => {
            let delay = Duration::from_millis(delay_ms);
            remote_files::random_reads(&login, &remote, &local, (readers, in_flight), count, delay)
                .map(|rate| println!("{}", json!({
                    "event": "random_reads", "per_second": rate.per_second, "round_trip": rate.round_trip.as_secs_f64(),
                })))
        }
        Command::FirstByte { login, count, delay_ms } => {
            let times = holder::first_bytes(&login, count, Duration::from_millis(delay_ms))?;
            println!("{}", json!({"event": "first_byte", "milliseconds": times}));
            Ok(())
        }
    }
}
