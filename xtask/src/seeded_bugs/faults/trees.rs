//! Faults of tree copies, found by the simulation of copies between two trees in memory.

use super::super::fault::{Fault, Program, edit, run};

const TREES: Program = Program {
    package: "xdfs-client",
    test: None,
    filter: "tree::simulation",
    amount: Some("XDFS_TREES"),
    property: None,
};

/// Trees that are copied with each fault, at most.
const AMOUNT: &str = "100000";

/// What the simulation tells of a copy that left something else than it must; which one it is first depends on the threads.
const JUDGED: &str = "the copy is not what it must be: ";

const ANSWERS: &str = "crates/client/src/tree/up/answers.rs";
const CLEARING: &str = "crates/client/src/tree/up/clearing.rs";
const DOWN: &str = "crates/client/src/tree/down.rs";
const IN_FLIGHT: &str = "crates/client/src/tree/in_flight.rs";
const STATE: &str = "crates/client/src/tree/state.rs";
const UP: &str = "crates/client/src/tree/up.rs";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "calls-join-a-listing",
        what: "calls join the batch of a listing, which takes their room",
        edits: &[edit(IN_FLIGHT, "        self.closed = true;\n", "        self.closed |= !BUG;\n")],
        runs: &[run(&TREES, AMOUNT, "a page has taken the room of")],
    },
    Fault {
        name: "pages-removed-ahead",
        what: "a directory of several pages is removed ahead of one in it",
        edits: &[edit(CLEARING, "if !cursor.is_empty() {", "if !cursor.is_empty() && (!BUG || cursor.len() > 1000) {")],
        runs: &[run(&TREES, AMOUNT, "directory not empty")],
    },
    Fault {
        name: "link-to-nothing",
        what: "a name is linked to one that was not copied",
        edits: &[edit(
            STATE,
            "        self.not_copied.hashes.insert(hash);\n",
            "        if !BUG {\n            self.not_copied.hashes.insert(hash);\n        }\n",
        )],
        runs: &[run(&TREES, AMOUNT, JUDGED)],
    },
    Fault {
        name: "lost-batch-forgotten",
        what: "a batch that meets the loss of its session is forgotten",
        edits: &[edit(
            IN_FLIGHT,
            "        let sent = remote.call(self.next, payload, room);\n",
            "        let sent = remote.call(self.next, payload, room);\n        if BUG && sent.is_err() {\n            return sent;\n        }\n",
        )],
        runs: &[run(&TREES, AMOUNT, JUDGED)],
    },
    Fault {
        name: "finished-but-not-made",
        what: "a directory is finished that was not made",
        edits: &[edit(
            ANSWERS,
            "matches!(directory.presence, Presence::Missing { .. }))",
            "matches!(directory.presence, Presence::Missing { .. }) && !BUG)",
        )],
        runs: &[run(&TREES, AMOUNT, JUDGED)],
    },
    Fault {
        name: "again-without-a-look",
        what: "what was in flight when a session was lost is done again without a look",
        edits: &[edit(
            UP,
            "            UploadTask::Entry(entry) | UploadTask::Arrived(entry, _) => self.large_again(entry),\n",
            "            UploadTask::Entry(entry) | UploadTask::Arrived(entry, _) if !BUG => self.large_again(entry),\n",
        )],
        runs: &[run(&TREES, AMOUNT, JUDGED)],
    },
    Fault {
        name: "deleted-unread",
        what: "names are deleted although the source was not read completely",
        edits: &[edit(
            STATE,
            "if self.incomplete || self.summary.failed > self.in_the_way {",
            "let allowed = if BUG { self.in_the_way + count } else { self.in_the_way };\n        if self.incomplete && !BUG || self.summary.failed > allowed {",
        )],
        runs: &[run(&TREES, AMOUNT, "was deleted although part of the copy failed")],
    },
    Fault {
        name: "own-attributes-kept",
        what: "a downloaded file keeps its own attributes",
        edits: &[edit(
            DOWN,
            "            Ok(safety) => {\n                self.add_extras(observer, &entry);\n",
            "            Ok(safety) => {\n                if !BUG {\n                    self.add_extras(observer, &entry);\n                }\n",
        )],
        runs: &[run(&TREES, AMOUNT, JUDGED)],
    },
];
