//! The plan of `xdfs sum`.

use std::ffi::OsString;

use xdfs_proto::base::Extent;

use super::copy::{local_source, remote_source};
use super::{Local, LoginPlan, PlanError, is_empty, show};
use crate::args::SumArgs;
use crate::url::{Url, looks_like_url};

/// Files to hash.
#[derive(Debug)]
pub(crate) struct SumPlan {
    /// The files, with their names as they were typed.
    pub(crate) files: Vec<(SumOf, OsString)>,
    /// First byte of each.
    pub(crate) offset: u64,
    /// Number of bytes; without it, to the end.
    pub(crate) length: Option<u64>,
    /// JSON instead of text.
    pub(crate) json: bool,
    /// The login.
    pub(crate) login: LoginPlan,
}

/// A file to hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SumOf {
    /// On this machine.
    Here(Local),
    /// On a server.
    There(Url),
}

/// Resolves the arguments of `sum`.
pub(super) fn resolve(args: SumArgs) -> Result<SumPlan, PlanError> {
    Extent::new(args.offset, args.length.unwrap_or(0)).map_err(|_| PlanError::Range)?;
    if args.files.iter().any(is_empty) {
        return Err(PlanError::Empty);
    }
    let files = args.files.into_iter().map(|text| {
        let of =
            if looks_like_url(&text) { SumOf::There(remote_source(&text)?) } else { SumOf::Here(local_source(&text)?) };
        if args.offset > 0 && of == SumOf::Here(Local::Stdin) {
            return Err(PlanError::OffsetOfStream(show(&text)));
        }
        Ok((of, text))
    });
    let files = files.collect::<Result<_, _>>()?;
    Ok(SumPlan { files, offset: args.offset, length: args.length, json: args.json, login: args.login.into() })
}
