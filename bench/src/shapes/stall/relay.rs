//! A relay that carries bytes without a copy and, from some moment on, takes none of one connection, without closing it.

use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use rustix::pipe::{self, PipeFlags, SpliceFlags};

use crate::error::{Context, Result};

/// Bytes of one pipe, and of one call.
const PIPE: usize = 1 << 20;

/// Which connection stops, counted from 0 as they come, and after how many bytes of all of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    pub connection: usize,
    pub after: u64,
}

/// A relay that stops reading one connection without closing it. Dropping it closes that
/// connection.
#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: Option<Stop>,
    moved: AtomicU64,
    over: AtomicBool,
    ended: (Mutex<bool>, Condvar),
}

impl Relay {
    /// Carries whatever connects to it to `target` on loopback.
    pub(super) fn start(target: u16, stop: Option<Stop>) -> Result<Self> {
        let what = || "relay".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(what)?;
        let port = listener.local_addr().context(what)?.port();
        let shared = Arc::new(Shared { stop, ..Shared::default() });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, near) in listener.incoming().enumerate() {
                let Ok(near) = near else { return };
                if of_thread.over.load(Ordering::Relaxed) {
                    return;
                }
                // A client that finds no server sees the connection end, and says so.
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else { continue };
                let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { continue };
                for stream in [&near, &far] {
                    let _ = stream.set_nodelay(true);
                }
                for (from, to) in [(near, far_again), (far, near_again)] {
                    let shared = Arc::clone(&of_thread);
                    thread::spawn(move || shared.carry(number, &from, &to));
                }
            }
        });
        Ok(Self { port, shared })
    }

    /// Where to connect.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection stopped: everything else would measure nothing.
    pub(super) fn has_stopped(&self) -> bool {
        self.shared.stop.is_some_and(|stop| self.shared.moved.load(Ordering::Relaxed) >= stop.after)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        *self.shared.ended.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = true;
        self.shared.ended.1.notify_all();
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn carry(&self, number: usize, from: &TcpStream, to: &TcpStream) {
        let Ok((pipe_out, pipe_in)) = pipe::pipe_with(PipeFlags::CLOEXEC) else { return };
        let _ = pipe::fcntl_setpipe_size(&pipe_in, PIPE);
        loop {
            if self.stops(number) {
                let ended = self.ended.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                drop(self.ended.1.wait_while(ended, |ended| !*ended));
                // The other direction may be waiting for bytes on the same sockets.
                for stream in [from, to] {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                return;
            }
            let Ok(mut left @ 1..) = pipe::splice(from, None, &pipe_in, None, PIPE, SpliceFlags::MOVE) else { break };
            self.moved.fetch_add(left as u64, Ordering::Relaxed);
            while left > 0 {
                match pipe::splice(&pipe_out, None, to, None, left, SpliceFlags::MOVE) {
                    Ok(count @ 1..) => left -= count,
                    _ => return,
                }
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    fn stops(&self, number: usize) -> bool {
        self.stop.is_some_and(|stop| stop.connection == number && self.moved.load(Ordering::Relaxed) >= stop.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn one_connection_stops_and_stays_open_and_the_others_go_on() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listener");
        let stop = Stop { connection: 0, after: 5 };
        let relay = Relay::start(server.local_addr().expect("address").port(), Some(stop)).expect("relay");
        let mut ends: Vec<(TcpStream, TcpStream)> = Vec::new();
        for _ in 0..2 {
            let near = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).expect("the relay accepts");
            ends.push((near, server.accept().expect("the relay connects").0));
        }
        let mut got = [0; 5];
        for (near, far) in &mut ends {
            assert!(near.write_all(b"hello").is_ok() && far.read_exact(&mut got).is_ok());
            assert_eq!(&got, b"hello");
        }
        assert!(relay.has_stopped());
        let (near, far) = &mut ends[1];
        assert!(far.write_all(b"again").is_ok() && near.read_exact(&mut got).is_ok());
        // The stopped one is open: its end comes with the relay's, and not before.
        let (near, mut far) = ends.remove(0);
        assert!(far.set_nonblocking(true).is_ok());
        assert_eq!(far.read(&mut got).map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
        assert!(far.set_nonblocking(false).is_ok());
        drop((relay, near));
        assert!(far.read_to_end(&mut Vec::new()).is_ok());
    }
}
