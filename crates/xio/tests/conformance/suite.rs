//! What every driver promises, whatever it is: one suite over all of them. A driver is added to a table of subjects,
//! and the suite says what it owes. The program that includes it has the table: `subjects.rs` here and beside the
//! drivers of other crates.

use std::io::{IoSlice, IoSliceMut};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::subject::{Ability, Ends, PATIENCE, Subject, patient};
use crate::subjects::{LACKING, subjects};
use xdfs_xio::{Completed, ErrorKind, Handle, Options, Timeouts, WriteInfo};

/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(30);
/// Longer than any library keeps a connection by itself that has ended and whose bytes were read.
const LATE: Duration = Duration::from_secs(3);

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// The drivers that have all of `abilities`, one after the other.
fn each(abilities: &[Ability], mut then: impl FnMut(&Subject, Ends)) {
    let able: Vec<_> = subjects().into_iter().filter(|one| abilities.iter().all(|ability| one.can(*ability))).collect();
    let lack = abilities.iter().any(|ability| LACKING.contains(ability));
    assert_eq!(able.is_empty(), lack, "who can {abilities:?}");
    for subject in able {
        then(&subject, subject.ends(&patient()));
    }
}

/// Reads to the end.
fn rest(name: &str, handle: &Handle) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 10_007]);
    loop {
        let read = handle.read(&mut buffer, 10_007).unwrap_or_else(|error| panic!("{name}: {error}"));
        all.extend_from_slice(&buffer[..read.bytes]);
        if read.info.end {
            return all;
        }
        assert_eq!(read.bytes, buffer.len(), "{name}: fewer only at the end");
    }
}

/// A callback, and where it tells.
fn telling() -> (impl Fn(&Handle, Completed) + Clone + Send + 'static, Receiver<Completed>) {
    let (tell, told) = sync_channel(64);
    (move |_: &Handle, done: Completed| tell.send(done).unwrap(), told)
}

#[test]
fn what_is_written_is_read_in_order_and_the_end_is_told_and_stays() {
    each(&[Ability::End], |subject, ends| {
        let (name, content) = (subject.name, pattern(400_009));
        let sent = content.clone();
        let writer = &ends.writer;
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                for piece in sent.chunks(31_013) {
                    assert_eq!(writer.write(piece).unwrap(), piece.len(), "{name}");
                }
                ends.finish();
            });
            if !subject.can(Ability::Wait) {
                sending.join().unwrap();
            }
            assert!(rest(name, ends.reader()) == content, "{name}");
        });
        for _ in 0..2 {
            let again = ends.reader().read(&mut [0; 10], 10).unwrap();
            assert_eq!((again.bytes, again.info.end), (0, true), "{name}: it stays the end");
        }
    });
}

#[test]
#[allow(clippy::disallowed_methods, reason = "nothing tells when a library forgets a connection that has ended")]
fn whoever_reads_late_has_all_and_the_end() {
    let mut all = Vec::new();
    each(&[Ability::Stream, Ability::End], |subject, ends| all.push((subject.name, subject.can(Ability::Wait), ends)));
    // A driver may have read that ahead, and the end not yet.
    let content = b"content";
    thread::scope(|scope| {
        for (name, waits, ends) in &all {
            let sending = scope.spawn(move || {
                assert_eq!(ends.writer.write(content).unwrap(), content.len(), "{name}");
                ends.finish();
            });
            if !waits {
                sending.join().unwrap();
            }
        }
        thread::sleep(LATE);
        for (name, _, ends) in &all {
            assert_eq!(rest(name, ends.reader()), content, "{name}");
        }
    });
}

#[test]
fn messages_keep_their_limits() {
    each(&[Ability::Messages], |subject, ends| {
        let mut buffer = [0; 100];
        for content in [b"first".as_slice(), b"", b"third"] {
            ends.writer.write(content).unwrap();
            let read = ends.reader().read(&mut buffer, 100).unwrap();
            assert_eq!((&buffer[..read.bytes], read.info.end_of_message), (content, true), "{}", subject.name);
        }
    });
}

#[test]
fn several_buffers_are_written_and_filled_in_order() {
    each(&[Ability::Stream], |subject, ends| {
        let name = subject.name;
        let parts = [&b"one"[..], b"", b"and another", b"", b"end"];
        let mut slices = parts.map(IoSlice::new);
        assert_eq!(ends.writer.writev(&mut slices, &WriteInfo::default()).unwrap(), 17, "{name}");
        // The same, registered.
        let (done, told) = telling();
        let parts = parts.map(<[u8]>::to_vec).to_vec();
        ends.writer.register_write(parts.clone(), WriteInfo::default(), done.clone()).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).expect(name).buffers, parts.clone().into(), "{name}");
        ends.settle();
        let (mut first, mut none, mut last) = ([0; 5], [0; 0], [0; 12]);
        let mut slices = [&mut first[..], &mut none, &mut last].map(IoSliceMut::new);
        let read = ends.reader().readv(&mut slices, 17).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.bytes, 17, "{name}");
        assert_eq!([&first[..], &last].concat(), parts.concat(), "{name}");
        ends.reader().register_read(vec![vec![0; 5], Vec::new(), vec![0; 12]], 17, done).unwrap();
        let filled = told.recv_timeout(PATIENCE).expect(name);
        assert_eq!(filled.result.unwrap().bytes, 17, "{name}");
        assert_eq!(filled.buffers.into_one(), parts.concat(), "{name}");
    });
}

#[test]
fn an_empty_write_is_no_end() {
    each(&[Ability::Stream], |subject, ends| {
        let name = subject.name;
        for content in [b"".as_slice(), b"x", b"", b"yz"] {
            assert_eq!(ends.writer.write(content).unwrap(), content.len(), "{name}");
        }
        ends.settle();
        let mut bytes = [0; 3];
        assert_eq!(ends.reader().read(&mut bytes, 3).unwrap().bytes, 3, "{name}");
        assert_eq!(&bytes, b"xyz", "{name}");
        let nothing = ends.reader().read(&mut [], 0).unwrap();
        assert_eq!((nothing.bytes, nothing.info.end), (0, false), "{name}");
    });
}

#[test]
fn a_read_that_waits_for_nothing_takes_what_is_there() {
    each(&[Ability::Wait], |subject, ends| {
        let name = subject.name;
        let nothing = ends.reader().read(&mut [0; 10], 0).unwrap();
        assert_eq!((nothing.bytes, nothing.info.end), (0, false), "{name}");
        let (done, told) = telling();
        ends.reader().register_read(vec![0; 10], 0, done).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).expect(name).result.unwrap().bytes, 0, "{name}");
    });
    each(&[Ability::Stream], |subject, ends| {
        // It takes some of what is on its way or nothing, however often, and the next gets the rest.
        let name = subject.name;
        ends.writer.write(b"content").unwrap();
        ends.settle();
        let mut bytes = [0; 7];
        let mut moved = 0;
        for _ in 0..20 {
            moved += ends.reader().read(&mut bytes[moved..], 0).unwrap().bytes;
        }
        ends.reader().read(&mut bytes[moved..], 7 - moved).unwrap();
        assert_eq!(&bytes, b"content", "{name}: {moved} bytes");
    });
}

#[test]
fn what_was_decoded_is_read_though_the_kernel_has_nothing_more() {
    each(&[Ability::Stream], |subject, ends| {
        let (name, content) = (subject.name, pattern(60));
        ends.writer.write(&content).unwrap();
        ends.settle();
        let mut received = vec![0];
        assert_eq!(ends.reader().read(&mut received, 1).unwrap().bytes, 1, "{name}");
        let (done, told) = telling();
        for _ in 1..content.len() {
            ends.reader().register_read(vec![0], 1, done.clone()).unwrap();
        }
        for _ in 1..content.len() {
            let done = told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{name}: {} bytes", received.len()));
            assert_eq!(done.result.unwrap().bytes, 1, "{name}");
            received.extend(done.buffers.into_one());
        }
        assert!(received == content, "{name}");
    });
}

#[test]
fn both_directions_move_at_once() {
    each(&[Ability::Stream, Ability::BothWays, Ability::Wait], |subject, ends| {
        let name = subject.name;
        let (done, told) = telling();
        let length = 600_000;
        for (handle, byte) in [(&ends.writer, 1), (ends.reader(), 2)] {
            handle.register_write(vec![byte; length], WriteInfo::default(), done.clone()).unwrap();
        }
        for (handle, byte) in [(&ends.writer, 2), (ends.reader(), 1)] {
            let mut bytes = vec![0; length];
            assert_eq!(handle.read(&mut bytes, length).unwrap().bytes, length, "{name}");
            assert!(bytes.iter().all(|read| *read == byte), "{name}");
        }
        for _ in 0..2 {
            assert_eq!(told.recv_timeout(PATIENCE).expect(name).result.unwrap().bytes, length, "{name}");
        }
    });
}

#[test]
fn a_cancel_and_a_timeout_lose_no_byte() {
    each(&[Ability::Stream, Ability::Wait], |subject, ends| {
        let name = subject.name;
        let (done, told) = telling();
        let read = ends.reader().register_read(vec![0; 100], 100, done).unwrap();
        ends.writer.write(b"half").unwrap();
        assert!(ends.reader().cancel(read) && !ends.reader().cancel(read), "{name}");
        let completed = told.recv_timeout(PATIENCE).expect(name);
        let error = completed.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{name}");
        let moved = error.transferred();
        let mut rest = [0; 4];
        ends.reader().read(&mut rest[moved..], 4 - moved).unwrap();
        rest[..moved].copy_from_slice(&completed.buffers.into_one()[..moved]);
        assert_eq!(&rest, b"half", "{name}: {moved} bytes had moved");
    });
    for subject in subjects().into_iter().filter(|subject| subject.can(Ability::Wait)) {
        let timeouts = Timeouts { read: Some(SHORT), ..patient().timeouts };
        let ends = subject.ends(&Options { timeouts });
        let began = Instant::now();
        let error = ends.reader().read(&mut [0; 8], 8).unwrap_err();
        assert_eq!((error.kind(), error.transferred()), (ErrorKind::TimedOut, 0), "{}", subject.name);
        assert!(began.elapsed() >= SHORT, "{}", subject.name);
        ends.writer.write(b"later").unwrap();
        let mut bytes = [0; 5];
        let until = Instant::now() + PATIENCE;
        let mut moved = 0;
        while moved < 5 {
            assert!(Instant::now() < until, "{}: {moved} bytes", subject.name);
            let read = ends.reader().read(&mut bytes[moved..], 1);
            moved += read.map_or_else(|error| error.transferred(), |received| received.bytes);
        }
        assert_eq!(&bytes, b"later", "{}", subject.name);
    }
}

#[test]
fn cancels_at_any_moment_lose_no_byte() {
    each(&[Ability::Stream, Ability::End], |subject, ends| {
        let write = |piece: &[u8], round| registered_write(&ends.writer, piece, round % 50 != 49);
        let read = |bytes: &mut [u8], round| registered_read(ends.reader(), bytes, round % 2 == 0);
        moves_all(subject, &ends, ErrorKind::Cancelled, write, read);
    });
}

#[test]
fn timeouts_at_any_moment_lose_no_byte() {
    let able = |subject: &Subject| subject.can(Ability::Stream) && subject.can(Ability::End);
    for subject in subjects().into_iter().filter(able) {
        let no_time = Some(Duration::ZERO);
        let ends =
            subject.ends(&Options { timeouts: Timeouts { read: no_time, write: no_time, ..patient().timeouts } });
        let write = |piece: &[u8], _| ends.writer.write(piece).map(|bytes| (bytes, false));
        let read = |bytes: &mut [u8], _| {
            let wanted = bytes.len();
            ends.reader().read(bytes, wanted).map(|read| (read.bytes, read.info.end))
        };
        moves_all(&subject, &ends, ErrorKind::TimedOut, write, read);
    }
}

/// Bytes that moved, and whether that is the end.
type Moved = xdfs_xio::Result<(usize, bool)>;

/// Moves bytes by operations that are broken off in one way, and looks whether those arrive that were said to move.
fn moves_all(
    subject: &Subject,
    ends: &Ends,
    broken_off: ErrorKind,
    write: impl Fn(&[u8], usize) -> Moved + Send + Sync,
    read: impl Fn(&mut [u8], usize) -> Moved,
) {
    let (name, content, until) = (subject.name, pattern(600_011), Instant::now() + PATIENCE);
    let moved = |moved: Moved| {
        assert!(Instant::now() < until, "{name}: it goes on for ever");
        thread::yield_now();
        moved.unwrap_or_else(|error| {
            assert_eq!(error.kind(), broken_off, "{name}: {error}");
            (error.transferred(), false)
        })
    };
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            for mut piece in content.chunks(31_013) {
                for round in 0.. {
                    piece = &piece[moved(write(piece, round)).0..];
                    if piece.is_empty() {
                        break;
                    }
                }
            }
            ends.finish();
        });
        if !subject.can(Ability::Wait) {
            sending.join().unwrap();
        }
        let (mut received, mut bytes) = (Vec::new(), [0; 10_007]);
        for round in 0.. {
            let (count, end) = moved(read(&mut bytes, round));
            received.extend_from_slice(&bytes[..count]);
            if end {
                break;
            }
        }
        assert!(received == content, "{name}: {} bytes", received.len());
    });
}

fn registered_write(handle: &Handle, bytes: &[u8], cancels: bool) -> Moved {
    let (done, told) = telling();
    let write = handle.register_write(bytes.to_vec(), WriteInfo::default(), done)?;
    if cancels {
        handle.cancel(write);
    }
    told.recv_timeout(PATIENCE).expect("a callback is called").result.map(|sent| (sent.bytes, false))
}

fn registered_read(handle: &Handle, bytes: &mut [u8], cancels: bool) -> Moved {
    let (done, told) = telling();
    let read = handle.register_read(bytes.to_vec(), bytes.len(), done)?;
    if cancels {
        handle.cancel(read);
    }
    let read = told.recv_timeout(PATIENCE).expect("a callback is called");
    bytes.copy_from_slice(&read.buffers.into_one());
    read.result.map(|read| (read.bytes, read.info.end))
}

#[test]
fn close_tells_everything_first_and_itself_last() {
    each(&[Ability::Wait], |subject, ends| closes(subject, &ends, |read| read == Err(ErrorKind::Cancelled)));
    // Where something is there, the first of them may have it.
    each(&[Ability::Stream], |subject, ends| {
        ends.writer.write(&[7; 25]).unwrap();
        ends.settle();
        closes(subject, &ends, |read| matches!(read, Ok(_) | Err(ErrorKind::Cancelled)));
    });
}

/// Closes a reader that has reads outstanding, which end as `expected`.
fn closes(subject: &Subject, ends: &Ends, expected: impl Fn(Result<usize, ErrorKind>) -> bool) {
    let name = subject.name;
    let (tell, told) = sync_channel(64);
    for number in 0..5 {
        let tell = tell.clone();
        let done = move |_: &Handle, done: Completed| {
            tell.send((number, done.result.map(|read| read.bytes).map_err(|error| error.kind()))).unwrap();
        };
        ends.reader().register_read(vec![0; 10], 10, done).unwrap();
    }
    let closed = move |closed: xdfs_xio::Result<()>| {
        tell.send((5, closed.map(|()| 0).map_err(|error| error.kind()))).unwrap();
    };
    ends.reader().register_close(closed).unwrap();
    let mut order: Vec<_> = (0..5)
        .map(|_| {
            let (number, read) = told.recv_timeout(PATIENCE).expect(name);
            assert!(expected(read), "{name}: {number}: {read:?}");
            number
        })
        .collect();
    // The first may be with its driver, as on a disk, and is told when that returns.
    if order.ends_with(&[0]) {
        order.rotate_right(1);
    }
    assert_eq!(order, [0, 1, 2, 3, 4], "{name}");
    assert_eq!(told.recv_timeout(PATIENCE).map(|(number, _)| number), Ok(5), "{name}");
    assert_eq!(ends.reader().write(b"x").unwrap_err().kind(), ErrorKind::Closed, "{name}");
    assert_eq!(ends.reader().close().unwrap_err().kind(), ErrorKind::Closed, "{name}");
}

#[test]
fn what_a_driver_does_not_know_is_refused_by_name() {
    for subject in subjects() {
        let (name, ends) = (subject.name, subject.ends(&patient()));
        for driver in [None, Some(name)] {
            let error = ends.writer.control(driver, "no_such_command", None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
            assert!(error.to_string().contains("no_such_command"), "{name}: {error}");
        }
        let empty = subject.empty_stack();
        let bottom = if subject.is_transform { empty.push("tcp", "").unwrap() } else { empty };
        let error = bottom.push(name, "no_such_attribute=1").unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some(name)), "{error}");
        assert!(error.to_string().contains("no_such_attribute"), "{error}");
    }
}

#[test]
fn what_cannot_be_opened_is_an_error_of_its_driver() {
    for subject in subjects() {
        for contact in ["", "\0", "no such place\n"] {
            let error = Handle::open(&subject.stack(), contact, &patient()).unwrap_err();
            assert!(error.stack().is_some(), "{} {contact:?}: {error}", subject.name);
            // A contact that nobody could read was read by none of them.
            let of = error.driver().unwrap_or_else(|| {
                assert_eq!(error.kind(), ErrorKind::Contact, "{} {contact:?}: {error}", subject.name);
                subject.name
            });
            assert!(subject.stack().names().any(|name| name == of), "{} {contact:?}: {error}", subject.name);
            assert!(!error.to_string().chars().any(char::is_control), "{} {contact:?}: {error:?}", subject.name);
        }
    }
}
