//! A relay between client and server that can hold, cut and stall single connections, as a bad network does.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Server;

/// Longest wait for something to pass. Far above what any test needs, so only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(60);
/// Bytes passed on at a time: a connection that is cut has lost at most this much on its way.
const PIECE_BYTES: usize = 64 << 10;
/// A connection that passed so much carries data: the messages that open it are far smaller.
const STARTED_BYTES: u64 = 16 << 10;
/// Until all connections carry data, each passes about so much in one direction: the others get their share, however
/// late they come. It is more than a sender may send before it has heard from the receiver, who would else never answer.
const SHARE_BYTES: u64 = 6 << 20;

/// Passes every connection on to a server. Ends with this value, and all connections with it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    /// Of the server behind it.
    host_key: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<Connection>,
    /// When to hold; none lets everything pass.
    hold: Option<Hold>,
    /// What is altered.
    alter: Option<Alter>,
    /// What never reaches its client.
    lose: Option<Lose>,
    /// How fast bytes of clients pass; none for as fast as they can.
    pace: Option<Pace>,
    closed: bool,
}

/// Bytes of clients pass no faster than this, all connections together.
#[derive(Clone, Copy, Debug)]
struct Pace {
    since: Instant,
    bytes_per_second: u64,
}

impl Pace {
    /// How long it is until so many bytes may have passed.
    fn left(self, bytes: u64) -> Option<Duration> {
        let due = Duration::from_millis(bytes.saturating_mul(1000) / self.bytes_per_second.max(1));
        due.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }
}

/// A bit is turned over where `mark` passes, so often.
#[derive(Debug)]
struct Alter {
    mark: Vec<u8>,
    left: usize,
    done: usize,
}

impl Alter {
    fn strike(&mut self, piece: &mut [u8]) {
        let found = piece.windows(self.mark.len()).position(|window| window == self.mark);
        if let Some(at) = found.filter(|_| self.left > 0) {
            piece[at] ^= 1;
            (self.left, self.done) = (self.left - 1, self.done + 1);
        }
    }
}

/// The connection on which the server says `mark` is cut before that, once, and `then` happens first.
struct Lose {
    mark: Vec<u8>,
    then: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Lose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lose({:?})", self.mark)
    }
}

/// Nothing is passed on once so many connections carry data and so many bytes have passed in all.
#[derive(Clone, Copy, Debug)]
struct Hold {
    connections: usize,
    bytes: u64,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// Bytes from the client, and to it.
    passed: [u64; 2],
    stalled: bool,
}

impl State {
    /// So many connections carry data.
    fn started(&self, connections: usize) -> bool {
        let started = |connection: &&Connection| connection.passed.iter().any(|&passed| passed >= STARTED_BYTES);
        self.connections.iter().filter(started).count() >= connections
    }

    /// Bytes that have come from clients.
    fn passed_up(&self) -> u64 {
        self.connections.iter().map(|connection| connection.passed[0]).sum()
    }

    fn held(&self) -> bool {
        let passed = self.connections.iter().flat_map(|connection| connection.passed).sum::<u64>();
        self.hold.is_some_and(|hold| self.started(hold.connections) && passed >= hold.bytes)
    }

    /// Whether a direction of the connection `index` has to wait.
    fn waits(&self, index: usize, direction: usize) -> bool {
        let waits_for_others = self.hold.is_some_and(|hold| {
            !self.started(hold.connections) && self.connections[index].passed[direction] >= SHARE_BYTES
        });
        !self.closed && (self.connections[index].stalled || waits_for_others || self.held())
    }
}

impl Relay {
    /// A relay to `server` that holds everything once `connections` of them carry data and `bytes` have passed in all.
    pub fn holding(server: &Server, connections: usize, bytes: u64) -> Self {
        Self::with(server, State { hold: Some(Hold { connections, bytes }), ..State::default() })
    }

    /// A relay to `server` that passes on so many bytes of clients in a second.
    pub fn paced(server: &Server, bytes_per_second: u64) -> Self {
        let pace = Some(Pace { since: Instant::now(), bytes_per_second });
        Self::with(server, State { pace, ..State::default() })
    }

    /// A relay to `server` that turns a bit over where it sees `mark`, at most `times` times and once in what it passes on at a
    /// time.
    pub fn altering(server: &Server, mark: &[u8], times: usize) -> Self {
        let alter = Alter { mark: mark.to_vec(), left: times, done: 0 };
        Self::with(server, State { alter: Some(alter), ..State::default() })
    }

    /// A relay to `server` that cuts the connection on which the server says `mark`, so that its client never hears it, once; `then`
    /// happens in between.
    pub fn losing(server: &Server, mark: &[u8], then: impl FnOnce() + Send + 'static) -> Self {
        let lose = Lose { mark: mark.to_vec(), then: Box::new(then) };
        Self::with(server, State { lose: Some(lose), ..State::default() })
    }

    fn with(server: &Server, state: State) -> Self {
        let host_key = server.host_key().to_owned();
        let server: SocketAddr = server.address().parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept_all(&listener, server, &accepting));
        Self { address, host_key, shared }
    }

    /// Its address.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The server's host key.
    pub fn host_key(&self) -> &str {
        &self.host_key
    }

    /// The URL of `path` in the export `data`, through the relay.
    pub fn url(&self, path: &str) -> String {
        format!("xdfs://{}/data/{path}#{}", self.address, self.host_key)
    }

    /// Bits that were turned over so far.
    pub fn altered(&self) -> usize {
        self.shared.lock().alter.as_ref().map_or(0, |alter| alter.done)
    }

    /// Waits until it holds.
    pub fn wait_until_held(&self) {
        let state = self.shared.lock();
        let (_state, waited) = self
            .shared
            .changed
            .wait_timeout_while(state, DEADLINE, |state| !state.held())
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "too little passed within {DEADLINE:?}");
    }

    /// Bytes that have passed so far, in both directions.
    pub fn passed_in_all(&self) -> u64 {
        self.shared.lock().connections.iter().flat_map(|connection| connection.passed).sum()
    }

    /// Bytes that have come from clients so far.
    pub fn passed(&self) -> u64 {
        self.shared.lock().passed_up()
    }

    /// Passes nothing on any more, and leaves every connection open, as a link that is down.
    pub fn hold(&self) {
        self.shared.lock().hold = Some(Hold { connections: 0, bytes: 0 });
    }

    /// Lets everything pass from now on.
    pub fn release(&self) {
        self.shared.lock().hold = None;
        self.shared.changed.notify_all();
    }

    /// Cuts the connection that was made as number `index`, from 0, on both sides.
    pub fn cut(&self, index: usize) {
        self.shared.lock().connections[index].cut();
        self.shared.changed.notify_all();
    }

    /// Passes nothing on any more for one connection, and leaves it open.
    pub fn stall(&self, index: usize) {
        self.shared.lock().connections[index].stalled = true;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.connections.iter().for_each(Connection::cut);
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the accepting thread, which then sees that it is over.
        drop(TcpStream::connect(self.address));
    }
}

impl Connection {
    fn cut(&self) {
        // Fails only where it is cut already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept_all(listener: &TcpListener, server: SocketAddr, shared: &Arc<Shared>) {
    for client in listener.incoming().map_while(Result::ok) {
        let Ok(server) = TcpStream::connect(server) else { continue };
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        let mut state = shared.lock();
        if state.closed {
            return;
        }
        let index = state.connections.len();
        for (direction, (from, to)) in [(&client, &server), (&server, &client)].into_iter().enumerate() {
            let (from, to, shared) = (clone(from), clone(to), Arc::clone(shared));
            std::thread::spawn(move || pass_on(index, direction, from, to, &shared));
        }
        state.connections.push(Connection { client, server, passed: [0; 2], stalled: false });
        drop(state);
        shared.changed.notify_all();
    }
}

fn pass_on(index: usize, direction: usize, mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let mut state = shared.lock();
        state.connections[index].passed[direction] += count as u64;
        shared.changed.notify_all();
        while state.waits(index, direction) {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        while direction == 0
            && !state.closed
            && let Some(left) = state.pace.and_then(|pace| pace.left(state.passed_up()))
        {
            let waited = shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(alter) = &mut state.alter {
            alter.strike(&mut piece[..count]);
        }
        let heard = |lose: &mut Lose| piece[..count].windows(lose.mark.len()).any(|window| window == lose.mark);
        if let Some(lose) = state.lose.take_if(|lose| direction == 1 && heard(lose)) {
            (lose.then)();
            state.connections[index].cut();
            break;
        }
        drop(state);
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    // An end on one side is passed on as an end, so that the other side may still answer.
    let _ = to.shutdown(Shutdown::Write);
}
