//! Converts an event into its lines.
//!
//! A line has at most [`LINE_BYTES_MAX`] bytes whatever names a peer uses: texts are truncated, a
//! long path is logged as its start, its length and its hash, and a long batch takes several lines.
//! No call that changed something is left out.

use super::clip::{self, ascii, put_path, text};
use super::time::rfc3339;
use crate::log::{CallLine, FirstFailure, LogEvent};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::SystemTime;
use xdfs_proto::base::Safety;
use xdfs_secure::policy::Method;

/// Longest line with its line break: what a pipe takes atomically (PIPE_BUF), so that lines of
/// several writers never mix.
pub const LINE_BYTES_MAX: usize = 4096;

/// Failed calls of one batch that are logged one by one. They changed nothing, and cost the client
/// nothing; the others are counted.
const FAILED_TOLD_MAX: usize = 8;

/// Longest reason that is logged for one of them: a failing call is short, and its line must not be
/// much longer.
const REASON_BYTES_MAX: usize = 64;

/// The lines of an event, without line breaks; none for replies to requests, which are not events.
pub fn lines(event: &LogEvent, at: SystemTime) -> Vec<String> {
    let Some((name, fields)) = describe(event) else { return Vec::new() };
    let mut all = Map::new();
    all.insert("time".into(), rfc3339(at).into());
    all.insert("event".into(), name.into());
    all.extend(fields);
    match event {
        LogEvent::Calls { calls, .. } => batch(all, calls),
        _ => vec![ascii(&Value::Object(all).to_string())],
    }
}

/// The line that reports how many lines are missing before it.
pub(super) fn lost(lines: u64, at: SystemTime) -> String {
    format!("{}\n", json!({"time": rfc3339(at), "event": "audit_lost", "lines": lines}))
}

/// The lines of a batch: as many calls in each as fit, and in each the fields common to all.
fn batch(mut head: Map<String, Value>, calls: &[CallLine]) -> Vec<String> {
    let (mut told, mut failed, mut more) = (Vec::with_capacity(calls.len()), 0, BTreeMap::<&str, u64>::new());
    for one in calls {
        if let Some(error) = &one.error {
            failed += 1;
            if failed > FAILED_TOLD_MAX {
                *more.entry(error.kind.text()).or_default() += 1;
                continue;
            }
        }
        told.push(ascii(&Value::Object(call(one)).to_string()));
    }
    if !more.is_empty() {
        head.insert("failed_more".into(), json!(more));
    }
    // Room for `,"calls":[],"part":NNN,"parts":NNN}` and the line break.
    const FRAME: usize = 48;
    let mut head = ascii(&Value::Object(head).to_string());
    head.pop();
    let room = LINE_BYTES_MAX.saturating_sub(head.len() + FRAME);
    let mut parts: Vec<String> = vec![String::new()];
    for one in told {
        match parts.last_mut() {
            Some(part) if part.is_empty() => *part = one,
            Some(part) if part.len() + 1 + one.len() <= room => {
                part.push(',');
                part.push_str(&one);
            }
            _ => parts.push(one),
        }
    }
    let count = parts.len();
    let numbered = |(number, part): (usize, String)| match count {
        1 => format!("{head},\"calls\":[{part}]}}"),
        _ => format!("{head},\"calls\":[{part}],\"part\":{number},\"parts\":{count}}}"),
    };
    (1..).zip(parts).map(numbered).collect()
}

fn outcome<E>(error: &Option<E>) -> &'static str {
    if error.is_none() { "ok" } else { "failed" }
}

/// The outcome of something of which parts may have failed, and whether `all` of them did.
fn outcome_of_parts<E>(error: &Option<E>, failed: u64, all: bool) -> &'static str {
    match error {
        None if failed == 0 => "ok",
        None if !all => "some failed",
        _ => "failed",
    }
}

/// What failed first in a session, or null.
fn first(failure: &FirstFailure) -> Value {
    let mut all = Map::new();
    all.insert("call".into(), failure.call.into());
    put_path(&mut all, "path", &failure.path);
    all.insert("error".into(), text(&failure.error).into());
    Value::Object(all)
}

/// An error, or null.
fn why(error: &Option<String>) -> Value {
    error.as_deref().map_or(Value::Null, |error| text(error).into())
}

/// One call of a batch; a call without an error succeeded.
fn call(call: &CallLine) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("call".into(), call.call.into());
    put_path(&mut fields, "path", &call.path);
    if let Some(to) = &call.to {
        put_path(&mut fields, "to", to);
    }
    fields.extend(call.bytes.map(|bytes| ("bytes".into(), json!(bytes))));
    fields.extend(call.unchanged.then(|| ("unchanged".into(), true.into())));
    fields.extend(
        call.error.as_ref().map(|error| ("error".into(), clip::cut(&error.to_string(), REASON_BYTES_MAX).into())),
    );
    fields
}

/// The fields of a JSON object.
fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Name and fields of an event of a session's operations.
fn operation(event: &LogEvent) -> Option<(&'static str, Map<String, Value>)> {
    match event {
        LogEvent::Transfer { session, user, operation, upload, name, bytes, level, safety, unchanged, error } => {
            let mut all = fields(json!({
                "session": session.to_string(),
                "user": text(user),
                "operation": operation,
                "direction": if *upload { "upload" } else { "download" },
                "bytes": bytes,
                "protection": level,
                "durability": safety.map(Safety::name),
                "unchanged": unchanged,
                "outcome": outcome(error),
                "error": why(error),
            }));
            put_path(&mut all, "path", name);
            Some(("transfer", all))
        }
        LogEvent::Calls { session, user, operation, base, calls, safety, error } => {
            let failed = calls.iter().filter(|call| call.error.is_some()).count();
            let mut all = fields(json!({
                "session": session.to_string(),
                "user": text(user),
                "operation": operation,
                "durability": safety.map(Safety::name),
                "outcome": outcome_of_parts(error, failed as u64, failed == calls.len()),
                "error": why(error),
            }));
            all.extend((failed > 0).then(|| ("failed".into(), json!(failed))));
            put_path(&mut all, "base", base);
            Some(("calls", all))
        }
        _ => None,
    }
}

/// The same for a login, whatever its outcome.
fn login(event: &LogEvent) -> Option<(&'static str, Map<String, Value>)> {
    let (name, value) = match event {
        LogEvent::SessionOpened { session, peer, user, method, key, channels, asked, pipelines } => (
            "session_opened",
            json!({
                "session": session.to_string(),
                "peer": text(peer),
                "user": text(user),
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
                "peer": text(peer),
                "user": text(user),
                "method": method.map(Method::name),
                "key": key.map(|key| key.to_string()),
                "error": text(error),
            }),
        ),
        _ => return None,
    };
    Some((name, fields(value)))
}

/// Name and fields of an event; none for replies to requests.
fn describe(event: &LogEvent) -> Option<(&'static str, Map<String, Value>)> {
    let (name, value) = match event {
        LogEvent::Transfer { .. } | LogEvent::Calls { .. } => return operation(event),
        LogEvent::SessionOpened { .. } | LogEvent::LoginFailed { .. } => return login(event),
        LogEvent::SessionEnded { session, user, moved, first_failure, error, .. } => (
            "session_ended",
            json!({
                "session": session.to_string(),
                "user": text(user),
                "outcome": outcome_of_parts(error, moved.failed(), false),
                "failed": moved.failed(),
                "first_failure": first_failure.as_ref().map(first),
                "error": why(error),
            }),
        ),
        LogEvent::GuestRefused { peer, error, .. } => ("refused", json!({"peer": text(peer), "error": text(error)})),
        LogEvent::ChannelLost { session, channel, error, .. } => {
            ("channel_lost", json!({"session": session.to_string(), "channel": channel, "error": text(error)}))
        }
        LogEvent::Limits { drops, untold } => {
            let counts: Map<String, Value> = drops.iter().map(|(name, count)| ((*name).into(), json!(count))).collect();
            ("limits", json!({"dropped": counts, "refusals_not_told": untold}))
        }
        // Messages about the administrator's own files may be long, and do not come from a peer.
        LogEvent::Reloaded { error } => {
            let cut = error.as_deref().map(|error| clip::cut(error, LINE_BYTES_MAX / 2));
            ("reloaded", json!({"outcome": outcome(error), "error": cut}))
        }
        LogEvent::Started { address } => ("started", json!({"address": address})),
        LogEvent::Retired { sessions } => ("handed_over", json!({"sessions": sessions})),
        LogEvent::Recovered { parts, bytes, others, expired } => {
            ("recovered", json!({"parts": parts, "bytes": bytes, "others": others, "expired": expired}))
        }
        LogEvent::Notice { export, text } => ("notice", json!({"export": export, "text": text})),
        LogEvent::Certificate { until, out } => {
            ("certificate", json!({"until": until, "state": if *out { "run out" } else { "runs out soon" }}))
        }
        LogEvent::Draining { sessions } => ("draining", json!({"sessions": sessions})),
        LogEvent::Status { .. } => return None,
    };
    Some((name, fields(value)))
}
