//! Giving up at any moment: both ends agree on what happened, nothing stays, and the session serves on.

use super::support::serving::Serving;
use super::support::{BLOCK, PATIENCE, Scratch, assert_same, download_to, finish, pattern, pipe_payload, upload_of};
use std::io::Write;
use std::time::Instant;
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Level, Payload, PutOptions, Session, Transfer};

/// Waits until so many bytes have moved, or the transfer is over.
fn moved(transfer: &Transfer, bytes: u64) {
    let until = Instant::now() + PATIENCE;
    while transfer.moved() < bytes && Instant::now() < until {
        std::thread::yield_now();
    }
}

#[test]
fn a_transfer_is_cancelled_at_any_moment_and_the_session_serves_on() {
    for (pipelines, level) in [(1, Level::Clear), (1, Level::Integrity), (2, Level::Clear)] {
        let serving = Serving::start();
        let here = Scratch::new();
        let bytes = pattern(64 * BLOCK, 31);
        let source = here.write("source", &bytes);
        serving.directory.write("source", &bytes);
        let options = ConnectOptions { pipelines, level, ..serving.options(4) };
        let session = Session::connect(&options).unwrap();
        // With two pipelines the progress of the second is not told, so less is waited for.
        for blocks in [0, 0, 1, 2, 3, 8, 20] {
            let up = session.put(upload_of(&source), "data/up", &PutOptions::default()).unwrap();
            let to = download_to(&here.file("down"));
            let down = session.get("data/source", to, &GetOptions::default()).unwrap();
            for (transfer, directory, name) in [(up, &serving.directory, "up"), (down, &here, "down")] {
                moved(&transfer, blocks * BLOCK as u64);
                transfer.cancel();
                match finish(&transfer) {
                    Ok(_) => {
                        assert_same(&directory.read(name), &bytes);
                        std::fs::remove_file(directory.file(name)).unwrap();
                    }
                    Err(error) => assert_eq!(error.kind, ErrorKind::Cancelled, "{error}"),
                }
                directory.wait_for_names(&["source"]);
            }
        }
        session.close().unwrap();
        assert_eq!(serving.session_ended(), None);
    }
}

#[test]
fn an_upload_from_a_pipe_is_cancelled_while_its_blocks_are_under_way() {
    let serving = Serving::start();
    let session = serving.connect(4);
    for blocks in [0, 1, 5, 30, 60] {
        let (payload, mut writer) = pipe_payload(None);
        let writes = std::thread::spawn(move || while writer.write_all(&[7; BLOCK]).is_ok() {});
        let transfer = session.put(payload, "data/endless", &PutOptions::default()).unwrap();
        moved(&transfer, blocks * BLOCK as u64);
        transfer.cancel();
        assert_eq!(finish(&transfer).unwrap_err().kind, ErrorKind::Cancelled);
        serving.directory.wait_for_names(&[]);
        writes.join().unwrap();
    }
    let payload = Payload::bytes(b"after".to_vec()).unwrap();
    finish(&session.put(payload, "data/after", &PutOptions::default()).unwrap()).unwrap();
    assert_eq!(serving.directory.read("after"), b"after");
    session.close().unwrap();
}
