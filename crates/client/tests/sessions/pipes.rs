//! Sources and targets that are pipes: bytes in order, once, of unknown length.

use super::support::serving::Serving;
use super::support::{BLOCK, assert_same, finish, pattern, pipe_payload, pipe_target};
use std::io::{Read, Write};
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Level, PutOptions, Session};

#[test]
fn a_pipe_of_unknown_length_is_uploaded_over_eight_channels() {
    let serving = Serving::start();
    for level in [Level::Clear, Level::Integrity] {
        let session = Session::connect(&ConnectOptions { level, ..serving.options(8) }).unwrap();
        for size in [0, 1, BLOCK, BLOCK + 1, 150 * BLOCK + 7] {
            let bytes = pattern(size, 21);
            let (payload, mut writer) = pipe_payload(None);
            let expected = bytes.clone();
            let writes = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
            let report = finish(&session.put(payload, "data/piped", &PutOptions::default()).unwrap()).unwrap();
            writes.join().unwrap();
            assert_eq!(report.length, size as u64);
            assert_same(&serving.directory.read("piped"), &expected);
        }
        session.close().unwrap();
    }
}

#[test]
fn a_pipe_that_ends_before_its_promised_length_fails_and_leaves_nothing() {
    let serving = Serving::start();
    let session = serving.connect(2);
    let (payload, mut writer) = pipe_payload(Some(10 * BLOCK as u64));
    let writes = std::thread::spawn(move || writer.write_all(&pattern(3 * BLOCK + 1, 22)));
    let transfer = session.put(payload, "data/short", &PutOptions::default()).unwrap();
    assert_eq!(finish(&transfer).unwrap_err().kind, ErrorKind::OutOfRange);
    writes.join().unwrap().unwrap();
    serving.directory.wait_for_names(&[]);
    session.close().unwrap();
}

#[test]
fn downloads_into_pipes_keep_their_order_whatever_the_channels_do() {
    let serving = Serving::start();
    let contents = [pattern(120 * BLOCK + 3, 23), pattern(90 * BLOCK, 24)];
    for (index, bytes) in contents.iter().enumerate() {
        serving.directory.write(&format!("file-{index}"), bytes);
    }
    for level in [Level::Clear, Level::Integrity] {
        let session = Session::connect(&ConnectOptions { level, ..serving.options(8) }).unwrap();
        for (index, bytes) in contents.iter().enumerate() {
            let (target, mut reader) = pipe_target();
            let transfer = session.get(format!("data/file-{index}"), target, &GetOptions::default()).unwrap();
            let reads = std::thread::spawn(move || {
                let mut got = [0; 1];
                reader.read_exact(&mut got).unwrap();
                (reader, got.to_vec())
            });
            let (mut reader, mut got) = reads.join().unwrap();
            // A second one could take the buffers that the first one waits for, so it is told to wait.
            let (target, _other) = pipe_target();
            let second = session.get("data/file-0", target, &GetOptions::default()).unwrap();
            assert_eq!(finish(&second).unwrap_err().kind, ErrorKind::Busy);
            let reads = std::thread::spawn(move || {
                reader.read_to_end(&mut got).unwrap();
                got
            });
            finish(&transfer).unwrap();
            assert_same(&reads.join().unwrap(), bytes);
        }
        session.close().unwrap();
    }
}

#[test]
fn a_reader_that_closes_its_pipe_ends_the_download_alone() {
    let serving = Serving::start();
    let bytes = pattern(100 * BLOCK, 25);
    serving.directory.write("file", &bytes);
    let session = serving.connect(4);
    let (target, reader) = pipe_target();
    let transfer = session.get("data/file", target, &GetOptions::default()).unwrap();
    drop(reader);
    assert_eq!(finish(&transfer).unwrap_err().kind, ErrorKind::Storage);
    let (target, content) = xdfs_client::Target::memory();
    finish(&session.get("data/file", target, &GetOptions::default()).unwrap()).unwrap();
    assert_same(&content.take().unwrap(), &bytes);
    session.close().unwrap();
}
