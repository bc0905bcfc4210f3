//! The table `[limits]`: each key, what it bounds, and its range. No limit can be switched off, except
//! that of bandwidth, which is off unless it is given.

use super::error::ConfigError;
use crate::admit::ServerLimits;
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;
use xdfs_engine::pace::rate;
use xdfs_io::store::KeptLimits;

/// A limit as given in the file.
type Number = Option<Spanned<u64>>;

/// The table as given in the file.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LimitsTable {
    pub channels: Number,
    silent: Number,
    first_bytes_seconds: Number,
    logins_soft: Number,
    logins: Number,
    logins_per_source: Number,
    opening_seconds: Number,
    penalty_sources: Number,
    sessions: Number,
    sessions_per_user: Number,
    channels_in_all: Number,
    channels_per_user: Number,
    pipelines_per_user: Number,
    visitors_percent: Number,
    idle_seconds: Number,
    drain_seconds: Number,
    audit_bytes_per_second: Number,
    parts_per_user: Number,
    part_bytes_per_user: Number,
    bandwidth_per_user: Option<Spanned<String>>,
    lease_seconds: Number,
}

/// Makes an error about a byte of the file.
pub(super) type Complain<'a> = &'a dyn Fn(usize, String) -> ConfigError;

/// The number, within its bounds.
pub(super) fn within(
    name: &str,
    number: Number,
    least: u64,
    most: u64,
    at: Complain<'_>,
) -> Result<Option<u64>, ConfigError> {
    let Some(number) = number else { return Ok(None) };
    let value = *number.get_ref();
    if (least..=most).contains(&value) {
        return Ok(Some(value));
    }
    Err(at(
        number.span().start,
        format!("{name} = {value} is out of bounds\nhelp: write a number from {least} to {most}"),
    ))
}

/// A rate in bytes per second; 0 where there is none.
pub(super) fn bandwidth(name: &str, text: Option<&Spanned<String>>, at: Complain<'_>) -> Result<u64, ConfigError> {
    let Some(text) = text else { return Ok(0) };
    rate::parse(text.get_ref()).map_err(|error| at(text.span().start, format!("{name}: {error}")))
}

impl LimitsTable {
    /// The limits, each within its own bounds and all of them consistent.
    pub fn resolve(self, at: Complain<'_>) -> Result<ServerLimits, ConfigError> {
        let shipped = ServerLimits::default();
        let count = |name, number, most, default: usize| {
            // Every upper bound fits.
            Ok(within(name, number, 1, most, at)?.map_or(default, |value| value as usize))
        };
        let time = |name, number, most, default| {
            Ok::<_, ConfigError>(within(name, number, 1, most, at)?.map_or(default, Duration::from_secs))
        };
        let soft = self.logins_soft.as_ref().or(self.logins.as_ref()).map_or(0, |number| number.span().start);
        let limits = ServerLimits {
            silent: count("silent", self.silent, 65_536, shipped.silent)?,
            first_bytes: time("first-bytes-seconds", self.first_bytes_seconds, 60, shipped.first_bytes)?,
            guests_soft: count("logins-soft", self.logins_soft, 16_384, shipped.guests_soft)?,
            guests: count("logins", self.logins, 16_384, shipped.guests)?,
            guests_per_source: count("logins-per-source", self.logins_per_source, 16_384, shipped.guests_per_source)?,
            opening: time("opening-seconds", self.opening_seconds, 300, shipped.opening)?,
            penalty_sources: count("penalty-sources", self.penalty_sources, 1 << 20, shipped.penalty_sources)?,
            sessions: count("sessions", self.sessions, 1 << 17, shipped.sessions)?,
            sessions_per_user: count("sessions-per-user", self.sessions_per_user, 1 << 17, shipped.sessions_per_user)?,
            channels: count("channels-in-all", self.channels_in_all, 1 << 20, shipped.channels)?,
            channels_per_user: count("channels-per-user", self.channels_per_user, 1 << 20, shipped.channels_per_user)?,
            pipelines_per_user: count(
                "pipelines-per-user",
                self.pipelines_per_user,
                1 << 16,
                shipped.pipelines_per_user,
            )?,
            visitors_percent: count("visitors-percent", self.visitors_percent, 100, shipped.visitors_percent)?,
            idle: time("idle-seconds", self.idle_seconds, 7 * 86_400, shipped.idle)?,
            drain: time("drain-seconds", self.drain_seconds, 86_400, shipped.drain)?,
            audit_rate: within("audit-bytes-per-second", self.audit_bytes_per_second, 64 << 10, 1 << 30, at)?
                .unwrap_or(shipped.audit_rate),
            kept: KeptLimits {
                // Below the number of names that are read of a staging directory.
                parts: count("parts-per-user", self.parts_per_user, 4096, shipped.kept.parts)?,
                bytes: within("part-bytes-per-user", self.part_bytes_per_user, 1 << 20, 1 << 60, at)?
                    .unwrap_or(shipped.kept.bytes),
            },
            bandwidth_per_user: bandwidth("bandwidth-per-user", self.bandwidth_per_user.as_ref(), at)?,
            lease: time("lease-seconds", self.lease_seconds, 3600, shipped.lease)?,
            leased_before: shipped.leased_before,
            transfers: shipped.transfers,
        };
        if limits.guests_soft > limits.guests {
            let text = format!(
                "logins-soft ({}) is above logins ({}); newcomers would never find a place\nhelp: raise logins",
                limits.guests_soft, limits.guests
            );
            return Err(at(soft, text));
        }
        Ok(limits)
    }
}
