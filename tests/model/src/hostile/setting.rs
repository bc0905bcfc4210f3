//! What is searched: Ann's small session, and how much Eve may do. Every budget is finite, so every path ends.

use crate::setting::Plan;
use xdfs_proto::base::Level;

/// The bounds of the search: the size of the session and the attacker's budget.
#[derive(Clone, Debug)]
pub struct Setting {
    /// For reports, and for choosing it on the command line.
    pub name: &'static str,
    /// Channels of Ann's session.
    pub channels: u16,
    /// Channel numbers that Ann's session may come to in all.
    pub numbers: u16,
    /// Ann's operation.
    pub plan: Plan,
    /// Floors of client, server and export.
    pub floors: [Level; 3],
    /// Ann's login is part of the search; else her session has begun, as Eve's always has.
    pub logins: bool,
    /// JOINs that Eve says.
    pub forgeries: u8,
    /// Records of Ann's session that Eve repeats, moves, sends back or alters.
    pub meddlings: u8,
    /// Records that Eve says in her own session.
    pub words: u8,
    /// What Ann or Eve logged in with may be taken away.
    pub revocations: u8,
    /// Ends of Ann's channels that may break.
    pub breaks: u8,
    /// The grants' time may end.
    pub expires: bool,
    /// Ann asks for a channel when she has lost one.
    pub replaces: bool,
    /// Ann closes her session when her operation is settled.
    pub close: bool,
    /// Records of a key epoch.
    pub epoch: u64,
}

impl Setting {
    /// Two channels, one block, and nobody does harm: what the others are made from.
    pub const fn plain(name: &'static str, plan: Plan) -> Self {
        Self {
            name,
            channels: 2,
            numbers: 2,
            plan,
            floors: [Level::Clear; 3],
            logins: false,
            forgeries: 0,
            meddlings: 0,
            words: 0,
            revocations: 0,
            breaks: 0,
            expires: false,
            replaces: false,
            close: false,
            epoch: u64::MAX,
        }
    }

    /// What no block may be below.
    pub fn required(&self) -> Level {
        self.floors.into_iter().max().unwrap_or_default()
    }
}
