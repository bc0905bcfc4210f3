//! Calls on names, from end to end: what each does, what a page tells, how many may be under way, and that each is done once
//! whatever becomes of channels.

use super::loss::through;
use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, finish, pattern, upload_of};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;
use xdfs_client::wire::{Answer, Call, FileType, NewTime, Put, Wanted};
use xdfs_client::{Batch, ErrorKind, PutOptions, Session};
use xdfs_proto::base::Timestamp;
use xdfs_server::{LogEvent, Policy};

fn kind(error: &xdfs_client::Error) -> ErrorKind {
    error.kind
}

/// Kinds of the failures of a batch's calls, none for those that succeeded.
fn outcomes(session: &Session, batch: &Batch) -> Vec<Option<ErrorKind>> {
    let reply = session.call(batch).unwrap().wait().unwrap();
    let read = reply.read().unwrap();
    read.outcomes.iter().map(|outcome| outcome.as_ref().err().map(|failure| failure.kind)).collect()
}

fn put<'a>(path: &'a [u8], content: &'a [u8]) -> Put<'a> {
    let (modified, hash) = (Some(Timestamp::new(1_600_000_000, 7)), None);
    Put { path, keep_existing: false, parents: true, mode: 0o640, modified, holes: false, hash, content }
}

#[test]
fn names_are_looked_at_made_changed_and_removed() {
    let serving = Serving::start();
    let session = serving.connect(2);
    let at = |name: &str| serving.directory.path().join(name);
    session.make_directory("data/a/b", 0o750, true).unwrap();
    assert_eq!(kind(&session.make_directory("data/a/b", 0o750, false).unwrap_err()), ErrorKind::AlreadyExists);
    std::fs::write(at("a/f"), b"0123456789").unwrap();
    session.set_mode("data/a/f", 0o604).unwrap();
    session.set_times("data/a/f", Some(NewTime::At(Timestamp::new(1_500_000_000, 123_456_789))), None).unwrap();
    session.truncate("data/a/f", 4).unwrap();
    let facts = session.look("data/a/f", Wanted::ALL).unwrap();
    let on_disk = std::fs::metadata(at("a/f")).unwrap();
    assert_eq!((facts.kind, facts.size), (FileType::Regular, Some(4)));
    assert_eq!((facts.mode, on_disk.permissions().mode() & 0o7777), (Some(0o604), 0o604));
    assert_eq!(facts.links, Some(1));
    session.set_times("data/a/f", Some(NewTime::At(Timestamp::new(1_500_000_000, 123_456_789))), None).unwrap();
    let facts = session.look("data/a/f", Wanted::MODIFIED).unwrap();
    assert_eq!((facts.modified, facts.size), (Some(Timestamp::new(1_500_000_000, 123_456_789)), None));
    session.link("data/a", "f", "b/g").unwrap();
    let (one, two) = (session.look("data/a/f", Wanted::INODE), session.look("data/a/b/g", Wanted::INODE));
    assert!(one.as_ref().unwrap().inode.is_some() && one.unwrap().inode == two.unwrap().inode);
    session.symlink("data/a/l", "../nowhere").unwrap();
    assert_eq!(session.read_link("data/a/l").unwrap(), b"../nowhere");
    assert_eq!(session.look("data/a/l", Wanted::TARGET).unwrap().target.as_deref(), Some(&b"../nowhere"[..]));
    assert_eq!(kind(&session.rename("data", "a/f", "a/b/g", true).unwrap_err()), ErrorKind::AlreadyExists);
    session.rename("data", "a/f", "moved", false).unwrap();
    assert_eq!(std::fs::metadata(at("moved")).unwrap().ino(), std::fs::metadata(at("a/b/g")).unwrap().ino());
    assert_eq!(kind(&session.remove_directory("data/a").unwrap_err()), ErrorKind::NotEmpty);
    session.remove("data/a/b/g").unwrap();
    session.remove_directory("data/a/b").unwrap();
    session.remove("data/a/l").unwrap();
    session.remove_directory("data/a").unwrap();
    assert!(!at("a").exists());
    let (length, _) = session.hash("data/moved", 1, Some(2)).unwrap();
    assert_eq!(length, 2);
    assert!(session.space("data").unwrap().bytes > 0);
    assert_eq!(kind(&session.look("data/absent", Wanted::ALL).unwrap_err()), ErrorKind::NotFound);
    session.close().unwrap();
}

/// What was changed by its old name is durable under its new one, or the reply does not say so.
#[test]
fn a_file_that_is_changed_and_renamed_in_one_batch_is_synced() {
    let serving = Serving::start();
    for name in ["d/a", "d/b", "d/c", "d/deeper/e"] {
        serving.directory.write(name, b"content");
    }
    let session = serving.connect(1);
    let truncate = |path| Call::Truncate { path, length: 3 };
    let rename = |path, to| Call::Rename { path, to, keep_existing: false };
    for calls in [
        vec![truncate(b"a"), rename(b"a", b"renamed"), truncate(b"b")],
        vec![truncate(b"c"), Call::Link { path: b"c", to: b"linked" }, Call::Unlink { path: b"c" }],
        vec![truncate(b"deeper/e"), rename(b"deeper", b"moved")],
    ] {
        let mut batch = Batch::new("data/d");
        calls.iter().for_each(|call| batch.push(call));
        let reply = session.call(&batch.durable()).unwrap().wait().unwrap();
        let read = reply.read().unwrap();
        assert!(read.outcomes.iter().all(|outcome| *outcome == Ok(Answer::Done)), "{read:?}");
        assert_eq!(read.safety, xdfs_client::Safety::Durable, "{calls:?}");
    }
    for name in ["d/renamed", "d/b", "d/linked", "d/moved/e"] {
        assert_eq!(serving.directory.read(name), b"con");
    }
    session.close().unwrap();
}

#[test]
fn a_directory_comes_in_pages_each_entry_once_and_says_when_it_is_complete() {
    let serving = Serving::start();
    let session = serving.connect(1);
    let names: BTreeSet<String> = (0..9000).map(|n| format!("file with a name of some length {n}")).collect();
    let folder = serving.directory.path().join("many");
    std::fs::create_dir(&folder).unwrap();
    for name in &names {
        std::fs::write(folder.join(name), b"x").unwrap();
    }
    let mut pages = session.list("data/many", Wanted::SIZE.and(Wanted::MODIFIED)).unwrap();
    let (mut found, mut count) = (BTreeSet::new(), 0);
    assert!(!pages.is_complete());
    for page in &mut pages {
        let page = page.unwrap();
        count += 1;
        for entry in page.entries().unwrap() {
            assert_eq!((entry.attributes.kind, entry.attributes.size), (FileType::Regular, Some(1)));
            assert!(found.insert(String::from_utf8(entry.name.to_vec()).unwrap()), "{:?} twice", entry.name);
        }
    }
    assert!(pages.is_complete() && count > 1 && found == names, "{count} pages, {} names", found.len());
    let mut absent = session.list("data/absent", Wanted::NOTHING).unwrap();
    assert_eq!(kind(&absent.next().unwrap().unwrap_err()), ErrorKind::NotFound);
    assert!(absent.next().is_none() && !absent.is_complete());
    let exports: Vec<_> = session.list("", Wanted::NOTHING).unwrap().map(Result::unwrap).collect();
    let exports: Vec<_> = exports.iter().flat_map(|page| page.entries().unwrap()).map(|entry| entry.name).collect();
    assert!(exports.contains(&&b"data"[..]) && exports.contains(&&b"memory"[..]), "{exports:?}");
    session.close().unwrap();
}

#[test]
fn small_files_go_up_with_their_directories_and_come_down_again() {
    let serving = Serving::start();
    for durable in [false, true] {
        let session = serving.connect(3);
        let content: Vec<u8> = (0..5000).map(|n| n as u8).collect();
        let mut batch = Batch::new(format!("data/tree-{durable}"));
        let paths: Vec<String> = (0..40).map(|n| format!("d{}/e/f{n}", n % 7)).collect();
        for path in &paths[..12] {
            batch.push(&Call::Put(put(path.as_bytes(), &content)));
        }
        let batch = if durable { batch.durable() } else { batch };
        let reply = session.call(&batch).unwrap().wait().unwrap();
        let read = reply.read().unwrap();
        assert!(read.outcomes.iter().all(|outcome| *outcome == Ok(Answer::Done)), "{read:?}");
        assert_eq!(read.safety == xdfs_client::Safety::Durable, durable);
        let on_disk = serving.directory.path().join(format!("tree-{durable}")).join(&paths[3]);
        assert_eq!(std::fs::read(&on_disk).unwrap(), content);
        let facts = std::fs::metadata(&on_disk).unwrap();
        assert_eq!((facts.mtime(), facts.mtime_nsec(), facts.mode() & 0o777), (1_600_000_000, 7, 0o640));
        let mut batch = Batch::new(format!("data/tree-{durable}"));
        let call = |most| Call::Get { path: paths[3].as_bytes(), wanted: Wanted::SIZE, most };
        batch.push_with_room(&call(5000), 6000);
        batch.push(&call(4999));
        batch.push(&Call::Put(Put { hash: Some([9; 32]), ..put(b"wrong", &content) }));
        batch.push(&Call::Put(Put { keep_existing: true, ..put(paths[3].as_bytes(), b"other") }));
        let reply = session.call(&batch).unwrap().wait().unwrap();
        let read = reply.read().unwrap();
        let Ok(Answer::File { attributes, content: found }) = &read.outcomes[0] else { panic!("{read:?}") };
        assert_eq!((attributes.size, found), (Some(5000), &content.as_slice()));
        let kinds: Vec<_> = read.outcomes[1..].iter().map(|one| one.as_ref().unwrap_err().kind).collect();
        assert_eq!(kinds, [ErrorKind::TooLarge, ErrorKind::Corrupted, ErrorKind::AlreadyExists]);
        assert_eq!(std::fs::read(&on_disk).unwrap(), content);
        session.close().unwrap();
    }
}

#[test]
fn calls_of_a_batch_are_done_in_order_and_one_that_fails_stops_the_rest_where_that_is_wished() {
    let serving = Serving::start();
    let session = serving.connect(1);
    let fill = |batch: &mut Batch| {
        batch.push(&Call::MakeDirectory { path: b"d", parents: false, mode: 0o755 });
        batch.push(&Call::Put(Put { parents: false, ..put(b"d/f", b"x") }));
        batch.push(&Call::RemoveDirectory { path: b"d" });
        batch.push(&Call::Unlink { path: b"d/f" });
        batch.push(&Call::RemoveDirectory { path: b"d" });
        batch.push(&Call::Unknown { code: 77 });
    };
    let mut all = Batch::new("data");
    fill(&mut all);
    let (empty, unknown) = (Some(ErrorKind::NotEmpty), Some(ErrorKind::Unsupported));
    assert_eq!(outcomes(&session, &all), [None, None, empty, None, None, unknown]);
    let mut stopping = Batch::new("data").stop_at_failure();
    fill(&mut stopping);
    let not_tried = Some(ErrorKind::NotTried);
    assert_eq!(outcomes(&session, &stopping), [None, None, empty, not_tried, not_tried, not_tried]);
    session.close().unwrap();
}

#[test]
fn hundreds_of_batches_are_under_way_on_all_pipelines_and_each_is_answered() {
    let serving = Serving::with(Setup { policy: Policy { pipelines_max: 2, ..Policy::default() }, ..Setup::default() });
    let mut options = serving.options(4);
    options.pipelines = 2;
    let session = Session::connect(&options).unwrap();
    let content = vec![7; 3000];
    let pending: Vec<_> = (0..300)
        .map(|n| {
            let mut batch = Batch::new(format!("data/m/{}", n % 5));
            let paths: Vec<String> = (0..15).map(|m| format!("{n}-{m}")).collect();
            paths.iter().for_each(|path| batch.push(&Call::Put(put(path.as_bytes(), &content))));
            session.call(&batch).unwrap()
        })
        .collect();
    for one in pending {
        let reply = one.wait().unwrap();
        assert!(reply.read().unwrap().outcomes.iter().all(Result::is_ok));
    }
    let count: usize =
        (0..5).map(|n| std::fs::read_dir(serving.directory.path().join(format!("m/{n}"))).unwrap().count()).sum();
    assert_eq!(count, 300 * 15);
    session.close().unwrap();
}

#[test]
fn a_batch_that_cannot_be_done_at_all_is_an_error_of_its_own_and_the_session_lives_on() {
    let serving = Serving::start();
    let session = serving.connect(1);
    let error = |base: &str, call: &Call<'_>| {
        let mut batch = Batch::new(base);
        batch.push(call);
        session.call(&batch).unwrap().wait().unwrap_err().kind
    };
    let stat = Call::Stat { path: b"", wanted: Wanted::NOTHING };
    assert_eq!(error("absent/x", &stat), ErrorKind::NotFound);
    assert_eq!(error("data/../x", &stat), ErrorKind::InvalidPath);
    for path in [&b"../x"[..], b"/x", b"a//b", b"a/", b".", b"a\0b"] {
        let mut batch = Batch::new("data");
        batch.push(&Call::Stat { path, wanted: Wanted::NOTHING });
        assert_eq!(outcomes(&session, &batch), [Some(ErrorKind::InvalidPath)], "{}", path.escape_ascii());
    }
    assert!(session.call(&Batch::new("data")).is_err(), "an empty batch");
    let mut large = Batch::new("data");
    large.push(&Call::Put(put(b"f", &vec![0; session.batch_bytes_max()])));
    assert_eq!(session.call(&large).unwrap_err().kind, ErrorKind::LimitExceeded);
    assert!(session.look("data", Wanted::NOTHING).is_ok());
    session.close().unwrap();
}

#[test]
fn a_batch_that_is_sent_again_in_another_session_is_done_once() {
    let serving = Serving::start();
    let mut batch = Batch::new("data");
    batch.push(&Call::MakeDirectory { path: b"once", parents: false, mode: 0o755 });
    let batch = batch.once().unwrap();
    let first = serving.connect(1);
    assert_eq!(outcomes(&first, &batch), [None]);
    let again = serving.connect(1);
    assert_eq!(outcomes(&again, &batch.again(Duration::from_millis(1))), [None], "not AlreadyExists");
    let mut other = Batch::new("data");
    other.push(&Call::RemoveDirectory { path: b"once" });
    let other = other.once().unwrap().again(Duration::from_secs(3600));
    let unknown = again.call(&other).unwrap().wait().unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::UnknownOutcome);
    assert!(serving.directory.path().join("once").is_dir());
    first.close().unwrap();
    again.close().unwrap();
}

#[test]
fn channels_that_break_while_calls_run_cost_none_and_repeat_none() {
    let serving = Serving::start();
    for (round, cut) in [Cut::Fin, Cut::Rst, Cut::Fin, Cut::Rst].into_iter().enumerate() {
        let relay = Relay::to(&serving.address);
        let session = through(&serving, &relay, serving.options(4));
        relay.hold_after(40_000);
        let content = vec![5; 2000];
        let pending: Vec<_> = (0..60)
            .map(|n| {
                let mut batch = Batch::new("data");
                // Whatever is done twice fails the second time.
                let name = format!("r{round}-{n}");
                let file = format!("{name}/f");
                batch.push(&Call::MakeDirectory { path: name.as_bytes(), parents: false, mode: 0o755 });
                batch.push(&Call::Put(Put { keep_existing: true, ..put(file.as_bytes(), &content) }));
                session.call(&batch).unwrap()
            })
            .collect();
        relay.wait_held();
        (0..4).filter(|line| *line != round).for_each(|line| relay.cut(line, cut));
        relay.release();
        for (n, one) in pending.into_iter().enumerate() {
            let reply = one.wait().unwrap();
            let read = reply.read().unwrap();
            assert!(read.outcomes.iter().all(|outcome| *outcome == Ok(Answer::Done)), "{round}, {n}: {read:?}");
        }
        session.close().unwrap();
    }
}

/// Who asked for it may go: a hash that takes hours takes nobody's thread for good.
#[test]
fn a_long_hash_ends_when_it_is_cancelled_and_with_its_session() {
    for cancelled in [true, false] {
        let serving = Serving::start();
        let session = serving.connect(1);
        let holes = std::fs::File::create(serving.directory.path().join("holes")).unwrap();
        holes.set_len(8 << 40).unwrap();
        let mut batch = Batch::new("data");
        batch.push(&Call::Hash { path: b"holes", offset: 0, length: None });
        let pending = session.call(&batch).unwrap();
        serving.wait_for_status("it is being done", |[_, _, threads]| threads == 1);
        if cancelled {
            pending.cancel();
            let told = pending.wait();
            let kinds = told.map(|reply| reply.read().unwrap().outcomes[0].as_ref().err().map(|failure| failure.kind));
            assert!(
                matches!(kinds.as_ref().map_err(kind), Ok(Some(ErrorKind::Cancelled)) | Err(ErrorKind::Cancelled)),
                "{kinds:?}"
            );
            session.close().unwrap();
        } else {
            drop((pending, session));
        }
        serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    }
}

/// It would be hashed until its session ends, however much of it is asked for.
#[test]
fn what_has_no_end_has_no_hash() {
    let serving = Serving::start();
    let session = serving.connect(1);
    for length in [None, Some(1), Some(1 << 60)] {
        let call = session.hash("memory/zero", 0, length).unwrap_err();
        let sum = session.sum("memory/zero", 0, length).unwrap_err();
        assert_eq!((kind(&call), kind(&sum)), (ErrorKind::Unsupported, ErrorKind::Unsupported), "{call}; {sum}");
    }
    session.close().unwrap();
}

#[test]
fn what_another_session_made_since_one_began_is_told_as_there_already() {
    let serving = Serving::start();
    let source = serving.directory.path().join("source");
    std::fs::write(&source, pattern(3 * BLOCK, 1)).unwrap();
    let (late, other) = (serving.connect(1), serving.connect(1));
    assert_eq!(kind(&late.look("data/small", Wanted::ALL).unwrap_err()), ErrorKind::NotFound);
    let mut puts = Batch::new("data");
    for (path, content) in [("small", b"content"), ("other", b"CONTENT")] {
        puts.push(&Call::Put(put(path.as_bytes(), content)));
    }
    let puts = puts.durable();
    let up = |session: &Session| {
        assert_eq!(outcomes(session, &puts), [None, None]);
        let options = PutOptions { durable: true, ..PutOptions::default() };
        finish(&session.put(upload_of(&source), "data/large", &options).unwrap()).unwrap();
    };
    let identity = || ["small", "other", "large"].map(|name| inode(&serving, name));
    up(&other);
    std::fs::write(serving.directory.path().join("other"), b"CHANGED").unwrap();
    let before = identity();
    up(&late);
    assert_eq!((identity()[0], identity()[2]), (before[0], before[2]));
    assert_ne!(identity()[1], before[1]);
    let mut told = Vec::new();
    serving.heard("both uploads twice", |event| {
        match event {
            LogEvent::Calls { calls, safety, .. } if !calls.is_empty() => {
                told.extend(calls.iter().map(|call| (call.path.to_string(), call.unchanged, *safety)));
            }
            LogEvent::Transfer { name, unchanged, safety, .. } => told.push((name.to_string(), *unchanged, *safety)),
            _ => {}
        }
        (told.len() == 6).then_some(())
    });
    let told: Vec<_> = told.iter().map(|(name, unchanged, safety)| (name.as_str(), *unchanged, *safety)).collect();
    let durable = Some(xdfs_client::Safety::Durable);
    assert_eq!(told[..3], [("small", false, durable), ("other", false, durable), ("data/large", false, durable)]);
    assert_eq!(told[3..], [("small", true, durable), ("other", false, durable), ("data/large", true, durable)]);
}

/// What tells a file from the one that takes its place, which may come to have its inode.
fn inode(serving: &Serving, name: &str) -> (u64, i64, i64) {
    let facts = std::fs::metadata(serving.directory.path().join(name)).unwrap();
    (facts.ino(), facts.ctime(), facts.ctime_nsec())
}
