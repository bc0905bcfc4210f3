//! Why names of a tree failed, as far as it decides what to do next.

use xdfs_proto::base::ErrorKind;

/// Which kinds of causes there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Causes {
    rights: bool,
    room: bool,
    /// They go away by themselves.
    passing: bool,
    others: bool,
}

impl Causes {
    /// One more name failed.
    pub(crate) fn add(&mut self, kind: ErrorKind) {
        use ErrorKind::{
            Busy, ConnectionLost, Draining, Locked, PermissionDenied, ReadOnly, Refused, SourceChanged, Stale,
            Superseded, TargetChanged, TimedOut,
        };
        let cause = match kind {
            PermissionDenied | ReadOnly | Refused => &mut self.rights,
            ErrorKind::NoSpace | ErrorKind::QuotaExceeded => &mut self.room,
            Busy | ConnectionLost | Draining | Locked | SourceChanged | Stale | Superseded | TargetChanged
            | TimedOut => &mut self.passing,
            _ => &mut self.others,
        };
        *cause = true;
    }

    /// What to do: the same command helps by itself only where the cause may be gone by then.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self { rights: false, room: false, others: false, passing: true } => {
                "the same command again tries them again"
            }
            Self { rights: true, room: false, others: false, .. } => {
                "get the right to them, or leave them out with --exclude; then run the same command again"
            }
            Self { rights: false, room: true, others: false, .. } => {
                "make room there; then the same command goes on with the rest"
            }
            _ => "the lines above say why; when that is mended, the same command goes on with the rest",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_is_advised_alone_only_where_it_may_help() {
        for (kinds, words) in [
            (&[ErrorKind::Busy, ErrorKind::SourceChanged][..], "the same command again"),
            (&[ErrorKind::PermissionDenied, ErrorKind::Busy], "get the right to them"),
            (&[ErrorKind::NoSpace], "make room there"),
            (&[ErrorKind::NoSpace, ErrorKind::ReadOnly], "the lines above say why"),
            (&[ErrorKind::IsDirectory], "the lines above say why"),
            (&[], "the lines above say why"),
        ] {
            let mut causes = Causes::default();
            kinds.iter().for_each(|kind| causes.add(*kind));
            assert!(causes.remedy().starts_with(words), "{kinds:?}: {}", causes.remedy());
        }
    }
}
