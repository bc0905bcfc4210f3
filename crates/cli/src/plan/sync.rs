//! The plan of `xdfs sync`.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::copy::{format_of, made_in_memory, must_be_channels, resolve_options, two_servers};
use super::slash::must_mean_one_directory;
use super::tree::{Sides, TreePlan, must_read_input_once};
use super::written::without_password;
use super::{Format, LoginPlan, Options, PlanError, is_empty, parse_url, show};
use crate::args::SyncArgs;
use crate::state;
use crate::url::{FROM_HOME, Via, looks_like_url};

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
