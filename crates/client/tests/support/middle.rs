//! Somebody in the middle: a relay that keeps every byte it sees, and can alter one, end a connection at one, let only so
//! many turns of the client pass, or hold everything back for a time. TCP ends at it on both sides.

use super::relay::Cut;
use super::{PATIENCE, Watched};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use xdfs_client::Address;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What is done to each connection.
#[derive(Clone, Copy, Default, Debug)]
pub enum Act {
    /// Nothing.
    #[default]
    Watch,
    /// Byte `at` of this way is xored with `mask`.
    Flip { way: Way, at: usize, mask: u8 },
    /// The connection ends before byte `at` of this way.
    End { way: Way, at: usize, how: Cut },
    /// From byte `at` of this way on nothing passes, and the connection stays.
    Hold { way: Way, at: usize },
    /// Nothing of the server's passes but on the first connection.
    HoldLater,
}

/// What was seen on one connection.
#[derive(Clone, Default)]
pub struct Seen {
    /// All bytes, by way.
    pub bytes: [Vec<u8>; 2],
    /// Who spoke, in turn, and how many bytes.
    pub turns: Vec<(usize, usize)>,
    ended: Option<Cut>,
}

impl Seen {
    fn turns_of_the_client(&self) -> usize {
        self.turns.iter().filter(|(way, _)| *way == 0).count()
    }
}

struct State {
    act: Act,
    /// Turns of the client that pass.
    allowed: usize,
    lines: Vec<Seen>,
    ends: Vec<[Weak<TcpStream>; 2]>,
    stopped: bool,
}

/// A relay that records every byte and can alter, hold or cut a connection at any of them.
pub struct Middle {
    pub address: Address,
    state: Arc<Watched<State>>,
    local: SocketAddr,
}

impl Middle {
    pub fn before(server: &Address) -> Self {
        Self::delaying(server, Duration::ZERO)
    }

    /// Each byte arrives so much later than it was sent, whatever goes the other way.
    pub fn delaying(server: &Address, delay: Duration) -> Self {
        let Address::Tcp(server) = *server else { panic!("it speaks TCP") };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let fresh = State { act: Act::Watch, allowed: usize::MAX, lines: Vec::new(), ends: Vec::new(), stopped: false };
        let state = Arc::new(Watched::new(fresh));
        let accepts = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if accepts.lock().stopped {
                    return;
                }
                if let Ok(server) = TcpStream::connect(server) {
                    carry(&accepts, client, server, delay);
                }
            }
        });
        Self { address: Address::Tcp(local), state, local }
    }

    /// What is done to the connections that come now; what was seen of earlier ones is forgotten.
    pub fn act(&self, act: Act) {
        self.state.change(|state| state.act = act);
    }

    /// Lets so many turns of the client pass on each connection, and holds what comes behind them.
    pub fn allow(&self, turns: usize) {
        self.state.change(|state| state.allowed = turns);
    }

    /// What was seen on connection `line`, counted from 0.
    pub fn seen(&self, line: usize) -> Seen {
        self.state.lock().lines[line].clone()
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.state.lock().lines.len()
    }

    /// How many turns of the client have passed on connection `line`.
    pub fn turns_passed(&self, line: usize) -> usize {
        let state = self.state.lock();
        state.lines[line].turns_of_the_client().min(state.allowed)
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.state.change(|state| {
            (state.stopped, state.allowed) = (true, usize::MAX);
            for end in state.ends.iter().flatten().filter_map(Weak::upgrade) {
                let _ = end.shutdown(Shutdown::Both);
            }
        });
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.local);
    }
}

fn carry(state: &Arc<Watched<State>>, client: TcpStream, server: TcpStream, delay: Duration) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let ends = [Arc::new(client), Arc::new(server)];
    let line = state.change(|state| {
        state.lines.push(Seen::default());
        state.ends.push(ends.each_ref().map(Arc::downgrade));
        state.lines.len() - 1
    });
    for way in [Way::Up, Way::Down] {
        let (state, from, to) = (Arc::clone(state), Arc::clone(&ends[way as usize]), &ends[1 - way as usize]);
        let (later, due) = channel();
        let to = Arc::clone(to);
        std::thread::spawn(move || deliver(&due, &to));
        std::thread::spawn(move || copy(&state, line, way, &from, &later, delay));
    }
}

/// Writes what is due, when it is due.
fn deliver(due: &Receiver<(Instant, Vec<u8>)>, mut to: &TcpStream) {
    while let Ok((when, bytes)) = due.recv() {
        std::thread::sleep(when.saturating_duration_since(Instant::now()));
        if bytes.is_empty() {
            let _ = to.shutdown(Shutdown::Write);
        }
        let _ = to.write_all(&bytes);
    }
}

fn copy(
    state: &Watched<State>,
    line: usize,
    way: Way,
    mut from: &TcpStream,
    later: &Sender<(Instant, Vec<u8>)>,
    delay: Duration,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        let arrived = Instant::now();
        if count == 0 {
            // An orderly end goes on; one that was ordered here has been told already.
            if state.lock().lines[line].ended.is_none() {
                let _ = later.send((arrived + delay, Vec::new()));
            }
            return;
        }
        let mut chunk = bytes[..count].to_vec();
        let mut last = false;
        state.change(|state| last = see(state, line, way, &mut chunk));
        if way == Way::Up {
            let passes = |state: &mut State| {
                let within = state.lines[line].turns_of_the_client() <= state.allowed;
                (within || state.stopped).then_some(())
            };
            if state.wait_for(PATIENCE * 2, passes).is_none() {
                return;
            }
        }
        // Empty means an end here.
        if !chunk.is_empty() && later.send((arrived + delay, chunk)).is_err() {
            return;
        }
        if last {
            state.change(|state| end(state, line));
            return;
        }
    }
}

/// Keeps a chunk, and does to it what was ordered. Says whether the connection ends behind it.
fn see(state: &mut State, line: usize, way: Way, chunk: &mut Vec<u8>) -> bool {
    let act = state.act;
    let seen = &mut state.lines[line];
    let start = seen.bytes[way as usize].len();
    let here = |at: usize| at.checked_sub(start).filter(|place| *place < chunk.len());
    let mut last = false;
    match act {
        Act::Flip { way: other, at, mask } if other == way => {
            if let Some(place) = here(at) {
                chunk[place] ^= mask;
            }
        }
        // At the border, and not with the first byte behind it, which may never come.
        Act::End { way: other, at, how } if other == way && at <= start + chunk.len() => {
            chunk.truncate(at.saturating_sub(start));
            seen.ended = Some(how);
            last = true;
        }
        Act::Hold { way: other, at } if other == way => chunk.truncate(at.saturating_sub(start)),
        Act::HoldLater if way == Way::Down && line > 0 => chunk.clear(),
        _ => {}
    }
    if chunk.is_empty() {
        return last;
    }
    seen.bytes[way as usize].extend_from_slice(chunk);
    match seen.turns.last_mut() {
        Some((who, count)) if *who == way as usize => *count += chunk.len(),
        _ => seen.turns.push((way as usize, chunk.len())),
    }
    last
}

/// Ends a connection on both sides.
fn end(state: &State, line: usize) {
    for end in state.ends[line].iter().filter_map(Weak::upgrade) {
        match state.lines[line].ended {
            Some(Cut::Rst) => {
                // The close behind it is a reset; the end of reading wakes the thread that holds the other half.
                let _ = rustix::net::sockopt::set_socket_linger(&*end, Some(Duration::ZERO));
                let _ = end.shutdown(Shutdown::Read);
            }
            _ => {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }
}

/// Where records start and end in what one way carried: the preface, TLS records, and, behind them, ours.
pub fn borders(bytes: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let (mut tls, mut records) = (vec![8], Vec::new());
    let mut at = 8;
    let length =
        |at: usize, size: usize| bytes[at..at + size].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    // A TLS record says version 3 where one of ours has its level.
    while at + 5 <= bytes.len() && bytes[at + 1] == 3 {
        at += 5 + length(at + 3, 2);
        tls.push(at);
    }
    while at + 48 <= bytes.len() {
        at += 48 + length(at + 24, 4);
        records.push(at);
    }
    (tls, records)
}
