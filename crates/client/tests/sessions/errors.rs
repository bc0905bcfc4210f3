//! What cannot be done is said, with its cause, and leaves everything as it was.

use super::support::relay::Relay;
use super::support::serving::Serving;
use super::support::{BLOCK, Scratch, assert_same, download_to, finish, pattern, upload_of};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Payload, PutOptions, Session, Target};

fn put(session: &Session, name: &str, options: &PutOptions) -> ErrorKind {
    let payload = Payload::bytes(b"new".to_vec()).unwrap();
    finish(&session.put(payload, name, options).unwrap()).unwrap_err().kind
}

fn get(session: &Session, name: &str) -> ErrorKind {
    finish(&session.get(name, Target::null(), &GetOptions::default()).unwrap()).unwrap_err().kind
}

#[test]
fn what_cannot_be_written_or_read_is_told_by_its_kind() {
    let serving = Serving::start();
    serving.directory.write("file", b"old");
    std::fs::create_dir(serving.directory.file("dir")).unwrap();
    let session = serving.connect(2);
    let replace = PutOptions::default();
    assert_eq!(put(&session, "fixed/file", &replace), ErrorKind::ReadOnly);
    assert_eq!(put(&session, "data/absent/file", &replace), ErrorKind::NotFound);
    assert_eq!(put(&session, "data/dir", &replace), ErrorKind::IsDirectory);
    assert_eq!(put(&session, "data/file/below", &replace), ErrorKind::NotDirectory);
    assert_eq!(put(&session, "elsewhere/file", &replace), ErrorKind::NotFound);
    assert_eq!(put(&session, "data/../file", &replace), ErrorKind::InvalidPath);
    let keep = PutOptions { keep_existing: true, ..PutOptions::default() };
    assert_eq!(put(&session, "data/file", &keep), ErrorKind::AlreadyExists);
    assert_eq!(get(&session, "data/absent"), ErrorKind::NotFound);
    assert_eq!(get(&session, "data/dir"), ErrorKind::IsDirectory);
    assert_eq!(get(&session, "elsewhere/file"), ErrorKind::NotFound);
    assert_eq!(session.look("data/absent", Wanted::NOTHING).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(session.look("fixed/file", Wanted::SIZE).unwrap().size, Some(3));
    assert_eq!(serving.directory.read("file"), b"old");
    serving.directory.wait_for_names(&["dir", "file"]);
    // Nothing of that disturbed the session.
    let payload = Payload::bytes(b"new".to_vec()).unwrap();
    finish(&session.put(payload, "data/file", &replace).unwrap()).unwrap();
    assert_eq!(serving.directory.read("file"), b"new");
    session.close().unwrap();
}

/// Moves a file up and down through a relay that holds it half way; `change` is applied to the source meanwhile. A
/// changed source must fail as changed and leave no trace.
fn changed_half_way(change: impl Fn(&Path)) {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let here = Scratch::new();
    let bytes = pattern(24 << 20, 11);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(2) };
    let session = Session::connect(&options).unwrap();
    for upload in [true, false] {
        let (from, to) = if upload { (&here, &serving.directory) } else { (&serving.directory, &here) };
        let source = from.write("source", &bytes);
        to.write("target", b"old");
        relay.hold_after(1 << 20);
        let transfer = if upload {
            session.put(upload_of(&source), "data/target", &PutOptions::default()).unwrap()
        } else {
            session.get("data/source", download_to(&to.file("target")), &GetOptions::default()).unwrap()
        };
        relay.wait_held();
        change(&source);
        relay.release();
        let error = finish(&transfer).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SourceChanged, "{error}");
        assert_eq!(to.read("target"), b"old");
        let _ = std::fs::remove_file(&source);
        to.wait_for_names(&["target"]);
        std::fs::remove_file(to.file("target")).unwrap();
    }
    // The session and its channels are as good as before.
    finish(&session.put(Payload::bytes(bytes.clone()).unwrap(), "data/next", &PutOptions::default()).unwrap()).unwrap();
    assert_same(&serving.directory.read("next"), &bytes);
    assert_eq!(relay.connections(), 2, "no channel was given up");
    session.close().unwrap();
}

#[test]
fn a_source_that_shrinks_during_the_transfer_is_told() {
    changed_half_way(|path| std::fs::File::options().write(true).open(path).unwrap().set_len(BLOCK as u64).unwrap());
}

#[test]
fn a_source_that_grows_during_the_transfer_is_told() {
    changed_half_way(|path| {
        std::fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
    });
}

#[test]
fn a_source_that_is_written_during_the_transfer_is_told() {
    changed_half_way(|path| {
        let mut file = std::fs::File::options().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(20 << 20)).unwrap();
        file.write_all(b"other").unwrap();
    });
}

#[test]
fn a_source_that_vanishes_during_the_transfer_is_told() {
    changed_half_way(|path| std::fs::remove_file(path).unwrap());
}
