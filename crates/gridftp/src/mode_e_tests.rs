//! Tests of Mode E: what a sender may do, and every lie that it may tell.

use proptest::prelude::*;

use super::*;

const FILE: Range = Range { start: 0, end: 100 };

fn data(offset: u64, count: u64, last: bool) -> Vec<u8> {
    let head = Head::Data { count, offset, last }.encode();
    let body = (offset..offset + count.min(1000)).map(|at| at as u8);
    head.into_iter().chain(body).collect()
}

fn end() -> Vec<u8> {
    Head::End.encode().to_vec()
}

fn eof(ends: u64, last: bool) -> Vec<u8> {
    Head::File { ends, last }.encode().to_vec()
}

/// Feeds what a connection carries, in pieces of at most `cut` bytes, and keeps the file.
fn feed(
    assembly: &mut Assembly,
    connection: usize,
    bytes: &[u8],
    cut: usize,
    file: &mut [u8],
) -> Result<(), BlockError> {
    for piece in bytes.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            match assembly.take(connection, rest)? {
                Piece::Control { length } => rest = &rest[length..],
                Piece::Data { offset, length } => {
                    let at = usize::try_from(offset).unwrap();
                    file[at..at + length].copy_from_slice(&rest[..length]);
                    rest = &rest[length..];
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_file_on_two_connections_is_whole_in_any_pieces(cut in 1_usize..50) {
        let mut assembly = Assembly::new(FILE, 2);
        let mut file = [0; 100];
        let first = [data(50, 25, false), data(0, 30, true)].concat();
        let second = [data(30, 20, false), data(75, 25, false), eof(2, false), end()].concat();
        let (one, two) = (assembly.open().unwrap(), assembly.open().unwrap());
        feed(&mut assembly, two, &second, cut, &mut file).unwrap();
        prop_assert_eq!(assembly.is_complete(), Ok(false));
        feed(&mut assembly, one, &first, cut, &mut file).unwrap();
        prop_assert_eq!(assembly.is_complete(), Ok(true));
        prop_assert!(file.iter().zip(0..).all(|(byte, at)| *byte == at));
    }

    #[test]
    fn heads_are_read_as_they_were_written(bytes in any::<[u8; HEAD_BYTES]>()) {
        if let Ok(head) = Head::decode(&bytes) {
            prop_assert_eq!(Head::decode(&head.encode()), Ok(head));
        }
    }
}

#[test]
fn every_lie_of_a_sender_is_refused() {
    let outside = |offset, count| BlockError::Outside { count, offset };
    let overlap = |offset, count| BlockError::Range { count, offset, error: RangeError::Overlap };
    let raw = |descriptor: u8| [vec![descriptor], vec![0; 16]].concat();
    let with_data = [vec![EOF], 5_u64.to_be_bytes().to_vec(), vec![0; 8]].concat();
    let cases: Vec<(Vec<u8>, BlockError)> = vec![
        (data(100, 1, false), outside(100, 1)),
        (data(90, 11, false), outside(90, 11)),
        (Head::Data { count: 2, offset: u64::MAX, last: false }.encode().to_vec(), outside(u64::MAX, 2)),
        (Head::Data { count: u64::MAX, offset: 0, last: true }.encode().to_vec(), outside(0, u64::MAX)),
        ([data(0, 10, false), data(9, 5, false)].concat(), overlap(9, 5)),
        ([data(10, 10, false), data(5, 6, false)].concat(), overlap(5, 6)),
        ([data(10, 10, false), data(10, 10, false)].concat(), overlap(10, 10)),
        ([data(10, 10, false), data(0, 100, false)].concat(), overlap(0, 100)),
        (raw(0x01), BlockError::Descriptor(0x01)),
        (raw(0x10), BlockError::Descriptor(0x10)),
        (raw(0x80), BlockError::Descriptor(0x80)),
        (with_data, BlockError::EndWithData(5)),
        (eof(0, false), BlockError::Ends(0)),
        (eof(3, false), BlockError::Ends(3)),
        (eof(u64::MAX, false), BlockError::Ends(u64::MAX)),
        ([eof(2, false), eof(2, false)].concat(), BlockError::EndTwice),
        ([end(), end()].concat(), BlockError::AfterEnd),
        ([data(0, 5, true), data(5, 5, false)].concat(), BlockError::AfterEnd),
        ([eof(2, true), data(5, 5, false)].concat(), BlockError::AfterEnd),
    ];
    for (bytes, error) in cases {
        let mut assembly = Assembly::new(FILE, 2);
        let connection = assembly.open().unwrap();
        assert_eq!(feed(&mut assembly, connection, &bytes, 7, &mut [0; 100]), Err(error.clone()), "{error}");
    }
}

#[test]
fn a_part_takes_nothing_before_it() {
    let mut assembly = Assembly::new(Range { start: 40, end: 60 }, 1);
    let connection = assembly.open().unwrap();
    let refused = feed(&mut assembly, connection, &data(39, 2, false), 7, &mut [0; 100]);
    assert_eq!(refused, Err(BlockError::Outside { count: 2, offset: 39 }));
}

#[test]
fn the_number_of_connections_and_of_their_ends_must_agree() {
    let mut assembly = Assembly::new(FILE, 2);
    let (one, two) = (assembly.open().unwrap(), assembly.open().unwrap());
    assert_eq!(assembly.open(), Err(BlockError::Connections(2)));
    feed(&mut assembly, one, &eof(1, true), 17, &mut []).unwrap();
    assert_eq!(assembly.is_complete(), Err(BlockError::Missing(100)));
    assert_eq!(feed(&mut assembly, two, &end(), 17, &mut []), Err(BlockError::MoreEnds(1)));
}

#[test]
fn a_connection_that_closes_in_the_middle_is_cut() {
    for bytes in [Vec::new(), data(0, 5, false), data(0, 5, true)[..20].to_vec(), end()[..5].to_vec()] {
        let mut assembly = Assembly::new(FILE, 1);
        let connection = assembly.open().unwrap();
        feed(&mut assembly, connection, &bytes, 7, &mut [0; 100]).unwrap();
        assert_eq!(assembly.close(connection), Err(BlockError::Cut));
    }
    let mut assembly = Assembly::new(FILE, 1);
    let connection = assembly.open().unwrap();
    feed(&mut assembly, connection, &end(), 7, &mut []).unwrap();
    assert_eq!(assembly.close(connection), Ok(()));
}

#[test]
fn a_part_that_ends_before_it_begins_is_empty() {
    let mut assembly = Assembly::new(Range { start: 100, end: 0 }, 1);
    let connection = assembly.open().unwrap();
    let head = Head::Data { count: 1, offset: 50, last: false }.encode();
    assert!(matches!(assembly.clone().take(connection, &head), Err(BlockError::Outside { .. })));
    assembly.take(connection, &Head::File { ends: 1, last: true }.encode()).unwrap();
    assert_eq!(assembly.is_complete(), Ok(true));
}
