//! The command line of the harness. Only what was typed; what follows from it is decided in the shapes.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::bound::Direction;

/// Runs xdfs beside its peers on the same work, interleaved, and prints medians and ratios.
#[derive(Debug, Clone, Parser)]
#[command(name = "xdfs-bench", version)]
pub struct Args {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    pub shapes: Vec<Shape>,
    /// Rounds; in each one every system runs once.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Bytes per transfer; 8G memory to memory and 2G for files unless given. Not for `clients` and `small`.
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
    /// Numbers of channels, comma separated.
    #[arg(long, value_delimiter = ',')]
    pub channels: Option<Vec<u32>>,
    /// Directions.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "down,up")]
    pub directions: Vec<Direction>,
    /// Systems to run; all that fit the shape unless given.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub peers: Option<Vec<PeerName>>,
    /// File systems of the shapes with files.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tmpfs,ext4")]
    pub filesystems: Vec<FileSystem>,
    /// A directory on tmpfs.
    #[arg(long, default_value = "/dev/shm")]
    pub tmpfs_dir: PathBuf,
    /// A directory on ext4.
    #[arg(long, default_value = "/var/tmp")]
    pub ext4_dir: PathBuf,
    /// The xdfs binary; beside this program, or target/release/xdfs, unless given.
    #[arg(long)]
    pub xdfs: Option<PathBuf>,
    /// The xdfs binary of another build: whatever `xdfs cp` does in a cell, it does in the same rounds.
    #[arg(long, value_name = "BINARY")]
    pub before: Option<PathBuf>,
    /// One more argument for `xdfs serve` (may be repeated).
    #[arg(long, allow_hyphen_values = true)]
    pub serve_arg: Vec<String>,
    /// One more argument for `xdfs cp` (may be repeated).
    #[arg(long, allow_hyphen_values = true)]
    pub cp_arg: Vec<String>,
    /// Congestion control for everybody.
    #[arg(long, default_value = "cubic")]
    pub congestion: String,
    /// Clients of the shape `clients`.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub clients: u32,
    /// Bytes of each client of the shape `clients`.
    #[arg(long, value_parser = parse_size, default_value = "100M")]
    pub client_size: u64,
    /// Seconds of the shape `idle`.
    #[arg(long, default_value_t = 60)]
    pub idle_seconds: u64,
    /// Sessions of the shape `sessions`.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=16_000))]
    pub sessions: u32,
    /// Logins of a round of the shape `login`.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub logins: u32,
    /// Works of the shape `mounts` whose names begin so, comma separated; all unless given.
    #[arg(long, value_delimiter = ',')]
    pub works: Vec<String>,
    /// Round trips of the shape `mounts` in milliseconds, comma separated.
    #[arg(long, value_delimiter = ',', default_value = "0,20", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub round_trips: Vec<u32>,
    /// Small sizes and three rounds: shows that everything runs, proves nothing.
    #[arg(long)]
    pub quick: bool,
    /// Writes everything, every round included, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Installs missing peers with apt-get before the run.
    #[arg(long)]
    pub install: bool,
    /// Uses the network as it is instead of a namespace of its own.
    #[arg(long)]
    pub no_namespace: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Memory to memory, 1 to 1000 channels.
    Memory,
    /// File to file on tmpfs and ext4.
    File,
    /// `integrity` against `clear`.
    Levels,
    /// `clear`, `integrity` and `private` beside what others do encrypted.
    Private,
    /// What a hash from end to end costs, and a copy that survives a power cut.
    Durable,
    /// Many clients against one session.
    Clients,
    /// CPU of a session that does nothing, and of one whose operation waits.
    Idle,
    /// Memory and threads of many idle sessions.
    Sessions,
    /// CPU of logins, and time to the first byte over a long way.
    Login,
    /// Time to open a session and move one byte.
    Small,
    /// A thousand small files that survive a power cut.
    SmallFiles,
    /// A directory of a million names, listed and summed up.
    Names,
    /// A mounted directory beside sshfs, without delay and through a relay.
    Mounts,
    /// A remote file as programs use it, beside `xdfs cp` of it.
    RemoteFiles,
    /// Servers of GridFTP: this client beside globus-url-copy.
    Gridftp,
    /// Directory trees, copied and compared.
    Trees,
    /// What the same command sends when it was killed at 90 %.
    Resume,
    /// Rate while one channel of eight stops without closing.
    Stall,
    /// All of the above.
    All,
}

/// Systems by the name used on the command line and in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerName {
    /// The system under test.
    Xdfs,
    /// The program without a protocol.
    Bound,
    /// iperf3 with its default block.
    Iperf3,
    /// globus-gridftp-server and globus-url-copy, no encryption.
    Gridftp,
    /// cp --reflink=never: no network at all.
    Cp,
    /// cp and `sync` of the copy.
    CpSync,
    /// rsync daemon.
    Rsync,
    /// rsync daemon, each file synced.
    RsyncFsync,
    /// tar into tar over TCP.
    TarNc,
    /// scp to an own sshd.
    Scp,
    /// rsync through ssh.
    RsyncSsh,
    /// head and cat through ssh.
    Ssh,
    /// rustls with nothing around it.
    Rustls,
    /// GridFTP with integrity of the data channel.
    GridftpSafe,
    /// GridFTP with an encrypted data channel.
    GridftpPrivate,
    /// nginx and curl over TLS 1.3.
    Nginx,
    /// globus-url-copy, each file of a tree asked for when the last one has come.
    GridftpSerial,
    /// The same, many asked for at a time, in one session.
    GridftpPipelined,
    /// xdfs as a client of globus-gridftp-server, no encryption.
    XdfsGridftp,
    /// The same with an encrypted data channel.
    XdfsGridftpPrivate,
}

/// Where files live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// Memory.
    Tmpfs,
    /// Page cache over a disk.
    Ext4,
}

/// Reads 4G, 512MiB, 1000: decimal units unless it says i.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "k" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        other => return Err(format!("unknown unit {other:?}: use K, M, G, T or KiB, MiB, GiB, TiB")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is not a size"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_unless_they_say_i() {
        assert_eq!(parse_size("2G"), Ok(2_000_000_000));
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert!(parse_size("5X").is_err());
        assert!(parse_size("99999999999T").is_err());
    }
}
