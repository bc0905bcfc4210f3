//! Negotiation of a session's parameters (WIRE-21..31, FTSM-05): a pure function whose result
//! states every value, so that no value changes silently.

use crate::base::{Duration, Error, ErrorKind, Level, Suite};
use crate::features;
use crate::limits;
use crate::plan;
use crate::wire::handshake::Open;
use alloc::format;
use alloc::vec::Vec;

/// What a server is willing to grant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Policy {
    /// Limit on channels of a session.
    pub channels_max: u16,
    /// Limit on pipelines of a session.
    pub pipelines_max: u8,
    /// Largest socket window, in bytes.
    pub window_max: u64,
    /// Minimum level for blocks.
    pub floor: Level,
    /// Allowed cipher suites of records (SEC-13).
    pub suites: Vec<Suite>,
    /// Longest stall deadline.
    pub stall_max: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            channels_max: limits::CHANNELS_DEFAULT_MAX,
            pipelines_max: limits::PIPELINES_MAX,
            window_max: limits::WINDOW_BYTES_MAX,
            floor: Level::Clear,
            suites: Suite::ALL.to_vec(),
            stall_max: limits::STALL_MAX,
        }
    }
}

/// The granted values of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Granted {
    /// Channels.
    pub channels: u16,
    /// Pipelines, at most one per channel.
    pub pipelines: u8,
    /// Socket window, 0 for the system's tuning.
    pub window: u64,
    /// Block size.
    pub block: u32,
    /// Minimum level for blocks.
    pub floor: Level,
    /// Stall deadline.
    pub stall: Duration,
    /// Cipher suite of records.
    pub suite: Suite,
    /// Features: those that were asked for and exist here.
    pub features: u64,
}

impl Granted {
    /// Limit on all outstanding replies of the session, in bytes.
    pub fn calls_room(&self) -> usize {
        calls_room(self.features)
    }
}

/// Limit on all outstanding replies of a session with these features, in bytes.
pub fn calls_room(features: u64) -> usize {
    if features & features::WIDE_CALLS == 0 { limits::CALL_ROOM_MAX } else { limits::CALL_ROOM_WIDE }
}

/// Grants what `open` requests within `policy`, or returns the reason for refusal.
pub fn grant(open: &Open, policy: &Policy) -> Result<Granted, Error> {
    // The client's order decides, because it knows its machine; the server's list only restricts
    // the choice.
    let known = open.suites.iter().filter_map(|code| Suite::from_code(*code));
    let Some(suite) = known.into_iter().find(|suite| policy.suites.contains(suite)) else {
        return Err(Error::new(ErrorKind::Unsupported, "no common cipher suite for records"));
    };
    // Version 1 defines no extended options: critical ones are refused, the others left out of the
    // reply.
    if let Some(option) = open.options.iter().find(|option| option.critical) {
        return Err(Error::new(ErrorKind::Unsupported, format!("extended option {} is not known here", option.key)));
    }
    let channels = open.channels.min(policy.channels_max).max(1);
    let pipelines = open.pipelines.min(policy.pipelines_max).min(channels.min(255) as u8).max(1);
    let floor = policy.floor;
    let asked = match open.stall_ms {
        0 => limits::STALL_DEFAULT,
        stall_ms => Duration::from_millis(stall_ms.into()),
    };
    Ok(Granted {
        channels,
        pipelines,
        window: open.window.min(policy.window_max),
        block: plan::block(open.block, open.level.max(floor), channels),
        floor,
        stall: asked.clamp(limits::STALL_MIN, policy.stall_max.max(limits::STALL_MIN)),
        suite,
        features: open.features & features::ALL,
    })
}

/// Checks that the prefaces inside the handshake are those that were received on the connection.
pub fn confirm(inside: &[u8; 16], client: [u8; 8], server: [u8; 8]) -> Result<(), Error> {
    if inside[..8] == client && inside[8..] == server {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Downgrade, "the opening bytes were altered between client and server"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::handshake::ExtendedOption;
    use alloc::vec;

    fn open() -> Open {
        Open {
            prefaces: [0; 16],
            features: 0,
            channels: 8,
            pipelines: 1,
            window: 0,
            block: 0,
            level: Level::Clear,
            stall_ms: 0,
            label: [0; 16],
            suites: vec![1, 2],
            login: 0,
            credentials: vec![],
            options: vec![],
            first: None,
        }
    }

    #[test]
    fn features_that_exist_are_granted_and_no_others() {
        for (asked, granted, room) in [
            (0, 0, limits::CALL_ROOM_MAX),
            (1, 1, limits::CALL_ROOM_WIDE),
            (6, 0, limits::CALL_ROOM_MAX),
            (u64::MAX, features::ALL, limits::CALL_ROOM_WIDE),
        ] {
            let given = grant(&Open { features: asked, ..open() }, &Policy::default()).unwrap();
            assert_eq!((given.features, given.calls_room()), (granted, room));
        }
    }

    #[test]
    fn wishes_are_cut_to_the_policy_and_defaults_filled_in() {
        let policy = Policy { channels_max: 16, ..Policy::default() };
        let granted = grant(&Open { channels: 500, pipelines: 200, ..open() }, &policy).unwrap();
        assert_eq!((granted.channels, granted.pipelines, granted.block), (16, 16, limits::BLOCK_BYTES_DEFAULT));
        assert_eq!(granted.stall, limits::STALL_DEFAULT);
        let short = grant(&Open { stall_ms: 1, ..open() }, &policy).unwrap();
        assert_eq!(short.stall, limits::STALL_MIN);
    }

    #[test]
    fn what_is_not_offered_is_an_error_never_a_fallback() {
        let policy = Policy::default();
        let refused = |open: Open| grant(&open, &policy).unwrap_err().kind;
        assert_eq!(refused(Open { suites: vec![], ..open() }), ErrorKind::Unsupported);
        assert_eq!(refused(Open { suites: vec![0, 9], ..open() }), ErrorKind::Unsupported);
        let option = |critical| ExtendedOption { key: 9, critical, value: vec![] };
        assert_eq!(refused(Open { options: vec![option(true)], ..open() }), ErrorKind::Unsupported);
        assert!(grant(&Open { options: vec![option(false)], ..open() }, &policy).is_ok());
    }

    #[test]
    fn the_client_s_best_suite_among_the_allowed_ones_is_taken() {
        let suite = |asked: &[u8], allowed: &[Suite]| {
            let policy = Policy { suites: allowed.to_vec(), ..Policy::default() };
            grant(&Open { suites: asked.to_vec(), ..open() }, &policy).map(|granted| granted.suite).ok()
        };
        let (aes, chacha) = (Suite::Aes256Gcm, Suite::ChaCha20Poly1305);
        assert_eq!(suite(&[1, 2], &[aes, chacha]), Some(aes));
        assert_eq!(suite(&[9, 2, 1], &[aes, chacha]), Some(chacha));
        assert_eq!(suite(&[2, 1], &[aes]), Some(aes));
        assert_eq!(suite(&[1], &[chacha]), None);
    }

    #[test]
    fn altered_prefaces_are_a_downgrade() {
        let inside = [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2];
        assert!(confirm(&inside, [1; 8], [2; 8]).is_ok());
        assert_eq!(confirm(&inside, [1; 8], [3; 8]).unwrap_err().kind, ErrorKind::Downgrade);
        assert_eq!(confirm(&inside, [0; 8], [2; 8]).unwrap_err().kind, ErrorKind::Downgrade);
    }
}
