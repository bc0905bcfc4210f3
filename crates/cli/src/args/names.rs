//! What was typed behind the commands on names of servers: ls, stat, mkdir, mkfifo, rm, mv, ln, chmod, touch, cat, du, df.

use std::ffi::OsString;
use xdfs_proto::base::Timestamp;

use clap::{ArgAction, Args};

use super::LoginArgs;
use crate::mode::{self, ModeChange};
use crate::{calendar, size};

const LS_EXAMPLES: &str = "\
A directory with more than 10000 entries is shown in its own order, as it comes;
--sort sorts it, whatever memory that takes.

Examples:
  xdfs ls xdfs://localhost/            the exports that are open to you
  xdfs ls xdfs://localhost/data/
  xdfs ls -lh xdfs://localhost/data/run7
  xdfs ls -R --json xdfs://localhost/data/

A name that is no UTF-8 stands in JSON with \\xff for each such byte, and with
\"name_escaped\":true behind it.";

/// What all of them have.
#[derive(Args, Debug)]
pub(crate) struct NamesArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Lists directories on servers, hidden names too.
#[derive(Args, Debug)]
#[command(after_help = LS_EXAMPLES, disable_help_flag = true)]
pub(crate) struct LsArgs {
    /// Directories and files: xdfs://[user@]host[:port]/EXPORT/path[#SHA256:key]
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Type, mode, owner, size and time of each; times are UTC
    #[arg(short, long)]
    pub(crate) long: bool,

    /// The same, with owners and groups as numbers
    #[arg(short, long)]
    pub(crate) numeric: bool,

    /// With all that is below
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Sizes such as 12.3 MB
    #[arg(short = 'h', short_alias = 'H', long)]
    pub(crate) human: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Sort by name whatever the number of entries
    #[arg(long)]
    pub(crate) sort: bool,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

const STAT_EXAMPLES: &str = "\
Examples:
  xdfs stat xdfs://localhost/data/image.bin
  xdfs stat --locks xdfs://localhost/data/index.db";

/// Shows type, size, mode, owner, links and times of files on servers; of a symbolic link its own, and where it leads.
#[derive(Args, Debug)]
#[command(after_help = STAT_EXAMPLES)]
pub(crate) struct StatArgs {
    /// Files to look at: xdfs://[user@]host[:port]/EXPORT/path[#SHA256:key]
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Also show which clients of the server have the file open, and their locks and leases; programs of the server's
    /// machine are not among them
    #[arg(long)]
    pub(crate) locks: bool,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Makes directories on servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs mkdir xdfs://localhost/data/run7
  xdfs mkdir -p -m 750 xdfs://localhost/data/2027/01/31")]
pub(crate) struct MkdirArgs {
    /// Directories to make
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Make what is missing above them, and be content with one that is there
    #[arg(short, long)]
    pub(crate) parents: bool,

    /// Permission bits, in octal, less the server's umask
    #[arg(short, long, value_name = "MODE", value_parser = mode::octal, default_value = "777")]
    pub(crate) mode: u32,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Makes named pipes (FIFOs) on servers, in exports that grant 'pipes'. 'xdfs cat URL' writes what comes out of one, and
/// 'xdfs cp - URL' puts standard input into one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs mkfifo xdfs://localhost/data/results
  producer | xdfs cp - xdfs://localhost/data/results
  xdfs cat xdfs://localhost/data/results | consumer")]
pub(crate) struct MkfifoArgs {
    /// Pipes to make
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Permission bits, in octal, less the server's umask
    #[arg(short, long, value_name = "MODE", value_parser = mode::octal, default_value = "666")]
    pub(crate) mode: u32,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Removes files, and with -r directories with all they hold, on servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs rm xdfs://localhost/data/old.dat
  xdfs rm -r xdfs://localhost/data/run6")]
pub(crate) struct RmArgs {
    /// What to remove
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Directories with all they hold; asks on a terminal
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Ask nothing, and be content where nothing is there
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Gives a file or directory another name, within an export.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs mv xdfs://localhost/data/new xdfs://localhost/data/old
  xdfs mv -n xdfs://localhost/data/a.dat xdfs://localhost/data/run7/")]
pub(crate) struct MvArgs {
    /// What to move
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,

    /// Its new name, or a directory of that export (a URL that ends in a slash) where it keeps its name
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// Replace nothing
    #[arg(short = 'n', long)]
    pub(crate) no_clobber: bool,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Gives a file one more name, or with -s makes a symbolic link.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs ln xdfs://localhost/data/a xdfs://localhost/data/b
  xdfs ln -s ../run7 xdfs://localhost/data/runs/latest")]
pub(crate) struct LnArgs {
    /// The file; with -s the text of the link, which may lead anywhere
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// The new name
    #[arg(value_name = "URL")]
    pub(crate) url: OsString,

    /// A symbolic link
    #[arg(short, long)]
    pub(crate) symbolic: bool,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Sets permission bits of files and directories on servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs chmod 640 xdfs://localhost/data/a
  xdfs chmod u+x,go-w xdfs://localhost/data/run.sh")]
pub(crate) struct ChmodArgs {
    /// Permission bits in octal (640), or changes of them as chmod reads them (u+x, go-w, a+rX)
    #[arg(value_name = "MODE", value_parser = mode::parse, allow_hyphen_values = true)]
    pub(crate) mode: ModeChange,

    /// Whose: xdfs://[user@]host[:port]/EXPORT/path, or ssh:[user@]host:path
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Sets the times of files on servers to now, or to another time; makes files that are missing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  xdfs touch xdfs://localhost/data/done
  xdfs touch -d '2027-01-31 13:47:26' xdfs://localhost/data/a")]
pub(crate) struct TouchArgs {
    /// Which: xdfs://[user@]host[:port]/EXPORT/path, or ssh:[user@]host:path
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Make none
    #[arg(short = 'c', long)]
    pub(crate) no_create: bool,

    /// Not now but TIME: 2027-01-31, '2027-01-31 13:47:26' (both UTC), 2027-01-31T13:47:26+01:00, or @SECONDS since 1970
    #[arg(short, long, value_name = "TIME", value_parser = calendar::parse_time)]
    pub(crate) date: Option<Timestamp>,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

const CAT_EXAMPLES: &str = "\
Examples:
  xdfs cat xdfs://localhost/data/notes.txt
  xdfs cat --offset 1GiB --length 4KiB xdfs://localhost/data/image.bin
  xdfs cat --follow xdfs://localhost/data/run7.log";

/// Writes files of servers to standard output, one after the other, or the same range of each.
#[derive(Args, Debug)]
#[command(after_help = CAT_EXAMPLES)]
pub(crate) struct CatArgs {
    /// Which: xdfs://[user@]host[:port]/EXPORT/path, or ssh:[user@]host:path
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// From byte N on; a file that is shorter has nothing there
    #[arg(long, value_name = "N", value_parser = size::parse, default_value = "0", hide_default_value = true)]
    pub(crate) offset: u64,

    /// N bytes at most
    #[arg(long, value_name = "N", value_parser = size::parse)]
    pub(crate) length: Option<u64>,

    /// Write what is appended to the last file too, as it comes, until Ctrl-C or as many bytes as --length says
    #[arg(short, long)]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Shows how many bytes files and directories take on their server's disk, and how many they have. A file with several names
/// counts once.
#[derive(Args, Debug)]
#[command(
    after_help = "\
Examples:
  xdfs du -h xdfs://localhost/data/run7",
    disable_help_flag = true
)]
pub(crate) struct DuArgs {
    /// Which: xdfs://[user@]host[:port]/EXPORT/path, or ssh:[user@]host:path
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Sizes such as 12.3 MB
    #[arg(short = 'h', short_alias = 'H', long)]
    pub(crate) human: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}

/// Shows the room of the file systems that hold exports or directories.
#[derive(Args, Debug)]
#[command(
    after_help = "\
Examples:
  xdfs df -h xdfs://localhost/data/",
    disable_help_flag = true
)]
pub(crate) struct DfArgs {
    /// Which: xdfs://[user@]host[:port]/EXPORT/path, or ssh:[user@]host:path
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,

    /// Sizes such as 12.3 MB
    #[arg(short = 'h', short_alias = 'H', long)]
    pub(crate) human: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    pub(crate) names: NamesArgs,
}
