//! The rules of stores, each a function over any implementation.

use super::bench::{Bench, commit, names, path, request, stage};
use xdfs_io::store::{CommitRequest, Existing, FileKind, Order, StageRequest};
use xdfs_proto::base::{ErrorKind, Timestamp};

/// Bytes that tell their offset and their writer.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn read_all(bench: &dyn Bench, at: &str) -> Vec<u8> {
    let source = bench.store().open(&path(at)).unwrap();
    let size = source.attributes().size.unwrap();
    let mut bytes = vec![0xee; size as usize + 10];
    let count = source.read_at(&mut bytes, 0).unwrap();
    assert_eq!(count as u64, size, "the size is what can be read");
    bytes.truncate(count);
    source.revalidate().unwrap();
    bytes
}

pub fn content_comes_back_as_it_was_written(bench: &dyn Bench) {
    bench.make_directory("a");
    for (name, length) in [("one", 1), ("a/page", 4096), ("a/odd", (1 << 20) + 17)] {
        let bytes = pattern(length as u64, length);
        let stage = stage(bench, name);
        stage.write(&bytes, 0).unwrap();
        let told = stage.commit(&commit(length as u64)).unwrap();
        assert_eq!((told.kind, told.size), (FileKind::Regular, Some(length as u64)));
        assert_eq!(bench.content(name).unwrap(), bytes);
        assert_eq!(read_all(bench, name), bytes);
        assert_eq!(bench.store().attributes(&path(name)).unwrap(), told);
    }
}

pub fn ranges_may_come_in_any_order(bench: &dyn Bench) {
    let bytes = pattern(3, 100_000);
    let stage = stage(bench, "x");
    let mut at: Vec<usize> = (0..bytes.len()).step_by(777).collect();
    if stage.order() == Order::Any {
        at.reverse();
        at.rotate_left(11);
    }
    for start in at {
        let end = bytes.len().min(start + 777);
        stage.write(&bytes[start..end], start as u64).unwrap();
    }
    match stage.order() {
        Order::Any => stage.write(&[], 1 << 40).unwrap(),
        // What is not next is refused, and nothing is lost by that.
        Order::Ascending => {
            for offset in [0, bytes.len() as u64 - 1, bytes.len() as u64 + 1, 1 << 40] {
                assert_eq!(stage.write(b"x", offset).unwrap_err().kind, ErrorKind::OutOfRange, "{offset}");
            }
        }
    }
    stage.commit(&commit(bytes.len() as u64)).unwrap();
    assert_eq!(bench.content("x").unwrap(), bytes);
}

pub fn the_old_content_stays_until_commit(bench: &dyn Bench) {
    bench.put("x", b"old");
    let stage = stage(bench, "x");
    stage.write(b"newer", 0).unwrap();
    assert_eq!(bench.content("x").unwrap(), b"old");
    stage.commit(&commit(5)).unwrap();
    assert_eq!(bench.content("x").unwrap(), b"newer");
    assert_eq!(names(bench), ["x"]);
}

pub fn nothing_is_left_after_abort_or_drop(bench: &dyn Bench) {
    bench.put("x", b"old");
    for target in ["x", "y"] {
        let aborted = stage(bench, target);
        aborted.write(b"new", 0).unwrap();
        aborted.abort();
        let dropped = stage(bench, target);
        dropped.write(b"new", 0).unwrap();
        drop(dropped);
    }
    assert_eq!(names(bench), ["x"]);
    assert_eq!(bench.content("x").unwrap(), b"old");
}

pub fn a_failed_commit_leaves_old_content_and_nothing_else(bench: &dyn Bench) {
    bench.put("x", b"old");
    let too_long = stage(bench, "x");
    too_long.write(b"new", 0).unwrap();
    let error = too_long.commit(&commit(u64::MAX)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    // Something came to stand there between stage and commit.
    let raced = stage(bench, "d");
    raced.write(b"new", 0).unwrap();
    bench.make_directory("d");
    let error = raced.commit(&commit(3)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::IsDirectory);
    assert!(error.message.starts_with("cannot create 'd': "), "{error}");
    assert_eq!(names(bench), ["d", "x"]);
    assert_eq!(bench.content("x").unwrap(), b"old");
}

pub fn keep_refuses_at_stage_and_again_at_commit(bench: &dyn Bench) {
    let early = bench.store().stage(&request("x", Existing::Keep)).unwrap();
    early.write(b"mine", 0).unwrap();
    bench.put("x", b"yours");
    let error = bench.store().stage(&request("x", Existing::Keep)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists);
    let error = early.commit(&commit(4)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists);
    assert_eq!(names(bench), ["x"]);
    assert_eq!(bench.content("x").unwrap(), b"yours");
    let free = bench.store().stage(&request("y", Existing::Keep)).unwrap();
    free.write(b"free", 0).unwrap();
    free.commit(&commit(4)).unwrap();
    assert_eq!(bench.content("y").unwrap(), b"free");
    assert_eq!(names(bench), ["x", "y"]);
}

pub fn of_many_that_keep_exactly_one_wins(bench: &dyn Bench) {
    const WRITERS: usize = 4;
    let barrier = std::sync::Barrier::new(WRITERS);
    for round in 0..150 {
        let target = format!("x{round}");
        let wins: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (barrier, target) = (&barrier, &target);
                    scope.spawn(move || {
                        let stage = bench.store().stage(&request(target, Existing::Keep)).unwrap();
                        stage.write(&[writer as u8; 3], 0).unwrap();
                        barrier.wait();
                        match stage.commit(&commit(3)) {
                            Ok(_) => 1,
                            Err(error) => {
                                assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}");
                                0
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(wins, 1, "round {round}");
    }
    assert_eq!(names(bench).len(), 150);
}

pub fn two_stages_of_one_target_leave_one_content_whole(bench: &dyn Bench) {
    let contents = &[pattern(1, 50_000), pattern(2, 70_000)];
    std::thread::scope(|scope| {
        for content in contents {
            scope.spawn(move || {
                for _ in 0..20 {
                    let stage = stage(bench, "x");
                    for (index, part) in content.chunks(4096).enumerate() {
                        stage.write(part, index as u64 * 4096).unwrap();
                    }
                    stage.commit(&commit(content.len() as u64)).unwrap();
                    let seen = bench.content("x").unwrap();
                    assert!(contents.contains(&seen), "{} bytes of nobody's", seen.len());
                }
            });
        }
    });
    assert_eq!(names(bench), ["x"]);
}

pub fn commit_sets_length_mode_and_time(bench: &dyn Bench) {
    let stage_of = |length: u64, mode, modified| {
        let stage = stage(bench, "x");
        stage.write(b"0123456789", 0).unwrap();
        stage.commit(&CommitRequest { length, mode, modified }).unwrap()
    };
    let cut = stage_of(4, 0o600, Some(Timestamp::new(1_234_567_890, 123_456_789)));
    assert_eq!((cut.size, cut.mode, cut.modified), (Some(4), 0o600, Timestamp::new(1_234_567_890, 123_456_789)));
    assert_eq!(bench.content("x").unwrap(), b"0123");
    assert_eq!(bench.store().open(&path("x")).unwrap().modified(), Some(Timestamp::new(1_234_567_890, 123_456_789)));
    let extended = stage_of(12, 0o400, None);
    assert_eq!((extended.size, extended.mode), (Some(12), 0o400));
    assert_eq!(bench.content("x").unwrap(), b"0123456789\0\0");
}

pub fn special_mode_bits_are_never_set(bench: &dyn Bench) {
    for mode in [0o7777, 0o4755, 0o2700, 0o1700, u32::MAX] {
        let stage = stage(bench, "x");
        let told = stage.commit(&CommitRequest { length: 0, mode, modified: None }).unwrap();
        assert_eq!(told.mode & 0o7000, 0, "{mode:o} became {:o}", told.mode);
        assert_eq!(told.mode & 0o700, 0o700 & mode, "{mode:o} became {:o}", told.mode);
        assert_eq!(told.mode & !mode, 0);
    }
}

pub fn an_open_source_survives_the_replacement_of_its_file(bench: &dyn Bench) {
    bench.put("x", b"old content");
    let source = bench.store().open(&path("x")).unwrap();
    let stage = stage(bench, "x");
    stage.write(b"new", 0).unwrap();
    stage.commit(&commit(3)).unwrap();
    let mut bytes = [0; 11];
    source.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old content");
}

/// B10: the whole line of offsets, read and written.
pub fn offsets_at_the_end_of_the_number_line_are_refused_without_effect(bench: &dyn Bench) {
    const EDGES: [u64; 6] = [i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
    bench.put("x", b"content");
    let source = bench.store().open(&path("x")).unwrap();
    let stage = stage(bench, "y");
    stage.write(b"kept", 0).unwrap();
    for offset in EDGES {
        for length in [2, 4096] {
            let error = source.read_at(&mut vec![0; length], offset).unwrap_err();
            assert_eq!(error.kind, ErrorKind::OutOfRange, "read {length} at {offset}");
            let error = stage.write(&vec![1; length], offset).unwrap_err();
            assert_eq!(error.kind, ErrorKind::OutOfRange, "write {length} at {offset}");
        }
    }
    assert_eq!(source.read_at(&mut [0; 1], i64::MAX as u64 - 1).unwrap(), 0);
    // The refused writes neither changed the stage nor spoiled it.
    stage.commit(&commit(4)).unwrap();
    assert_eq!(bench.content("y").unwrap(), b"kept");
}

pub fn sizes_no_file_can_have_are_refused(bench: &dyn Bench) {
    for size in [1 << 62, i64::MAX as u64, 1 << 63, u64::MAX] {
        let asked = StageRequest { size: Some(size), ..request("x", Existing::Replace) };
        let error = bench.store().stage(&asked).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::NoSpace | ErrorKind::TooLarge), "{size}: {error:?}");
        assert!(error.message.starts_with("cannot create 'x': "), "{error}");
    }
    assert_eq!(names(bench), [] as [&str; 0]);
}

pub fn a_missing_name_and_a_missing_directory_are_told_apart(bench: &dyn Bench) {
    bench.make_directory("a");
    let store = bench.store();
    let text = |error: xdfs_proto::base::Error| {
        assert_eq!(error.kind, ErrorKind::NotFound);
        error.message
    };
    assert_eq!(text(store.open(&path("a/x")).unwrap_err()), "cannot open 'a/x': no such file or directory");
    assert_eq!(text(store.attributes(&path("a/x")).unwrap_err()), "cannot look at 'a/x': no such file or directory");
    let refused = store.stage(&request("a/b/c/x", Existing::Replace)).unwrap_err();
    let message = text(refused);
    assert!(message.starts_with("cannot create 'a/b/c/x': no such directory 'a/b"), "{message}");
}

pub fn a_directory_or_special_file_is_never_opened_or_replaced(bench: &dyn Bench) {
    bench.make_directory("d");
    bench.make_special("s");
    let store = bench.store();
    for (name, kind, error) in
        [("d", FileKind::Directory, ErrorKind::IsDirectory), ("s", FileKind::Other, ErrorKind::NotRegular)]
    {
        assert_eq!(store.attributes(&path(name)).unwrap().kind, kind);
        assert_eq!(store.open(&path(name)).unwrap_err().kind, error);
        for existing in [Existing::Replace, Existing::Keep] {
            assert_eq!(store.stage(&request(name, existing)).unwrap_err().kind, error);
        }
    }
    let root = StageRequest { target: Default::default(), ..request("x", Existing::Replace) };
    assert_eq!(store.stage(&root).unwrap_err().kind, ErrorKind::IsDirectory);
    assert_eq!(store.open(&root.target).unwrap_err().kind, ErrorKind::IsDirectory);
    assert_eq!(store.attributes(&root.target).unwrap().kind, FileKind::Directory);
    assert_eq!(names(bench), ["d", "s"]);
}

pub fn a_parent_that_is_a_file_is_named(bench: &dyn Bench) {
    bench.put("f", b"file");
    let error = bench.store().stage(&request("f/x", Existing::Replace)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotDirectory, "{error:?}");
    assert!(error.message.contains("'f'"), "{error}");
}

pub fn versions_differ_between_contents(bench: &dyn Bench) {
    let mut versions = Vec::new();
    for round in 0..20u8 {
        let stage = stage(bench, "x");
        stage.write(&[round; 8], 0).unwrap();
        let version = stage.commit(&commit(8)).unwrap().version;
        assert!(version.0.len() <= xdfs_io::store::Version::BYTES_MAX);
        assert_eq!(bench.store().open(&path("x")).unwrap().attributes().version, version);
        assert!(!versions.contains(&version), "round {round}");
        versions.push(version);
    }
}

pub fn reading_beyond_the_end_is_short_and_exact_reading_an_error(bench: &dyn Bench) {
    bench.put("x", b"0123456789");
    let source = bench.store().open(&path("x")).unwrap();
    let mut bytes = [0xee; 6];
    assert_eq!(source.read_at(&mut bytes, 7).unwrap(), 3);
    assert_eq!(&bytes, b"789\xee\xee\xee");
    assert_eq!(source.read_at(&mut bytes, 10).unwrap(), 0);
    assert_eq!(source.read_at(&mut bytes, 1 << 50).unwrap(), 0);
    let error = source.read_exact_at(&mut bytes, 7).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SourceChanged);
    assert!(error.message.contains("'x'"), "{error}");
    assert!(!source.is_zero());
}

/// B10: offsets and lengths around everything that could be a limit, against plain arithmetic.
pub fn every_range_gives_exactly_its_part(bench: &dyn Bench) {
    const SIZE: u64 = 1000;
    let bytes = pattern(5, SIZE as usize);
    bench.put("x", &bytes);
    let source = bench.store().open(&path("x")).unwrap();
    for offset in edges(SIZE) {
        for length in [0, 1, SIZE - 1, SIZE, SIZE + 1] {
            let mut buf = vec![0xee; length as usize];
            let end = u128::from(offset) + u128::from(length);
            let result = source.read_at(&mut buf, offset);
            if end > i64::MAX as u128 {
                assert_eq!(result.unwrap_err().kind, ErrorKind::OutOfRange, "{length} at {offset}");
                continue;
            }
            let start = offset.min(SIZE) as usize;
            let part = &bytes[start..(end.min(SIZE as u128) as usize).max(start)];
            assert_eq!(result.unwrap(), part.len(), "{length} at {offset}");
            assert_eq!(&buf[..part.len()], part);
            assert!(buf[part.len()..].iter().all(|&byte| byte == 0xee), "wrote beyond the count");
        }
    }
}

fn edges(size: u64) -> [u64; 14] {
    [
        0,
        1,
        size - 1,
        size,
        size + 1,
        (1 << 31) - 1,
        (1 << 31) + 1,
        (1 << 32) - 1,
        (1 << 32) + 1,
        1 << 53,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ]
}

pub fn a_committed_length_is_exact_or_nothing_is_left(bench: &dyn Bench) {
    for length in edges(1000) {
        let stage = stage(bench, "x");
        stage.write(b"head", 0).unwrap();
        match stage.commit(&commit(length)) {
            Ok(told) => {
                assert_eq!(told.size, Some(length));
                let source = bench.store().open(&path("x")).unwrap();
                assert_eq!(source.attributes().size, Some(length));
                let mut buf = [0xee; 8];
                let count = source.read_at(&mut buf, 0).unwrap();
                assert_eq!(&buf[..count], &b"head\0\0\0\0"[..length.min(8) as usize]);
            }
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::NoSpace | ErrorKind::TooLarge), "{length}: {error:?}");
                assert!(length > 1 << 30, "{length}: {error}");
            }
        }
        assert!(names(bench).iter().all(|name| name == "x"), "{length}: {:?}", names(bench));
    }
}

pub fn an_empty_file_is_a_file(bench: &dyn Bench) {
    let told = stage(bench, "x").commit(&commit(0)).unwrap();
    assert_eq!(told.size, Some(0));
    assert_eq!(bench.content("x").unwrap(), b"");
    assert_eq!(read_all(bench, "x"), b"");
}

pub fn concurrent_writers_of_one_stage_do_not_mix(bench: &dyn Bench) {
    let bytes = pattern(9, 1 << 18);
    let stage = stage(bench, "x");
    let (next, turned) = (std::sync::Mutex::new(0), std::sync::Condvar::new());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (stage, bytes, next, turned) = (&stage, &bytes, &next, &turned);
            scope.spawn(move || {
                for (index, part) in bytes.chunks(1000).enumerate().filter(|(index, _)| index % 4 == writer) {
                    if stage.order() == Order::Any {
                        stage.write(part, index as u64 * 1000).unwrap();
                        continue;
                    }
                    // From any thread, but in order.
                    let mut turn = turned.wait_while(next.lock().unwrap(), |next| *next != index).unwrap();
                    stage.write(part, index as u64 * 1000).unwrap();
                    *turn += 1;
                    turned.notify_all();
                }
            });
        }
    });
    stage.commit(&commit(bytes.len() as u64)).unwrap();
    assert_eq!(bench.content("x").unwrap(), bytes);
}

/// What the store declares is what its files declare and do.
pub fn a_member_does_what_it_declares(bench: &dyn Bench) {
    let declared = bench.store().capability();
    assert!(declared.writable, "the rules write");
    let stage = stage(bench, "x");
    assert_eq!(stage.order(), declared.order);
    assert!(!stage.discards() && stage.kept().is_empty() && stage.replaces().is_empty());
    stage.write(b"content", 0).unwrap();
    assert_eq!(stage.can_read_back(), stage.read_back(false).is_ok());
    stage.commit(&commit(7)).unwrap();
    let mut source = bench.store().open(&path("x")).unwrap();
    assert_eq!(source.descriptor().is_some(), declared.descriptor);
    assert!(!source.is_sequential(), "what was stored can be read by ranges");
    assert_eq!(source.read(&mut [0; 7]).unwrap_err().kind, ErrorKind::Unsupported);
    assert!(!source.may_match(b"no version"));
    if let Some(identity) = source.identity() {
        assert_eq!(identity, source.attributes().version.0);
    }
}
