//! Programs for the session target, in its own bytes: an upload and a download from both ends, and what may go wrong.
//! `target/session/step.rs` says what the bytes mean.

use crate::seeds::Seed;

// The first byte of a program: 1 client; 2 two pipelines; 8, 16 more channels; from 32 on, steps that run once.
const UPLOAD_ASKED: &[u8] = &[9, 0, 1, 5, 0, 0, 1, 4, 0, 1, 0];
const STAGED: &[u8] = &[17, 0, 0, 0];
const WRITTEN: &[u8] = &[20, 0];
const SENT: &[u8] = &[24, 0];

fn block(channel: u8, event: u8, offset: u8) -> Vec<u8> {
    vec![11, channel, 0, event, offset, 0]
}

fn message(channel: u8, control: &[u8]) -> Vec<u8> {
    [&[0, channel, 0, 0], control].concat()
}

/// The server of an upload of four blocks.
fn upload(shape: u8) -> Vec<u8> {
    let mut program = vec![shape];
    program.extend([UPLOAD_ASKED, STAGED, SENT].concat());
    for offset in 0..4 {
        program.extend(block(offset, 2, offset));
        program.extend(WRITTEN);
    }
    program.extend(message(0, &[9, 4]));
    program.extend([SENT, STAGED, SENT].concat());
    program.extend([message(0, &[11, 4]), SENT.to_vec()].concat());
    program
}

/// The server of a download.
fn download() -> Vec<u8> {
    let mut program = vec![8];
    program.extend([10, 0, 0, 5, 0, 0, 0, 0, 1, 0]);
    program.extend([17, 0, 4, 0]);
    program.extend([SENT, &message(0, &[4, 9]), SENT, SENT].concat());
    program.extend(message(1, &[1, 4, 9, 0]));
    program.extend([STAGED, SENT, &message(0, &[10, 4]), SENT].concat());
    program
}

fn client_upload() -> Vec<u8> {
    let mut program = vec![1 | 8];
    program.extend([15, 0, 1, 5, 0, 0, 1, 4, 0, 1, 0]);
    program.extend([SENT, &message(0, &[3, 1, 4, 0, 31, 1, 9]), SENT, SENT].concat());
    program.extend(message(1, &[1, 4, 9, 0]));
    program.extend([STAGED, SENT, &message(0, &[10, 4]), SENT].concat());
    program
}

fn client_download() -> Vec<u8> {
    let mut program = vec![1 | 8];
    program.extend([15, 0, 0, 5, 0, 0, 1, 2, 0, 1, 0]);
    program.extend([SENT, &message(0, &[3, 1, 2, 0, 0, 1, 9]), STAGED, SENT].concat());
    for offset in 0..2 {
        program.extend(block(offset, 3, offset));
        program.extend(WRITTEN);
    }
    program.extend([message(0, &[9, 2]), STAGED.to_vec(), SENT.to_vec(), message(1, &[11, 1])].concat());
    program
}

/// A channel more, one lost, a stall, a cancel, the other pipeline, fences, a record that cannot be.
fn troubles() -> Vec<u8> {
    let mut program = vec![2 | 16];
    program.extend(UPLOAD_ASKED);
    program.extend([25, 0, 26, 1, 28, 200, 200, 12, 0, 29, 0, 1, 31, 0, 0, 3, 31, 1, 0, 0, 31, 4, 0, 0]);
    program.extend([message(0, &[7, 2, 0]), message(0, &[8]), message(0, &[0]), message(0, &[12])].concat());
    program.extend(SENT);
    program.extend([30, 2, 9, 27, 0, 22, 0, 4, 1, 8, 0, 3, 1, 200, 1, 0, 0, 0, 1, 2, 3]);
    program
}

/// Three steps for once: a huge download, its source, credit without end. Then rounds that only send.
fn never_acknowledged() -> Vec<u8> {
    let mut program = vec![8 | 3 << 5];
    program.extend([10, 0, 0, 5, 0, 0, 0, 0, 1, 0]);
    program.extend([17, 0, 0xef, 0]);
    program.extend(message(0, &[4, 0xff]));
    (0..10).for_each(|_| program.extend(SENT));
    program
}

/// Downloads that the client gives up at once, while it takes nothing that is sent to it.
fn never_read() -> Vec<u8> {
    let mut program = vec![8];
    for _ in 0..3 {
        program.extend([10, 0, 0, 5, 0, 0, 0, 0, 1, 0]);
        program.extend(message(0, &[0]));
    }
    program
}

/// Every program with its name.
pub(crate) fn all() -> Vec<Seed> {
    let ended = [message(0, &[13, 0, 0]), message(1, &[13, 0, 0]), SENT.to_vec(), vec![30, 0], SENT.to_vec()].concat();
    [
        ("upload", upload(8)),
        ("upload-one-channel", upload(0)),
        ("upload-two-pipelines", upload(2 | 16)),
        ("download", download()),
        ("client-upload", client_upload()),
        ("client-download", client_download()),
        ("troubles", troubles()),
        ("never-acknowledged", never_acknowledged()),
        ("never-read", never_read()),
        ("ends", [upload(8), ended].concat()),
    ]
    .into_iter()
    .map(|(name, program)| ("session", name.to_owned(), program))
    .collect()
}
