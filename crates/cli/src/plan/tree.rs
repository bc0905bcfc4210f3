//! How a tree will be copied, and the plan of `xdfs sync`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use xdfs_client::tree::Keep;

use super::copy::{format_of, made_in_memory, must_be_channels, resolve_options, two_servers};
use super::slash::must_mean_one_directory;
use super::written::without_password;
use super::{Format, LoginPlan, Options, PlanError, is_empty, parse_url, show};
use crate::args::{Selection, SyncArgs, TreeArgs};
use crate::state;
use crate::url::{FROM_HOME, Url, Via, looks_like_url};

/// Options of a tree copy, besides those of every copy.
#[derive(Clone, Debug)]
pub(crate) struct TreePlan {
    /// The metadata that is copied.
    pub(crate) keep: Keep,
    /// Which names are copied; the first pattern that matches decides.
    pub(crate) patterns: Vec<Selection>,
    /// The only names that are copied.
    pub(crate) files_from: Option<PathBuf>,
    /// Where failed names are written.
    pub(crate) failures: Option<PathBuf>,
    /// The tree gets its name when it is complete.
    pub(crate) atomic: bool,
    /// Nothing is changed.
    pub(crate) dry_run: bool,
    /// Contents are compared.
    pub(crate) checksum: bool,
    /// Names that the source does not have are removed, at most this many.
    pub(crate) delete: Option<u64>,
}

impl TreePlan {
    pub(super) fn of(args: TreeArgs, archive: bool) -> Result<Self, PlanError> {
        for selection in &args.patterns.0 {
            if let Selection::Pattern(pattern) = selection
                && pattern.text.is_empty()
            {
                return Err(PlanError::Pattern(if pattern.include { "include" } else { "exclude" }));
            }
        }
        Ok(Self {
            keep: if archive { Keep { numeric: args.numeric_ids, ..Keep::ALL } } else { Keep::default() },
            patterns: args.patterns.0,
            files_from: args.files_from,
            failures: args.failures,
            atomic: args.atomic,
            dry_run: false,
            checksum: false,
            delete: None,
        })
    }
}

/// The options that read standard input, which is read once: for one of them, and for one tree.
pub(super) fn must_read_input_once(tree: &TreePlan, sources: usize) -> Result<(), PlanError> {
    let is_input = |path: &Path| path.as_os_str() == "-";
    let list = tree.files_from.as_deref().filter(|path| is_input(path)).map(|_| "--files-from");
    let patterns = tree.patterns.iter().filter_map(|selection| match selection {
        Selection::File { include: true, path } if is_input(path) => Some("--include-from"),
        Selection::File { include: false, path } if is_input(path) => Some("--exclude-from"),
        _ => None,
    });
    let readers: Vec<_> = list.into_iter().chain(patterns).collect();
    match readers.last() {
        Some(option) if readers.len() > 1 || sources > 1 => Err(PlanError::StandardInputTwice(option)),
        _ => Ok(()),
    }
}

/// A directory to be made like another one.
#[derive(Debug)]
pub(crate) struct SyncPlan {
    /// From where to where.
    pub(crate) sides: Sides,
    /// Session and transfer options.
    pub(crate) options: Options,
    /// Output options.
    pub(crate) format: Format,
    /// The login.
    pub(crate) login: LoginPlan,
    /// Tree options.
    pub(crate) tree: TreePlan,
}

/// One side is on a server, or both are and one of them is an FTP server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sides {
    /// From this machine to a server.
    Up(PathBuf, Url),
    /// From a server to this machine.
    Down(Url, PathBuf),
    /// From one server to another, one of which is an FTP server.
    Between(Url, Url),
}

/// Resolves the arguments of `sync`.
pub(super) fn resolve(args: SyncArgs) -> Result<SyncPlan, PlanError> {
    if is_empty(&args.source) || is_empty(&args.target) {
        return Err(PlanError::Empty);
    }
    let sides = match (looks_like_url(&args.source), looks_like_url(&args.target)) {
        (false, true) => Sides::Up(directory(&args.source, "source")?, parse_url(&args.target)?),
        (true, false) => Sides::Down(parse_url(&args.source)?, directory(&args.target, "target")?),
        (false, false) => return Err(PlanError::NothingRemote { target: show(&args.target) }),
        (true, true) if parse_url(&args.source)?.is_ftp() || parse_url(&args.target)?.is_ftp() => {
            Sides::Between(parse_url(&args.source)?, parse_url(&args.target)?)
        }
        (true, true) => return Err(two_servers("sync", std::slice::from_ref(&args.source), &args.target)),
    };
    must_be_channels(&args.moving, [&args.source, &args.target].into_iter())?;
    let options = resolve_options(&args.moving)?;
    let format = format_of(&args.moving);
    let delete = args.delete.then(|| args.max_delete.unwrap_or(u64::MAX));
    let tree =
        TreePlan { dry_run: args.dry_run, checksum: args.checksum, delete, ..TreePlan::of(args.tree, args.archive)? };
    if delete.is_some() && tree.files_from.is_some() {
        return Err(PlanError::DeleteOfSome);
    }
    must_read_input_once(&tree, 1)?;
    let is_bounded = args.max_delete.is_some() || tree.dry_run;
    let top = top(&sides);
    if let (true, false, Some(place)) = (args.delete, is_bounded, top) {
        return Err(PlanError::DeleteAtTop { target: without_password(show(&args.target)), place });
    }
    // With a bound the top itself is meant.
    if args.delete && top.is_none() {
        must_mean_one_directory((&args.source, &args.target), &args.moving.login.config, &sides)?;
    }
    Ok(SyncPlan { sides, options, format, login: args.moving.login.into(), tree })
}

/// What the target is, if it is where an empty variable leads to: `URL/$UNSET`, `$UNSET/` or
/// `$HOME/$UNSET`.
fn top(sides: &Sides) -> Option<&'static str> {
    match sides {
        Sides::Up(_, url) | Sides::Between(_, url) if !url.path.is_root() => None,
        Sides::Up(_, url) | Sides::Between(_, url) => Some(match (url.via, url.export.as_str()) {
            (Via::Port, _) => "the top of an export",
            (_, FROM_HOME) => "your home directory there",
            _ => "the top of the file system there",
        }),
        Sides::Down(_, path) => {
            let path: PathBuf = std::path::absolute(path).ok()?.components().collect();
            let home = state::home().map(|home| home.components().collect::<PathBuf>());
            match path.parent() {
                None => Some("the top of the file system"),
                Some(_) => (Some(path) == home).then_some("your home directory"),
            }
        }
    }
}

/// A local directory; names that only `cp` can read or write are refused.
fn directory(text: &OsStr, side: &'static str) -> Result<PathBuf, PlanError> {
    let bytes = text.as_encoded_bytes();
    if matches!(bytes, b"-" | b"null:") || made_in_memory(bytes).is_some() {
        return Err(PlanError::NoDirectory { what: show(text), side });
    }
    Ok(PathBuf::from(text))
}
