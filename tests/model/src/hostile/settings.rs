//! The settings: small ones for every run of the tests.

use super::setting::Setting;
use crate::setting::Plan;
use xdfs_proto::base::Level;

const UPLOAD: Plan = Plan::upload(1);
const DOWNLOAD: Plan = Plan::download(1);

/// Every JOIN that Eve can say, two of them, around Ann's own, in and after their time.
const JOINS: Setting = Setting { forgeries: 2, expires: true, ..Setting::plain("joins", Plan::upload(0)) };
/// One grant with two numbers besides the first: a proof of one is said with the other.
const MOVED: Setting =
    Setting { channels: 3, numbers: 3, forgeries: 1, ..Setting::plain("joins, 3 channels", Plan::upload(0)) };
/// Ann logs in; what either logged in with is taken away at any moment.
const REVOKED: Setting =
    Setting { logins: true, revocations: 1, forgeries: 1, ..Setting::plain("revoked, logins", Plan::upload(0)) };
/// It is taken away while blocks move over both channels.
const REVOKED_UPLOAD: Setting = Setting { revocations: 1, breaks: 1, ..Setting::plain("revoked, upload", UPLOAD) };
const REVOKED_DOWNLOAD: Setting =
    Setting { revocations: 1, breaks: 1, ..Setting::plain("revoked, download", DOWNLOAD) };
/// Records come again, come back, come elsewhere, are changed or cut out.
const RECORDS_UPLOAD: Setting = Setting { meddlings: 2, epoch: 3, ..Setting::plain("records, upload", UPLOAD) };
const RECORDS_DOWNLOAD: Setting = Setting { meddlings: 2, epoch: 3, ..Setting::plain("records, download", DOWNLOAD) };
/// Eve has an account and says what she likes in her session.
const INSIDER: Setting = Setting {
    channels: 1,
    numbers: 1,
    words: 5,
    floors: [Level::Clear, Level::Integrity, Level::Clear],
    ..Setting::plain("insider", Plan::upload(0))
};
/// Ann's lost channel is replaced, while Eve has copies of every JOIN.
const REPLACED: Setting =
    Setting { numbers: 3, breaks: 1, forgeries: 1, replaces: true, ..Setting::plain("replaced", Plan::upload(0)) };
/// Ann's session ends in order, and JOINs come around its end.
const CLOSED: Setting = Setting { forgeries: 1, close: true, ..Setting::plain("closed", Plan::upload(0)) };

/// Searched in every run of the tests, beside [`levels`].
pub const USUAL: &[Setting] = &[
    JOINS,
    MOVED,
    REVOKED,
    REVOKED_UPLOAD,
    REVOKED_DOWNLOAD,
    RECORDS_UPLOAD,
    RECORDS_DOWNLOAD,
    INSIDER,
    REPLACED,
    CLOSED,
];

/// Every cell of the floors, both ways.
pub fn levels() -> impl Iterator<Item = Setting> {
    let levels = [Level::Clear, Level::Integrity, Level::Private];
    let cells = levels.into_iter().flat_map(move |client| {
        levels.into_iter().flat_map(move |server| levels.map(|export| [client, server, export]))
    });
    cells.flat_map(|floors| {
        [UPLOAD, DOWNLOAD].map(|plan| Setting { channels: 1, numbers: 1, floors, ..Setting::plain("floors", plan) })
    })
}
