//! A tree whose session is lost on the way, and a source that changes while it is copied.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};
use xdfs_client::tree::{Download, Ended, Preserve, Summary, TreeOptions, Upload};
use xdfs_client::{ConnectOptions, Session};
use xdfs_io::store::LocalStore;

use super::heard::{Heard, Meddler};
use super::support::middle::{Act, Middle, Way};
use super::support::relay::Cut;
use super::support::serving::Serving;
use super::support::{Scratch, pattern};

fn upload(source: &Scratch, options: TreeOptions) -> Upload {
    let store = LocalStore::open_root(&source.file("tree"), false).unwrap();
    Upload::new(store, "data/copy", false, options).unwrap()
}

/// The target had a file of the same size and time, and was to get another content.
#[test]
fn what_was_under_way_when_a_session_was_lost_is_not_taken_for_what_was_there_before() {
    for (length, checksum) in [(50_000, true), (1 << 20, true), (50_000, false), (1 << 20, false)] {
        let (serving, source) = (Serving::start(), Scratch::new());
        let middle = Middle::before(&serving.address);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let (new, old) = (pattern(length, 1), pattern(length, 2));
        source.write("tree/f", &new);
        serving.directory.write("copy/f", &old);
        for path in [source.file("tree/f"), serving.directory.file("copy/f")] {
            std::fs::File::open(path).unwrap().set_modified(time).unwrap();
        }
        let mut upload = upload(&source, TreeOptions { checksum, skip_same: false, ..TreeOptions::default() });
        let mut heard = Heard::default();
        middle.act(Act::End { way: Way::Up, at: length / 2, how: Cut::Rst });
        let through = ConnectOptions { address: middle.address.clone(), ..serving.options(1) };
        let ended = upload.run(&Session::connect(&through).unwrap(), &mut heard);
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
        assert!(serving.directory.read("copy/f") == old);
        let ended = upload.run(&serving.connect(1), &mut heard);
        assert!(matches!(ended, Ended::Complete(Summary { files: 1, failed: 0, .. })), "{ended:?}");
        assert!(serving.directory.read("copy/f") == new, "{length} {checksum}");
    }
}

const SMALL: usize = 400;

fn name(number: usize) -> String {
    format!("d{}/f{number}", number % 7)
}

/// A loss may be found out by an answer, or by whoever wants to send more: no name is forgotten over it.
#[test]
fn no_name_is_forgotten_when_a_session_is_lost_at_any_byte() {
    let serving = Serving::start();
    let source = Scratch::new();
    for number in 0..SMALL {
        let content = pattern(3_000 + number, number as u64);
        source.write(&format!("tree/{}", name(number)), &content);
        serving.directory.write(&format!("source/{}", name(number)), &content);
    }
    for round in 0..24 {
        let at = 60_000 * round + 7_000;
        let middle = Middle::before(&serving.address);
        let through = ConnectOptions { address: middle.address.clone(), ..serving.options(1) };
        let lost = |way| {
            middle.act(Act::End { way, at, how: Cut::Rst });
            Session::connect(&through).unwrap()
        };
        let whole = |ended, told: &Heard| {
            assert!(
                matches!(ended, Ended::Complete(Summary { failed: 0, .. })),
                "{ended:?}, cut at {at}, {:?}",
                told.failed
            );
        };
        let target = Scratch::new();
        std::fs::create_dir(target.file("copy")).unwrap();
        let store = LocalStore::open_root(&target.file("copy"), true).unwrap();
        let mut download = Download::new(store, "data/source", true, TreeOptions::default());
        let mut heard = Heard::default();
        match download.run(&lost(Way::Down), &mut heard) {
            Ended::Lost(_) => whole(download.run(&serving.connect(1), &mut heard), &heard),
            ended => whole(ended, &heard),
        }
        let missing: Vec<_> =
            (0..SMALL).map(name).filter(|name| !target.file(&format!("copy/{name}")).exists()).collect();
        assert!(missing.is_empty(), "down, cut at {at}: {} such as {}", missing.len(), missing[0]);

        let mut upload = upload(&source, TreeOptions::default());
        match upload.run(&lost(Way::Up), &mut heard) {
            Ended::Lost(_) => whole(upload.run(&serving.connect(1), &mut heard), &heard),
            ended => whole(ended, &heard),
        }
        let missing: Vec<_> =
            (0..SMALL).map(name).filter(|name| !serving.directory.file(&format!("copy/{name}")).exists()).collect();
        assert!(missing.is_empty(), "up, cut at {at}: {} such as {}", missing.len(), missing[0]);
        // The session that was lost may still write there.
        serving.wait_for_status("no session is left", |[sessions, ..]| sessions == 0);
        std::fs::remove_dir_all(serving.directory.file("copy")).unwrap();
    }
}

/// With -n nothing is replaced, nor is what somebody else has made while there was no session.
#[test]
fn what_others_make_while_a_session_is_lost_is_kept_if_that_is_asked_for() {
    let (serving, source) = (Serving::start(), Scratch::new());
    for number in 0..SMALL {
        let path = source.file(&format!("tree/{}", name(number)));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(format!("{number:0200}"), path).unwrap();
    }
    let mut lost = 0;
    for round in 0..12 {
        let middle = Middle::before(&serving.address);
        middle.act(Act::End { way: Way::Up, at: 5_000 + 8_000 * round, how: Cut::Rst });
        let through = ConnectOptions { address: middle.address.clone(), ..serving.options(1) };
        let options = TreeOptions { keep_existing: true, ..TreeOptions::default() };
        let (mut upload, mut heard) = (upload(&source, options), Heard::default());
        let Ok(session) = Session::connect(&through) else { continue };
        let ended = upload.run(&session, &mut heard);
        drop(session);
        if let Ended::Lost(_) = ended {
            lost += 1;
            let theirs: Vec<String> = (0..SMALL).map(|number| format!("copy/{}", name(number))).collect();
            let is_missing = |path: &&String| serving.directory.file(path).symlink_metadata().is_err();
            let theirs: Vec<&String> = theirs.iter().filter(is_missing).collect();
            theirs.iter().for_each(|path| drop(serving.directory.write(path, b"theirs")));
            let ended = upload.run(&serving.connect(1), &mut heard);
            assert!(matches!(ended, Ended::Complete(Summary { failed: 0, .. })), "{ended:?} {:?}", heard.failed);
            for path in theirs {
                // What the lost session had on its way may have come before.
                let kept = std::fs::read(serving.directory.file(path)).is_ok_and(|content| content == b"theirs");
                assert!(kept, "{path}, round {round}");
            }
        }
        serving.wait_for_status("no session is left", |[sessions, ..]| sessions == 0);
        std::fs::remove_dir_all(serving.directory.file("copy")).unwrap();
    }
    assert!(lost > 4, "{lost} sessions were lost on the way");
}

/// What is there has the content and not the mode, which is set by a call of its own; and a link's time follows the link.
#[test]
fn no_attribute_is_forgotten_when_a_session_is_lost_at_any_byte() {
    const FILES: usize = 300;
    let (serving, source) = (Serving::start(), Scratch::new());
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let set = |path: &std::path::Path, mode| {
        std::fs::File::open(path).unwrap().set_modified(time).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for number in 0..FILES {
        set(&source.write(&format!("tree/{}", name(number)), b"same"), 0o640);
    }
    let keep = Preserve { modes: true, ..Preserve::default() };
    let options = || TreeOptions { keep, skip_same: true, ..TreeOptions::default() };
    let mut lost = 0;
    for round in 0..24 {
        for number in 0..FILES {
            set(&serving.directory.write(&format!("copy/{}", name(number)), b"same"), 0o600);
        }
        let middle = Middle::before(&serving.address);
        middle.act(Act::End { way: Way::Up, at: 2_000 + 700 * round, how: Cut::Rst });
        let through = ConnectOptions { address: middle.address.clone(), ..serving.options(1) };
        let (mut upload, mut heard) = (upload(&source, options()), Heard::default());
        let Ok(session) = Session::connect(&through) else { continue };
        if let Ended::Lost(_) = upload.run(&session, &mut heard) {
            lost += 1;
            let ended = upload.run(&serving.connect(1), &mut heard);
            assert!(matches!(ended, Ended::Complete(Summary { failed: 0, reduced: 0, .. })), "{ended:?}");
        }
        for number in 0..FILES {
            let mode = serving.directory.file(&format!("copy/{}", name(number))).metadata().unwrap().mode();
            assert_eq!(mode & 0o7777, 0o640, "{}, round {round}", name(number));
        }
    }
    assert!(lost > 4, "{lost} sessions were lost on the way");
}

#[test]
fn a_name_that_the_source_has_by_then_is_not_removed() {
    let (serving, source) = (Serving::start(), Scratch::new());
    source.write("tree/f", b"f");
    for name in ["copy/late", "copy/below/late", "copy/surplus"] {
        serving.directory.write(name, b"old");
    }
    let appears = || {
        source.write("tree/late", b"new");
        source.write("tree/below/late", b"new");
    };
    let mut meddler = Meddler { heard: Heard::default(), act: Some(&appears), each: None };
    let options = TreeOptions { delete: Some(u64::MAX), ..TreeOptions::default() };
    let ended = upload(&source, options).run(&serving.connect(2), &mut meddler);
    assert!(matches!(ended, Ended::Complete(Summary { deleted: 1, failed: 0, .. })), "{ended:?}");
    assert_eq!(serving.directory.read("copy/late"), b"new");
    assert_eq!(serving.directory.read("copy/below/late"), b"new");
    assert!(!serving.directory.file("copy/surplus").exists());
}

/// Whether nothing was removed since a directory of the target could not be read: it is replaced once the
/// first answer has come, which may be after it was read.
fn keeps_what_it_cannot_read() -> bool {
    let (serving, source) = (Serving::start(), Scratch::new());
    std::fs::create_dir_all(source.file("tree/sub")).unwrap();
    serving.directory.write("copy/sub/f", b"old");
    serving.directory.write("copy/surplus", b"old");
    let vanishes = || {
        std::fs::rename(serving.directory.file("copy/sub"), serving.directory.file("away")).unwrap();
        std::os::unix::fs::symlink("/", serving.directory.file("copy/sub")).unwrap();
    };
    let mut meddler = Meddler { heard: Heard::default(), act: Some(&vanishes), each: None };
    let options = TreeOptions { delete: Some(u64::MAX), ..TreeOptions::default() };
    let ended = upload(&source, options).run(&serving.connect(2), &mut meddler);
    let Ended::Complete(Summary { deleted: 0, surplus_kept: 1, .. }) = ended else { return false };
    assert!(serving.directory.file("copy/surplus").exists());
    assert!(meddler.heard.notes.iter().any(|note| note.contains("were not removed")), "{:?}", meddler.heard.notes);
    true
}

#[test]
fn names_that_are_not_removed_since_the_target_could_not_be_read_are_a_failure() {
    assert!((0..5).any(|_| keeps_what_it_cannot_read()));
}

#[test]
fn a_name_that_the_source_gets_while_a_tree_is_received_is_not_removed() {
    let (serving, target) = (Serving::start(), Scratch::new());
    for number in 0..SMALL {
        serving.directory.write(&format!("source/{}", name(number)), b"content");
    }
    for path in ["copy/late", "copy/surplus", "copy/late-directory/file"] {
        target.write(path, b"older");
    }
    let come = || {
        serving.directory.write("source/late", b"newer");
        serving.directory.write("source/late-directory/file", b"newer");
    };
    let mut meddler = Meddler { heard: Heard::default(), act: Some(&come), each: None };
    let store = LocalStore::open_root(&target.file("copy"), true).unwrap();
    let options = TreeOptions { delete: Some(u64::MAX), ..TreeOptions::default() };
    let ended = Download::new(store, "data/source", false, options).run(&serving.connect(1), &mut meddler);
    assert!(matches!(ended, Ended::Complete(Summary { failed: 0, deleted: 1, .. })), "{ended:?}");
    assert!(target.file("copy/late").exists() && target.file("copy/late-directory/file").exists());
    assert!(!target.file("copy/surplus").exists());
}
