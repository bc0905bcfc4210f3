//! Events as lines for people. Names from the wire are escaped here ([`shortened`]).

use std::fmt;

use xdfs_secure::policy::Method;
use xdfs_server::{Count, FirstFailure, LogEvent, Moved};

use crate::text::shortened;

/// An event, as a line of the log says it.
pub(super) struct Line<'a>(pub(super) &'a LogEvent);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.0;
        match event {
            LogEvent::SessionOpened { session, peer, user, channels, asked, pipelines, .. } => {
                write!(
                    f,
                    "session {session} opened by {user} from {peer}: {channels} of {asked} channels, {pipelines} pipeline(s)"
                )
            }
            LogEvent::SessionEnded { session, user, peer, lasted, moved, first_failure, error, .. } => {
                let moved = Sum(moved);
                let why = error.as_deref().unwrap_or("closed by the client");
                let seconds = lasted.as_secs_f64();
                write!(f, "session {session} of {user} from {peer} ended after {seconds:.1} s: {moved}; ")?;
                if let Some(FirstFailure { call, path, error }) = first_failure {
                    write!(f, "the first failure was {call} '{}': {error}; ", shortened(path.as_bytes()))?;
                }
                f.write_str(why)
            }
            LogEvent::LoginFailed { peer, user, method, key, error } => {
                let method = method.map_or("in an unknown way", Method::name);
                let key = key.map(|key| format!(" {key}")).unwrap_or_default();
                write!(f, "login of '{user}' from {peer} by {method}{key} failed: {error}")
            }
            LogEvent::GuestRefused { peer, error, left: false } => write!(f, "connection of {peer} refused: {error}"),
            LogEvent::GuestRefused { peer, error, left: true } => write!(f, "connection of {peer} ended: {error}"),
            LogEvent::ChannelLost { session, channel, error, .. } => {
                write!(f, "session {session} lost channel {channel}: {error}")
            }
            LogEvent::Transfer { .. } | LogEvent::Calls { .. } => operation(event, f),
            LogEvent::Limits { drops, untold } => {
                f.write_str("limits:")?;
                drops.iter().try_for_each(|(name, count)| write!(f, " {name} {count}"))?;
                if *untold > 0 { write!(f, "; {untold} refusals were not logged") } else { Ok(()) }
            }
            LogEvent::Status { lines } => f.write_str(&lines.join("\n")),
            LogEvent::Started { address } => write!(f, "listening on {address}"),
            LogEvent::Retired { sessions } => {
                write!(f, "another process serves on; {sessions} session(s) are left here")
            }
            LogEvent::Reloaded { error: None } => f.write_str("the configuration was read again and holds now"),
            LogEvent::Reloaded { error: Some(error) } => {
                write!(f, "the configuration was read again and not taken over: {error}")
            }
            LogEvent::Recovered { parts, bytes, others, expired } => write!(
                f,
                "{parts} part file(s) can be gone on with ({bytes} bytes), {others} cannot, {expired} were too old and are removed"
            ),
            LogEvent::Notice { export, text } => write!(f, "export '{export}': {text}"),
            LogEvent::Certificate { until, out: false } => write!(
                f,
                "the certificate runs out at {until} UTC; renew it, and send SIGHUP to the server to have it shown"
            ),
            LogEvent::Certificate { until, out: true } => write!(
                f,
                "the certificate ran out at {until} UTC, and clients that believe its authority refuse this server; renew it, \
                 and send SIGHUP to the server to have it shown"
            ),
            LogEvent::Draining { sessions } => write!(f, "draining: {sessions} session(s) left"),
        }
    }
}

/// The same for a transfer or a batch of calls.
fn operation(event: &LogEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        LogEvent::Transfer { session, user, operation, upload, name, bytes, level, error, .. } => {
            let direction = if *upload { "upload of" } else { "download of" };
            write!(
                f,
                "session {session} operation {operation}: {user}: {direction} '{}', {bytes} bytes at {level}",
                shortened(name.as_bytes())
            )?;
            match error {
                None => Ok(()),
                Some(error) => write!(f, ": failed: {error}"),
            }
        }
        LogEvent::Calls { session, operation, base, calls, error, .. } => {
            let failed = calls.iter().filter(|call| call.error.is_some()).count();
            let (count, base) = (calls.len(), shortened(base.as_bytes()));
            write!(f, "session {session} operation {operation}: {count} call(s) below '{base}'")?;
            let first = calls.iter().find_map(|call| Some((call, call.error.as_ref()?)));
            match (error, first) {
                (Some(error), _) => write!(f, ": failed: {error}"),
                (None, None) => Ok(()),
                (None, Some((call, error))) => {
                    let path = shortened(call.path.as_bytes());
                    write!(f, ", {failed} failed, the first was {} '{path}': {error}", call.call)
                }
            }
        }
        _ => Ok(()),
    }
}

/// What a session moved: bytes in both directions, then what there was of each kind.
struct Sum<'a>(&'a Moved);

impl fmt::Display for Sum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes received, {} sent", self.0.received, self.0.sent)?;
        let kinds = [(self.0.uploads, "upload(s)"), (self.0.downloads, "download(s)"), (self.0.calls, "call(s)")];
        for (Count { done, failed }, name) in kinds.into_iter().filter(|(count, _)| *count != Count::default()) {
            write!(f, ", {} {name}", done + failed)?;
            if failed > 0 {
                write!(f, " of which {failed} failed")?;
            }
        }
        Ok(())
    }
}
