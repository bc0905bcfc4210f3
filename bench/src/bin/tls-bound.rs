//! `tls-bound`: the same bytes through plain rustls, and bare handshakes. See the crate's module `tls`.
//!
//! `tls-bound serve` prints one line with its address and serves until it is stopped; `send`, `recv` and `handshakes`
//! do one piece of work and print one line about it.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use xdfs_bench::args::parse_size;
use xdfs_bench::bound::{self, CHANNELS_MAX, Direction};
use xdfs_bench::error::{Result, exit_code};
use xdfs_bench::tls::{Client, Server};

/// Moves zeros through rustls with nothing around it: what private transfers are measured against.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves; loopback only, there is no login.
    Serve {
        /// Address and port; port 0 is any free one.
        #[arg(long, default_value_t = bound::any_port())]
        listen: SocketAddr,
        /// File to which the certificate is written.
        #[arg(long)]
        certificate: PathBuf,
        /// Congestion control of the connections.
        #[arg(long, default_value = "cubic")]
        congestion: String,
    },
    /// Client to server.
    Send(Transfer),
    /// Server to client.
    Recv(Transfer),
    /// Connects, shakes hands and closes, one after the other.
    Handshakes {
        #[command(flatten)]
        target: Target,
        /// How many.
        #[arg(long)]
        count: u32,
    },
}

#[derive(Args)]
struct Target {
    /// Address of the server.
    #[arg(long)]
    connect: SocketAddr,
    /// File with the server's certificate.
    #[arg(long)]
    certificate: PathBuf,
    /// Congestion control of the connections.
    #[arg(long, default_value = "cubic")]
    congestion: String,
}

#[derive(Args)]
struct Transfer {
    #[command(flatten)]
    target: Target,
    /// Zeros to move.
    #[arg(long, value_parser = parse_size)]
    bytes: u64,
    /// Connections, each with a thread on both sides.
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(CHANNELS_MAX)))]
    channels: u32,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve { listen, certificate, congestion } => serve(listen, &certificate, &congestion),
        Command::Send(transfer) => run(&transfer, Direction::Up),
        Command::Recv(transfer) => run(&transfer, Direction::Down),
        Command::Handshakes { target, count } => client(&target)
            .and_then(|client| client.handshakes(count))
            .map(|seconds| println!("{}", json!({"event": "handshakes", "count": count, "seconds": seconds}))),
    };
    exit_code("tls-bound", outcome)
}

fn serve(listen: SocketAddr, certificate: &std::path::Path, congestion: &str) -> Result<()> {
    let server = Server::listen(listen, certificate, congestion)?;
    println!("{}", json!({"event": "ready", "address": server.address()?.to_string()}));
    loop {
        if let Err(error) = server.serve_one() {
            eprintln!("tls-bound: {error}");
        }
    }
}

fn client(target: &Target) -> Result<Client> {
    Client::new(target.connect, &target.certificate, &target.congestion)
}

fn run(transfer: &Transfer, direction: Direction) -> Result<()> {
    let moved = client(&transfer.target)?.move_memory(direction, transfer.channels, transfer.bytes)?;
    let line = json!({"event": "transfer", "bytes": moved.bytes, "seconds": moved.seconds,
        "channels": transfer.channels, "congestion": transfer.target.congestion});
    println!("{line}");
    Ok(())
}
