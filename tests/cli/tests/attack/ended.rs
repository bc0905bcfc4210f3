//! Sessions that have ended, whose peers have not gone.

use std::time::{Duration, Instant};

use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::{Event, Flags};
use xdfs_test_cli::{Server, threads_named, until};

use crate::peer::{Peer, Who};
use crate::{Field, alone};

/// What the server has taken of all processors.
fn processor_time(server: &Server) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.process().as_raw_nonzero())).unwrap();
    // Behind the name of the program, which may have anything in it.
    let fields = text.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Sessions, and what all of them may take of a processor once they have ended: a fortieth of a second each.
const ENDED: u8 = 8;
const ENDED_MAX: Duration = Duration::from_millis(25 * ENDED as u64);

/// They end for a fault of their peers, who keep their connections: each has two seconds to read why.
#[test]
fn sessions_that_have_ended_take_no_processor_while_their_peers_stay() {
    let _one = alone();
    let field = Field::new();
    let mut peers: Vec<_> = (1..=ENDED).map(|number| Peer::open(&field.server, Who::Visitor(number))).collect();
    let before = processor_time(&field.server);
    let fault = Control::EndOfTransfer { records: 77 }.encode();
    for peer in &mut peers {
        assert!(peer.send(Event::EndOfTransfer, 0, Flags::NONE, &fault));
        peer.drain();
    }
    // Whatever they send meanwhile changes nothing.
    let later = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < later {
        std::thread::yield_now();
    }
    for peer in &mut peers {
        peer.send(Event::EndOfTransfer, 0, Flags::NONE, &fault);
    }
    until(|| threads_named(field.server.process(), "xdfs-pipeline"), |threads| *threads == 0);
    let took = processor_time(&field.server) - before;
    assert!(took < ENDED_MAX, "{took:?}");
    drop(peers);
    assert_eq!(field.server.stop(), Some(0));
}
