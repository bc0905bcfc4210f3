//! What was typed: options and arguments as clap reads them, and the text of `--help`.
//!
//! Only the form of a single value is judged here. What values mean together, and what this version cannot do yet, is
//! decided by `plan`.

mod complete;
mod find;
mod generate;
mod json;
mod key;
mod lock;
mod mount;
mod names;
mod serve;
mod sum;
mod tree;
mod user;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use complete::{AskingShell, CompleteArgs};
pub(crate) use find::{FindArgs, find_names, is_test};
pub(crate) use generate::{GenerateArgs, Generated};
pub(crate) use key::{
    KeepArgs, KeyArgs, KeyCommand, KeyCreateArgs, KeyExportArgs, KeyImportArgs, KeyShowArgs, TrustArgs, TrustCommand,
    TrustForgetArgs, TrustListArgs,
};
pub(crate) use lock::LockArgs;
pub(crate) use mount::{MountArgs, as_mount, cache, is_helper, seconds};
pub(crate) use names::{
    CatArgs, ChmodArgs, DfArgs, DuArgs, LnArgs, LsArgs, MkdirArgs, MkfifoArgs, MvArgs, NamesArgs, RmArgs, StatArgs,
    TouchArgs,
};
pub(crate) use serve::ServeArgs;
pub(crate) use sum::SumArgs;
pub(crate) use tree::{Pattern, Selection, SyncArgs, TreeArgs};
pub(crate) use user::{
    UserAddArgs, UserArgs, UserCommand, UserKeyArgs, UserListArgs, UserPasswordArgs, UserRestoreArgs, UserRevokeArgs,
    UserTokenArgs,
};

use crate::bandwidth::{self, Schedule};
use crate::config::Config;
use crate::exit::exit_codes;
use crate::protection::Protection;
use crate::size;

const EXAMPLES: &str = "\
Examples:
  xdfs demo                                            see it work, on this machine
  xdfs serve --export data=/srv/data                   offer a directory under the name 'data'
  xdfs key create                                      make a key of your own
  xdfs user add anna --key anna.pub                    let somebody in, on the server
  xdfs cp image.bin xdfs://anna@host/data/             send a file
  xdfs cp xdfs://anna@host/data/image.bin .            fetch it
  xdfs cp -r photos xdfs://anna@host/data/             send a directory
  xdfs cp -r photos ssh:anna@host:data/                send it over ssh, without a server
  xdfs sync photos xdfs://anna@host/data/photos        send what changed in it
  xdfs cp ftp://ftp.example.org/pub/image.bin .        fetch a file of an FTP server
  xdfs ls -l xdfs://anna@host/data/                    see what is there
  xdfs stat xdfs://anna@host/data/image.bin            look at it
  xdfs sum image.bin xdfs://anna@host/data/image.bin   compare it

Who may come in: 'xdfs user --help'. Who I am: 'xdfs key --help'.
Each command explains itself: 'xdfs cp --help'.";

/// Moves files between machines over many parallel TCP channels in one session.
#[derive(Parser, Debug)]
#[command(name = "xdfs", version, about, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of this version.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Offer directories to clients
    Serve(Box<ServeArgs>),
    /// Copy files to or from a server
    Cp(Box<CopyArgs>),
    /// Make a directory like another one, here or on a server
    Sync(Box<SyncArgs>),
    /// Show what a file on a server is
    Stat(StatArgs),
    /// Show the BLAKE3 hashes of files, here or on a server
    Sum(SumArgs),
    /// List directories on a server
    Ls(LsArgs),
    /// Find names on a server by tests, as find(1) does
    Find(FindArgs),
    /// Make directories on a server
    Mkdir(MkdirArgs),
    /// Make named pipes on a server
    Mkfifo(MkfifoArgs),
    /// Remove files and directories on a server
    Rm(RmArgs),
    /// Give a file on a server another name
    Mv(MvArgs),
    /// Give a file on a server one more name, or make a symbolic link
    Ln(LnArgs),
    /// Set permission bits on a server
    Chmod(ChmodArgs),
    /// Set times on a server to now; make files that are missing
    Touch(TouchArgs),
    /// Write files of a server to standard output
    Cat(CatArgs),
    /// Run a command while a file on a server is locked
    Lock(LockArgs),
    /// Make a directory of a server a directory of this machine
    Mount(MountArgs),
    /// Show how much room files on a server take
    Du(DuArgs),
    /// Show how much room a server has
    Df(DfArgs),
    /// Start a server and a client here, send a large file both ways, verify it, show the speed
    Demo(DemoArgs),
    /// Say who may log in to a server here
    User(UserArgs),
    /// Make, show and convert keys
    Key(KeyArgs),
    /// Show and change whose keys you believe
    Trust(TrustArgs),
    /// Write the man page and the shells' completions
    #[command(hide = true)]
    Generate(GenerateArgs),
    /// List what completes a command line
    #[command(hide = true)]
    Complete(CompleteArgs),
}

const COPY_EXAMPLES: &str = concat!(
    "\
Sources and targets:
  PATH         a local file; a directory as target receives the sources under
               their names; with -r, what is in a directory is 'PATH/.', and
               a target that ends in '/' is made if it is missing
  -            standard input, standard output
  zero:SIZE    SIZE zero bytes made in memory (source); random:SIZE random ones
  null:        swallows everything (target)
  ssh://[user@]host[:port]/path   ssh:[user@]host:path
               a file on any machine that ssh reaches and that has xdfs; the second
               form starts in your home directory there
  xdfs://[user@]host[:port]/EXPORT/path[#SHA256:key]
               a file on a server; %XX stands for a byte, IPv6 addresses are in
               brackets. With a user you log in by key or password, without
               one by the token in XDFS_TOKEN or in the file XDFS_TOKEN_FILE,
               or as a visitor; the key after '#' is the only one believed

Examples:
  xdfs cp image.bin xdfs://localhost/data/
  xdfs cp -n *.bin xdfs://localhost/data/run7/
  tar c photos | xdfs cp - xdfs://localhost/data/photos.tar
  xdfs cp xdfs://localhost/data/photos.tar - | tar x

  xdfs cp xdfs://localhost/data/a 'xdfs://[::1]:40001/data/b' .
      from two servers into this directory

  xdfs cp 'xdfs://localhost/data/run7/*.bin' .
      the names that fit at the server, with '*' and '[a-z]'; so do ls, cat,
      sum, stat, du, rm, chmod, touch and find. A name with a '*' has %2A

  xdfs cp -r photos xdfs://localhost/data/
      a directory with all it holds; the same again sends what is missing

  xdfs cp --offset 1GiB --length 16MiB xdfs://localhost/data/image.bin part.bin
      a part of a file; part.bin holds exactly that part

  xdfs cp -r ftp://ftp.example.org/pub/photos .
      from an FTP server; ftps:// is FTP with TLS, gsiftp:// GridFTP, with -P
      connections for a file

  xdfs cp -P 8 random:10GB xdfs://localhost/mem/null
      the speed of the network alone, to a server with --export mem=memory:

Sizes: K, M, G, T are 1000s; KiB, MiB, GiB, TiB are 1024s. What xdfs prints is in
1000s: kB, MB, GB.

",
    exit_codes!(),
    "

A file gets its name on the target when it is complete; whatever fails, an
existing file keeps its content."
);

/// Copies SOURCEs to TARGET; exactly one of the two sides is on servers, or at least one on FTP servers.
#[derive(Args, Debug)]
#[command(after_help = COPY_EXAMPLES)]
pub(crate) struct CopyArgs {
    /// What to copy
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<OsString>,

    /// Where to: a file, or a directory that receives the sources under their names
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// Change nothing; print what would be copied and what it would replace, or why the export does not take it. Whether the
    /// modes of files allow it shows only when it is done
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Keep a target file that exists (said, not an error); without it an existing file is replaced
    #[arg(short = 'n', long)]
    pub(crate) no_clobber: bool,

    /// Copy directories with all they hold: files, directories, symbolic links; permissions (less the
    /// umask of the other end) and modification times go along
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Like -r, and keep all that the server's export grants: owners, all mode bits, hard links, access control lists and
    /// extended attributes, special files; and holes, whose zeros cross the network but take no room
    #[arg(short, long)]
    pub(crate) archive: bool,

    /// Copy the source from byte N on; the target holds exactly the range
    #[arg(long, value_name = "N", value_parser = size::parse, default_value = "0", hide_default_value = true)]
    pub(crate) offset: u64,

    /// Copy N bytes
    #[arg(long, value_name = "N", value_parser = size::parse)]
    pub(crate) length: Option<u64>,

    /// Start from the beginning even where an earlier attempt left something, and leave nothing to go on with; of a tree, send
    /// what is there already, too
    #[arg(long)]
    pub(crate) no_resume: bool,

    #[command(flatten)]
    pub(crate) tree: TreeArgs,

    #[command(flatten)]
    pub(crate) moving: MovingArgs,
}

/// How data move, whatever they are.
#[derive(Args, Debug)]
pub(crate) struct MovingArgs {
    /// After a lost connection, try again until nothing has moved for SECONDS; 0 gives up at once
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) retry: u32,

    /// Parallel TCP channels [default: what the configuration file has for the server, or 4]
    #[arg(short = 'P', long, value_name = "CHANNELS", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Speed")]
    pub(crate) channels: Option<u16>,

    /// TCP window (socket buffer) of each channel; without it the system tunes it, which is nearly always faster
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse, help_heading = "Speed")]
    pub(crate) window: Option<u64>,

    /// Block size: a power of two from 64KiB to 4MiB; without it xdfs chooses
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse, help_heading = "Speed")]
    pub(crate) block: Option<u64>,

    /// Move at most RATE bytes a second, all channels together: 512K, 10M, 1.5G (KiB, MiB, GiB, as rsync and rclone write
    /// rates; a number alone is KiB, and 10MB is 1000s) or 'off'; by the time of day as '08:00,10M 19:00,off'
    #[arg(long, value_name = "RATE", value_parser = bandwidth::parse, help_heading = "Speed")]
    pub(crate) bwlimit: Option<Schedule>,

    /// TCP congestion control, such as cubic or bbr; without it xdfs chooses
    #[arg(long, value_name = "NAME", help_heading = "Speed")]
    pub(crate) congestion: Option<String>,

    /// What is done to the data on the way: 'private' encrypts and authenticates every block, 'integrity' authenticates
    /// it, 'clear' authenticates its head alone [default: what the configuration file has for the server, or private]
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Safety")]
    pub(crate) protection: Option<Protection>,

    /// How the copy is checked before it gets its name: 'hash' by the hash of what was sent (the default), 'reread' by that of
    /// what the target's disk gives back, 'wire' by every block's tag alone (needs integrity or private), 'none'
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Safety")]
    pub(crate) verify: Option<Verify>,

    /// When a file counts as copied: 'durable' on its disk (the default), so that a power cut right after does not take
    /// it back, or 'written' to its file system, which is quicker
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Safety")]
    pub(crate) durability: Option<Durability>,

    /// One JSON object a line on standard output, for every file copied and for every failure
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Say in one line at the end what was done, as on a terminal
    #[arg(long, help_heading = "Output")]
    pub(crate) stats: bool,

    /// Like --stats, and name each file that was copied or removed, on standard error
    #[arg(short, long, help_heading = "Output")]
    pub(crate) verbose: bool,

    /// Only errors
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// What a terminal shows: a bar, a bar and each channel's share when a file is done, or nothing
    #[arg(long, value_name = "WHAT", value_enum, default_value = "total", help_heading = "Output")]
    pub(crate) progress: Progress,

    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Sends a file of random bytes to a server on this machine and back, compares every byte, and shows the rate beside
/// that of a bare socket copy.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  xdfs demo\n  xdfs demo --size 100MiB -P 2 --protection clear")]
pub(crate) struct DemoArgs {
    /// Size of the file
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GiB")]
    pub(crate) size: u64,

    /// Parallel TCP channels
    #[arg(short = 'P', long, value_name = "CHANNELS", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) channels: u16,

    /// Protection level of the transfers
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "private")]
    pub(crate) protection: Protection,

    /// Where the files are made; without it in memory (/dev/shm) where there is room, else in the temporary directory
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

/// Who logs in, and where keys are. No secret is ever an argument: everybody on the machine could read it.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoginArgs {
    /// Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your
    /// own ('xdfs key create') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase,
    /// to servers that are known or in the configuration file
    #[arg(long, value_name = "FILE", help_heading = "Login")]
    pub(crate) identity: Option<PathBuf>,

    /// Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same
    #[arg(long, value_name = "FILE", help_heading = "Login")]
    pub(crate) password_file: Option<PathBuf>,

    /// Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of
    /// this machine where FILE is 'system'; XDFS_CA says the same. A server whose key is known is known by its key
    #[arg(long, value_name = "FILE", help_heading = "Login")]
    pub(crate) ca: Option<PathBuf>,

    /// The state folder, with your key and known servers (see 'xdfs key --help')
    #[arg(long, value_name = "DIR", help_heading = "Login")]
    pub(crate) state: Option<PathBuf>,

    /// For ssh:// and ssh: the program that connects, with its first arguments, such as 'ssh -i FILE'; XDFS_SSH says the
    /// same
    #[arg(long, value_name = "COMMAND", help_heading = "Login")]
    pub(crate) ssh: Option<String>,

    /// For ssh:// and ssh: what is started there [default: xdfs serve --stdio]
    #[arg(long, value_name = "COMMAND", help_heading = "Login")]
    pub(crate) remote_command: Option<String>,

    /// Pass every channel through drivers, the same as at the server: 'tcp' and those above it, such as tcp,tls or
    /// tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]
    #[arg(long, value_name = "DRIVERS", help_heading = "Connection")]
    pub(crate) stack: Option<String>,

    /// The servers of the configuration file.
    #[arg(skip)]
    pub(crate) config: Config,
}

/// Where keys, users and known servers are.
#[derive(Args, Clone, Debug)]
pub(crate) struct StateArgs {
    /// The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the
    /// users and the host key of a server that root looks after /var/lib/xdfs
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Remembers a server's key, in place of any other. Nothing is connected to.
#[derive(Args, Debug)]
pub(crate) struct TrustPinArgs {
    /// The server: HOST or HOST:PORT
    #[arg(value_name = "HOST")]
    pub(crate) host: OsString,

    /// Its key: a fingerprint SHA256:..., the line 'ssh-ed25519 ...' in quotes, or a file with that line; '-' is standard input
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// What visitors may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Rights {
    /// Read
    Ro,
    /// Read, and make new files
    Create,
    /// Read and write
    Rw,
}

/// What copies may bring along.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum KeepArg {
    /// All bits of the mode
    Modes,
    /// Owner and group
    Owner,
    /// Access control lists
    Acl,
    /// Extended attributes
    Xattr,
    /// Pipes, sockets and devices
    Special,
}

/// What binds a server's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ConfinementArg {
    /// As far as the kernel can
    Auto,
    /// Completely, or it does not start
    Required,
    /// Nothing
    Off,
}

/// How a copy is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Verify {
    /// Not at all
    None,
    /// By the tag of every block
    Wire,
    /// What arrived has the hash of what was sent
    Hash,
    /// What the target's disk gives back has it
    Reread,
}

/// When a copy is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Durability {
    /// All bytes are in the file system
    Written,
    /// All bytes are on the disk
    Durable,
}

/// What a terminal shows while files move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Progress {
    /// Nothing
    None,
    /// A bar
    Total,
    /// A bar, and the channels' shares at the end
    Channels,
}
