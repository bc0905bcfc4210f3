//! What the log says of calls on open files: kind by kind, when they are made twice, and when they are refused twice.

use super::rights::{Right, Scene};
use xdfs_proto::wire::file::FileCode;
use xdfs_server::LogEvent;

/// How often the log has this kind of call on this file: done, and failed.
fn logged(scene: &Scene, file: &str, code: FileCode) -> (usize, usize) {
    let base = match code {
        FileCode::ReadPipe | FileCode::WritePipe => "e/p".to_owned(),
        _ => format!("e/{file}"),
    };
    let (mut done, mut failed) = (0, 0);
    for event in scene.serving.events() {
        let LogEvent::Calls { base: named, calls, .. } = event else { continue };
        if named.as_bytes() == base.as_bytes() {
            for call in calls.iter().filter(|call| call.call == code.name()) {
                *(if call.error.is_none() { &mut done } else { &mut failed }) += 1;
            }
        }
    }
    (done, failed)
}

/// Whether the log names every call of the kind that failed, and one on each handle that did not.
fn changes(code: FileCode) -> bool {
    match code {
        FileCode::Write
        | FileCode::Append
        | FileCode::SetLength
        | FileCode::Allocate
        | FileCode::Punch
        | FileCode::WritePipe => true,
        FileCode::Open
        | FileCode::Close
        | FileCode::Read
        | FileCode::Sync
        | FileCode::Seek
        | FileCode::Attributes
        | FileCode::Lock
        | FileCode::Unlock
        | FileCode::Lease
        | FileCode::LockRange
        | FileCode::UnlockRange
        | FileCode::FindLock
        | FileCode::ReadPipe => false,
    }
}

#[test]
fn the_log_has_a_change_once_for_each_handle_and_nothing_of_what_changes_nothing() {
    let scene = Scene::new();
    for code in FileCode::ALL.iter().copied().filter(|code| *code != FileCode::Open) {
        for handle in 1..=2 {
            let mut opened = scene.open(code.name());
            // What is opened writes to the pipe.
            if code != FileCode::WritePipe {
                scene.serving.forget();
            }
            // From the pipe the second call would wait for bytes that nobody sends.
            for _ in 0..if code == FileCode::ReadPipe { 1 } else { 2 } {
                opened.call(code).unwrap();
            }
            let expected = (usize::from(changes(code) || code == FileCode::Close), 0);
            assert_eq!(logged(&scene, code.name(), code), expected, "{} of handle {handle}", code.name());
            scene.serving.forget();
        }
    }
}

#[test]
fn the_log_has_every_change_that_is_refused_and_other_refused_calls_once_for_each_handle() {
    let scene = Scene::new();
    for code in FileCode::ALL.iter().copied().filter(|code| *code != FileCode::Close) {
        let mut opened = scene.open(code.name());
        scene.serving.forget();
        scene.grant(Right::Nothing);
        for _ in 0..2 {
            opened.call(code).unwrap_err();
        }
        // A client sends nothing more to a pipe that failed.
        let each = code == FileCode::Open || changes(code) && code != FileCode::WritePipe;
        assert_eq!(logged(&scene, code.name(), code), (0, if each { 2 } else { 1 }), "{}", code.name());
    }
}
