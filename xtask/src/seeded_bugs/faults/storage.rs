//! Faults of commits, checkpoints and resuming.

use super::super::fault::{Fault, Program, edit, run};
use super::{model, plain};

const MODEL: Program = model("restarts", "whatever_is_lost_with_a_restart");
const SINGLE: Program = plain("xdfs-test-crash", Some("states"), "no_order_of_single_commits");
const GROUPS: Program = plain("xdfs-test-crash", Some("states"), "no_order_of_groups_that_sync_each_file");
const SYSTEM: Program = plain("xdfs-test-crash", Some("states"), "no_order_of_groups_that_sync_the_file_system");
/// Power cuts of a real ext4.
const CUTS: Program = Program {
    amount: Some("XDFS_CRASH_SECONDS"),
    ..plain("xdfs-test-crash", Some("loopback"), "a_power_cut_at_any_step_leaves")
};
const SMALL_CUTS: Program = plain("xdfs-test-crash", Some("small"), "a_power_cut_at_any_step_of_a_group");
const MARKER_CUTS: Program = plain("xdfs-test-crash", Some("markers"), "a_power_cut_beside_a_marker");
const MARKERS: Program = plain("xdfs-test-crash", Some("markers"), "an_attempt_goes_on_with_what_was_noted");

const COMMITTED: &str =
    "S7: COMMITTED means every byte, as it was sent, synced before the name and the name before the word";
const MARKER: &str = "S9: in every crash state the journal tells of nothing that is not there";

/// Settings of the model.
const RESTART: &str = "upload, restart";
const SYNCS: &str = "upload, restart, syncs fail";

/// What the crash states tell.
const GONE: &str = "a file that was told durable is gone";
const HALF: &str = "half a file has its final name";

const COMMIT: &str = "crates/proto/src/base/commit.rs";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "name-before-sync",
        what: "the file is renamed before its bytes are synced",
        edits: &[edit(
            COMMIT,
            "            .or_else(|| self.next_sync())\n            .or_else(|| self.member(self.first.name).map(CommitStep::Name))\n",
            "            .or_else(|| self.next_sync().filter(|_| !BUG))\n            .or_else(|| self.member(self.first.name).map(CommitStep::Name))\n            .or_else(|| self.next_sync())\n",
        )],
        runs: &[
            run(&MODEL, RESTART, COMMITTED),
            run(&SINGLE, "", HALF),
            run(&GROUPS, "", HALF),
            run(&SYSTEM, "", HALF),
        ],
    },
    Fault {
        name: "no-directory-sync",
        what: "the directory is not synced after the rename",
        edits: &[
            edit(
                COMMIT,
                "    fn next_directory(&self) -> Option<usize> {\n",
                "    fn next_directory(&self) -> Option<usize> {\n        if BUG {\n            return None;\n        }\n",
            ),
            edit(COMMIT, "let kept = |number: &usize| self", "let kept = |number: &usize| BUG || self"),
        ],
        runs: &[
            run(&MODEL, RESTART, COMMITTED),
            run(&SINGLE, "", GONE),
            run(&GROUPS, "", GONE),
            run(&SYSTEM, "", GONE),
            run(&CUTS, "10", "told Some(Durable)"),
            run(&SMALL_CUTS, "", "told Some(Durable)"),
        ],
    },
    Fault {
        name: "sync-again",
        what: "a failed sync is repeated, and its success believed",
        edits: &[edit(
            COMMIT,
            "    pub fn on_failed(&mut self, step: CommitStep) {\n",
            "    pub fn on_failed(&mut self, step: CommitStep) {\n        if BUG && matches!(step, CommitStep::SyncFile(_) | CommitStep::SyncSystem) {\n            return;\n        }\n",
        )],
        runs: &[run(&MODEL, SYNCS, COMMITTED), run(&SINGLE, "", HALF), run(&GROUPS, "", HALF), run(&SYSTEM, "", HALF)],
    },
    Fault {
        name: "error-ignored",
        what: "a failed sync is treated as successful",
        edits: &[edit(
            COMMIT,
            "        for (number, file) in self.files.iter_mut().enumerate() {\n",
            "        let sync = matches!(step, CommitStep::SyncFile(_) | CommitStep::SyncSystem);\n        if BUG && sync && self.on_done(step).is_ok() {\n            return;\n        }\n        for (number, file) in self.files.iter_mut().enumerate() {\n",
        )],
        runs: &[run(&MODEL, SYNCS, COMMITTED), run(&SINGLE, "", HALF), run(&GROUPS, "", HALF), run(&SYSTEM, "", HALF)],
    },
    Fault {
        name: "marker-before-sync",
        what: "the journal lists bytes that are synced only afterwards",
        edits: &[
            edit(
                "crates/proto/src/base/marker.rs",
                "Some(if durable { MarkerStep::SyncData }",
                "Some(if durable && !BUG { MarkerStep::SyncData }",
            ),
            edit(
                "crates/proto/src/base/marker.rs",
                "            Some(MarkerStep::SyncData) => Some(MarkerStep::Note),\n",
                "            Some(MarkerStep::Note) if BUG => Some(MarkerStep::SyncData),\n            Some(MarkerStep::SyncData) if BUG => None,\n            Some(MarkerStep::SyncData) => Some(MarkerStep::Note),\n",
            ),
        ],
        runs: &[run(&MODEL, RESTART, MARKER), run(&MARKER_CUTS, "", "the journal tells of")],
    },
    Fault {
        name: "resume-by-size",
        what: "a resume uses the whole length of the part file, whatever the journal says",
        edits: &[
            edit(
                "crates/io/src/store/local/parts.rs",
                "    let mut kept = usable(&journal.noted, hashed, same);\n",
                "    let mut kept = usable(&journal.noted, hashed, same);\n    if BUG {\n        let all = xdfs_proto::base::Extent::new(0, size).into_iter().filter(|all| !all.is_empty());\n        kept = all.map(StoredRange::plain).collect();\n    }\n",
            ),
            // A part file is as long as the last block that was written in it.
            edit(
                "tests/model/src/restart/life.rs",
                "            noted.map_or_else(Vec::new, extents)\n",
                "            let cached = self.disk.file.filter(|_| BUG).map(|file| file.cached);\n            let size = cached.and_then(|cached| extents(cached).last().map(|last| last.end()));\n            match size {\n                Some(size) if noted.is_some() => Extent::new(0, size).into_iter().collect(),\n                _ => noted.map_or_else(Vec::new, extents),\n            }\n",
            ),
        ],
        runs: &[run(&MODEL, RESTART, COMMITTED), run(&MARKERS, "", "it goes on with what was noted")],
    },
];
