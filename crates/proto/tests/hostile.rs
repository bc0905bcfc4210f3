//! Numbers and orders that an honest peer does not choose (B10, B12), on the machines as a driver uses them.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use xdfs_proto::base::{ChannelId, Extent, Instant, PipelineId};
use xdfs_proto::limits::ACK_RANGES_MAX;
use xdfs_proto::session::{
    BlockDecision, BlockReceiver, InvalidBlock, Output, Payload, Role, Session, SessionLimits, SourceFacts,
};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::request::Request;

const NOW: Instant = Instant(0);

/// Everything at which an offset, a length or a size can go wrong, as far as the wire can say it.
const BORDERS: [u64; 15] = [
    0,
    1,
    99,
    100,
    101,
    (1 << 31) - 1,
    1 << 31,
    (1 << 31) + 1,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 53,
    (1 << 61) - 1,
    1 << 61,
    (1 << 62) - 1,
];

/// What a server answers to a download of this range of a file of this size: the granted length, or none.
fn granted(offset: u64, length: Option<u64>, size: Option<u64>) -> Option<u64> {
    let mut session = Session::new(Role::Server, PipelineId(0), SessionLimits::default());
    session.on_channel(ChannelId(1), NOW);
    let request = Request { name: b"e/f".to_vec(), offset, length, ..Request::default() };
    session.on_first_operation(Event::Download, &request.encode()).unwrap();
    let mut grant = None;
    while let Some(output) = session.poll(NOW) {
        match output {
            Output::Open { operation, .. } => {
                let facts = SourceFacts { size, ..SourceFacts::default() };
                session.on_opened(operation, Ok(facts));
            }
            Output::Send { channel, head, payload: Payload::Control(bytes) } => {
                let control = Control::decode(Event::from_code(head.event).unwrap(), &bytes).unwrap();
                if let Some(Control::Grant(told)) = control {
                    assert!(told.ranges.iter().all(|range| range.end() <= told.length.unwrap()));
                    grant = told.length;
                }
                session.on_sent(channel, NOW);
            }
            _ => {}
        }
    }
    grant
}

#[test]
fn b10_every_offset_length_and_size_at_a_border_is_granted_exactly_or_refused() {
    for offset in BORDERS {
        for size in BORDERS.map(Some).into_iter().chain([None]) {
            for length in BORDERS.map(Some).into_iter().chain([None]) {
                // Plain arithmetic, in numbers that cannot overflow.
                let end = |length: u64| u128::from(offset) + u128::from(length);
                let expected = match (size, length) {
                    (Some(size), Some(length)) => (end(length) <= size.into()).then_some(length),
                    (Some(size), None) => size.checked_sub(offset),
                    (None, length) => length,
                };
                assert_eq!(granted(offset, length, size), expected, "{length:?} from {offset} of {size:?}");
            }
        }
    }
}

const BLOCK: u32 = 64 * 1024;

fn block(index: u64) -> Extent {
    Extent::new(index * u64::from(BLOCK), BLOCK.into()).unwrap()
}

fn receiver(blocks: u64) -> BlockReceiver {
    BlockReceiver::new(0, Some(blocks * u64::from(BLOCK)), BLOCK, blocks * u64::from(BLOCK))
}

fn take(receiver: &mut BlockReceiver, index: u64) -> Result<BlockDecision, InvalidBlock> {
    let judged = receiver.judge(block(index).offset(), BLOCK)?;
    if judged == BlockDecision::Take {
        receiver.on_arrived(block(index).offset(), BLOCK)?;
        receiver.on_written(block(index), NOW);
    }
    Ok(judged)
}

#[test]
fn b12_blocks_in_the_worst_orders_are_taken_once_and_told_within_bounds() {
    const BLOCKS: u64 = 20_000;
    let orders: [(&str, Vec<u64>); 3] = [
        ("every second one, then the others", (0..BLOCKS).step_by(2).chain((1..BLOCKS).step_by(2)).collect()),
        ("backwards", (0..BLOCKS).rev().collect()),
        ("from both ends", (0..BLOCKS / 2).flat_map(|at| [BLOCKS - 1 - at, at]).collect()),
    ];
    for (what, order) in orders {
        let mut receiver = receiver(BLOCKS);
        for (count, index) in order.iter().enumerate() {
            assert_eq!(take(&mut receiver, *index), Ok(BlockDecision::Take), "{what}: {index}");
            if count % 1000 == 0 {
                let (low, ranges) = receiver.acknowledge();
                assert!(ranges.len() <= ACK_RANGES_MAX && low <= BLOCKS * u64::from(BLOCK), "{what}");
            }
        }
        assert!(receiver.covered(), "{what}");
    }
}

#[test]
fn b12_a_million_repetitions_and_empty_blocks_change_nothing() {
    let mut receiver = receiver(64);
    for index in (0..64).step_by(2) {
        take(&mut receiver, index).unwrap();
    }
    let before = receiver.clone();
    for repetition in 0..1_000_000_u64 {
        assert_eq!(take(&mut receiver, 2 * (repetition % 32)), Ok(BlockDecision::Duplicate));
    }
    for index in 0..1000 {
        assert_eq!(receiver.judge(block(index % 64).offset(), 0), Err(InvalidBlock::Length));
    }
    assert_eq!(receiver, before);
}
