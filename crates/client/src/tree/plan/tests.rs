//! Pairs of generated names against an oracle that knows only what a copy must leave at the target.

use super::*;
use proptest::prelude::*;
use xdfs_proto::base::Timestamp;

/// A name of a model: what a listing shows of it, and its content.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    kind: FileType,
    mode: u32,
    size: u64,
    content: u8,
    modified: Timestamp,
    links: u64,
    owner: u32,
    device: (u32, u32),
    text: Vec<u8>,
}

impl Name {
    fn facts(&self) -> Facts<'_> {
        Facts {
            kind: self.kind,
            mode: Some(self.mode),
            size: Some(self.size),
            modified: Some(self.modified),
            links: Some(self.links),
            device: Some(self.device),
            text: (self.kind == FileType::Symlink).then_some(&self.text),
        }
    }

    fn is_special(&self) -> bool {
        !matches!(self.kind, FileType::Regular | FileType::Symlink)
    }

    /// Bytes, text or device: what is no attribute.
    fn has_content_of(&self, other: &Self) -> bool {
        self.kind == other.kind
            && match self.kind {
                FileType::Regular => (self.size, self.content) == (other.size, other.content),
                FileType::Symlink => self.text == other.text,
                _ => self.device == other.device,
            }
    }

    fn has_attributes_of(&self, other: &Self, keep: Preserve) -> bool {
        same_time(other.modified, self.modified)
            && (!keep.modes || self.kind == FileType::Symlink || self.mode == other.mode)
            && (!keep.owners || self.owner == other.owner)
    }

    fn set_attributes(&mut self, source: &Self, keep: Preserve) {
        self.modified = source.modified;
        self.mode = if keep.modes { source.mode } else { self.mode };
        self.owner = if keep.owners { source.owner } else { self.owner };
    }

    /// A new file, as a copy makes it.
    fn copied(source: &Self, keep: Preserve) -> Self {
        let mut made = Self { mode: source.mode & 0o777, owner: 0, links: 1, ..source.clone() };
        made.set_attributes(source, keep);
        made
    }
}

/// What a planned copy leaves at the target, and whether bytes of the file were sent for it.
fn carried_out(source: &Name, target: Option<&Name>, options: &TreeOptions) -> (Option<Name>, bool, EntryPlan) {
    let there = target.map(|target| {
        let same_owner = source.owner == target.owner;
        let pair = Pair { source: source.facts(), target: target.facts(), same_owner, unreported: false };
        compare(&pair, options)
    });
    let plan = plan(source.kind, there, options);
    let mut left = target.cloned();
    let sent = match plan {
        EntryPlan::Keep | EntryPlan::Leave | EntryPlan::PassOver => false,
        EntryPlan::SetAttributes => {
            left.iter_mut().for_each(|left| left.set_attributes(source, options.keep));
            false
        }
        EntryPlan::Copy(FirstStep::Compare { same }) if target.is_some_and(|there| there.has_content_of(source)) => {
            left.iter_mut().filter(|_| !same).for_each(|left| left.set_attributes(source, options.keep));
            false
        }
        EntryPlan::Copy(step) => {
            let directory = target.is_some_and(|target| target.kind == FileType::Directory);
            let other = target.is_some_and(|target| target.kind != source.kind);
            let clears = matches!(step, FirstStep::Clear | FirstStep::ClearDirectory);
            assert!(clears || !other, "{step:?} leaves what is in the way");
            assert_eq!(directory, step == FirstStep::ClearDirectory);
            left = Some(Name::copied(source, options.keep));
            true
        }
    };
    (left, sent, plan)
}

fn kinds_of_names() -> impl Strategy<Value = FileType> {
    let special = [FileType::Fifo, FileType::CharacterDevice];
    prop_oneof![
        4 => Just(FileType::Regular),
        2 => Just(FileType::Symlink),
        1 => proptest::sample::select(special.to_vec()),
    ]
}

/// Few values of each field, so that names are often equal.
fn names(kind: impl Strategy<Value = FileType>) -> impl Strategy<Value = Name> {
    let times = [(7, 0), (7, 5), (8, 5)].map(|(seconds, nanoseconds)| Timestamp::new(seconds, nanoseconds));
    let fields = (0..2u64, 0..2u8, proptest::sample::select(times.to_vec()), 1..3u64, 0..2u32, 0..2u32, 0..2u8);
    (kind, proptest::sample::select(vec![0o644, 0o755, 0o4755]), fields).prop_map(|(kind, mode, fields)| {
        let (size, content, modified, links, owner, device, text) = fields;
        Name { kind, mode, size, content, modified, links, owner, device: (device, 0), text: vec![text] }
    })
}

fn options() -> impl Strategy<Value = TreeOptions> {
    (any::<[bool; 7]>()).prop_map(|[modes, owners, specials, links, keep_existing, skip_same, checksum]| TreeOptions {
        keep: Preserve { modes, owners, specials, links, ..Preserve::default() },
        keep_existing,
        skip_same,
        checksum,
        ..TreeOptions::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    #[test]
    fn what_is_left_is_the_source_as_far_as_it_is_kept(
        source in names(kinds_of_names()),
        target in proptest::option::of(names(prop_oneof![6 => kinds_of_names(), 1 => Just(FileType::Directory)])),
        options in options(),
    ) {
        let (left, sent, plan) = carried_out(&source, target.as_ref(), &options);
        let keep = options.keep;
        // An existing name that is to be kept stays as it is, and so does one for a special file
        // that nobody asked for.
        if target.is_some() && options.keep_existing {
            prop_assert!(left == target && !sent, "{:?}", plan);
            return Ok(());
        }
        if source.is_special() && !keep.specials {
            prop_assert!(!sent);
            return Ok(());
        }
        // Size and time stand for the content, unless it is to be compared.
        let quick = options.skip_same && !options.checksum && source.kind == FileType::Regular;
        let Some(left) = left else { return Err(TestCaseError::fail(format!("nothing is left: {plan:?}"))) };
        let looks_same = left.kind == source.kind && left.size == source.size;
        prop_assert!(left.has_content_of(&source) || quick && looks_same && !sent, "{:?} left {:?}", plan, left);
        prop_assert!(left.has_attributes_of(&source, keep), "{:?} left {:?}", plan, left);
        prop_assert!(!keep.links || left.links == 1 || source.links > 1, "{:?} left other names of the file", plan);
    }

    #[test]
    fn what_is_the_same_is_not_sent(
        source in names(kinds_of_names()),
        owner in 0..2u32,
        mode in proptest::sample::select(vec![0o644, 0o755]),
        options in options(),
    ) {
        let target = Name { owner, mode, ..source.clone() };
        let (_, sent, plan) = carried_out(&source, Some(&target), &options);
        let compared = options.skip_same || options.checksum || source.kind != FileType::Regular;
        prop_assert!(!sent || !compared, "{:?}", plan);
        if target == source && !options.checksum && compared && !options.keep_existing {
            prop_assert_eq!(plan, EntryPlan::Leave);
        }
    }
}

#[test]
fn a_target_s_time_may_lack_digits_of_the_source_s_and_nothing_else() {
    let same = |source, target| same_time(Timestamp::new(7, source), Timestamp::new(7, target));
    for cut in [987_654_321, 987_654_320, 987_654_300, 987_654_000, 980_000_000, 0] {
        assert!(same(987_654_321, cut), "{cut}");
    }
    for other in [987_654_322, 987_654_310, 987_653_000, 990_000_000, 1, u32::MAX] {
        assert!(!same(987_654_321, other), "{other}");
    }
    assert!(!same(0, 500_000_000) && same(500_000_000, 0), "no file system adds a fraction");
    assert!(!same_time(Timestamp::new(7, 0), Timestamp::new(8, 0)));
    assert!(!same(u32::MAX, 0), "whatever a store says");
}

#[test]
fn the_name_of_a_directory_is_cleared_first_and_a_locked_one_is_known() {
    let locked = Facts { mode: Some(0o555), ..Facts::of_told(&Attributes::of(FileType::Directory)) };
    let source = Facts::of_told(&Attributes::of(FileType::Directory));
    let pair = Pair { source, target: locked, same_owner: true, unreported: false };
    let options = TreeOptions::default();
    assert_eq!(compare(&pair, &options), TargetState::OlderLockedDirectory);
    let time = Some(Timestamp::new(7, 0));
    let same = Pair { source: Facts { modified: time, ..source }, target: Facts { modified: time, ..locked }, ..pair };
    assert_eq!(compare(&same, &options), TargetState::LockedDirectory);
    assert_eq!(compare(&Pair { unreported: true, ..same }, &options), TargetState::OlderLockedDirectory);
    for kind in [FileType::Regular, FileType::Symlink] {
        let there = Some(TargetState::OlderDirectory);
        assert_eq!(plan(kind, there, &options), EntryPlan::Copy(FirstStep::ClearDirectory));
        // A dry run reports what would be sent and removes nothing.
        let dry_run = TreeOptions { dry_run: true, ..TreeOptions::default() };
        assert_eq!(plan(kind, there, &dry_run), EntryPlan::Copy(FirstStep::Send));
    }
}
