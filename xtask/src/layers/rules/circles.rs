//! Modules of one folder that use each other. Nothing here computes.

/// Modules of one folder that use each other, which is to end.
#[derive(Debug)]
pub(in crate::layers) struct Circle {
    /// The folder that holds them: a crate's `src`, or a module of it.
    pub(in crate::layers) folder: &'static str,
    /// All of them.
    pub(in crate::layers) modules: &'static [&'static str],
    /// Who uses whom and should not: without these arrows there is no circle.
    pub(in crate::layers) arrows: &'static [(&'static str, &'static str)],
    /// Why it is there.
    #[expect(dead_code, reason = "for the reader of this list")]
    pub(in crate::layers) why: &'static str,
}

/// The circles that are left. The list only shrinks.
pub(in crate::layers) const CIRCLES: &[Circle] = &[
    Circle {
        folder: "crates/cli/src/cmd/cp",
        modules: &["ends", "failure", "ftp", "input", "into", "monitor", "retry", "tree", "whole"],
        arrows: &[("failure", "monitor"), ("monitor", "retry"), ("into", "tree"), ("whole", "tree")],
        why: "to be turned round: the advice CONTINUE belongs to failure, the wait retry::again below monitor, \
              tree::made below into, and whole into tree, whose Link and DirectionRun it implements",
    },
    Circle {
        folder: "crates/client/src/file",
        modules: &["ahead", "core", "flight", "leases", "remote"],
        arrows: &[("ahead", "core"), ("flight", "core"), ("leases", "core")],
        why: "to be split: Ahead, Flown and Keeper are parts that a Core or its Remote holds, and belong below; \
              what reads, opens and renews through a Core is in the same three files and belongs above",
    },
    Circle {
        folder: "crates/client/src/tree",
        modules: &["down", "one_file"],
        arrows: &[("one_file", "down")],
        why: "to be turned round: known_here and XATTR_ROOM_MAX hold for single files too and belong to a module \
              below both",
    },
    Circle {
        folder: "crates/client/src/tree",
        modules: &["replies", "scheduler"],
        arrows: &[("replies", "scheduler")],
        why: "to be turned round: what replies works on (TreeCopy, PendingJob, Flow) belongs below it, and above \
              it the loop that calls it",
    },
    Circle {
        folder: "crates/server/src",
        modules: &["calls", "files", "session_context"],
        arrows: &[("files", "calls")],
        why: "to be turned round: what calls on names and on files share (BatchOwner, failure, reply_writer, \
              attributes_of, file_at) belongs to a module below both",
    },
];
