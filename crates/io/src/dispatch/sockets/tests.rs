//! What no caller can bring about: the routes below splice, which the system has to refuse first.

use super::*;
use crate::dispatch::{Body, Epoll};
use crate::transport::{self, Link, TransportOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two ends of a TCP connection in one dispatcher, with buffers that are soon full.
fn pair() -> (Epoll, SocketId, SocketId) {
    let options = TransportOptions { window: Some(64 * 1024), ..TransportOptions::default() };
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = transport::listen(&any.into(), &options).unwrap();
    let link = transport::connect(&listener.local().unwrap(), &options).unwrap();
    let mut dispatcher = Epoll::<Link>::new().unwrap();
    let listener = dispatcher.attach(listener, &[]).unwrap();
    let calling = dispatcher.attach(link, &[]).unwrap();
    dispatcher.submit(Op::Accept { socket: listener });
    match dispatcher.next(None).unwrap() {
        Completion::Accepted { link, .. } => {
            let accepted = dispatcher.attach(link, &[]).unwrap();
            (dispatcher, calling, accepted)
        }
        other => panic!("{other:?}"),
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 % 251) as u8).collect()
}

fn source(length: usize) -> OwnedFd {
    let file = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(rustix::io::pwrite(&file, &bytes(length), 0).unwrap(), length);
    file
}

/// Sends `promised` bytes from a file of `length` and returns what arrived and what was lacking.
fn transfer(dispatcher: &mut Epoll, from: SocketId, to: SocketId, length: usize, promised: usize) -> (Vec<u8>, u64) {
    let file = dispatcher.open_file(source(length));
    let body = Body::File { file, offset: 3, length: promised as u64 };
    dispatcher.submit(Op::Send { socket: from, head: Some([5; 48]), body });
    let (mut arrived, mut short) = (Vec::new(), None);
    dispatcher.submit(Op::Some { socket: to, limit: 1 << 20 });
    while arrived.len() < 48 + promised || short.is_none() {
        match dispatcher.next(None).unwrap() {
            Completion::Some { .. } => {
                arrived.extend_from_slice(dispatcher.scratch());
                if arrived.len() < 48 + promised {
                    dispatcher.submit(Op::Some { socket: to, limit: 1 << 20 });
                }
            }
            Completion::Sent { short_by, .. } => short = Some(short_by),
            other => panic!("{other:?}"),
        }
    }
    dispatcher.close_file(file);
    assert_eq!(arrived[..48], [5; 48]);
    (arrived.split_off(48), short.unwrap())
}

#[test]
fn without_a_pipe_sendfile_carries_the_same_bytes() {
    let (mut dispatcher, from, to) = pair();
    dispatcher.tools.pipe = PipeRoute::Unavailable;
    let (arrived, short) = transfer(&mut dispatcher, from, to, 900_003, 900_000);
    assert!(arrived == bytes(900_003)[3..]);
    assert_eq!(short, 0);
    let (arrived, short) = transfer(&mut dispatcher, from, to, 500_003, 600_000);
    assert!(arrived[..500_000] == bytes(500_003)[3..] && arrived[500_000..].iter().all(|byte| *byte == 0));
    assert_eq!(short, 100_000);
}

#[test]
fn the_pipe_is_of_the_size_for_a_block_and_empty_when_a_send_is_over() {
    let (mut dispatcher, from, to) = pair();
    transfer(&mut dispatcher, from, to, 900_003, 900_000);
    let PipeRoute::Ready(pipe) = &dispatcher.tools.pipe else { panic!("a pipe was made") };
    assert!(pipe.is_empty(), "nothing is held");
}

/// `epoll`, and counts of the dispatcher's unsuccessful and successful waits for a socket.
struct Counting {
    inner: crate::dispatch::epoll::EpollWait<Link>,
    stays: Arc<[AtomicUsize; 2]>,
}

impl Wait for Counting {
    type Link = Link;
    type Waker = crate::dispatch::DescriptorWaker;

    fn watch(&mut self, slot: u32, link: &Link, before: Interest, after: Interest) -> io::Result<()> {
        self.inner.watch(slot, link, before, after)
    }

    fn wait(&mut self, until: Until, events: &mut Vec<Event>) -> io::Result<Waited> {
        self.inner.wait(until, events)
    }

    fn linger(&mut self, link: &Link, interest: Interest) -> bool {
        let ready = self.inner.linger(link, interest);
        self.stays[usize::from(ready)].fetch_add(1, Ordering::Relaxed);
        ready
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn waker(&self) -> Self::Waker {
        self.inner.waker()
    }
}

/// Sends 32 MiB on each of `flowing` sockets whose peers read, in parallel with one whose peer
/// reads 4 KiB at a time and pauses in between, so that it blocks in the middle of nearly every
/// turn; returns unsuccessful and successful waits.
fn stays_beside_a_slow_socket(flowing: usize) -> (usize, usize) {
    const BYTES: u64 = 32 << 20;
    let stays = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let inner = crate::dispatch::epoll::EpollWait::<Link>::new().unwrap();
    let mut dispatcher = Sockets::over(Counting { inner, stays: stays.clone() }).unwrap();
    let options = TransportOptions { window: Some(64 * 1024), ..TransportOptions::default() };
    let (rests, resting) = std::sync::mpsc::sync_channel::<()>(20);
    let mut resting = Some(resting);
    std::thread::scope(|scope| {
        for number in 0..=flowing {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let link = transport::connect(&listener.local_addr().unwrap().into(), &options).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let socket = dispatcher.attach(link, &[]).unwrap();
            dispatcher.submit(Op::Send { socket, head: None, body: Body::Zero { length: BYTES } });
            let resting = if number == flowing { resting.take() } else { None };
            scope.spawn(move || match resting {
                None => drop(io::copy(&mut peer, &mut io::sink())),
                // One small read each time all the others have sent everything: never
                // within the linger time.
                Some(resting) => resting.iter().for_each(|()| drop(io::Read::read(&mut peer, &mut [0; 4096]))),
            });
        }
        for _ in 0..20 {
            for _ in 0..flowing {
                let Completion::Sent { socket, .. } = dispatcher.next(None).unwrap() else { panic!("a send ended") };
                dispatcher.submit(Op::Send { socket, head: None, body: Body::Zero { length: BYTES } });
            }
            let _ = rests.send(());
        }
        drop((dispatcher, rests));
    });
    (stays[0].load(Ordering::Relaxed), stays[1].load(Ordering::Relaxed))
}

#[test]
fn a_side_stays_with_a_flowing_socket_and_hardly_with_one_that_does_not_flow() {
    // A peer reads within the linger time only where it has a processor, which others may have.
    let stays: Vec<_> = (0..5).map(|_| stays_beside_a_slow_socket(3)).collect();
    assert!(stays.iter().any(|(vain, fruitful)| vain * 4 < *fruitful), "in vain and with success: {stays:?}");
}

/// Allows a thousand bytes at a time, each time at the second question.
#[derive(Debug, Default)]
struct ThousandAtATime {
    moves: std::sync::Mutex<Vec<u64>>,
    asked: AtomicUsize,
}

impl Pace for ThousandAtATime {
    fn ask(&self, now: Instant) -> Allowance {
        match self.asked.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Allowance::From(now),
            _ => Allowance::Bytes(1000),
        }
    }

    fn moved(&self, bytes: u64) {
        self.moves.lock().unwrap().push(bytes);
    }
}

/// Allows a thousand bytes at a time, and then nothing for as long as a question takes: the one that asks first again
/// would be the one that moved bytes.
#[derive(Debug, Default)]
struct OneAtATime {
    /// Who may move bytes next, and when.
    next: std::sync::Mutex<Option<Instant>>,
    moves: std::sync::Mutex<Vec<u8>>,
}

/// The way of one socket through it.
#[derive(Debug)]
struct OneWay(Arc<OneAtATime>, u8);

impl Pace for OneWay {
    fn ask(&self, now: Instant) -> Allowance {
        let mut next = self.0.next.lock().unwrap();
        let at = *next.get_or_insert_with(|| now.after(std::time::Duration::from_millis(1)));
        if now < at {
            return Allowance::From(at);
        }
        *next = None;
        Allowance::Bytes(1000)
    }

    fn moved(&self, bytes: u64) {
        if bytes > 0 {
            self.0.moves.lock().unwrap().push(self.1);
        }
    }
}

#[test]
fn sides_that_share_a_limit_move_bytes_in_turns() {
    const BYTES: usize = 40_000;
    let mut dispatcher = Epoll::<Link>::new().unwrap();
    let shared = Arc::new(OneAtATime::default());
    let mut peers = Vec::new();
    for number in 0..3 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = transport::connect(&listener.local_addr().unwrap().into(), &TransportOptions::default()).unwrap();
        peers.push(listener.accept().unwrap().0);
        let socket = dispatcher.attach(link, &[]).unwrap();
        dispatcher.pace(socket, Side::Send, Some(Arc::new(OneWay(Arc::clone(&shared), number))));
        dispatcher.submit(Op::Send { socket, head: None, body: Body::Zero { length: BYTES as u64 } });
    }
    for _ in 0..3 {
        assert!(matches!(dispatcher.next(None).unwrap(), Completion::Sent { .. }));
    }
    let moves = shared.moves.lock().unwrap();
    for few in moves[..60].chunks(6) {
        assert!((0..3).all(|number| few.contains(&number)), "one of three had no turn in six: {moves:?}");
    }
}

#[test]
fn a_limited_side_moves_what_its_limit_allows_and_all_of_it_arrives() {
    const BYTES: usize = 200_000;
    for limited in [Side::Send, Side::Receive] {
        let (mut dispatcher, from, to) = pair();
        let pace = Arc::new(ThousandAtATime::default());
        let socket = if limited == Side::Send { from } else { to };
        dispatcher.pace(socket, limited, Some(Arc::<ThousandAtATime>::clone(&pace)));
        let (arrived, short) = transfer(&mut dispatcher, from, to, BYTES + 3, BYTES);
        assert!(arrived == bytes(BYTES + 3)[3..] && short == 0, "{limited:?}");
        let moves = pace.moves.lock().unwrap().clone();
        // The head comes with the first bytes.
        assert!(moves.iter().all(|bytes| *bytes <= 1000 + 48), "{limited:?}: {:?}", moves.iter().max());
        assert_eq!(moves.iter().sum::<u64>() as usize, BYTES + 48, "{limited:?}");
        dispatcher.pace(socket, limited, None);
        let (arrived, _) = transfer(&mut dispatcher, from, to, BYTES + 3, BYTES);
        assert!(arrived == bytes(BYTES + 3)[3..] && pace.moves.lock().unwrap().len() == moves.len(), "{limited:?}");
    }
}
