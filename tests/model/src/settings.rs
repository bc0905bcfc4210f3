//! The settings that are searched: the small ones in every run of the tests, the large ones by command.

use crate::setting::{Plan, Setting};

const UPLOAD_1: &[Plan] = &[Plan::upload(1)];
const UPLOAD_2: &[Plan] = &[Plan::upload(2)];
const UPLOAD_3: &[Plan] = &[Plan::upload(3)];
const DOWNLOAD_1: &[Plan] = &[Plan::download(1)];
const DOWNLOAD_2: &[Plan] = &[Plan::download(2)];
const DOWNLOAD_3: &[Plan] = &[Plan::download(3)];
const UNKNOWN_2: &[Plan] = &[Plan { known: false, ..Plan::upload(2) }];
const BOTH: &[Plan] = &[Plan::upload(1), Plan::download(1)];
const EMPTY: &[Plan] = &[Plan::upload(0), Plan::download(0)];

/// Searched by the tests.
pub const SMALL: &[Setting] = &[
    Setting { breaks: 4, cancels: 1, storage_faults: 1, close: true, ..Setting::plain("u1, all", UPLOAD_1) },
    Setting { breaks: 4, cancels: 1, storage_faults: 1, close: true, ..Setting::plain("d1, all", DOWNLOAD_1) },
    Setting { breaks: 4, cut_all: true, cancels: 1, ..Setting::plain("u2, breaks", UPLOAD_2) },
    Setting { breaks: 4, cut_all: true, cancels: 1, ..Setting::plain("d2, breaks", DOWNLOAD_2) },
    Setting { cancels: 2, storage_faults: 1, slow_writes: true, ..Setting::plain("u2, cancel", UPLOAD_2) },
    Setting { cancels: 2, storage_faults: 1, slow_writes: true, ..Setting::plain("d2, cancel", DOWNLOAD_2) },
    Setting { breaks: 1, slow_transport: true, ..Setting::plain("u2, slow", UPLOAD_2) },
    Setting { breaks: 1, slow_transport: true, ..Setting::plain("d2, slow", DOWNLOAD_2) },
    Setting { breaks: 1, slow_writes: true, halves: true, ..Setting::plain("u3, halves", UPLOAD_3) },
    Setting { breaks: 1, slow_writes: true, halves: true, ..Setting::plain("d3, halves", DOWNLOAD_3) },
    Setting { repeats: 1, breaks: 1, slow_writes: true, ..Setting::plain("u2, repeats", UPLOAD_2) },
    Setting { repeats: 1, breaks: 1, slow_writes: true, ..Setting::plain("d2, repeats", DOWNLOAD_2) },
    Setting { breaks: 1, cancels: 1, ..Setting::plain("unknown", UNKNOWN_2) },
    Setting { breaks: 1, ..Setting::plain("both, break", BOTH) },
    Setting { cancels: 1, ..Setting::plain("both, cancel", BOTH) },
    Setting { drain: true, close: true, ..Setting::plain("empty, drain", EMPTY) },
    Setting { breaks: 1, channels: 3, ..Setting::plain("u three", UPLOAD_3) },
    Setting { breaks: 1, channels: 3, ..Setting::plain("d three", DOWNLOAD_3) },
    Setting { pipelines: 2, breaks: 1, channels: 2, cancels: 1, ..Setting::plain("u pipelines 2x1", UPLOAD_2) },
    Setting { pipelines: 2, breaks: 1, channels: 2, cancels: 1, ..Setting::plain("d pipelines 2x1", DOWNLOAD_2) },
    Setting { pipelines: 2, breaks: 1, channels: 4, storage_faults: 1, ..Setting::plain("u pipelines 2x2", UPLOAD_3) },
    Setting {
        pipelines: 2,
        breaks: 1,
        channels: 4,
        storage_faults: 1,
        ..Setting::plain("d pipelines 2x2", DOWNLOAD_3)
    },
    Setting { pipelines: 2, breaks: 2, channels: 4, cancels: 1, ..Setting::plain("u pipelines x 2x2", UPLOAD_3) },
    Setting { pipelines: 2, breaks: 2, channels: 4, cancels: 1, ..Setting::plain("d pipelines x 2x2", DOWNLOAD_3) },
];
