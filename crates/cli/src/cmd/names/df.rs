//! `xdfs df`.

use super::{Done, amount, trouble, wire_name};
use crate::output::{JsonLines, print};
use crate::plan::NamesPlan;
use crate::url::Url;
use serde::Serialize;
use xdfs_client::Session;

#[derive(Serialize)]
#[serde(tag = "event", rename = "df")]
struct DfLine {
    url: String,
    bytes: u64,
    used: u64,
    available: u64,
    files: u64,
    files_free: u64,
}

fn row([bytes, used, available, share]: [&str; 4], url: &str) -> String {
    format!("{bytes:>16} {used:>16} {available:>16} {share:>5}  {url}\n")
}

pub(super) fn run(plan: &NamesPlan, session: &Session, url: &Url, (human, first): (bool, bool)) -> Done {
    let room = session.space(wire_name(url)).map_err(|error| trouble(url, &error))?;
    let used = room.bytes.saturating_sub(room.free);
    if plan.json {
        let (bytes, available, files, files_free) = (room.bytes, room.available, room.files, room.files_free);
        JsonLines.write(&DfLine { url: url.to_string(), bytes, used, available, files, files_free })?;
        return Ok(());
    }
    let share = (100 * u128::from(used)).checked_div(u128::from(used) + u128::from(room.available)).unwrap_or(0);
    let [bytes, used, available] = [room.bytes, used, room.available].map(|bytes| amount(bytes, human));
    if first {
        print(&row(["Size", "Used", "Avail", "Use%"], "URL"))?;
    }
    print(&row([&bytes, &used, &available, &format!("{share}%")], &url.to_string()))?;
    Ok(())
}
