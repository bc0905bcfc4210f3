//! Turns the command line into a plan: plain data, complete and checked, with no option left to
//! interpret.
//!
//! Nothing here opens, connects or resolves a name. Features that this version does not have yet
//! are refused here, by the name that was typed; the error names the version part that adds them.

mod copy;
mod find;
mod ftp;
mod lock;
mod mount;
mod names;
mod serve;
mod slash;
mod sum;
mod sync;
mod tree;
mod written;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use xdfs_proto::base::Level;

pub(crate) use copy::{Check, Copies, CopyPlan, Format, Local, LocalTarget, Options, Progress, WhenDone};
pub(crate) use lock::LockPlan;
pub(crate) use mount::{MountPlan, words_of_background};
pub(crate) use names::{NamesPlan, Reference, Search, Test, Verb};
pub(crate) use serve::{ExportPlan, Root, ServePlan, StdioPlan};
pub(crate) use slash::TwoReadings;
pub(crate) use sum::{SumOf, SumPlan};
pub(crate) use sync::SyncPlan;
pub(crate) use tree::{Sides, TreePlan};

use crate::args::{Cli, Command, CompleteArgs, DemoArgs, Generated, KeyCommand, LoginArgs, TrustCommand, UserCommand};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::protection::Protection;
use crate::size::SizeError;
use crate::text::{printable, shell_word};
use crate::url::{Url, UrlError};

use self::written::{other_form, server_of, without_password};

/// What to do.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Offer directories.
    Serve(ServePlan),
    /// Say whether a server would start.
    CheckServe(ServePlan),
    /// Serve the client that started this process over ssh.
    ServeStdio(StdioPlan),
    /// Copy files.
    Copy(CopyPlan),
    /// Make a directory like another one.
    Sync(SyncPlan),
    /// Do something to names.
    Names(NamesPlan),
    /// Run a command under a lock.
    Lock(LockPlan),
    /// Mount a directory.
    Mount(MountPlan),
    /// Show the hashes of files.
    Sum(SumPlan),
    /// Run the demonstration.
    Demo(DemoPlan),
    /// Manage who may log in.
    User(UserCommand),
    /// Make, show and convert keys.
    Key(KeyCommand),
    /// Show and change which keys are trusted.
    Trust(TrustCommand),
    /// Write generated documentation.
    Generate(Generated, PathBuf),
    /// List what completes a command line.
    Complete(CompleteArgs),
}

/// The login, as far as the command line specifies it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoginPlan {
    /// The one key to offer.
    pub(crate) identity: Option<PathBuf>,
    /// The file with the password.
    pub(crate) password_file: Option<PathBuf>,
    /// The authorities that are trusted to certify a server's name.
    pub(crate) ca: Option<PathBuf>,
    /// The state folder.
    pub(crate) state: Option<PathBuf>,
    /// The program that connects, and its first arguments.
    pub(crate) ssh: Option<String>,
    /// What it runs at the other end.
    pub(crate) remote_command: Option<String>,
    /// The drivers that channels pass through; without it those of the configuration file.
    pub(crate) stack: Option<String>,
    /// Nobody is asked for anything, terminal or not: the program is not a command.
    pub(crate) unattended: bool,
    /// The servers of the configuration file.
    pub(crate) config: Config,
}

impl LoginPlan {
    /// How many of `limit` descriptors channels can count on: one with a stack is two.
    pub(crate) fn descriptors_for_channels(&self, limit: u64) -> u64 {
        if self.stack.is_some() || self.config.has_stacks() { limit / 2 } else { limit }
    }
}

impl From<LoginArgs> for LoginPlan {
    fn from(args: LoginArgs) -> Self {
        Self {
            identity: args.identity,
            password_file: args.password_file,
            ca: args.ca,
            state: args.state,
            ssh: args.ssh,
            remote_command: args.remote_command,
            stack: args.stack,
            unattended: false,
            config: args.config,
        }
    }
}

/// A file sent to a server on this machine and back.
#[derive(Debug)]
pub(crate) struct DemoPlan {
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Parallel channels.
    pub(crate) channels: u16,
    /// How the transfers are protected.
    pub(crate) level: Level,
    /// Where files are made, if specified.
    pub(crate) directory: Option<PathBuf>,
}

/// Why a command line is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// Both ends are on servers.
    #[error("cannot copy {source_url} to {target_url}: one of the two must be on this machine\nhelp: {help}")]
    TwoServers {
        /// As it was typed.
        source_url: String,
        /// As it was typed.
        target_url: String,
        /// The two commands that do it.
        help: String,
    },
    /// A URL with a fault.
    #[error("{url}: {fault}\nhelp: for example {}", fault.example())]
    Url {
        /// As it was typed.
        url: String,
        /// Its fault.
        fault: UrlError,
    },
    /// A URL of a server alone.
    #[error("{url}: {fault}\nhelp: xdfs ls {server} lists those of the server\nhelp: for example {}", fault.example())]
    NoExport {
        /// As it was typed.
        url: String,
        /// Its fault.
        fault: UrlError,
        /// The server, as a word of a command.
        server: String,
    },
    /// A URL as another program or another habit has it.
    #[error("{url}: {reason}\nhelp: write {instead}")]
    UrlForm {
        /// As it was typed.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
        /// The same for this program.
        instead: String,
    },
    /// The port of the server in place of a number of channels.
    #[error(
        "-P {0}: this is the number of parallel channels\nhelp: a port is written in the URL, as in xdfs://HOST:{0}/EXPORT/path"
    )]
    PortAsChannels(u16),
    /// A port of ssh in its place.
    #[error("-P {port}: this is the number of parallel channels, not a port\nhelp: {remedy}")]
    SshPortAsChannels {
        /// What was typed.
        port: u16,
        /// How a port is named.
        remedy: String,
    },
    /// Not an address with a port.
    #[error(
        "--listen {0}: this is no address with a port\nhelp: for example 127.0.0.1:2799, [::1]:2799 or 127.0.0.1:0"
    )]
    Listen(String),
    /// Something else behind the address.
    #[error(
        "--listen {0}: what follows the address is '?stack=' and drivers\nhelp: for example '0.0.0.0:2799?stack=tcp,zstd'"
    )]
    ListenForm(String),
    /// Not a range of ports.
    #[error("--ports {0}: this is no range of ports\nhelp: write FROM-TO, for example 2800-2899")]
    Ports(String),
    /// Not `NAME=DIR`.
    #[error(
        "--export {0}: this does not say which directory has which name\nhelp: write NAME=DIR, NAME=DIR:ro or NAME=memory:, for example --export data=/srv/data"
    )]
    ExportForm(String),
    /// Not a name.
    #[error("--export {0}: a name has 1 to 64 letters, digits, '.', '_' and '-', and not only dots")]
    ExportName(String),
    /// The same name twice.
    #[error("--export {0}: this name is given twice\nhelp: give each export a name of its own")]
    ExportTwice(String),
    /// `zero:` or `random:` without a good size.
    #[error("{what}: {fault}\nhelp: write zero:SIZE or random:SIZE, for example zero:10GB")]
    Size {
        /// As it was typed.
        what: String,
        /// What is wrong with the size.
        fault: SizeError,
    },
    /// A special name on the wrong side.
    #[error("{what}: this can only be a {side}\nhelp: a local file of that name is written ./{what}")]
    WrongSide {
        /// As it was typed.
        what: String,
        /// The side where it is allowed.
        side: &'static str,
    },
    /// The root of an export, where a name is needed.
    #[error("{0}: this is the top of an export, which stays\nhelp: name something in it")]
    TopOfExport(String),
    /// Two exports where only one is possible.
    #[error("{0}: a name moves within one export of one server\nhelp: copy the file and remove it")]
    OtherExport(String),
    /// A directory that would be moved into itself.
    #[error("{0}: it cannot move to a name below itself")]
    IntoItself(String),
    /// Too deep for a path.
    #[error("{0}: the path would be too deep or too long")]
    TooDeep(String),
    /// An empty argument.
    #[error("an empty name was given\nhelp: is a shell variable unset?")]
    Empty,
    /// Both sides are local.
    #[error(
        "{target}: neither side is on a server\nhelp: write xdfs://HOST/EXPORT/path, or ssh:HOST:path for what scp and rsync write as \
         HOST:path; local files are copied by cp"
    )]
    NothingRemote {
        /// The target as typed.
        target: String,
    },
    /// Sources from both sides.
    #[error("{source_name}: the sources are partly local and partly on servers\nhelp: copy them with two commands")]
    Mixed {
        /// The first source of the other kind.
        source_name: String,
    },
    /// Several sources into one stream.
    #[error(
        "{target}: several sources need a directory as their target\nhelp: 'xdfs cat' writes one behind the other to standard output"
    )]
    ManyIntoOne {
        /// The target as typed.
        target: String,
    },
    /// Standard input or zeros into a directory.
    #[error("{what} has no name\nhelp: write the target's file name, such as {example}")]
    Nameless {
        /// The source as typed.
        what: String,
        /// A target with a name.
        example: String,
    },
    /// The root of an export as a source, or a URL that ends in a slash.
    #[error("{0}: this names a directory\nhelp: copy it with -r, or name a file")]
    SourceIsDirectory(String),
    /// An invalid block size.
    #[error("--block {0}: a block is a power of two from 64KiB to 4MiB (65536 to 4194304 bytes), such as 1MiB")]
    Block(u64),
    /// An invalid window.
    #[error("--window {0}: a window has 4KiB to 1GiB")]
    Window(u64),
    /// Not a name of the kernel.
    #[error(
        "--congestion {0}: this is no name of a congestion control\nhelp: those of this machine are in /proc/sys/net/ipv4/tcp_available_congestion_control"
    )]
    Congestion(String),
    /// A range that ends beyond all files.
    #[error("--offset and --length: the range ends beyond the largest file there can be")]
    Range,
    /// A range of a tree.
    #[error("--offset and --length: a directory has no range\nhelp: leave -r out, or the range")]
    RangeOfTree,
    /// A pattern that matches nothing.
    #[error("--{0}: an empty pattern fits nothing\nhelp: is a shell variable unset?")]
    Pattern(&'static str),
    /// Standard input is wanted for two things.
    #[error(
        "{0} -: standard input is read only once, and something else reads it, too\nhelp: put the lines into a file"
    )]
    StandardInputTwice(&'static str),
    /// A test of find that cannot be read.
    #[error("{0}")]
    Find(String),
    /// Deletion at a place that an empty variable would name.
    #[error(
        "--delete: {target} is {place}, which is also what an empty shell variable leaves of a longer name; nothing was done\nhelp: \
         add --max-delete N if it is meant (nothing is removed where more than N names would go); -n shows what would be done"
    )]
    DeleteAtTop {
        /// As it was typed.
        target: String,
        /// What it is.
        place: &'static str,
    },
    /// Deletion in a target that may mean two directories.
    #[error("{0}")]
    DeleteInto(Box<TwoReadings>),
    /// Deletion together with a list of names.
    #[error("--delete: with --files-from nobody knows what the source does not have\nhelp: leave one of them out")]
    DeleteOfSome,
    /// Something that is not a directory.
    #[error("{what}: this cannot be a {side} of sync\nhelp: name a directory")]
    NoDirectory {
        /// As it was typed.
        what: String,
        /// Its side.
        side: &'static str,
    },
    /// An offset into a stream of zeros or standard input.
    #[error("--offset: {0} cannot be entered in its middle\nhelp: leave the option out")]
    OffsetOfStream(String),
    /// `wire` at `clear`.
    #[error(
        "--verify wire: this checks the tag of every block, and at --protection clear blocks have none\nhelp: use --protection integrity or --verify hash"
    )]
    WireAtClear,
    /// A URL as the text of a symbolic link.
    #[error(
        "{text}: a symbolic link leads to a path on its own machine, not to a URL\nhelp: write the name as it is from the link's \
         directory: xdfs ln -s {} URL",
        shell_word(relative)
    )]
    LinkText {
        /// As it was typed.
        text: String,
        /// The name from there.
        relative: String,
    },
    /// Something that FTP servers do not have.
    #[error("{0}: FTP servers cannot do that\nhelp: xdfs:// and ssh:// can")]
    NotByFtp(&'static str),
    /// An option of a mount.
    #[error("-o {option}: {reason}")]
    MountOption {
        /// As it was typed.
        option: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Data and reports into one stream.
    #[error(
        "--json: it writes to standard output, which is the target here\nhelp: copy to a file, or leave --json out"
    )]
    JsonIntoTarget,
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}

/// Turns the command line into a plan.
pub(crate) fn resolve(typed: Cli) -> Result<Plan, PlanError> {
    let plan = resolve_command(typed)?;
    match &plan {
        Plan::Copy(plan) => ftp::check_copy(plan)?,
        Plan::Sync(plan) => ftp::check_sync(plan)?,
        Plan::Names(plan) => ftp::check_names(plan)?,
        Plan::Lock(plan) if plan.url.is_ftp() => return Err(PlanError::NotByFtp("lock")),
        Plan::Mount(plan) if plan.url.is_ftp() => return Err(PlanError::NotByFtp("mount")),
        _ => {}
    }
    Ok(plan)
}

fn resolve_command(typed: Cli) -> Result<Plan, PlanError> {
    match typed.command {
        Command::Serve(args) if args.stdio => serve::resolve_stdio(&args).map(Plan::ServeStdio),
        Command::Serve(args) if args.check => serve::resolve(*args).map(Plan::CheckServe),
        Command::Serve(args) => serve::resolve(*args).map(Plan::Serve),
        Command::Cp(args) => copy::resolve(*args).map(Plan::Copy),
        Command::Sync(args) => sync::resolve(*args).map(Plan::Sync),
        Command::Stat(args) => names::stat(args).map(Plan::Names),
        Command::Ls(args) => names::ls(args).map(Plan::Names),
        Command::Find(args) => find::resolve(args).map(Plan::Names),
        Command::Mkdir(args) => names::mkdir(args).map(Plan::Names),
        Command::Mkfifo(args) => names::mkfifo(args).map(Plan::Names),
        Command::Rm(args) => names::rm(args).map(Plan::Names),
        Command::Mv(args) => names::mv(args).map(Plan::Names),
        Command::Ln(args) => names::ln(args).map(Plan::Names),
        Command::Chmod(args) => names::chmod(args).map(Plan::Names),
        Command::Touch(args) => names::touch(args).map(Plan::Names),
        Command::Cat(args) => names::cat(args).map(Plan::Names),
        Command::Du(args) => names::du(args).map(Plan::Names),
        Command::Df(args) => names::df(args).map(Plan::Names),
        Command::Lock(args) => lock::resolve(args).map(Plan::Lock),
        Command::Mount(args) => mount::resolve(args).map(Plan::Mount),
        Command::Sum(args) => sum::resolve(args).map(Plan::Sum),
        Command::Demo(args) => resolve_demo(args).map(Plan::Demo),
        Command::User(args) => Ok(Plan::User(args.command)),
        Command::Key(args) => Ok(Plan::Key(args.command)),
        Command::Trust(args) => Ok(Plan::Trust(args.command)),
        Command::Complete(args) => Ok(Plan::Complete(args)),
        Command::Generate(args) => Ok(Plan::Generate(args.what, args.directory)),
    }
}

fn resolve_demo(args: DemoArgs) -> Result<DemoPlan, PlanError> {
    let level = level_of(args.protection);
    Ok(DemoPlan { size: args.size, channels: args.channels, level, directory: args.directory })
}

fn parse_url(text: &OsStr) -> Result<Url, PlanError> {
    read_url(text, Url::parse)
}

fn read_url(text: &OsStr, parse: fn(&OsStr) -> Result<Url, UrlError>) -> Result<Url, PlanError> {
    parse(text).map_err(|fault| {
        let url = without_password(show(text));
        match (&fault, other_form(&url)) {
            (UrlError::Scheme, Some((reason, instead))) => PlanError::UrlForm { url, reason, instead },
            (UrlError::ExportMissing, _) => PlanError::NoExport { server: server_of(&url), url, fault },
            _ => PlanError::Url { url, fault },
        }
    })
}

/// The level that a word means.
pub(crate) fn level_of(protection: Protection) -> Level {
    match protection {
        Protection::Clear => Level::Clear,
        Protection::Integrity => Level::Integrity,
        Protection::Private => Level::Private,
    }
}

fn show(text: &OsStr) -> String {
    printable(text.as_encoded_bytes())
}

/// For messages about several arguments at once.
fn is_empty(text: &OsString) -> bool {
    text.is_empty()
}
