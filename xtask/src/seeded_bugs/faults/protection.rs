//! Faults of joining, revocation, protection, bounds of strangers and rights.

use super::super::fault::{Fault, Program, edit, run};
use super::{model, plain};

const MODEL: Program = model("hostile", "whatever_a_hostile_participant_does");
/// It has one setting.
const PLACES: Program = Program { amount: None, ..model("hostile", "whatever_strangers_do") };
const KEYS: Program = plain("xdfs-secure", None, "keys::tests::no_output_is_shared");
const RIGHTS: Program = plain("xdfs-server", None, "authorise::tests::the_authority_and_a_second_opinion_agree");

const HOLDER: &str = "S1, S2: a channel belongs to who holds the secret of its session, and is its user";
const GRANT: &str = "S3: a number attaches once, and only where it was granted";
const EFFECT: &str = "S4: nothing happens before a session, after it, or once it was taken away";
const LEVEL: &str = "S5: no block is below a floor, and both ends know one level";
const NONCE: &str = "S6: no nonce serves twice under one key";
const BOUNDED: &str = "S12: what has not proved anything is bounded in all, and for each source";
const IN_TIME: &str = "S12: who has not proved anything goes at his deadline, whatever he says";

const ADMISSION: &str = "crates/proto/src/admit/mod.rs";
const GRANTS: &str = "crates/proto/src/registry/grants.rs";
const REGISTRY: &str = "crates/proto/src/registry/mod.rs";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "join-without-proof",
        what: "a JOIN is accepted whatever its proof is",
        edits: &[edit(
            GRANTS,
            "        verify(&keys)?;\n",
            "        if !BUG {\n            verify(&keys)?;\n        }\n",
        )],
        runs: &[run(&MODEL, "joins", HOLDER)],
    },
    Fault {
        name: "grant-serves-twice",
        what: "a grant accepts a second JOIN with the same number",
        edits: &[
            edit(
                GRANTS,
                "let fresh = !self.used.contains(&channel);",
                "let fresh = !self.used.contains(&channel) || BUG;",
            ),
            edit(
                GRANTS,
                "        self.forget(now);\n        Ok(keys)\n",
                "        if !BUG {\n            self.forget(now);\n        }\n        Ok(keys)\n",
            ),
        ],
        runs: &[run(&MODEL, "joins", GRANT)],
    },
    Fault {
        name: "grant-outlives-its-time",
        what: "a grant is accepted after it expired",
        edits: &[
            edit(GRANTS, "let in_time = now < self.until;", "let in_time = now < self.until || BUG;"),
            edit(GRANTS, "now < open.until && open.unused() > 0", "(now < open.until || BUG) && open.unused() > 0"),
        ],
        runs: &[run(&MODEL, "joins", GRANT)],
    },
    Fault {
        name: "grant-used-late",
        what: "a number is looked up when a JOIN arrives, but used up only once its reply is sent",
        edits: &[
            edit(
                GRANTS,
                "        open.used.insert(channel);\n",
                "        if !BUG {\n            open.used.insert(channel);\n        }\n",
            ),
            edit(
                GRANTS,
                "    /// Grants `count` more channels when `up` are up.\n",
                "    pub(super) fn answered(&mut self, channel: ChannelId) {\n        let named = self.open.iter_mut().filter(|open| open.names(channel));\n        named.for_each(|open| _ = open.used.insert(channel));\n    }\n\n    /// Grants `count` more channels when `up` are up.\n",
            ),
            edit(
                REGISTRY,
                "        self.sessions.get_mut(&id).is_some_and(|entry| entry.coming.remove(&channel))\n",
                "        let Some(entry) = self.sessions.get_mut(&id) else { return false };\n        if BUG {\n            entry.grants.answered(channel);\n        }\n        entry.coming.remove(&channel) || BUG\n",
            ),
        ],
        runs: &[run(&MODEL, "joins", GRANT)],
    },
    Fault {
        name: "proof-without-channel",
        what: "the proof of a JOIN, and the keys, do not cover the channel's number",
        edits: &[
            edit(
                "crates/secure/src/keys.rs",
                "        let prk = extract(grant.bytes(), secret.secret.bytes())?;\n        let context",
                "        let channel = if BUG { ChannelId(0) } else { channel };\n        let prk = extract(grant.bytes(), secret.secret.bytes())?;\n        let context",
            ),
            edit(
                "tests/model/src/hostile/symbol.rs",
                "        if self.proof == Some(right) {",
                "        let unnumbered = |proof: Proof| Proof {\n            key: ChannelKey { channel: ChannelId(0), ..proof.key },\n            says: (proof.says.0, ChannelId(0)),\n            ..proof\n        };\n        if self.proof == Some(right) || BUG && self.proof.map(unnumbered) == Some(unnumbered(right)) {",
            ),
        ],
        runs: &[run(&MODEL, "joins, 3 channels", HOLDER), run(&KEYS, "", "two derivations share an output")],
    },
    Fault {
        name: "revocation-misses-opening",
        what: "a revocation ends the sessions that are up, but not those whose reply is in flight",
        edits: &[edit(
            REGISTRY,
            "filter(|(_, entry)| ends(&entry.principal));",
            "filter(|(_, entry)| ends(&entry.principal) && (entry.begun || !BUG));",
        )],
        runs: &[run(&MODEL, "revoked, logins", EFFECT)],
    },
    Fault {
        name: "revocation-misses-joined",
        what: "a session that ends closes channel 1, but not the channels that joined",
        edits: &[edit(
            "crates/proto/src/session/loss.rs",
            "        self.end(Some(error));\n    }\n\n    /// Bytes moved on a channel",
            "        if BUG && self.channels.iter().count() > 1 {\n            return self.on_lost(ChannelId(1), error);\n        }\n        self.end(Some(error));\n    }\n\n    /// Bytes moved on a channel",
        )],
        runs: &[run(&MODEL, "revoked, upload", EFFECT)],
    },
    Fault {
        name: "level-only-told",
        what: "the level of a block is sent but not checked",
        edits: &[edit(
            "crates/proto/src/session/heads.rs",
            "if head.level < level {",
            "if head.level < level && !BUG {",
        )],
        runs: &[run(&MODEL, "insider", LEVEL)],
    },
    Fault {
        name: "sequence-without-key",
        what: "the sequence restarts without a new key",
        edits: &[edit(
            "crates/proto/src/session/poll.rs",
            "        state.send.on_rekey(now).is_ok()\n",
            "        let moved = state.send.on_rekey(now).is_ok();\n        if BUG {\n            state.send.epoch -= 1;\n        }\n        moved\n",
        )],
        runs: &[run(&MODEL, "records, upload", NONCE)],
    },
    Fault {
        name: "silent-are-free",
        what: "connections that have sent nothing are not counted",
        edits: &[edit(
            ADMISSION,
            "let full = self.silent.len() >= self.limits.silent;",
            "let full = self.silent.len() >= self.limits.silent && !BUG;",
        )],
        runs: &[run(&PLACES, "", BOUNDED)],
    },
    Fault {
        name: "deadline-from-first-bytes",
        what: "the deadline of a connection starts with its first bytes",
        edits: &[edit(
            ADMISSION,
            "        self.deadlines.insert((until, connection));\n        oldest\n",
            "        if !BUG {\n            self.deadlines.insert((until, connection));\n        }\n        oldest\n",
        )],
        runs: &[run(&PLACES, "", IN_TIME)],
    },
    Fault {
        name: "scope-is-text",
        what: "the subtree limit of a token is compared as text, not by components",
        edits: &[edit(
            "crates/server/src/authorise/mod.rs",
            "if scope.export != export.name() || !path.is_within(&scope.path) {",
            "let below = match BUG {\n        true => path.as_bytes().starts_with(scope.path.as_bytes()),\n        false => path.is_within(&scope.path),\n    };\n    if scope.export != export.name() || !below {",
        )],
        runs: &[run(&RIGHTS, "", "the rights are others: ")],
    },
];
