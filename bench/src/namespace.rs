//! A network of one's own: nobody else's traffic, and one congestion control for every program.
//!
//! bbr, the default of many systems, paces on loopback and halves it; a comparison between a program that sets its
//! congestion control and one that cannot would measure that and nothing else. The host's settings are not touched.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::net::{self, AddressFamily, SocketType, sockopt};

use crate::error::{Context, Error, Result};

/// Tells the second start of this program that it is inside.
const INSIDE: &str = "XDFS_BENCH_INSIDE";

const CONGESTION_SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// What the network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Ours alone.
    Own,
    /// That of the machine.
    Shared,
}

/// Starts this program again inside a new network namespace; returns only inside it, or when that is not possible.
/// The second value is the congestion control that programs can be told to use.
pub fn enter(wanted: bool, congestion: &str) -> Result<(Network, String)> {
    if std::env::var_os(INSIDE).is_some() {
        set_up(congestion)?;
        return Ok((Network::Own, congestion.to_owned()));
    }
    if !wanted {
        return Ok((Network::Shared, permitted(congestion)?));
    }
    if !rustix::process::geteuid().is_root() {
        let permitted = permitted(congestion)?;
        eprintln!(
            "xdfs-bench: not root, so no network namespace: the machine's network is used as it is. Programs that \
             choose their congestion control run under {permitted}, the others under {}.",
            default_congestion()?
        );
        return Ok((Network::Shared, permitted));
    }
    let program = std::env::current_exe().context(|| "path of this program".to_owned())?;
    let error = Command::new("unshare")
        .arg("--net")
        .arg("--")
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(error).context(|| "unshare --net (package util-linux)".to_owned())
}

/// Brings the loopback interface up and makes `congestion` the default.
fn set_up(congestion: &str) -> Result<()> {
    run("ip", &["link", "set", "lo", "up"])?;
    if fs::write(CONGESTION_SETTING, congestion).is_err() {
        // Outside the first namespace the kernel lets only unrestricted algorithms become the default. A route may
        // name any: it governs whoever connects over it and whoever accepts.
        for destination in ["127.0.0.0/8", "127.0.0.1"] {
            let route = format!(
                "route change table local local {destination} dev lo proto kernel scope host src 127.0.0.1 congctl {congestion}"
            );
            run("ip", &route.split(' ').collect::<Vec<_>>())?;
        }
    }
    let used = default_congestion()?;
    if used != congestion {
        return Err(Error::Wrong {
            system: "network".to_owned(),
            detail: format!("connections use {used}, not {congestion}: is the module loaded?"),
        });
    }
    Ok(())
}

/// `congestion` where this user may choose it, else the default: better all under that than some not at all.
fn permitted(congestion: &str) -> Result<String> {
    let probing = || "probe the congestion control".to_owned();
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).context(probing)?;
    match sockopt::set_tcp_congestion(&socket, congestion) {
        Ok(()) => Ok(congestion.to_owned()),
        Err(_) => default_congestion(),
    }
}

/// The congestion control a program gets here that does not choose.
pub fn default_congestion() -> Result<String> {
    let probing = || "probe the congestion control".to_owned();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(probing)?;
    let stream = TcpStream::connect(listener.local_addr().context(probing)?).context(probing)?;
    sockopt::tcp_congestion(&stream).context(probing)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let line = || format!("{program} {} (package iproute2)", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().context(line)?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Failed { command: line(), status: output.status.to_string(), output: output_text })
}
