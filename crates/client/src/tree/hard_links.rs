//! Hard links: which names of the source are one file, and whether they are one file at the target,
//! too.

use super::compare::TargetState;
use super::join;
use super::temp_list::TempList;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use xdfs_proto::base::{Error, ErrorKind};

/// Files with several names seen so far. `S` identifies files of the source, `T` those of the
/// target.
#[derive(Debug)]
pub(super) struct HardLinks<S, T> {
    /// Where the path of the first name is stored, and the file of the target that it refers to if
    /// it stays.
    firsts: HashMap<S, (u64, Option<T>)>,
    /// Maps each file of the target to its file of the source: no two map to the same one.
    taken: HashMap<T, S>,
    paths: TempList,
}

/// EPERM, EXDEV, EMLINK, EOPNOTSUPP and ENOSYS: the errors of file systems that cannot give a file
/// one more name, or not this one there.
const IMPOSSIBLE: [u16; 5] = [1, 18, 31, 95, 38];

/// Whether an error about a hard link means that it cannot be made at all.
pub(super) fn are_impossible(error: &Error) -> bool {
    IMPOSSIBLE.contains(&error.errno) || (error.kind == ErrorKind::Unsupported && error.errno == 0)
}

/// A temporary name in the directory of `path`. It is unique if `key` is random.
pub(super) fn temporary(path: &[u8], key: &RandomState) -> Vec<u8> {
    let above = path.iter().rposition(|&byte| byte == b'/').and_then(|at| path.get(..at)).unwrap_or_default();
    join(above, format!(".xdfs-link-{:016x}", key.hash_one(path)).as_bytes())
}

/// What becomes of a name of a file that has several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Partner {
    /// As with any other name; this is what the target has under it.
    Alone(Option<TargetState>),
    /// It is linked when its first name is there.
    Waits,
}

/// What a name is to its file.
#[derive(Clone, PartialEq, Eq, Debug)]
enum LinkDecision {
    /// The first name of its file. It stays as it is, or is to be copied.
    First { stays: bool },
    /// It is another name of the same file at the target, too.
    Joined,
    /// It becomes another name of this path.
    Link(Vec<u8>),
}

impl<S, T> Default for HardLinks<S, T> {
    fn default() -> Self {
        Self { firsts: HashMap::new(), taken: HashMap::new(), paths: TempList::default() }
    }
}

impl<S: Copy + Eq + Hash, T: Copy + Eq + Hash> HardLinks<S, T> {
    /// What becomes of one name of the file `source`. `there` is what the target has under it,
    /// regardless of other names, and `file` which file that is. A name that waits is added to
    /// `links`, behind its first one.
    pub(super) fn plan(
        &mut self,
        links: &mut TempList,
        source: S,
        path: &[u8],
        (there, file): (Option<TargetState>, Option<T>),
    ) -> Result<Partner, Error> {
        let stays = there.is_some_and(TargetState::stays);
        Ok(match self.meet(source, path, file.filter(|_| stays))? {
            LinkDecision::Link(first) => links.push(&first, path).map(|_| Partner::Waits)?,
            LinkDecision::First { stays: false } if stays => Partner::Alone(Some(TargetState::Joined)),
            LinkDecision::First { .. } | LinkDecision::Joined => Partner::Alone(there),
        })
    }

    /// Records one name of the file `source`. `there` is the file of the target under this name, if
    /// that is equal.
    fn meet(&mut self, source: S, path: &[u8], there: Option<T>) -> Result<LinkDecision, Error> {
        if let Some((place, first)) = self.firsts.get(&source) {
            if there.is_some() && *first == there {
                return Ok(LinkDecision::Joined);
            }
            return self.paths.at(*place).map(|(first, _)| LinkDecision::Link(first));
        }
        let kept = there.filter(|there| *self.taken.entry(*there).or_insert(source) == source);
        let place = self.paths.push(path, b"")?;
        self.firsts.insert(source, (place, kept));
        Ok(LinkDecision::First { stays: kept.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_where_they_are_one_file_on_both_sides_and_no_two_files_become_one() {
        let mut partners = HardLinks::<u8, char>::default();
        let mut meet = |source, path: &str, there| partners.meet(source, path.as_bytes(), there).unwrap();
        let link = |path: &str| LinkDecision::Link(path.as_bytes().to_vec());
        assert_eq!(meet(1, "a", Some('x')), LinkDecision::First { stays: true });
        assert_eq!(meet(1, "b", Some('x')), LinkDecision::Joined);
        assert_eq!(meet(1, "c", Some('y')), link("a"), "another file");
        assert_eq!(meet(1, "d", None), link("a"), "not there, or not equal");
        assert_eq!(meet(2, "e", Some('x')), LinkDecision::First { stays: false }, "it is the first file");
        assert_eq!(meet(2, "f", Some('x')), link("e"));
        assert_eq!(meet(3, "g", None), LinkDecision::First { stays: false });
        assert_eq!(meet(3, "h", Some('z')), link("g"), "the first one is made anew");
    }
}
