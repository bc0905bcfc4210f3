//! Open files: each channel is one, so the soft limit is raised to the hard one, and channels that
//! still do not fit are reported.

use crate::exit::{Exit, Failure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xdfs_server::ServerLimits;

/// Open files that are not channels: standard streams, listener, dispatcher, one pipe and one file
/// per thread, stores.
const DESCRIPTORS_BESIDE_CHANNELS: u64 = 64;

/// The minimum of the same: what is left for them if few files may be open.
const CHANNELS_PART: u64 = 8;
/// Open files without which nothing can be copied: 16 are open before the first file is; 30 for a
/// server of two exports.
const CLIENT_MIN: u64 = 32;
/// The same as [`CLIENT_MIN`] for a server.
const SERVER_MIN: u64 = 64;

/// Reports how many open files are needed if fewer are allowed.
pub(crate) fn must_do(limit: u64, server: bool) -> Result<(), Failure> {
    let least = if server { SERVER_MIN } else { CLIENT_MIN };
    if limit >= least {
        return Ok(());
    }
    let text = format!(
        "only {limit} files may be open, and {least} are needed; raise the limit with 'ulimit -Hn {least}' or LimitNOFILE={least}"
    );
    Err(Failure::new(Exit::Local, text))
}

/// Raises the soft limit of open files to the hard one. Returns the effective limit.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A refusal (a sandbox) leaves the soft limit unchanged: what does not fit is reported then.
    let holds = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    holds.unwrap_or(u64::MAX)
}

/// How many of `channels` fit under `limit`, and a message if that is fewer.
pub(crate) fn channels_that_fit(channels: u16, limit: u64) -> (u16, Option<String>) {
    let room = limit.saturating_sub(DESCRIPTORS_BESIDE_CHANNELS).max(limit / CHANNELS_PART).max(1);
    if u64::from(channels) <= room {
        return (channels, None);
    }
    // Fits: it is less than `channels`.
    let fitting = room as u16;
    let message = format!(
        "{channels} channels need {} open files and the limit is {limit}: using {fitting}; raise the limit with \
         'ulimit -Hn' or LimitNOFILE=",
        u64::from(channels) + DESCRIPTORS_BESIDE_CHANNELS
    );
    (fitting, Some(message))
}

/// The limits of a server that may open `limit` files: five eighths of them for channels, three for
/// pending logins and for files that are opened and read meanwhile, of which a transfer takes up to three at a time, so that
/// no client can use them up.
pub(crate) fn share(limits: ServerLimits, limit: u64) -> ServerLimits {
    let part = |eighths: u64, least| usize::try_from(limit / 8 * eighths).unwrap_or(usize::MAX).max(least);
    let channels = limits.channels.min(part(5, 1));
    ServerLimits {
        channels,
        // Where the descriptors are what there is little of, nobody has all of them.
        channels_per_user: limits.channels_per_user.min((channels / 2).max(1)),
        transfers: limits.transfers.min(part(1, 1)),
        silent: limits.silent.min(part(1, 16)),
        guests: limits.guests.min(part(1, 16)),
        guests_soft: limits.guests_soft.min(part(1, 16)),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_cut_to_the_limit_and_it_is_said() {
        assert_eq!(channels_that_fit(8, 1024), (8, None));
        assert_eq!(channels_that_fit(960, 1024), (960, None));
        let (fitting, message) = channels_that_fit(961, 1024);
        assert_eq!(fitting, 960);
        assert!(message.is_some_and(|message| message.contains("961 channels") && message.contains("1024")));
        assert_eq!(channels_that_fit(8, 10).0, 1);
        assert_eq!(channels_that_fit(8, 64), (8, None));
        assert_eq!(channels_that_fit(8, 32).0, 4);
        assert_eq!(channels_that_fit(4096, u64::MAX), (4096, None));
    }

    #[test]
    fn who_may_open_too_few_files_is_told_how_many_are_needed() {
        assert!(must_do(CLIENT_MIN, false).is_ok() && must_do(SERVER_MIN, true).is_ok());
        let failure = must_do(SERVER_MIN - 1, true).unwrap_err();
        assert!(failure.message.contains("63") && failure.message.contains("64"), "{}", failure.message);
    }

    #[test]
    fn a_server_keeps_open_files_back_for_what_is_no_channel() {
        let shipped = ServerLimits::default();
        assert_eq!(share(shipped, 1 << 20), shipped);
        let few = share(shipped, 1024);
        assert_eq!((few.channels, few.silent, few.guests, few.guests_soft), (640, 128, 128, 64));
        assert_eq!(share(shipped, 8).silent, 16);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(raised, limit.maximum.unwrap_or(u64::MAX));
    }
}
