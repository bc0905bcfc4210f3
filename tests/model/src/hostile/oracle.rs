//! What must be true, whatever the machines believe: told only what really happened.

use super::symbol::{ChannelKey, End, Join, Sealed, Who};
use std::collections::{BTreeMap, BTreeSet};
use xdfs_proto::base::{ChannelId, Duration, Instant, Level};
use xdfs_proto::session::Fault;
use xdfs_proto::wire::control::ChannelGrant;

/// What went wrong. Each belongs to the property of its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Violation {
    /// A channel whose proof the holder of the session's secret did not make (S1), or who is not its user (S2).
    Stranger,
    /// A number that attached twice or was not granted (S3).
    Grant,
    /// Something happened to storage, or a channel joined, where no session is (S4).
    Effect,
    /// A block below a floor, or two levels for one operation (S5).
    Level,
    /// A nonce that served twice (S6).
    Nonce,
    /// Ann was found at fault for what somebody else did.
    Fault(Fault),
    /// Ann was told what is not so.
    Outcome,
    /// A channel of Ann's was refused that nothing spoke against.
    Refused,
    /// A machine panicked.
    Panic,
}

/// What was seen on the way: each should be reached in some setting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Seen {
    /// A JOIN without a right proof was refused.
    ForgedJoin,
    /// A JOIN with a right proof and a number that was used was refused.
    UsedGrant,
    /// A JOIN with a right proof was refused since its time was over.
    LateJoin,
    /// A JOIN of a session that has ended or not begun was refused.
    JoinOfNone,
    /// A copy of Ann's JOIN came first, and her own was refused.
    StolenJoin,
    /// Ann's JOIN came first, and the copy was refused.
    CopyRefused,
    /// A record that did not open ended its channel.
    BadRecord,
    /// A login was taken away while its answer was on its way.
    RevokedOpening,
    /// It was taken away between a JOIN's proof and its answer.
    RevokedJoining,
    /// It was taken away while a transfer ran.
    RevokedMoving,
    /// A letter with a channel met a session that was over.
    LateChannel,
    /// Eve was found at fault in her own session.
    EveAtFault,
    /// Eve wrote a file of her own, as she may.
    EveCommitted,
    /// More channels were granted, and one joined.
    Replaced,
}

/// The properties that must hold, based only on what really happened.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Oracle {
    /// Numbers that were granted, by session and grant.
    granted: BTreeMap<(Who, u8), (u16, u16, Instant)>,
    /// Numbers that attached.
    attached: BTreeSet<ChannelKey>,
    /// The last nonce of each key and end.
    nonces: BTreeMap<(ChannelKey, End), (u16, u64)>,
    /// Sessions that are up: begun, and not ended or told to end.
    up: BTreeSet<Who>,
    /// Sessions whose login was taken away.
    revoked: BTreeSet<Who>,
    /// The level that the server's GRANT told Ann.
    level: Option<Level>,
    /// The bytes of Ann's operation are at the target, in its name.
    committed: bool,
    /// What was seen.
    pub seen: BTreeSet<Seen>,
    /// The first thing that went wrong; nothing is searched behind it.
    pub violation: Option<Violation>,
}

impl Oracle {
    /// Something is wrong.
    pub fn wrong(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    fn check(&mut self, holds: bool, violation: Violation) {
        if !holds {
            self.wrong(violation);
        }
    }

    /// The server granted channel numbers.
    pub fn on_granted(&mut self, who: Who, grant: &ChannelGrant, now: Instant) {
        let until = now.after(Duration::from_millis(grant.life_ms.into()));
        let before = self.granted.insert((who, grant.secret[0]), (grant.first, grant.count, until));
        self.check(before.is_none(), Violation::Grant);
    }

    /// The session of `who` serves operations from now on.
    pub fn on_begun(&mut self, who: Who) {
        self.up.insert(who);
        self.check(!self.revoked.contains(&who), Violation::Effect);
    }

    /// The login of `who` was taken away.
    pub fn on_revoked(&mut self, who: Who) {
        self.revoked.insert(who);
    }

    /// Whether the login of `who` was taken away.
    pub fn is_revoked(&self, who: Who) -> bool {
        self.revoked.contains(&who)
    }

    /// The session of `who` is over at the server, or was told to end.
    pub fn on_ended(&mut self, who: Who) {
        self.up.remove(&who);
    }

    /// A JOIN for the session of `who` was found right.
    pub fn on_proved(&mut self, who: Who, key: ChannelKey, now: Instant) {
        let in_time = self.granted.get(&(who, key.grant)).is_some_and(|(.., until)| now < *until);
        self.check(in_time, Violation::Grant);
    }

    /// A connection became a channel of the session of `who` by this JOIN, or, for channel 1, by its login.
    pub fn on_attached(&mut self, who: Who, key: ChannelKey, join: Option<&Join>) {
        let proof = join.map(|join| join.proof);
        let made = proof.is_none_or(|proof| proof.is_some_and(|proof| proof.key == key && proof.role == End::Client));
        self.check(made && key.holder == who, Violation::Stranger);
        let within =
            |(first, count, _): &(u16, u16, Instant)| key.channel.0 >= *first && key.channel.0 - first < *count;
        let granted = self.granted.get(&(who, key.grant)).is_some_and(within);
        let fresh = self.attached.insert(key);
        self.check(granted && fresh, Violation::Grant);
        self.check(!self.revoked.contains(&who), Violation::Effect);
    }

    /// A record was sealed.
    pub fn on_sealed(&mut self, record: &Sealed) {
        let before = self.nonces.insert(record.key, record.nonce);
        // Upwards only, so never twice.
        self.check(before.is_none_or(|before| before < record.nonce), Violation::Nonce);
    }

    /// Something is written, staged, opened or named in the session of `who`.
    pub fn on_effect(&mut self, who: Who) {
        self.check(self.up.contains(&who), Violation::Effect);
    }

    /// The server told Ann the level of her operation.
    pub fn on_level_told(&mut self, level: Level, required: Level) {
        self.level = Some(level);
        self.check(level >= required, Violation::Level);
    }

    /// Ann heard the level of her operation.
    pub fn on_level_heard(&mut self, level: Level) {
        self.check(self.level == Some(level), Violation::Level);
    }

    /// A block at this level was taken.
    pub fn on_block_taken(&mut self, who: Who, level: Level, required: Level) {
        self.check(level >= required, Violation::Level);
        if who == Who::Ann {
            self.check(self.level.is_some_and(|told| level >= told), Violation::Level);
        }
    }

    /// The target of Ann's operation got its name.
    pub fn on_committed(&mut self) {
        self.committed = true;
    }

    /// Ann is told the outcome.
    pub fn on_told(&mut self, success: bool) {
        self.check(!success || self.committed, Violation::Outcome);
    }

    /// Numbers of Ann's session that have attached.
    pub fn attached(&self, who: Who) -> impl Iterator<Item = ChannelId> {
        self.attached.iter().filter(move |key| key.holder == who).map(|key| key.channel)
    }
}
