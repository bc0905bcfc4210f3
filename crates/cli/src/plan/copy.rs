//! What `xdfs cp` will copy, from where to where, and how.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use xdfs_proto::base::{Extent, Level};

use super::tree::{TreePlan, must_read_input_once};
use super::{LoginPlan, PlanError, is_empty, level_of, parse_url, show};
use crate::args::{CopyArgs, Durability, MovingArgs, Verify};
use crate::bandwidth::Schedule;
use crate::protection::Protection;
use crate::size;
use crate::text::shell_word;
use crate::url::{FROM_ROOT, PORT_DEFAULT, Url, Via, looks_like_url};

/// Default channels. Enough to receive in parallel with writing and to fill a path whose windows
/// are small; more cost memory and gain nothing on one machine. The bench decides.
const CHANNELS_DEFAULT: u16 = 4;

/// Smallest block: below it the calls per byte cost more than the data (rule 14).
const BLOCK_BYTES_MIN: u64 = 64 << 10;
/// Largest block: above it buffers leave the caches and a lost channel costs more (rule 14).
const BLOCK_BYTES_MAX: u64 = 4 << 20;
/// Smallest window: one page; the kernel would round up anything smaller.
const WINDOW_BYTES_MIN: u64 = 4 << 10;
/// Largest window: the largest that TCP can express (RFC 7323).
const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// Longest name of a congestion control: the kernel's TCP_CA_NAME_MAX with its NUL.
const CONGESTION_BYTES_MAX: usize = 15;

/// Files to copy.
#[derive(Debug)]
pub(crate) struct CopyPlan {
    /// From where to where.
    pub(crate) copies: Copies,
    /// Session and transfer options.
    pub(crate) options: Options,
    /// Output options.
    pub(crate) format: Format,
    /// The login.
    pub(crate) login: LoginPlan,
    /// How directories are copied, if they are.
    pub(crate) tree: Option<TreePlan>,
}

/// From where to where; at least one source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Copies {
    /// To a server.
    Upload {
        /// What is uploaded.
        sources: Vec<Local>,
        /// The target: a file, or a directory that receives the sources under their names.
        target: Url,
    },
    /// From one server or several.
    Download {
        /// What is downloaded.
        sources: Vec<Url>,
        /// The target.
        target: LocalTarget,
    },
    /// Between servers, through this machine: one of the two sides is FTP, and the other is not.
    Between {
        /// What is copied.
        sources: Vec<Url>,
        /// The target: a file, or a directory that receives the sources under their names.
        target: Url,
    },
}

/// A source on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Local {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// This many zero bytes, made in memory.
    Zero(u64),
    /// This many random bytes, made in memory.
    Random(u64),
}

/// A target on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LocalTarget {
    /// A file, or a directory that exists.
    Path(PathBuf),
    /// Standard output.
    Stdout,
    /// The bytes are discarded.
    Null,
}

/// Session and transfer options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// Parallel TCP channels to request, at least 1.
    pub(crate) channels: u16,
    /// Socket buffer of each channel in bytes; without it the kernel tunes.
    pub(crate) window: Option<u32>,
    /// Block size in bytes, a power of two; without it the session chooses.
    pub(crate) block: Option<u32>,
    /// Congestion control; without it xdfs chooses.
    pub(crate) congestion: Option<String>,
    /// The limit of bandwidth of all channels together.
    pub(crate) bandwidth: Option<Schedule>,
    /// Protection of every transfer.
    pub(crate) level: Level,
    /// How a copy is verified.
    pub(crate) check: Check,
    /// First byte of the source.
    pub(crate) offset: u64,
    /// Number of bytes; without it, to the end.
    pub(crate) length: Option<u64>,
    /// An existing target is kept.
    pub(crate) keep_existing: bool,
    /// Nothing is changed.
    pub(crate) dry_run: bool,
    /// When a file counts as copied.
    pub(crate) durability: WhenDone,
    /// Resume an earlier attempt.
    pub(crate) resume: bool,
    /// Runs of zeros occupy no space at the target.
    pub(crate) holes: bool,
    /// Retry until nothing has moved for this long.
    pub(crate) retry: Duration,
}

/// When a file counts as copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenDone {
    /// When it is in its file system.
    Written,
    /// When it is on its disk, where the file system has one.
    Durable,
    /// The same, with a note if the file system cannot promise it.
    DurableAsked,
}

/// How a copy is verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// Only the heads of blocks.
    None,
    /// Every block by its tag.
    Wire,
    /// The received content by its hash.
    Hash,
    /// The content read back from the target by its hash.
    Reread,
}

impl Check {
    /// The word of `--verify`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Wire => "wire",
            Self::Hash => "hash",
            Self::Reread => "reread",
        }
    }
}

/// Output options of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// JSON lines on standard output.
    pub(crate) json: bool,
    /// Only errors on standard error.
    pub(crate) quiet: bool,
    /// One line at the end says what was done, also without a terminal.
    pub(crate) summary: bool,
    /// Each file is named when it is done.
    pub(crate) names: bool,
    /// What a terminal shows while data move.
    pub(crate) progress: Progress,
    /// How long nothing arrives at the slowest rate that was asked for, with nothing wrong.
    pub(crate) longest_pause: Duration,
}

pub(crate) use crate::args::Progress;

/// Resolves the arguments of `cp`.
pub(super) fn resolve(args: CopyArgs) -> Result<CopyPlan, PlanError> {
    let trees = args.recursive || args.archive;
    let copies = resolve_copies(&args.sources, &args.target, trees)?;
    must_be_channels(&args.moving, args.sources.iter().chain([&args.target]))?;
    let options = Options {
        offset: args.offset,
        length: args.length,
        keep_existing: args.no_clobber,
        dry_run: args.dry_run,
        resume: !args.no_resume,
        holes: args.archive,
        ..resolve_options(&args.moving)?
    };
    Extent::new(args.offset, args.length.unwrap_or(0)).map_err(|_| PlanError::Range)?;
    if trees && (args.offset > 0 || args.length.is_some()) {
        return Err(PlanError::RangeOfTree);
    }
    if options.offset > 0
        && let Copies::Upload { sources, .. } = &copies
        && let Some(at) = sources.iter().position(|source| !matches!(source, Local::File(_)))
    {
        return Err(PlanError::OffsetOfStream(show(&args.sources[at])));
    }
    if args.moving.json && matches!(copies, Copies::Download { target: LocalTarget::Stdout, .. }) {
        return Err(PlanError::JsonIntoTarget);
    }
    let format = format_of(&args.moving);
    let tree = trees.then(|| TreePlan::of(args.tree, args.archive)).transpose()?;
    let tree = tree.map(|tree| TreePlan { dry_run: args.dry_run, ..tree });
    if let Some(tree) = &tree {
        must_read_input_once(tree, args.sources.len())?;
    }
    Ok(CopyPlan { copies, options, format, login: args.moving.login.into(), tree })
}

pub(super) fn format_of(args: &MovingArgs) -> Format {
    let summary = args.stats || args.verbose;
    Format {
        json: args.json,
        quiet: args.quiet,
        summary,
        names: args.verbose,
        progress: args.progress,
        longest_pause: args.bwlimit.as_ref().map_or(Duration::ZERO, Schedule::longest_pause),
    }
}

pub(super) fn resolve_options(args: &MovingArgs) -> Result<Options, PlanError> {
    let level = level_of(args.protection.unwrap_or(Protection::Private));
    let check = match (args.verify, level) {
        (Some(Verify::Wire), Level::Clear) => return Err(PlanError::WireAtClear),
        (Some(Verify::Wire), _) => Check::Wire,
        (Some(Verify::None), _) => Check::None,
        (Some(Verify::Hash) | None, _) => Check::Hash,
        (Some(Verify::Reread), _) => Check::Reread,
    };
    let block = match args.block {
        Some(block) if !block.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block) => {
            return Err(PlanError::Block(block));
        }
        // Fits: checked on the line above.
        block => block.map(|block| block as u32),
    };
    let window = match args.window {
        Some(window) if !(WINDOW_BYTES_MIN..=WINDOW_BYTES_MAX).contains(&window) => {
            return Err(PlanError::Window(window));
        }
        // Fits: checked on the line above.
        window => window.map(|window| window as u32),
    };
    if let Some(name) = &args.congestion {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if !(1..=CONGESTION_BYTES_MAX).contains(&name.len()) || !name.bytes().all(good) {
            return Err(PlanError::Congestion(show(name.as_ref())));
        }
    }
    // Nobody wants as many channels as the server's port has in its number.
    if let Some(port) = args.channels.filter(|channels| *channels == PORT_DEFAULT) {
        return Err(PlanError::PortAsChannels(port));
    }
    let channels = args.channels.unwrap_or(CHANNELS_DEFAULT);
    let channels = args.bwlimit.as_ref().map_or(channels, |limit| limit.channels(channels));
    Ok(Options {
        channels,
        window: window.or(args.bwlimit.as_ref().and_then(|limit| limit.window(channels))),
        block: block.or(args.bwlimit.as_ref().and_then(Schedule::block)),
        bandwidth: args.bwlimit.clone(),
        congestion: args.congestion.clone(),
        level,
        check,
        offset: 0,
        length: None,
        keep_existing: false,
        dry_run: false,
        resume: true,
        holes: false,
        retry: Duration::from_secs(args.retry.into()),
        durability: match args.durability {
            None => WhenDone::Durable,
            Some(Durability::Durable) => WhenDone::DurableAsked,
            Some(Durability::Written) => WhenDone::Written,
        },
    })
}

/// Ports on which many let sshd listen, besides those that are more than the channels of any server.
const SSH_PORTS: [u16; 4] = [22, 222, 2200, 2222];

/// The most channels that a server grants as it is shipped.
const CHANNELS_GRANTED_MAX: u16 = 1024;

/// Refuses a port in place of a number of channels, as scp has it, where an address of ssh has none.
pub(super) fn must_be_channels<'t>(
    args: &MovingArgs,
    mut ends: impl Iterator<Item = &'t OsString>,
) -> Result<(), PlanError> {
    let is_port = |port: &u16| *port > CHANNELS_GRANTED_MAX || SSH_PORTS.contains(port);
    let Some(port) = args.channels.filter(is_port) else { return Ok(()) };
    let url = ends.find_map(|end| Url::parse(end).ok().filter(|url| url.via == Via::Ssh && url.port == 0));
    let Some(url) = url.map(|url| Url { port, ..url }) else { return Ok(()) };
    let remedy = match url.export == FROM_ROOT {
        true => format!("a port is written in the address: {}", shell_word(&url.to_string())),
        // That form has no place for one.
        false => format!("a port is named to ssh: --ssh 'ssh -p {port}'"),
    };
    Err(PlanError::SshPortAsChannels { port, remedy })
}

fn resolve_copies(sources: &[OsString], target: &OsString, trees: bool) -> Result<Copies, PlanError> {
    if sources.iter().chain([target]).any(is_empty) {
        return Err(PlanError::Empty);
    }
    if looks_like_url(target) {
        if sources.iter().any(|source| looks_like_url(source)) {
            return resolve_between(sources, target, trees);
        }
        let target = parse_url(target)?;
        let sources = sources.iter().map(|source| local_source(source)).collect::<Result<Vec<_>, _>>()?;
        refuse_nameless(&sources, &target)?;
        return Ok(Copies::Upload { sources, target });
    }
    let remote = sources.iter().filter(|source| looks_like_url(source)).count();
    if remote == 0 {
        return Err(PlanError::NothingRemote { target: show(target) });
    }
    if let Some(local) = sources.iter().find(|source| !looks_like_url(source)) {
        return Err(PlanError::Mixed { source_name: show(local) });
    }
    let local_target = local_target(target)?;
    if sources.len() > 1 && local_target == LocalTarget::Stdout {
        return Err(PlanError::ManyIntoOne { target: show(target) });
    }
    let urls = sources.iter().map(|source| if trees { tree_source(source) } else { remote_source(source) });
    let urls = urls.collect::<Result<Vec<_>, _>>()?;
    Ok(Copies::Download { sources: urls, target: local_target })
}

/// Between two servers there is a way if one of them is an FTP server.
fn resolve_between(sources: &[OsString], target: &OsString, trees: bool) -> Result<Copies, PlanError> {
    let to = parse_url(target)?;
    let mut urls = Vec::with_capacity(sources.len());
    for source in sources.iter().filter(|source| looks_like_url(source)) {
        if !parse_url(source)?.is_ftp() && !to.is_ftp() {
            return Err(two_servers(if trees { "cp -r" } else { "cp" }, sources, target));
        }
        urls.push(if trees { tree_source(source)? } else { remote_source(source)? });
    }
    match sources.iter().find(|source| !looks_like_url(source)) {
        Some(local) => Err(PlanError::Mixed { source_name: show(local) }),
        None => Ok(Copies::Between { sources: urls, target: to }),
    }
}

/// The refusal of a copy between two xdfs servers, with the commands that make it.
pub(super) fn two_servers(command: &str, sources: &[OsString], target: &OsStr) -> PlanError {
    let shown: Vec<String> = sources.iter().map(|source| show(source)).collect();
    let (source_url, target_url) = (shown.first().cloned().unwrap_or_default(), show(target));
    let elsewhere = "run the copy on one of the servers";
    let help = match through_here(command, sources, target) {
        Some(steps) => format!("{steps}\nhelp: or {elsewhere}"),
        None => elsewhere.to_owned(),
    };
    PlanError::TwoServers { source_url, target_url, help }
}

/// The commands that make a copy between two servers through this machine; none for patterns of which
/// it is not clear what they mean.
fn through_here(command: &str, sources: &[OsString], target: &OsStr) -> Option<String> {
    let is_pattern = |url: &OsStr| parse_url(url).is_ok_and(|url| url.pattern.is_some());
    let to = shell_word(&show(target));
    let from = sources.iter().map(|source| shell_word(&show(source))).collect::<Vec<_>>().join(" ");
    let several = sources.len() > 1 || sources.iter().any(|source| is_pattern(source));
    if is_pattern(target) || (several && command == "sync") {
        return None;
    }
    if several {
        return Some(format!("mkdir copy && xdfs {command} {from} copy/ && xdfs cp -r copy/. {to}"));
    }
    let path = show(sources.first()?);
    let path = path.split('#').next().unwrap_or_default().trim_end_matches('/');
    // A colon is before the path of the form 'ssh:HOST:path'; where it is empty, the copy has another name.
    let name = path.rsplit(['/', ':']).next().filter(|name| !name.is_empty()).unwrap_or("copy");
    let here = shell_word(&format!("./{name}"));
    Some(format!("xdfs {command} {from} {here} && xdfs {command} {here} {to}"))
}

pub(super) fn local_source(text: &OsStr) -> Result<Local, PlanError> {
    match text.as_bytes() {
        b"-" => Ok(Local::Stdin),
        b"null:" => Err(PlanError::WrongSide { what: show(text), side: "target" }),
        bytes => match made_in_memory(bytes) {
            Some((make, count)) => match size::parse(&String::from_utf8_lossy(count)) {
                Ok(bytes) => Ok(make(bytes)),
                Err(fault) => Err(PlanError::Size { what: show(text), fault }),
            },
            None => Ok(Local::File(PathBuf::from(text))),
        },
    }
}

/// Which source a special name makes in memory, and the text after its colon.
pub(super) fn made_in_memory(text: &[u8]) -> Option<(Make, &[u8])> {
    let kinds: [(&[u8], Make); 2] = [(b"zero:", Local::Zero), (b"random:", Local::Random)];
    kinds.into_iter().find_map(|(prefix, make)| Some((make, text.strip_prefix(prefix)?)))
}

/// Makes a source of this many bytes.
type Make = fn(u64) -> Local;

fn local_target(text: &OsStr) -> Result<LocalTarget, PlanError> {
    match text.as_bytes() {
        b"-" => Ok(LocalTarget::Stdout),
        b"null:" => Ok(LocalTarget::Null),
        bytes if made_in_memory(bytes).is_some() => Err(PlanError::WrongSide { what: show(text), side: "source" }),
        _ => Ok(LocalTarget::Path(PathBuf::from(text))),
    }
}

pub(super) fn remote_source(text: &OsStr) -> Result<Url, PlanError> {
    let url = parse_url(text)?;
    if url.directory || url.path.is_root() {
        return Err(PlanError::SourceIsDirectory(show(text)));
    }
    Ok(url)
}

/// A source of `cp -r`; if it ends in `/.`, its contents are copied.
fn tree_source(text: &OsString) -> Result<Url, PlanError> {
    let bytes = text.as_bytes();
    let key = bytes.iter().position(|&byte| byte == b'#').unwrap_or(bytes.len());
    let (place, key) = bytes.split_at(key);
    match place.strip_suffix(b"/.") {
        Some(directory) => {
            let url = parse_url(OsStr::from_bytes(&[directory, key].concat()))?;
            Ok(Url { contents: true, ..url })
        }
        None => parse_url(text),
    }
}

/// Standard input and sources made in memory have no name to use in a directory.
fn refuse_nameless(sources: &[Local], target: &Url) -> Result<(), PlanError> {
    let into_directory = sources.len() > 1 || target.directory || target.path.is_root();
    let (what, name) = match sources.iter().find(|source| !matches!(source, Local::File(_))) {
        Some(Local::Stdin) => ("standard input".to_owned(), &b"input.bin"[..]),
        Some(Local::Zero(size)) => (format!("zero:{size}"), &b"zeros.bin"[..]),
        Some(Local::Random(size)) => (format!("random:{size}"), &b"random.bin"[..]),
        Some(Local::File(_)) | None => return Ok(()),
    };
    if !into_directory {
        return Ok(());
    }
    let example = target.join(name).map_or_else(|_| target.to_string(), |url| url.to_string());
    Err(PlanError::Nameless { what, example })
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
