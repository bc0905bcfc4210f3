//! The fault and sim implementations: what they inject, and that every injected error leaves old content and nothing else.

use crate::bench::FaultBench;
use std::collections::BTreeMap;
use std::time::Duration;
use xdfs_io::store::fault::{Call, Fault, Plan, Rates};
use xdfs_io::store::{Existing, SimStore, Store};
use xdfs_proto::base::ErrorKind;
use xdfs_test_conformance::store::bench::{Bench, commit, path, request, stage};

const EIO: i32 = 5;

#[test]
fn an_error_at_each_call_leaves_old_content_and_nothing_else() {
    for call in [Call::Stage, Call::Write, Call::Commit] {
        for number in [EIO, 28, 122, 27, 30, 12] {
            let bench = FaultBench::local(Plan::none().at(call, 1, Fault::Errno(number)));
            bench.put("x", b"old");
            let result = bench.store().stage(&request("x", Existing::Replace)).and_then(|stage| {
                // The error of the write is ignored: commit must not make it good.
                let _ = stage.write(b"new", 0);
                stage.commit(&commit(3))
            });
            let error = result.unwrap_err();
            assert!(error.message.contains("'x'"), "{error}");
            assert_eq!(bench.content("x").unwrap(), b"old");
            assert_eq!(bench.names(), [b"x".to_vec()], "{call:?} {number}");
        }
    }
}

#[test]
fn numbers_become_kinds_and_words() {
    let cases = [
        (13, ErrorKind::PermissionDenied, "permission denied"),
        (28, ErrorKind::NoSpace, "no space left on device"),
        (122, ErrorKind::QuotaExceeded, "disk quota exceeded"),
        (27, ErrorKind::TooLarge, "file too large"),
        (30, ErrorKind::ReadOnly, "read-only"),
        (24, ErrorKind::Resources, "Too many open files (os error 24)"),
        (EIO, ErrorKind::Storage, "Input/output error (os error 5)"),
    ];
    for (number, kind, text) in cases {
        let bench = FaultBench::local(Plan::none().at(Call::Open, 1, Fault::Errno(number)));
        bench.put("x", b"");
        let error = bench.store().open(&path("x")).unwrap_err();
        assert_eq!((error.kind, i32::from(error.errno)), (kind, number));
        assert_eq!(error.message, format!("cannot open 'x': {text}"));
        bench.store().open(&path("x")).unwrap();
    }
}

#[test]
fn a_planned_early_end_and_a_planned_change_look_like_real_ones() {
    let plan = Plan::none().at(Call::Read, 2, Fault::Nothing).at(Call::Revalidate, 2, Fault::Changed);
    let bench = FaultBench::local(plan);
    bench.put("x", b"0123456789");
    let source = bench.store().open(&path("x")).unwrap();
    let mut buf = [0; 4];
    source.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(source.read_exact_at(&mut buf, 4).unwrap_err().kind, ErrorKind::SourceChanged);
    source.revalidate().unwrap();
    assert_eq!(source.revalidate().unwrap_err().kind, ErrorKind::SourceChanged);
    source.revalidate().unwrap();
}

#[test]
fn short_and_interrupted_calls_are_invisible_above() {
    let plan = Plan::none()
        .at(Call::Write, 1, Fault::Short(3))
        .at(Call::Write, 2, Fault::Interrupted)
        .at(Call::Read, 1, Fault::Interrupted)
        .at(Call::Read, 2, Fault::Short(1));
    let bench = FaultBench::local(plan);
    let stage = stage(&bench, "x");
    stage.write(b"0123456789", 0).unwrap();
    stage.commit(&commit(10)).unwrap();
    let mut buf = [0; 10];
    bench.store().open(&path("x")).unwrap().read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"0123456789");
}

#[test]
fn a_write_that_takes_nothing_is_an_error() {
    let bench = FaultBench::local(Plan::none().at(Call::Write, 1, Fault::Nothing));
    let stage = stage(&bench, "x");
    let error = stage.write(b"new", 0).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::Storage, "cannot write 'x': the storage took no bytes")
    );
}

fn rates() -> Rates {
    Rates {
        short: 200_000,
        interrupted: 100_000,
        early_end: 20_000,
        changed: 100_000,
        error: BTreeMap::from([(Call::Write, 30_000), (Call::Commit, 200_000), (Call::Open, 100_000)]),
        errors: vec![EIO, 28],
        delay_max: Duration::from_millis(20),
    }
}

/// One run over the simulated disk: what came of each step, with its delay.
fn run(seed: u64) -> (Vec<String>, SimStore) {
    let disk = SimStore::new(seed, rates(), 1 << 20);
    let mut log = Vec::new();
    for round in 0..50u32 {
        let target = format!("f{}", round % 7);
        let written = disk.stage(&request(&target, Existing::Replace)).and_then(|stage| {
            stage.write(&round.to_be_bytes().repeat(100), 0)?;
            stage.commit(&commit(400))
        });
        log.push(format!("{:?} {:?}", written.map_err(|error| error.message), disk.delay()));
        let read = disk.open(&path(&target)).and_then(|source| {
            let mut bytes = vec![0; 400];
            source.read_exact_at(&mut bytes, 0)?;
            source.revalidate()?;
            Ok(bytes)
        });
        if let Ok(bytes) = &read {
            assert_eq!(disk.truth().content(&path(&target)).as_ref(), Some(bytes), "what was read is what is there");
        }
        log.push(format!("{read:?} {:?}", disk.delay()));
    }
    (log, disk)
}

#[test]
fn a_simulated_run_is_repeated_by_its_seed() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (first, disk) = run(seed);
        assert_eq!(first, run(seed).0);
        assert_ne!(first, run(seed + 1000).0);
        kinds.extend(disk.injected().into_iter().map(|(call, name, _)| (call, name)));
        for at in disk.truth().paths() {
            let bytes = disk.truth().content(&at).unwrap();
            assert!(bytes.len() == 400 && bytes.chunks(4).all(|part| part == &bytes[..4]), "a torn file under {at}");
        }
        assert!(disk.delay() < Duration::from_millis(20));
    }
    let all = [
        (Call::Open, "error"),
        (Call::Read, "short"),
        (Call::Read, "interrupted"),
        (Call::Read, "nothing"),
        (Call::Write, "short"),
        (Call::Write, "interrupted"),
        (Call::Write, "error"),
        (Call::Commit, "error"),
        (Call::Revalidate, "changed"),
    ];
    for kind in all {
        assert!(kinds.contains(&kind), "{kind:?} never came up: {kinds:?}");
    }
}
