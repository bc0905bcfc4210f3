//! Sources and stages that are not stores of files: pipes, zero bytes, the sink, and the export that offers the two.

use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::OwnedFd;
use xdfs_io::store::stream::{StreamSource, StreamStage};
use xdfs_io::store::{Existing, FileKind, MemoryExport, Order, Source, Stage, Store};
use xdfs_proto::base::ErrorKind;
use xdfs_test_conformance::store::bench::{commit, path, request};

fn pipe(flags: PipeFlags) -> (OwnedFd, OwnedFd) {
    pipe_with(flags | PipeFlags::CLOEXEC).unwrap()
}

#[test]
fn bytes_cross_a_pipe_in_order_and_whole_blocks_come_out() {
    // Non-blocking as well: whoever started us may have set that on the descriptor we inherit.
    for flags in [PipeFlags::empty(), PipeFlags::NONBLOCK] {
        let (reader, writer) = pipe(flags);
        let stage = Stage::new(StreamStage::new(writer, "out"));
        assert_eq!(stage.order(), Order::Ascending);
        let sent: Vec<u8> = (0..1_000_003u32).map(|index| (index % 251) as u8).collect();
        let mut source = Source::new(StreamSource::new(reader, "in"));
        assert!(source.is_sequential());
        assert_eq!(source.attributes().size, None);
        std::thread::scope(|scope| {
            let sent = &sent;
            scope.spawn(move || {
                for (index, part) in sent.chunks(70_001).enumerate() {
                    stage.write(part, index as u64 * 70_001).unwrap();
                }
                stage.commit(&commit(sent.len() as u64)).unwrap();
            });
            let mut got = Vec::new();
            let mut block = vec![0; 300_000];
            loop {
                let count = source.read(&mut block).unwrap();
                got.extend_from_slice(&block[..count]);
                if count < block.len() {
                    break;
                }
            }
            assert!(got == *sent);
            assert_eq!(source.read(&mut block).unwrap(), 0);
        });
    }
}

#[test]
fn a_stream_is_written_in_order_or_not_at_all() {
    let (_reader, writer) = pipe(PipeFlags::empty());
    let stage = Stage::new(StreamStage::new(writer, "out"));
    stage.write(b"abc", 0).unwrap();
    for offset in [0, 2, 4, u64::MAX - 1] {
        let error = stage.write(b"d", offset).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfRange, "{error}");
    }
    // A refused range is not a failed write.
    stage.write(b"d", 3).unwrap();
    assert_eq!(stage.commit(&commit(5)).unwrap_err().message, "cannot write 'out': 4 bytes went out of 5");
}

#[test]
fn a_closed_pipe_is_told_in_words() {
    let (reader, writer) = pipe(PipeFlags::empty());
    drop(reader);
    let stage = Stage::new(StreamStage::new(writer, "standard output"));
    let error = stage.write(b"abc", 0).unwrap_err();
    assert_eq!(
        (error.errno, error.message.as_str()),
        (32, "cannot write 'standard output': whoever read it closed the pipe")
    );
    assert!(stage.write(b"abc", 0).is_err());
    assert!(stage.commit(&commit(0)).is_err());
}

#[test]
fn a_stream_has_no_ranges_and_a_file_no_sequence() {
    let (reader, _writer) = pipe(PipeFlags::empty());
    let stream = Source::new(StreamSource::new(reader, "in"));
    assert_eq!(stream.read_at(&mut [0; 4], 0).unwrap_err().kind, ErrorKind::Unsupported);
    assert!(stream.descriptor().is_none());
    stream.revalidate().unwrap();
    // A copy of what has no date must not be dated 1970.
    assert_eq!((stream.modified(), Source::zero(None).modified()), (None, None));
    assert_eq!(Source::zero(None).read(&mut [0; 4]).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn zero_is_endless_or_exactly_as_long_as_asked() {
    let endless = Source::zero(None);
    assert!(endless.is_zero() && endless.attributes().size.is_none());
    for offset in [0, 1 << 40, i64::MAX as u64 - 16] {
        let mut buf = [0xee; 16];
        endless.read_exact_at(&mut buf, offset).unwrap();
        assert_eq!(buf, [0; 16]);
    }
    assert_eq!(endless.read_at(&mut [0; 17], i64::MAX as u64 - 16).unwrap_err().kind, ErrorKind::OutOfRange);
    let ten = Source::zero(Some(10));
    assert_eq!(ten.attributes().size, Some(10));
    let mut buf = [0xee; 16];
    assert_eq!(ten.read_at(&mut buf, 4).unwrap(), 6);
    assert_eq!(buf, [0, 0, 0, 0, 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]);
    assert_eq!(ten.read_at(&mut buf, 11).unwrap(), 0);
}

#[test]
fn random_bytes_are_the_same_at_each_look_and_hold_no_pattern() {
    let endless = Source::random(None).unwrap();
    assert!(!endless.is_zero() && endless.attributes().size.is_none() && endless.identity().is_none());
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        endless.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    // Over the end of the block that is repeated, in one piece and in many.
    let (from, length) = ((4 << 20) - 100_000, 300_000);
    let pieces = (0..length as u64).step_by(70_001).map(|at| read(from + at, 70_001.min(length - at as usize)));
    let whole = read(from, length);
    assert!(pieces.collect::<Vec<_>>().concat() == whole);
    let mut counts = [0; 256];
    whole.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    assert!(counts.iter().all(|count| (900..1_500).contains(count)), "{counts:?}");
    let ten = Source::random(Some(10)).unwrap();
    assert_eq!((ten.read_at(&mut [0; 16], 4).unwrap(), ten.read_at(&mut [0; 16], 11).unwrap()), (6, 0));
}

#[test]
fn the_memory_export_offers_zero_random_and_null_and_nothing_else() {
    let export = MemoryExport;
    assert!(export.open(&path("zero")).unwrap().is_zero());
    assert_eq!(export.attributes(&path("zero")).unwrap().kind, FileKind::Regular);
    assert_eq!(export.attributes(&path("random")).unwrap().size, None);
    assert!(!export.open(&path("random")).unwrap().is_zero());
    assert_eq!(export.attributes(&path("")).unwrap().kind, FileKind::Directory);
    for existing in [Existing::Replace, Existing::Keep] {
        let null = export.stage(&request("null", existing)).unwrap();
        null.write(&[1; 1000], 1 << 50).unwrap();
        assert_eq!(null.write(&[1; 2], i64::MAX as u64).unwrap_err().kind, ErrorKind::OutOfRange);
        assert_eq!(null.commit(&commit(1000)).unwrap().size, Some(1000));
    }
    assert_eq!(export.open(&path("null")).unwrap().attributes().size, Some(0));
    let cases = [
        (export.stage(&request("zero", Existing::Replace)).unwrap_err(), ErrorKind::ReadOnly),
        (export.stage(&request("other", Existing::Replace)).unwrap_err(), ErrorKind::NotFound),
        (export.open(&path("zero/x")).unwrap_err(), ErrorKind::NotFound),
        (export.attributes(&path("x")).unwrap_err(), ErrorKind::NotFound),
        (export.open(&path("")).unwrap_err(), ErrorKind::IsDirectory),
    ];
    for (error, kind) in cases {
        assert_eq!(error.kind, kind, "{error}");
    }
}
