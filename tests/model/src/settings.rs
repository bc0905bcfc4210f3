//! The settings that are searched: those of every run of the tests, and the long ones by command.

use crate::setting::{Plan, Setting};

const UPLOAD_1: &[Plan] = &[Plan::upload(1)];
const UPLOAD_2: &[Plan] = &[Plan::upload(2)];
const UPLOAD_3: &[Plan] = &[Plan::upload(3)];
const DOWNLOAD_1: &[Plan] = &[Plan::download(1)];
const DOWNLOAD_2: &[Plan] = &[Plan::download(2)];
const DOWNLOAD_3: &[Plan] = &[Plan::download(3)];
const UNKNOWN_2: &[Plan] = &[Plan { known: false, ..Plan::upload(2) }];
const BOTH: &[Plan] = &[Plan::upload(1), Plan::download(1)];
const CALLS: &[Plan] = &[Plan::calls()];
const CALLS_BESIDE: &[Plan] = &[Plan::calls(), Plan::calls(), Plan::upload(1)];
const EMPTY: &[Plan] = &[Plan::upload(0), Plan::download(0)];

/// One block over two channels: every fault there is, up to the orderly or disorderly end.
const EVERY_UPLOAD: Setting = Setting {
    breaks: 4,
    cancels: 1,
    storage_faults: 1,
    close: true,
    ..Setting::plain("upload, every fault", UPLOAD_1)
};
const EVERY_DOWNLOAD: Setting = Setting {
    breaks: 4,
    cancels: 1,
    storage_faults: 1,
    close: true,
    ..Setting::plain("download, every fault", DOWNLOAD_1)
};
/// Two blocks: both channels break, one after the other or at once, around a cancel.
const BREAKS_UPLOAD: Setting =
    Setting { breaks: 4, cut_all: true, cancels: 1, ..Setting::plain("upload, breaks", UPLOAD_2) };
const BREAKS_DOWNLOAD: Setting =
    Setting { breaks: 4, cut_all: true, cancels: 1, ..Setting::plain("download, breaks", DOWNLOAD_2) };
/// Both ends cancel while writes are under way and storage fails.
const CANCELS_UPLOAD: Setting =
    Setting { cancels: 2, storage_faults: 1, slow_writes: true, ..Setting::plain("upload, cancels", UPLOAD_2) };
const CANCELS_DOWNLOAD: Setting =
    Setting { cancels: 2, storage_faults: 1, slow_writes: true, ..Setting::plain("download, cancels", DOWNLOAD_2) };
/// The transport takes its time.
const SLOW_UPLOAD: Setting = Setting { breaks: 1, slow_transport: true, ..Setting::plain("upload, slow", UPLOAD_2) };
const SLOW_DOWNLOAD: Setting =
    Setting { breaks: 1, slow_transport: true, ..Setting::plain("download, slow", DOWNLOAD_2) };
/// Channels break in the middle of blocks.
const HALVES_UPLOAD: Setting =
    Setting { breaks: 1, slow_writes: true, halves: true, ..Setting::plain("upload, halves", UPLOAD_3) };
const HALVES_DOWNLOAD: Setting =
    Setting { breaks: 1, slow_writes: true, halves: true, ..Setting::plain("download, halves", DOWNLOAD_3) };
/// Blocks are repeated on another channel, and both copies arrive, or one.
const REPEATS_UPLOAD: Setting =
    Setting { repeats: 1, breaks: 1, slow_writes: true, ..Setting::plain("upload, repeats", UPLOAD_2) };
const REPEATS_DOWNLOAD: Setting =
    Setting { repeats: 1, breaks: 1, slow_writes: true, ..Setting::plain("download, repeats", DOWNLOAD_2) };
/// The length is known when the source ends.
const UNKNOWN: Setting = Setting { breaks: 1, cancels: 1, ..Setting::plain("upload, unknown length", UNKNOWN_2) };
/// Two operations, both directions at once.
const TWO: Setting = Setting { breaks: 1, ..Setting::plain("both directions", BOTH) };
/// A server that goes down while requests are under way; nothing but ends.
const DRAIN: Setting = Setting { breaks: 1, drain: true, close: true, ..Setting::plain("empty, drained", EMPTY) };
/// Calls: every fault there is, and several batches beside a transfer.
const EVERY_CALL: Setting = Setting {
    breaks: 4,
    cut_all: true,
    cancels: 2,
    storage_faults: 1,
    close: true,
    ..Setting::plain("calls, every fault", CALLS)
};
const CALLS_AND_UPLOAD: Setting = Setting { breaks: 1, ..Setting::plain("calls beside an upload", CALLS_BESIDE) };
/// Three channels.
const THREE_UPLOAD: Setting = Setting { breaks: 1, channels: 3, ..Setting::plain("upload, 3 channels", UPLOAD_3) };
const THREE_DOWNLOAD: Setting =
    Setting { breaks: 1, channels: 3, ..Setting::plain("download, 3 channels", DOWNLOAD_3) };
/// Keys change all the time: channels break around REKEY, and fences count across it.
const EPOCHS_UPLOAD: Setting =
    Setting { breaks: 1, epoch: 2, halves: true, close: true, ..Setting::plain("upload, short epochs", UPLOAD_2) };
const EPOCHS_DOWNLOAD: Setting =
    Setting { breaks: 1, epoch: 3, repeats: 1, ..Setting::plain("download, short epochs", DOWNLOAD_2) };
/// Blocks become others on their way, and come again, while channels break and both ends may give up.
const ALTERED_UPLOAD: Setting =
    Setting { hash: true, flips: 1, breaks: 1, cancels: 1, ..Setting::plain("upload, altered", UPLOAD_2) };
const ALTERED_DOWNLOAD: Setting =
    Setting { hash: true, flips: 1, breaks: 1, close: true, ..Setting::plain("download, altered", DOWNLOAD_2) };
const ALTERED_TWICE: Setting =
    Setting { hash: true, flips: 2, repeats: 1, ..Setting::plain("upload, altered twice", UPLOAD_2) };
const ALTERED_PIPES: Setting =
    Setting { pipelines: 2, hash: true, flips: 1, ..Setting::plain("upload, altered, 2 pipelines", UPLOAD_2) };
/// Two pipelines with one channel each: losing one is losing a pipeline.
const PIPES_UPLOAD: Setting =
    Setting { pipelines: 2, breaks: 1, cancels: 1, ..Setting::plain("upload, 2 pipelines x 1", UPLOAD_2) };
const PIPES_DOWNLOAD: Setting =
    Setting { pipelines: 2, breaks: 1, cancels: 1, ..Setting::plain("download, 2 pipelines x 1", DOWNLOAD_2) };
/// The larger setting: two pipelines with two channels each, three blocks.
const LARGER_UPLOAD: Setting =
    Setting { pipelines: 2, channels: 4, breaks: 1, ..Setting::plain("upload, 2 pipelines x 2", UPLOAD_3) };
const LARGER_DOWNLOAD: Setting =
    Setting { pipelines: 2, channels: 4, breaks: 1, ..Setting::plain("download, 2 pipelines x 2", DOWNLOAD_3) };

/// Searched in every run of the tests.
pub const USUAL: &[Setting] = &[
    EVERY_UPLOAD,
    EVERY_DOWNLOAD,
    BREAKS_UPLOAD,
    BREAKS_DOWNLOAD,
    CANCELS_UPLOAD,
    CANCELS_DOWNLOAD,
    SLOW_UPLOAD,
    SLOW_DOWNLOAD,
    HALVES_UPLOAD,
    HALVES_DOWNLOAD,
    REPEATS_UPLOAD,
    REPEATS_DOWNLOAD,
    UNKNOWN,
    TWO,
    DRAIN,
    EVERY_CALL,
    CALLS_AND_UPLOAD,
    THREE_UPLOAD,
    THREE_DOWNLOAD,
    EPOCHS_UPLOAD,
    EPOCHS_DOWNLOAD,
    ALTERED_UPLOAD,
    ALTERED_DOWNLOAD,
    ALTERED_TWICE,
    ALTERED_PIPES,
    PIPES_UPLOAD,
    PIPES_DOWNLOAD,
    LARGER_UPLOAD,
    LARGER_DOWNLOAD,
];

/// Searched by command: minutes to an hour.
pub const LARGE: &[Setting] = &[
    Setting { breaks: 2, ..EPOCHS_UPLOAD },
    Setting { breaks: 2, close: true, plans: DOWNLOAD_3, ..EPOCHS_DOWNLOAD },
    Setting { breaks: 2, flips: 2, storage_faults: 1, ..ALTERED_UPLOAD },
    Setting { breaks: 1, ..ALTERED_PIPES },
    Setting { breaks: 2, slow_writes: true, ..TWO },
    Setting { cancels: 1, storage_faults: 1, ..TWO },
    Setting { storage_faults: 1, ..LARGER_UPLOAD },
    Setting { storage_faults: 1, ..LARGER_DOWNLOAD },
    Setting { cancels: 1, ..LARGER_UPLOAD },
    Setting { cancels: 1, ..LARGER_DOWNLOAD },
    Setting { breaks: 2, storage_faults: 1, cancels: 1, slow_writes: true, ..LARGER_UPLOAD },
    Setting { breaks: 2, storage_faults: 1, cancels: 1, slow_writes: true, ..LARGER_DOWNLOAD },
    Setting { breaks: 4, storage_faults: 1, ..LARGER_UPLOAD },
    Setting { breaks: 4, storage_faults: 1, ..LARGER_DOWNLOAD },
];

/// Whether the large settings were asked for, by `XDFS_MODEL=large`.
pub fn is_large() -> bool {
    chosen().as_deref() == Some("large")
}

/// The usual setting that was asked for by its name in `XDFS_MODEL`.
pub fn only() -> Option<String> {
    chosen().filter(|name| !["usual", "large"].contains(&name.as_str()))
}

fn chosen() -> Option<String> {
    std::env::var("XDFS_MODEL").ok()
}
