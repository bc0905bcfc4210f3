//! Faults of the session machine: blocks, acknowledgements, fences, ends, outcomes, calls.

use super::super::fault::{Fault, Program, edit, run};
use super::{model, simulation};

const MODEL: Program = model("settings", "every_property_holds_in_every_state");
const SIMULATION: Program = simulation("sessions", "many_sessions_end_well");

const ENDS: &str = "every operation ends on both sides, nobody waits, nothing is left behind";
const RUNS_END: &str = "every run comes to its end";
const PLACE: &str = "a target is committed once, with every byte in its place";
const OUTCOME: &str = "both ends tell one outcome, and it is what happened";
const CONTENT: &str = "what is committed is what was sent";
const FENCE: &str = "a fence counts what was taken, and nothing is taken behind it";

/// Sessions of the simulation in which each fault has to show.
const SESSIONS: &str = "5000";

/// What the simulation tells of a run that comes to no end.
const LASTS: &str = "the run does not end";

const CALLS: &str = "crates/proto/src/session/calls.rs";
const INPUT: &str = "crates/proto/src/session/input.rs";
const LOSS: &str = "crates/proto/src/session/loss.rs";
const RECEIVER: &str = "crates/proto/src/session/block_receiver.rs";
const SENDER: &str = "crates/proto/src/session/block_sender.rs";
const STORAGE: &str = "crates/proto/src/session/storage.rs";
const VERIFY: &str = "crates/proto/src/session/verify.rs";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "forget-lost-blocks",
        what: "blocks of a dead channel are not sent again",
        edits: &[edit(
            SENDER,
            "    pub fn on_fenced(&mut self, channel: ChannelId, processed: u64) {\n",
            "    pub fn on_fenced(&mut self, channel: ChannelId, processed: u64) {\n        if BUG {\n            return;\n        }\n",
        )],
        runs: &[run(&MODEL, "upload, breaks", ENDS), run(&SIMULATION, SESSIONS, LASTS)],
    },
    Fault {
        name: "count-duplicates",
        what: "a block that arrives twice counts twice, in place of one that has not arrived",
        edits: &[
            edit(RECEIVER, "    ack_bytes: u64,\n", "    ack_bytes: u64,\n    counted: u64,\n"),
            edit(
                RECEIVER,
                "            ack_bytes: (receive_window / 8)",
                "            counted: 0,\n            ack_bytes: (receive_window / 8)",
            ),
            edit(
                RECEIVER,
                "if kept || self.place_of(offset) != BlockState::Missing {",
                "let known = match self.place_of(offset) {\n            BlockState::Missing => false,\n            BlockState::Arrived => !BUG,\n            BlockState::Written => true,\n        };\n        if kept || known {",
            ),
            edit(RECEIVER, "            return Ok(false);\n", "            return Ok(BUG);\n"),
            edit(
                RECEIVER,
                "        if self.place_of(extent.offset()) == BlockState::Written {\n            return;\n        }\n        if self.unacked == 0 {\n            self.untold_since = now;\n        }\n        self.unacked += extent.length();\n",
                "        let known = self.place_of(extent.offset()) == BlockState::Written;\n        if known && !BUG {\n            return;\n        }\n        if BUG {\n            self.counted += extent.length();\n        }\n        if self.unacked == 0 {\n            self.untold_since = now;\n        }\n        self.unacked += extent.length();\n        if known {\n            return;\n        }\n",
            ),
            edit(
                RECEIVER,
                "        self.contiguous == end && self.above.is_empty()\n",
                "        if BUG {\n            return self.counted >= end - self.start;\n        }\n        self.contiguous == end && self.above.is_empty()\n",
            ),
            // Who believes that everything is there says so.
            edit(
                RECEIVER,
                "        self.unacked = 0;\n",
                "        self.unacked = 0;\n        if let Some(end) = self.end.filter(|_| BUG && self.covered()) {\n            return (end, Vec::new());\n        }\n",
            ),
        ],
        runs: &[run(&MODEL, "upload, repeats", PLACE), run(&SIMULATION, SESSIONS, LASTS)],
    },
    Fault {
        name: "ack-across-gap",
        what: "an acknowledgement says \"everything up to here\" across a gap",
        edits: &[edit(
            RECEIVER,
            "        let mut ranges: Vec<Extent> = Vec::new();\n",
            "        if BUG {\n            return (self.highest(), Vec::new());\n        }\n        let mut ranges: Vec<Extent> = Vec::new();\n",
        )],
        runs: &[run(&MODEL, "upload, halves", ENDS), run(&SIMULATION, SESSIONS, LASTS)],
    },
    Fault {
        name: "end-of-range-is-end",
        what: "EOFR is treated as the end of the operation while a block is still open",
        edits: &[
            edit(
                INPUT,
                "        operation.ended.push(channel);\n",
                "        operation.ended.push(channel);\n        if BUG && let State::Receiving(super::receiving_half::ReceivingHalf::Granted(granted)) = &operation.state {\n            let length = granted.granted_length().unwrap_or_else(|| granted.receiver.contiguous());\n            self.commit_now(id, length, None);\n            return Ok(());\n        }\n",
            ),
            edit(
                INPUT,
                "        if *progress != SendProgress::Moving || !sender.all_acknowledged() {\n",
                "        let done = if BUG { sender.all_sent() } else { sender.all_acknowledged() };\n        if *progress != SendProgress::Moving || !done {\n",
            ),
            edit(
                INPUT,
                "                self.outputs.push_back(Output::Check { operation: id });\n",
                "                self.outputs.push_back(Output::Check { operation: id });\n                if BUG {\n                    self.push_ends_of_range(id);\n                }\n",
            ),
        ],
        runs: &[run(&MODEL, "upload, cancels", PLACE), run(&SIMULATION, SESSIONS, "COMMITTED before FINISH")],
    },
    Fault {
        name: "success-without-outcome",
        what: "all blocks acknowledged is success, although the last channel died before the outcome arrived",
        edits: &[edit(
            LOSS,
            "        match &mut operation.state {\n            // FINISH, or a batch,",
            "        let all = operation.sender().filter(|sender| sender.all_acknowledged()).and_then(|sender| sender.end());\n        if let Some(length) = all.filter(|_| BUG) {\n            let safety = crate::wire::control::Safety::Written;\n            let done = super::Committed { length, safety, version: Vec::new(), root: None, reread: false };\n            return self.settle(id, Ok(done));\n        }\n        match &mut operation.state {\n            // FINISH, or a batch,",
        )],
        runs: &[
            run(&MODEL, "upload, breaks", OUTCOME),
            run(&SIMULATION, SESSIONS, "success was told, and there is no target"),
        ],
    },
    Fault {
        name: "cancel-decides",
        what: "a cancel is its own answer, while the receiver commits",
        edits: &[
            edit(
                STORAGE,
                "                if half.give_up(error) {\n",
                "                if half.give_up(error.clone()) {\n",
            ),
            edit(
                STORAGE,
                "                    operation.announcements.withdraw(Pending::FINISH);\n                }\n",
                "                    operation.announcements.withdraw(Pending::FINISH);\n                    if BUG {\n                        self.settle(id, Err(error));\n                    }\n                }\n",
            ),
        ],
        runs: &[run(&MODEL, "upload, cancels", OUTCOME), run(&SIMULATION, SESSIONS, LASTS)],
    },
    Fault {
        name: "fence-of-one-epoch",
        what: "the fence of a lost channel counts the records of the last key alone",
        edits: &[edit(
            LOSS,
            "Fence { processed: state.receive.records, sent",
            "Fence { processed: if BUG { state.receive.sequence } else { state.receive.records }, sent",
        )],
        runs: &[run(&MODEL, "upload, short epochs", FENCE), run(&SIMULATION, SESSIONS, "records were processed")],
    },
    Fault {
        name: "root-not-compared",
        what: "what arrived is committed without a comparison with the hash of what was sent",
        edits: &[edit(
            VERIFY,
            "if found.agrees_with(&finish.digest) {",
            "if BUG || found.agrees_with(&finish.digest) {",
        )],
        runs: &[
            run(&MODEL, "upload, altered", CONTENT),
            run(&SIMULATION, SESSIONS, "the target differs from the source"),
        ],
    },
    Fault {
        name: "end-without-mark",
        what: "a channel that ends without EOFT ended in order, and the counts of EOFR and EOFT are ignored",
        edits: &[
            edit(
                INPUT,
                "if records.checked_add(1) != Some(state.receive.records) {",
                "if records.checked_add(1) != Some(state.receive.records) && !BUG {",
            ),
            edit(INPUT, ".unwrap_or(0) != blocks {", ".unwrap_or(0) != blocks && !BUG {"),
            edit(
                LOSS,
                "        self.fences.insert(channel, fence);\n",
                "        if !BUG {\n            self.fences.insert(channel, fence);\n        }\n",
            ),
        ],
        runs: &[run(&MODEL, "upload, breaks", ENDS), run(&SIMULATION, SESSIONS, LASTS)],
    },
    Fault {
        name: "fence-for-fence",
        what: "each FENCE is answered with another one, even when it is itself the answer",
        edits: &[edit(
            LOSS,
            "        self.on_lost(channel, Error::new(ErrorKind::ConnectionLost, \"the peer lost the channel\"));\n",
            "        self.on_lost(channel, Error::new(ErrorKind::ConnectionLost, \"the peer lost the channel\"));\n        if BUG && self.fences.contains(channel) {\n            self.fences.tell_again(channel);\n        }\n",
        )],
        runs: &[run(&MODEL, "upload, breaks", RUNS_END)],
    },
    Fault {
        name: "call-twice",
        what: "a batch of calls whose number was seen before is executed again",
        edits: &[
            edit(CALLS, "return if repeated {", "return if repeated && !BUG {"),
            edit(CALLS, "if !self.is_new(id)? {", "if !self.is_new(id)? && !BUG {"),
        ],
        runs: &[run(&MODEL, "calls, every fault", PLACE), run(&SIMULATION, SESSIONS, "are done again")],
    },
];
