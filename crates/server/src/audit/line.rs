//! From an event to its line.

use super::time::rfc3339;
use crate::log::{CallLine, LogEvent};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::SystemTime;
use xdfs_proto::base::Safety;
use xdfs_secure::policy::Method;

/// The line of an event; none for what is no event but an answer to somebody.
pub fn line(event: &LogEvent, at: SystemTime) -> Option<String> {
    let (name, fields) = describe(event)?;
    let mut all = Map::new();
    all.insert("time".into(), rfc3339(at).into());
    all.insert("event".into(), name.into());
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Some(ascii(&Value::Object(all).to_string()))
}

fn outcome(error: &Option<String>) -> &'static str {
    if error.is_none() { "ok" } else { "failed" }
}

/// One call of a batch.
fn call(call: &CallLine) -> Value {
    let mut fields = Map::new();
    fields.insert("call".into(), call.call.into());
    fields.insert("path".into(), call.path.to_string().into());
    fields.extend(call.to.as_ref().map(|to| ("to".into(), to.to_string().into())));
    fields.extend(call.bytes.map(|bytes| ("bytes".into(), json!(bytes))));
    fields.extend(call.unchanged.then(|| ("unchanged".into(), true.into())));
    fields.insert("outcome".into(), outcome(&call.error).into());
    fields.extend(call.error.as_ref().map(|error| ("error".into(), json!(error))));
    Value::Object(fields)
}

/// The same for a login, whatever became of it.
fn login(event: &LogEvent) -> Option<(&'static str, Value)> {
    Some(match event {
        LogEvent::SessionOpened { session, peer, user, method, key, channels, asked, pipelines } => (
            "session_opened",
            json!({
                "session": session.to_string(),
                "peer": peer,
                "user": user,
                "method": method.name(),
                "key": key.map(|key| key.to_string()),
                "channels": channels,
                "asked": asked,
                "pipelines": pipelines,
            }),
        ),
        LogEvent::LoginFailed { peer, user, method, key, error } => (
            "login_failed",
            json!({
                "peer": peer,
                "user": user,
                "method": method.map(Method::name),
                "key": key.map(|key| key.to_string()),
                "error": error,
            }),
        ),
        _ => return None,
    })
}

/// Name and fields of an event; none for what somebody asked to see.
fn describe(event: &LogEvent) -> Option<(&'static str, Value)> {
    Some(match event {
        LogEvent::SessionEnded { session, user, error } => (
            "session_ended",
            json!({"session": session.to_string(), "user": user, "outcome": outcome(error), "error": error}),
        ),
        LogEvent::GuestRefused { peer, error } => ("refused", json!({"peer": peer, "error": error})),
        LogEvent::ChannelLost { session, channel, error } => {
            ("channel_lost", json!({"session": session.to_string(), "channel": channel, "error": error}))
        }
        LogEvent::Transfer { session, user, operation, upload, name, bytes, level, safety, unchanged, error } => (
            "transfer",
            json!({
                "session": session.to_string(),
                "user": user,
                "operation": operation,
                "direction": if *upload { "upload" } else { "download" },
                "path": name,
                "bytes": bytes,
                "protection": level,
                "durability": safety.map(Safety::name),
                "unchanged": unchanged,
                "outcome": outcome(error),
                "error": error,
            }),
        ),
        LogEvent::Calls { session, user, operation, base, calls, safety, error } => (
            "calls",
            json!({
                "session": session.to_string(),
                "user": user,
                "operation": operation,
                "base": base,
                "calls": calls.iter().map(call).collect::<Vec<_>>(),
                "durability": safety.map(Safety::name),
                "outcome": outcome(error),
                "error": error,
            }),
        ),
        LogEvent::Limits { drops, untold } => {
            let counts: Map<String, Value> = drops.iter().map(|(name, count)| ((*name).into(), json!(count))).collect();
            ("limits", json!({"dropped": counts, "refusals_not_told": untold}))
        }
        LogEvent::Reloaded { error } => ("reloaded", json!({"outcome": outcome(error), "error": error})),
        LogEvent::Started { address } => ("started", json!({"address": address})),
        LogEvent::Retired { sessions } => ("handed_over", json!({"sessions": sessions})),
        LogEvent::Recovered { parts, bytes, others, expired } => {
            ("recovered", json!({"parts": parts, "bytes": bytes, "others": others, "expired": expired}))
        }
        LogEvent::Certificate { until, out } => {
            ("certificate", json!({"until": until, "state": if *out { "run out" } else { "runs out soon" }}))
        }
        LogEvent::Draining { sessions } => ("draining", json!({"sessions": sessions})),
        LogEvent::SessionOpened { .. } | LogEvent::LoginFailed { .. } => return login(event),
        LogEvent::Status { .. } => return None,
    })
}

/// The same JSON without a byte above 126: what is left is escaped as JSON does, inside of strings, where alone it can be.
fn ascii(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character < '\u{7f}' {
            plain.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            // A String takes everything.
            let _ = write!(plain, "\\u{unit:04x}");
        }
    }
    plain
}
