//! A long way on one machine: TCP ends here, and every byte is held back for a fixed time in each direction. Round trips
//! are then counted by a clock, without a network namespace and without the kernel's slow start.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Context, Result};

/// Bytes of one read.
const PIECE: usize = 64 << 10;

/// Pieces under way in one direction.
const PIECES: usize = 256;

/// Bytes of a message whose round trip is timed, and how many are.
const MESSAGE: usize = 64;
const ROUND_TRIPS: usize = 51;

/// Listens on loopback.
#[derive(Debug)]
pub(crate) struct Relay {
    listener: TcpListener,
    target: SocketAddr,
    delay: Duration,
}

impl Relay {
    /// A relay to `target`.
    pub(crate) fn listen(target: SocketAddr, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(|| "relay".to_owned())?;
        Ok(Self { listener, target, delay })
    }

    /// Where to connect.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context(|| "relay".to_owned())
    }

    /// Carries the next connection to its end, in threads of its own.
    pub(crate) fn carry_next(&self) -> Result<()> {
        let listener = self.listener.try_clone().context(|| "relay".to_owned())?;
        let (target, delay) = (self.target, self.delay);
        thread::spawn(move || {
            // Whoever waits for an answer sees the connection end, and says so.
            let Ok((near, _)) = listener.accept() else { return };
            let Ok(far) = TcpStream::connect(target) else { return };
            for stream in [&near, &far] {
                let _ = stream.set_nodelay(true);
            }
            let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
            direction(near, far_again, delay);
            direction(far, near_again, delay);
        });
        Ok(())
    }
}

/// What a round trip through such a relay takes, its own wakes included: the middle one of some with bare sockets.
pub(crate) fn round_trip(delay: Duration) -> Result<Duration> {
    let here = || "relay".to_owned();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(here)?;
    let relay = Relay::listen(server.local_addr().context(here)?, delay)?;
    relay.carry_next()?;
    thread::spawn(move || {
        // Whoever waits for an answer sees the connection end, and says so.
        let Ok((mut stream, _)) = server.accept() else { return };
        let _ = stream.set_nodelay(true);
        let mut message = [0; MESSAGE];
        while stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)).is_ok() {}
    });
    let mut stream = TcpStream::connect(relay.address()?).context(here)?;
    stream.set_nodelay(true).context(here)?;
    let mut message = [0; MESSAGE];
    let mut times = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        stream.write_all(&message).and_then(|()| stream.read_exact(&mut message)).context(here)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[ROUND_TRIPS / 2])
}

fn direction(from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, receiver) = sync_channel(PIECES);
    thread::spawn(move || take(from, &sender, delay));
    thread::spawn(move || give(to, &receiver));
}

/// Else a thread that sleeps wakes up to 50 us later than it asked to.
const SLACK: Option<NonZeroU64> = NonZeroU64::new(1);

fn take(mut from: TcpStream, pieces: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if pieces.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn give(mut to: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>) {
    // Without it the relay is a little slower than it says.
    let _ = rustix::thread::set_current_timer_slack(SLACK);
    while let Ok((due, bytes)) = pieces.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_what_both_directions_hold_back_and_a_little_more() {
        const DELAY: Duration = Duration::from_millis(2);
        let took = round_trip(DELAY).expect("an echo");
        assert!(took >= 2 * DELAY && took < 10 * DELAY, "{took:?}");
    }

    #[test]
    fn each_direction_is_held_back_and_every_byte_arrives() {
        const DELAY: Duration = Duration::from_millis(20);
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listener");
        let relay = Relay::listen(server.local_addr().expect("address"), DELAY).expect("relay");
        relay.carry_next().expect("a thread");
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("the relay connects");
            let mut got = [0; 5];
            stream.read_exact(&mut got).expect("five bytes");
            stream.write_all(&got).expect("they go back");
        });
        let started = Instant::now();
        let mut stream = TcpStream::connect(relay.address().expect("address")).expect("the relay accepts");
        assert!(started.elapsed() < DELAY, "TCP ends at the relay");
        stream.write_all(b"hello").expect("five bytes");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the end is carried too");
        assert_eq!(back, b"hello");
        assert!(started.elapsed() >= 2 * DELAY);
        echo.join().expect("the server");
    }
}
