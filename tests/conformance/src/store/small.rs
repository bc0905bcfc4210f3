//! The rules of small files in groups, each a function over any implementation.

use super::bench::{Bench, names, path};
use xdfs_io::store::{Attributes, Base, Existing, Placed, SmallFile, SmallReader, Store, Version};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp};

/// A file that replaces what is there.
pub fn file<'a>(target: &str, content: &'a [u8]) -> SmallFile<'a> {
    let (existing, modified) = (Existing::Replace, Some(Timestamp::new(1_700_000_000, 123_456_789)));
    SmallFile {
        target: path(target),
        content,
        mode: 0o640,
        modified,
        existing,
        base: None,
        parents: false,
        holes: false,
    }
}

/// A file that is refused where one exists.
pub fn new<'a>(target: &str, content: &'a [u8]) -> SmallFile<'a> {
    SmallFile { existing: Existing::Keep, ..file(target, content) }
}

/// What became of each file.
pub fn kinds(outcomes: Vec<Result<Placed, Error>>) -> Vec<Option<ErrorKind>> {
    outcomes.into_iter().map(|outcome| outcome.err().map(|error| error.kind)).collect()
}

/// Puts `file` alone, and returns the version of what was put.
pub fn one(bench: &dyn Bench, file: SmallFile<'_>) -> Result<Version, Error> {
    let target = file.target.clone();
    bench.store().put_small(&[file], true).pop().unwrap()?;
    Ok(bench.store().attributes(&target).unwrap().version)
}

/// A whole file and its attributes.
pub fn read(store: &dyn Store, path: &RelPath, bytes_max: u64) -> Result<(Vec<u8>, Attributes), Error> {
    let mut reading = SmallReader::default();
    let attributes = store.get_small(path, None, bytes_max, &mut reading)?;
    Ok((reading.content().to_vec(), attributes))
}

pub fn groups_come_back_as_they_were_put(bench: &dyn Bench) {
    bench.make_directory("d");
    for durable in [false, true] {
        // More than one group, in two directories, an empty file among them.
        let contents: Vec<Vec<u8>> = (0..70u32).map(|number| number.to_be_bytes().repeat(number as usize)).collect();
        let name = |number: usize| format!("{}f{number}-{durable}", if number.is_multiple_of(3) { "d/" } else { "" });
        let targets: Vec<String> = (0..contents.len()).map(name).collect();
        let files: Vec<_> = targets.iter().zip(&contents).map(|(target, content)| file(target, content)).collect();
        let placed = bench.store().put_small(&files, durable);
        assert_eq!(placed.len(), files.len());
        let mut reading = SmallReader::default();
        for ((file, target), placed) in files.iter().zip(&targets).zip(placed) {
            assert_eq!(bench.content(target).unwrap(), file.content, "{target}");
            let found = bench.store().get_small(&file.target, None, 4096, &mut reading).unwrap();
            assert_eq!(reading.content(), file.content);
            assert_eq!(found, bench.store().attributes(&file.target).unwrap());
            assert_eq!(found.mode & !0o640, 0);
            assert_eq!(found.modified, file.modified.unwrap());
            let placed = placed.unwrap();
            assert!(!placed.unchanged);
            assert!(durable || placed.safety == Safety::Written);
        }
    }
    assert_eq!(names(bench).len(), 141, "something was left: {:?}", names(bench));
}

pub fn what_fails_for_one_file_ends_that_one_alone(bench: &dyn Bench) {
    bench.make_directory("d");
    bench.make_special("s");
    bench.put("taken", b"old");
    let files = [
        file("first", b"1"),
        file("absent/x", b"2"),
        new("taken", b"3"),
        file("d", b"4"),
        file("s", b"5"),
        file("taken/x", b"6"),
        SmallFile { target: Default::default(), ..file("x", b"7") },
        file("last", b"8"),
    ];
    let expected = [
        None,
        Some(ErrorKind::NotFound),
        Some(ErrorKind::AlreadyExists),
        Some(ErrorKind::IsDirectory),
        Some(ErrorKind::NotRegular),
        Some(ErrorKind::NotDirectory),
        Some(ErrorKind::IsDirectory),
        None,
    ];
    for durable in [false, true] {
        assert_eq!(kinds(bench.store().put_small(&files, durable)), expected);
        assert_eq!(names(bench), ["d", "first", "last", "s", "taken"]);
        assert_eq!(bench.content("taken").unwrap(), b"old");
    }
}

pub fn missing_directories_are_made_where_that_is_asked_for(bench: &dyn Bench) {
    bench.put("file", b"");
    let deep = |target, content| SmallFile { parents: true, ..file(target, content) };
    let files = [deep("a/b/c", b"1"), file("e/f", b"2"), deep("a/b/d", b"3"), deep("file/x/y", b"4"), deep("g", b"5")];
    let expected = [None, Some(ErrorKind::NotFound), None, Some(ErrorKind::NotDirectory), None];
    assert_eq!(kinds(bench.store().put_small(&files, true)), expected);
    assert_eq!(names(bench), ["a", "a/b", "a/b/c", "a/b/d", "file", "g"]);
    assert_eq!(bench.content("a/b/d").unwrap(), b"3");
}

pub fn of_two_with_one_name_the_last_replaces_and_the_first_is_kept(bench: &dyn Bench) {
    bench.put("x", b"old");
    for durable in [false, true] {
        let files = [file("x", b"one"), file("x", b"other")];
        assert_eq!(kinds(bench.store().put_small(&files, durable)), [None, None]);
        assert_eq!(bench.content("x").unwrap(), b"other");
    }
    assert_eq!(
        kinds(bench.store().put_small(&[new("y", b"1"), new("y", b"2")], true)),
        [None, Some(ErrorKind::AlreadyExists)]
    );
    assert_eq!(bench.content("y").unwrap(), b"1");
    assert_eq!(names(bench), ["x", "y"]);
}

pub fn a_base_is_replaced_and_nothing_else_unless_it_is_the_file_itself(bench: &dyn Bench) {
    let based = |content, version: &[u8]| {
        let copy = file("x", content);
        let base = Some(Base { version: version.to_vec(), modified: copy.modified });
        SmallFile { base, ..copy }
    };
    let nothing = based(b"first", b"");
    let first = one(bench, nothing.clone()).unwrap();
    // Its outcome was lost, and it comes again: it is what is there.
    assert_eq!(one(bench, nothing).unwrap(), first);
    assert_eq!(one(bench, based(b"other", b"")).unwrap_err().kind, ErrorKind::TargetChanged);
    let second = one(bench, based(b"second", &first.0)).unwrap();
    assert_eq!(one(bench, based(b"second", &first.0)).unwrap(), second);
    let late = one(bench, based(b"thirds", &first.0)).unwrap_err();
    assert_eq!(late.kind, ErrorKind::TargetChanged, "{late}");
    assert_eq!(bench.content("x").unwrap(), b"second");
    // What it was meant to replace is gone.
    let absent = SmallFile { target: path("y"), ..based(b"first", &first.0) };
    assert_eq!(one(bench, absent).unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(names(bench), ["x"]);
}

pub fn only_whole_regular_files_of_the_asked_size_are_read(bench: &dyn Bench) {
    bench.make_directory("d");
    bench.make_special("s");
    bench.put("d/x", b"0123456789");
    bench.put("empty", b"");
    let paths = ["d/x", "d", "s", "absent", "absent/x", "empty", ""].map(path);
    let all = |bytes_max| -> Vec<_> {
        let found = paths.iter().map(|path| read(bench.store(), path, bytes_max));
        found.map(|found| found.map(|(content, _)| content).map_err(|error| error.kind)).collect()
    };
    let others = [
        Err(ErrorKind::IsDirectory),
        Err(ErrorKind::NotRegular),
        Err(ErrorKind::NotFound),
        Err(ErrorKind::NotFound),
        Ok(Vec::new()),
        Err(ErrorKind::IsDirectory),
    ];
    assert_eq!(all(10), [&[Ok(b"0123456789".to_vec())][..], &others].concat());
    assert_eq!(all(9), [&[Err(ErrorKind::TooLarge)][..], &others].concat());
}

pub fn special_mode_bits_of_small_files_are_never_set(bench: &dyn Bench) {
    one(bench, SmallFile { mode: 0o7777, ..file("x", b"") }).unwrap();
    assert_eq!(bench.store().attributes(&path("x")).unwrap().mode & 0o7000, 0);
}
