//! The plan of the commands on names of servers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use xdfs_client::wire::FileType;
use xdfs_proto::base::Timestamp;

use super::{LoginPlan, PlanError, is_empty, parse_url, read_url, show};
use crate::args::{
    CatArgs, ChmodArgs, DfArgs, DuArgs, LnArgs, LsArgs, MkdirArgs, MkfifoArgs, MvArgs, NamesArgs, RmArgs, StatArgs,
    TouchArgs,
};
use crate::mode::ModeChange;
use crate::text::printable;
use crate::url::{SCHEME, SSH_PREFIX, Url};

/// A command on names.
#[derive(Debug)]
pub(crate) struct NamesPlan {
    /// The operation.
    pub(crate) verb: Verb,
    /// Its operands.
    pub(crate) urls: Vec<Url>,
    /// JSON instead of text.
    pub(crate) json: bool,
    /// The login.
    pub(crate) login: LoginPlan,
}

/// The operation on each URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// List.
    Ls { long: bool, numeric: bool, recursive: bool, human: bool, sort: bool },
    /// Print what passes tests.
    Find(Search),
    /// Show all attributes.
    Stat { locks: bool },
    /// Make a directory.
    Mkdir { parents: bool, mode: u32 },
    /// Make a named pipe.
    Mkfifo { mode: u32 },
    /// Remove.
    Rm { recursive: bool, force: bool },
    /// Rename to this name, in the same export.
    Mv { target: Url, no_clobber: bool },
    /// Give one more name to the file at this URL.
    Ln { of: Url },
    /// Make a symbolic link with this text.
    Symlink { text: Vec<u8> },
    /// Set permission bits.
    Chmod { mode: ModeChange },
    /// Set times to now, or to this time.
    Touch { create: bool, time: Option<Timestamp> },
    /// Write to standard output.
    Cat,
    /// Write a range to standard output, and of the last one what is appended.
    CatRange { offset: u64, length: Option<u64>, follow: bool },
    /// Count bytes.
    Du { human: bool },
    /// Show the free space.
    Df { human: bool },
}

impl Verb {
    /// Whether an operand stands for all names that fit it: for what is there, and may be many.
    pub(crate) const fn takes_patterns(&self) -> bool {
        match self {
            Self::Ls { .. } | Self::Find(_) | Self::Stat { .. } | Self::Rm { .. } | Self::Chmod { .. } => true,
            Self::Touch { .. } | Self::Cat | Self::CatRange { .. } | Self::Du { .. } => true,
            Self::Mkdir { .. }
            | Self::Mkfifo { .. }
            | Self::Mv { .. }
            | Self::Ln { .. }
            | Self::Symlink { .. }
            | Self::Df { .. } => false,
        }
    }
}

/// What is looked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Search {
    /// All of them must hold; one that is true must not.
    pub(crate) tests: Vec<(bool, Test)>,
    /// Levels below the URL at least.
    pub(crate) depth_min: usize,
    /// Levels below the URL at most.
    pub(crate) depth_max: Option<usize>,
    /// A NUL behind each name.
    pub(crate) print0: bool,
}

/// One test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    /// The last name fits a pattern; in any case of letters if the pattern is in small ones.
    Name { pattern: Vec<u8>, any_case: bool },
    /// Export and path fit a pattern.
    Path(Vec<u8>),
    /// It is of one of these types.
    Type(Vec<FileType>),
    /// It has so many units of this many bytes.
    Size(Count, u64),
    /// It was modified so many days ago.
    Age(Count),
    /// It was modified later than this.
    Newer(Reference),
    /// It has nothing in it.
    Empty,
}

/// A file whose time is compared with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reference {
    /// On a server.
    Remote(Url),
    /// On this machine.
    Local(PathBuf),
}

/// `N`, `+N` or `-N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    /// Exactly.
    Exactly(u64),
    /// More.
    More(u64),
    /// Less.
    Less(u64),
}

impl Count {
    /// Whether a number is so many.
    pub(crate) fn is(self, number: u64) -> bool {
        match self {
            Self::Exactly(count) => number == count,
            Self::More(count) => number > count,
            Self::Less(count) => number < count,
        }
    }
}

fn plan(verb: Verb, urls: &[OsString], names: NamesArgs) -> Result<NamesPlan, PlanError> {
    if urls.iter().any(is_empty) {
        return Err(PlanError::Empty);
    }
    let parse = if matches!(verb, Verb::Ls { .. }) { Url::parse_listed } else { Url::parse };
    let urls = urls.iter().map(|text| read_url(text, parse)).collect::<Result<_, _>>()?;
    Ok(NamesPlan { verb, urls, json: names.json, login: names.login.into() })
}

pub(super) fn ls(args: LsArgs) -> Result<NamesPlan, PlanError> {
    let LsArgs { long, numeric, recursive, human, sort, .. } = args;
    let verb = Verb::Ls { long: long || numeric, numeric, recursive, human, sort };
    plan(verb, &args.urls, args.names)
}

pub(super) fn stat(args: StatArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Stat { locks: args.locks }, &args.urls, args.names)
}

pub(super) fn mkdir(args: MkdirArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Mkdir { parents: args.parents, mode: args.mode }, &args.urls, args.names)
}

pub(super) fn mkfifo(args: MkfifoArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Mkfifo { mode: args.mode }, &args.urls, args.names)
}

pub(super) fn rm(args: RmArgs) -> Result<NamesPlan, PlanError> {
    let planned = plan(Verb::Rm { recursive: args.recursive, force: args.force }, &args.urls, args.names)?;
    match planned.urls.iter().find(|url| url.path.is_root()) {
        Some(url) => Err(PlanError::TopOfExport(url.to_string())),
        None => Ok(planned),
    }
}

pub(super) fn mv(args: MvArgs) -> Result<NamesPlan, PlanError> {
    let (source, mut target) = (parse_url(&args.source)?, parse_url(&args.target)?);
    same_export(&source, &target, &args.target)?;
    if source.path.is_root() {
        return Err(PlanError::TopOfExport(source.to_string()));
    }
    if target.directory || target.path.is_root() {
        let name = source.name().ok_or_else(|| PlanError::TopOfExport(source.to_string()))?;
        target = target.join(name).map_err(|_| PlanError::TooDeep(show(&args.target)))?;
    }
    if target.path != source.path && target.path.is_within(&source.path) {
        return Err(PlanError::IntoItself(show(&args.source)));
    }
    plan(Verb::Mv { target, no_clobber: args.no_clobber }, &[args.source], args.names)
}

pub(super) fn ln(args: LnArgs) -> Result<NamesPlan, PlanError> {
    let verb = if args.symbolic {
        if is_empty(&args.target) {
            return Err(PlanError::Empty);
        }
        if [SCHEME, SSH_PREFIX].iter().any(|start| args.target.as_bytes().starts_with(start.as_bytes())) {
            let relative = between(&args.url, &args.target).unwrap_or_else(|| "../NAME".to_owned());
            return Err(PlanError::LinkText { text: show(&args.target), relative });
        }
        Verb::Symlink { text: args.target.into_vec() }
    } else {
        let of = parse_url(&args.target)?;
        same_export(&of, &parse_url(&args.url)?, &args.url)?;
        Verb::Ln { of }
    };
    plan(verb, &[args.url], args.names)
}

/// The way from the directory of a link to another name of the same export.
fn between(link: &OsStr, target: &OsStr) -> Option<String> {
    let (link, target) = (Url::parse(link).ok()?, Url::parse(target).ok()?);
    let place = |url: &Url| (url.via, url.host.clone(), url.port, url.export.clone());
    if place(&link) != place(&target) {
        return None;
    }
    let above = link.path.parent()?;
    let shared = above.components().zip(target.path.components()).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n(&b".."[..], above.depth() - shared);
    let way: Vec<&[u8]> = up.chain(target.path.components().skip(shared)).collect();
    Some(if way.is_empty() { ".".to_owned() } else { printable(&way.join(&b'/')) })
}

pub(super) fn chmod(args: ChmodArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Chmod { mode: args.mode }, &args.urls, args.names)
}

pub(super) fn touch(args: TouchArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Touch { create: !args.no_create, time: args.date }, &args.urls, args.names)
}

pub(super) fn cat(args: CatArgs) -> Result<NamesPlan, PlanError> {
    let CatArgs { urls, offset, length, follow, login } = args;
    let verb = match (offset, length, follow) {
        (0, None, false) => Verb::Cat,
        _ => Verb::CatRange { offset, length, follow },
    };
    plan(verb, &urls, NamesArgs { json: false, login })
}

pub(super) fn du(args: DuArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Du { human: args.human }, &args.urls, args.names)
}

pub(super) fn df(args: DfArgs) -> Result<NamesPlan, PlanError> {
    plan(Verb::Df { human: args.human }, &args.urls, args.names)
}

/// A name can be moved only within one export: between two it would be a copy.
fn same_export(one: &Url, other: &Url, typed: &OsString) -> Result<(), PlanError> {
    let same = one.via == other.via
        && one.host == other.host
        && one.port == other.port
        && one.user == other.user
        && one.export == other.export;
    if same { Ok(()) } else { Err(PlanError::OtherExport(show(typed))) }
}
