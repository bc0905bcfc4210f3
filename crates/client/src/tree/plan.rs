//! What becomes of one name: the source's is compared with the target's, in either direction. No
//! I/O: whatever a decision needs is an argument.

use super::compare::TargetState;
use super::{Preserve, TreeOptions, same_time};
use xdfs_engine::kinds;
use xdfs_io::store::tree::Node;
use xdfs_proto::base::Timestamp;
use xdfs_proto::wire::path::{Attributes, FileType};

/// What is known of a name on one side. A field that is unknown or does not apply is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts<'a> {
    pub(super) kind: FileType,
    pub(super) mode: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<Timestamp>,
    /// Number of its hard links.
    pub(super) links: Option<u64>,
    pub(super) device: Option<(u32, u32)>,
    /// Text of a symbolic link.
    pub(super) text: Option<&'a [u8]>,
}

impl<'a> Facts<'a> {
    /// Those of a local name. `text` is that of a symbolic link.
    pub(super) fn of_node(node: &Node, text: Option<&'a [u8]>) -> Self {
        Self {
            kind: kinds::told(node.kind),
            mode: Some(node.mode),
            size: Some(node.size),
            modified: Some(node.modified),
            links: Some(node.links),
            device: Some(node.device),
            text,
        }
    }

    /// Those of a name that the server reports.
    pub(super) fn of_told(told: &Attributes<'a>) -> Self {
        Self {
            kind: told.kind,
            mode: told.mode,
            size: told.size,
            modified: told.modified,
            links: told.links,
            device: told.device,
            text: told.target,
        }
    }
}

/// A name that both sides have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair<'a> {
    pub(super) source: Facts<'a>,
    pub(super) target: Facts<'a>,
    /// Both have the same owner. Counts only if owners are kept.
    pub(super) same_owner: bool,
    /// The source has metadata that the target's listing does not report, and that is kept.
    pub(super) unreported: bool,
}

/// What becomes of a name that is not a directory at the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum EntryPlan {
    /// Something has its name at the target and is to be kept, whatever it is.
    Keep,
    /// It is the same on both sides, as far as a listing shows.
    Leave,
    /// Only its metadata differs.
    SetAttributes,
    /// A special file, and these are not requested.
    PassOver,
    /// It is copied; this is the first step.
    Copy(FirstStep),
}

/// The first step of copying a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum FirstStep {
    /// Compare the content: it may be the same. `same`: all else is.
    Compare {
        /// Time and attributes need not be set if the content is the same.
        same: bool,
    },
    /// Remove the directory that has its name.
    ClearDirectory,
    /// Remove what else has its name.
    Clear,
    /// Send it.
    Send,
}

/// Compares a name of the source with that of the target.
pub(super) fn compare(pair: &Pair<'_>, options: &TreeOptions) -> TargetState {
    let Pair { source, target, .. } = pair;
    if target.kind == FileType::Directory {
        let known = source.modified.is_some() && target.modified.is_some();
        return TargetState::directory(known && pair.has_attributes(options.keep), target.mode);
    }
    if options.keep_existing {
        return TargetState::Same;
    }
    if source.kind != target.kind {
        return TargetState::OtherKind;
    }
    // Which of several names of the source are one file is compared later.
    if options.keep.links && source.links == Some(1) && target.links.is_some_and(|links| links > 1) {
        return TargetState::Joined;
    }
    let same = match source.kind {
        FileType::Regular if !pair.has_size_and_time() => false,
        FileType::Regular if options.checksum => {
            let same = pair.has_attributes(options.keep);
            return if same { TargetState::Unhashed } else { TargetState::Older };
        }
        FileType::Regular => options.skip_same,
        FileType::Symlink => source.text.is_some() && source.text == target.text,
        _ => source.device.is_none() || target.device.is_none() || source.device == target.device,
    };
    match same {
        true if pair.has_attributes(options.keep) => TargetState::Same,
        true => TargetState::OtherAttributes,
        false => TargetState::Older,
    }
}

impl Pair<'_> {
    fn has_time(&self) -> Option<bool> {
        self.source.modified.zip(self.target.modified).map(|(source, target)| same_time(source, target))
    }

    fn has_size_and_time(&self) -> bool {
        self.source.size.is_some() && self.source.size == self.target.size && self.has_time() == Some(true)
    }

    /// Whether time, mode and owner are those of the source, as far as they are kept and known. A
    /// regular file with another time is another file, and a symbolic link has no mode of its own.
    fn has_attributes(&self, keep: Preserve) -> bool {
        let modes = self.source.mode.zip(self.target.mode);
        let time = self.source.kind == FileType::Regular || self.has_time() != Some(false);
        let mode =
            self.source.kind == FileType::Symlink || modes.is_none_or(|(one, other)| (one ^ other) & 0o7777 == 0);
        time && (!keep.modes || mode) && (!keep.owners || self.same_owner) && !self.unreported
    }
}

/// What becomes of a name of this kind, which is not a directory; `there` is what the target has
/// under it.
pub(super) fn plan(kind: FileType, there: Option<TargetState>, options: &TreeOptions) -> EntryPlan {
    let special = !matches!(kind, FileType::Regular | FileType::Symlink);
    match there {
        Some(_) if options.keep_existing => EntryPlan::Keep,
        Some(TargetState::Same) => EntryPlan::Leave,
        Some(TargetState::OtherAttributes) => EntryPlan::SetAttributes,
        _ if special && !options.keep.specials => EntryPlan::PassOver,
        there => EntryPlan::Copy(first_step(kind, there, options)),
    }
}

/// The first step of copying a name of this kind.
pub(super) fn first_step(kind: FileType, there: Option<TargetState>, options: &TreeOptions) -> FirstStep {
    let regular = kind == FileType::Regular;
    match there {
        Some(TargetState::Unhashed) => FirstStep::Compare { same: true },
        Some(TargetState::Older) if regular && options.checksum => FirstStep::Compare { same: false },
        _ if options.dry_run => FirstStep::Send,
        Some(there) if there.is_directory() => FirstStep::ClearDirectory,
        Some(TargetState::OtherKind) => FirstStep::Clear,
        // A symbolic link or special file is not overwritten but made anew.
        Some(TargetState::Older | TargetState::Joined) if !regular => FirstStep::Clear,
        _ => FirstStep::Send,
    }
}

#[cfg(test)]
mod tests;
