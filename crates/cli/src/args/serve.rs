//! What was typed behind `xdfs serve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use xdfs_server::metrics::MetricsPlace;

use super::{ConfinementArg, KeepArg, Rights};
use crate::protection::Protection;

const SERVE_EXAMPLES: &str = "\
Examples:
  xdfs serve --export data=/srv/data
  xdfs serve --export in=/srv/in:rw --export out=/srv/out:ro

  xdfs serve --export mem=memory:
      speed without disks: copy to xdfs://localhost/mem/null, from .../mem/zero

  xdfs serve --export data=. --listen 127.0.0.1:0 --json
      on a free port, told as {\"event\":\"ready\",\"address\":\"127.0.0.1:40001\",
      \"host_key\":\"SHA256:...\"}

The first start makes the host key, which clients pin; each start tells its
fingerprint. Who may log in is said with 'xdfs user', while the server runs or
before.

SIGTERM and Ctrl-C let running transfers end and then stop the server; a second
one stops it at once. SIGUSR1 writes sessions, threads, memory and rates to the
log (standard error), which XDFS_LOG filters ('warn,session=debug'). With --config, SIGHUP reads the file again and opens the
audit log anew.";

/// Offers directories to clients until it is told to stop.
#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Offer DIR as xdfs://HOST/NAME. ':ro' only lets clients read; DIR may be 'memory:', which holds the endless
    /// file 'zero' and the file 'null' that swallows everything
    #[arg(long, value_name = "NAME=DIR[:ro|:rw]", required_unless_present_any = ["config", "stdio"])]
    pub(crate) export: Vec<OsString>,

    /// Say whether a server would start with these options and this configuration, and do not start it: nothing is made or
    /// changed. Run it as the user of the server, whose rights count
    #[arg(long, conflicts_with_all = ["stdio", "standby"])]
    pub(crate) check: bool,

    /// Address and port to listen on; port 0 takes a free one, 0.0.0.0 is every IPv4 address of this machine, [::] the IPv6
    /// addresses too [default: [::]:2799, or 0.0.0.0:2799 without IPv6]. '?stack=tcp,DRIVER,...' behind it passes every
    /// channel through drivers, as --stack does at the client
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,

    /// One JSON object a line on standard output instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Only problems in the log (standard error), no sessions and transfers that went well
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The state folder, with the host key and the users; without it $XDG_STATE_HOME/xdfs, or for root /var/lib/xdfs, or
    /// ~/.local/state/xdfs. 'xdfs user' finds the same
    #[arg(long, value_name = "DIR", help_heading = "Limits and rights")]
    pub(crate) state: Option<PathBuf>,

    /// Configuration file (TOML): exports, rights, limits, logs. Options of the command line win over it. SIGHUP reads
    /// it again; a file with a mistake changes nothing
    #[arg(long, value_name = "FILE", help_heading = "Limits and rights")]
    pub(crate) config: Option<PathBuf>,

    /// What visitors may do who did not log in: read, make new files too, or read and write. Without it nothing: they do
    /// not come in
    #[arg(long, value_name = "RIGHTS", value_enum, help_heading = "Limits and rights")]
    pub(crate) allow_anonymous: Option<Rights>,

    /// What 'xdfs cp -a' may bring along to the exports given here, besides content, permissions and times: set-id and sticky bits,
    /// owners, access control lists, extended attributes, pipes and devices. Only for people whom you trust with root's files.
    /// Without 'acl' and 'xattr' a mount shows no such attributes
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',', help_heading = "Limits and rights")]
    pub(crate) keep: Vec<KeepArg>,

    /// Let clients open and make named pipes (FIFOs) in the exports given here: what one of them writes another one, or a program
    /// of this machine, reads
    #[arg(long, help_heading = "Limits and rights")]
    pub(crate) pipes: bool,

    /// Protect transfers at least at this level, even where the client asks for less [default: clear]
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Limits and rights")]
    pub(crate) min_protection: Option<Protection>,

    /// Channels that one session may have, up to 4096 [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Limits and rights")]
    pub(crate) max_channels: Option<u16>,

    /// What binds the server's process itself (Landlock, seccomp): 'auto' as far as the kernel can, 'required' or it does
    /// not start, 'off' [default: auto]
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Limits and rights")]
    pub(crate) confinement: Option<ConfinementArg>,

    /// A certificate of this site for clients that ask for one ('xdfs cp --ca'), in PEM with what stands between it and its
    /// authority behind it. SIGHUP reads it again
    #[arg(long, value_name = "FILE", requires = "certificate_key", help_heading = "Limits and rights")]
    pub(crate) certificate: Option<PathBuf>,

    /// The certificate's private key in PEM, a file that nobody else may read
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "Limits and rights")]
    pub(crate) certificate_key: Option<PathBuf>,

    /// Answer 'GET /metrics' with figures for Prometheus at unix:PATH (for the server's user and group), or at a loopback
    /// address such as 127.0.0.1:9280
    #[arg(long, value_name = "WHERE", value_parser = xdfs_server::metrics::parse_place)]
    pub(crate) metrics: Option<MetricsPlace>,

    /// Take the listening socket over from the server that started this process, when it says so at standard input
    #[arg(long, hide = true)]
    pub(crate) standby: bool,

    /// Serve one client at standard input and output, with the rights of this user: what 'xdfs cp FILE ssh://HOST/path'
    /// starts over ssh
    #[arg(long, conflicts_with_all = ["export", "config", "listen", "metrics", "standby"])]
    pub(crate) stdio: bool,

    /// With --stdio: the ports on which more channels may connect, as a firewall lets them through
    #[arg(long, value_name = "FROM-TO", requires = "stdio")]
    pub(crate) ports: Option<String>,
}
