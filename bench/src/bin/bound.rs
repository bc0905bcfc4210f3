//! `bound`: the program without a protocol. See the crate's module `bound`.
//!
//! `bound serve` prints one line with its address and serves until it is stopped; `bound send` and `bound recv` move
//! one file, or zeros with `--bytes`, and print one line with bytes and seconds.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use xdfs_bench::args::parse_size;
use xdfs_bench::bound::{self, BLOCK_MAX, CHANNELS_MAX, Direction, Moved};
use xdfs_bench::error::{Result, exit_code};

/// Moves bytes over TCP with no protocol at all: the bound that a transfer program is measured against.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves one client after the other; loopback only, there is no login.
    Serve {
        /// Address and port; port 0 is any free one.
        #[arg(long, default_value_t = bound::any_port())]
        listen: SocketAddr,
        /// Directory whose plain files may be read and created.
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Congestion control of the connections.
        #[arg(long, default_value = "cubic")]
        congestion: String,
    },
    /// Client to server.
    Send(Transfer),
    /// Server to client.
    Recv(Transfer),
}

#[derive(Args)]
struct Transfer {
    /// Address of the server.
    #[arg(long)]
    connect: SocketAddr,
    /// Zeros to move from memory to memory.
    #[arg(long, value_parser = parse_size, conflicts_with = "file", required_unless_present = "file")]
    bytes: Option<u64>,
    /// Connections, memory to memory only.
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(CHANNELS_MAX)))]
    channels: u32,
    /// Local file: source of `send`, new target of `recv`.
    #[arg(long, requires = "name")]
    file: Option<PathBuf>,
    /// Plain name of the file on the server.
    #[arg(long, requires = "file")]
    name: Option<String>,
    /// Buffer of each side; 256 KiB from memory to memory and 1 MiB for files unless given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCK_MAX)))]
    block: Option<u32>,
    /// Congestion control of the connections.
    #[arg(long, default_value = "cubic")]
    congestion: String,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve { listen, directory, congestion } => serve(listen, directory, &congestion),
        Command::Send(transfer) => run(&transfer, Direction::Up),
        Command::Recv(transfer) => run(&transfer, Direction::Down),
    };
    exit_code("bound", outcome)
}

fn serve(listen: SocketAddr, directory: Option<PathBuf>, congestion: &str) -> Result<()> {
    let server = bound::Server::listen(listen, directory, congestion)?;
    println!("{}", json!({"event": "ready", "address": server.address()?.to_string()}));
    loop {
        if let Err(error) = server.serve_one() {
            eprintln!("bound: {error}");
        }
    }
}

fn run(transfer: &Transfer, direction: Direction) -> Result<()> {
    let Transfer { connect, channels, congestion, .. } = transfer;
    let moved: Moved = match (transfer.bytes, &transfer.file, &transfer.name) {
        (Some(bytes), ..) => {
            bound::move_memory(*connect, direction, *channels, bytes, transfer.block.unwrap_or(256 << 10), congestion)?
        }
        (None, Some(file), Some(name)) => {
            bound::move_file(*connect, direction, file, name, transfer.block.unwrap_or(1 << 20), congestion)?
        }
        // clap requires one of the two forms.
        (None, ..) => unreachable!("clap lets no command line without --bytes or --file pass"),
    };
    let line = json!({"event": "transfer", "bytes": moved.bytes, "seconds": moved.seconds, "channels": channels, "congestion": congestion});
    println!("{line}");
    Ok(())
}
