//! What many or slow peers may cost: memory and threads of the whole process are measured, so these tests are alone in
//! their program and run one after the other.
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

mod announced;
mod joins;
mod lingering;
#[path = "../hostile/raw.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod raw;
mod slow;
#[path = "../support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::serving::Serving;
use support::{BLOCK, finish, pattern, pipe_payload, pipe_target};
use xdfs_client::{ConnectOptions, GetOptions, Level, PutOptions, Session};
use xdfs_io::host::{resident_bytes, threads};

const MIB: u64 = 1 << 20;

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test in a process of its own: memory that other tests have given back would hide what it costs. True in there.
fn in_its_own_process(test: &str) -> bool {
    const INSIDE: &str = "XDFS_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let outcome = std::process::Command::new(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output();
    let outcome = outcome.unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout);
    let told = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success() && said.contains("1 passed"), "{told}{said}");
    false
}

#[test]
fn pipes_at_both_ends_stay_within_their_memory_however_slow_their_reader_is() {
    let _one = alone();
    let serving = Serving::start();
    for level in [Level::Clear, Level::Integrity] {
        // Blocks of the usual size, where buffers cost most.
        let options = ConnectOptions { level, block: None, ..serving.options(8) };
        let session = Session::connect(&options).unwrap();
        let before = resident_bytes().unwrap();
        let total = 192 * MIB;
        let (payload, mut writer) = pipe_payload(None);
        let writes = std::thread::spawn(move || {
            let part = vec![5; MIB as usize];
            (0..total / MIB).for_each(|_| writer.write_all(&part).unwrap());
        });
        let report = finish(&session.put(payload, "memory/null", &PutOptions::default()).unwrap()).unwrap();
        writes.join().unwrap();
        assert_eq!(report.length, total);
        let up = resident_bytes().unwrap().saturating_sub(before);

        let (target, mut reader) = pipe_target();
        let wanted = GetOptions { length: Some(total), ..GetOptions::default() };
        let transfer = session.get("memory/zero", target, &wanted).unwrap();
        let mut part = vec![0; 64 * 1024];
        let (mut got, mut most) = (0, 0);
        loop {
            match reader.read(&mut part).unwrap() {
                0 => break,
                count => got += count as u64,
            }
            if got % (8 * MIB) < part.len() as u64 {
                most = resident_bytes().unwrap().saturating_sub(before).max(most);
            }
        }
        finish(&transfer).unwrap();
        assert_eq!(got, total);
        // Client and server are one process here: both ends' buffers, each way.
        assert!(up < 100 * MIB && most < 100 * MIB, "up {} MiB, down {} MiB", up / MIB, most / MIB);
        session.close().unwrap();
    }
}

#[test]
fn a_session_of_many_channels_costs_a_fixed_number_of_threads() {
    let _one = alone();
    let serving = Serving::start();
    let count = |channels: u16| {
        let before = threads().unwrap();
        let session = serving.connect(channels);
        let (payload, mut writer) = pipe_payload(None);
        let transfer = session.put(payload, "data/piped", &PutOptions::default()).unwrap();
        writer.write_all(&pattern(30 * BLOCK, 2)).unwrap();
        // The thread that joins channels has done its work.
        let until = std::time::Instant::now() + support::PATIENCE;
        while session.joined() < usize::from(channels) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        let during = threads().unwrap();
        drop(writer);
        finish(&transfer).unwrap();
        session.close().unwrap();
        serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
        during.saturating_sub(before)
    };
    let _warm = count(1);
    // Each side has a pipeline, and may have a writer, a reader and a joiner; the storage pool has four for all.
    let (few, many) = (count(2), count(64));
    assert!(few <= 10 && many <= 10, "{few} threads for 2 channels, {many} for 64");
}
