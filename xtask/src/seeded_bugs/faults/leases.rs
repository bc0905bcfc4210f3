//! Faults of leases, at the client and at the server.

use super::super::fault::{Fault, Program, edit, run};
use super::{model, simulation};

const MODEL: Program = model("leases", "whatever_happens_to_sessions_and_server");
const SIMULATION: Program = simulation("leases", "many_programs_see_one_file");

const STALE: &str = "L1: what a client may use under its lease is the file as it was changed last";
const BEHIND: &str = "L2: the server has and tells the last change, unless a client keeps it under its lease";
const WAITS: &str = "L3: nobody waits for longer than a lease holds";

/// Runs of the simulation in which each fault has to show.
const RUNS: &str = "20000";

/// What the simulation tells of a file that is two things at a time.
const TWO_VALUES: &str = " is the value from ";

const HOLDING: &str = "crates/proto/src/lease/holding.rs";
const TABLE: &str = "crates/proto/src/lease/table.rs";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "lease-from-the-answer",
        what: "a client's lease runs from the arrival of the answer, not from the sending of the call",
        edits: &[
            edit(
                HOLDING,
                "HoldingState::Asked(asked) => asked.on_answer(answer),",
                "HoldingState::Asked(asked) => {\n                let sent = if BUG { now } else { asked.sent };\n                Asked { sent, ..asked }.on_answer(answer)\n            }",
            ),
            edit(
                HOLDING,
                "HoldingState::Held(held) => held.on_answer(answer)?,",
                "HoldingState::Held(held) => {\n                let renewal = if BUG { held.renewal.map(|_| now) } else { held.renewal };\n                Held { renewal, ..held }.on_answer(answer)?\n            }",
            ),
        ],
        runs: &[run(&MODEL, READ, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "lease-without-end",
        what: "a client uses what it kept although the lease is over",
        edits: &[
            edit(
                HOLDING,
                "self.until().is_some_and(|until| now < until)",
                "self.until().is_some_and(|until| now < until || BUG)",
            ),
            edit(
                HOLDING,
                "    pub fn expire(&mut self, now: Instant) {\n",
                "    pub fn expire(&mut self, now: Instant) {\n        if BUG {\n            return;\n        }\n",
            ),
        ],
        runs: &[run(&MODEL, READ, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "lease-beside-another",
        what: "a lease is granted although somebody else has one that excludes it",
        edits: &[edit(TABLE, "let excluded = others().any(", "let excluded = !BUG && others().any(")],
        runs: &[run(&MODEL, "both want leases", STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "lease-beside-an-access",
        what: "a lease is granted although an access that it excludes is being executed",
        edits: &[edit(
            TABLE,
            "let busy = self.changes > 0 || (kind.excludes(Access::Look) && self.looks > 0);",
            "let busy = !BUG && (self.changes > 0 || (kind.excludes(Access::Look) && self.looks > 0));",
        )],
        runs: &[run(&MODEL, READ, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "recalled-is-renewed",
        what: "a lease that somebody waits for is renewed",
        edits: &[edit(
            TABLE,
            "            LeaseState::Recalled(_) => {}\n",
            "            LeaseState::Recalled(recalled) if BUG => recalled.until = renewed,\n            LeaseState::Recalled(_) => {}\n",
        )],
        runs: &[run(&MODEL, READ, WAITS), run(&SIMULATION, RUNS, "longer than a lease")],
    },
    Fault {
        name: "recalled-is-for-ever",
        what: "a lease that is recalled lasts until the client answers",
        edits: &[edit(
            TABLE,
            "        let Some(known) = self.files.get(file) else { return };\n",
            "        let Some(known) = self.files.get(file) else { return };\n        if BUG {\n            return;\n        }\n",
        )],
        runs: &[run(&MODEL, READ, WAITS), run(&SIMULATION, RUNS, "something is never done")],
    },
    Fault {
        name: "recall-is-return",
        what: "what a recalled lease excludes does not wait until it was given back",
        edits: &[edit(TABLE, "if let Some(until) = until {", "if let Some(until) = until.filter(|_| !BUG) {")],
        runs: &[run(&MODEL, READ, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "lease-ends-with-session",
        what: "the leases of a session end with it, although its client may not know that it has ended",
        edits: &[edit(
            TABLE,
            "    pub fn lost(&mut self, holder: &Holder<U>) {\n",
            "    pub fn lost(&mut self, holder: &Holder<U>) {\n        if BUG {\n            self.remove(holder);\n            return;\n        }\n",
        )],
        runs: &[run(&MODEL, LOST, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "lease-ends-in-a-batch",
        what: "a lease ends while a batch is executed under it",
        edits: &[edit(
            TABLE,
            "lease.state.until() <= now && lease.pins == 0",
            "lease.state.until() <= now && (lease.pins == 0 || BUG)",
        )],
        runs: &[run(&MODEL, WRITE, BEHIND), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "restart-without-grace",
        what: "a restarted server lets everybody do everything at once",
        edits: &[edit(
            TABLE,
            "self.grace.filter(|grace| now < grace.until)",
            "self.grace.filter(|grace| now < grace.until && !BUG)",
        )],
        runs: &[run(&MODEL, RESTART, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "grace-for-anybody",
        what: "a restarted server grants leases to those who had none",
        edits: &[edit(TABLE, "if self.is_in_grace(now).is_some() {", "if self.is_in_grace(now).is_some() && !BUG {")],
        runs: &[run(&MODEL, RESTART, STALE), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
    Fault {
        name: "lease-without-pause",
        what: "whoever has given a recalled lease back gets the next one, before those who waited for it",
        edits: &[edit(TABLE, "!waits && self.pause <= now", "!waits && (self.pause <= now || BUG)")],
        runs: &[
            run(&MODEL, "a lease again and again, others change", WAITS),
            run(&SIMULATION, RUNS, "longer than a lease"),
        ],
    },
    Fault {
        name: "recall-ends-with-session",
        what: "a recalled lease is a new one for whoever lost its session and has it again",
        edits: &[edit(
            TABLE,
            "        let until = if recalled.is_some() { until } else { until.max(self.renewed(&holder.owner, now)) };\n",
            "        let recalled = recalled.filter(|_| !BUG);\n        let until = if recalled.is_some() { until } else { until.max(self.renewed(&holder.owner, now)) };\n",
        )],
        runs: &[run(&MODEL, LOST, WAITS), run(&SIMULATION, RUNS, "a recalled lease began anew")],
    },
    Fault {
        name: "kept-without-lease",
        what: "changes that a client kept are taken although it has no lease any more",
        edits: &[
            edit(
                TABLE,
                "let Some(file) = self.holders.get(holder).cloned() else { return false };",
                "let Some(file) = self.holders.get(holder).cloned() else { return BUG };",
            ),
            edit(
                TABLE,
                "lease.map(|lease| lease.pins += 1).is_some()",
                "lease.map(|lease| lease.pins += 1).is_some() || BUG",
            ),
        ],
        runs: &[run(&MODEL, WRITE, BEHIND), run(&SIMULATION, RUNS, TWO_VALUES)],
    },
];

/// Settings of the model.
const READ: &str = "read lease, others change";
const WRITE: &str = "write lease, others look and change";
const LOST: &str = "a lost session";
const RESTART: &str = "a restarted server";
