//! A relay between client and server: it counts connections and bytes, holds them, and cuts single connections.

use super::{PATIENCE, Watched};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::time::Duration;
use xdfs_client::Address;

/// How a connection is cut, as both ends see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// An orderly end of the stream.
    Fin,
    /// A reset: what the sockets still have is thrown away.
    Rst,
}

#[derive(Default)]
struct State {
    lines: Vec<Line>,
    /// Bytes that all connections together may pass before everything is held.
    allowed: u64,
    passed: u64,
    stopped: bool,
}

struct Line {
    /// The two ends; the threads that copy keep them open.
    ends: [Weak<TcpStream>; 2],
    cut: Option<Cut>,
    /// Nothing is read from it any more.
    stalled: bool,
    passed: u64,
}

/// A relay that counts, holds and cuts connections. They are numbered from 0 in order of arrival.
pub struct Relay {
    pub address: Address,
    state: Arc<Watched<State>>,
    local: SocketAddr,
}

impl Relay {
    pub fn to(server: &Address) -> Self {
        let Address::Tcp(server) = *server else { panic!("the relay speaks TCP") };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let state = Arc::new(Watched::new(State { allowed: u64::MAX, ..State::default() }));
        let accepts = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if accepts.lock().stopped {
                    return;
                }
                if let Ok(server) = TcpStream::connect(server) {
                    carry(&accepts, client, server);
                }
            }
        });
        Self { address: Address::Tcp(local), state, local }
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.state.lock().lines.len()
    }

    /// Bytes that passed on a connection, in both directions.
    pub fn passed(&self, line: usize) -> u64 {
        self.state.lock().lines.get(line).map_or(0, |line| line.passed)
    }

    /// Holds everything when `more` further bytes have passed.
    pub fn hold_after(&self, more: u64) {
        self.state.change(|state| state.allowed = state.passed.saturating_add(more));
    }

    /// Lets everything go on.
    pub fn release(&self) {
        self.state.change(|state| state.allowed = u64::MAX);
    }

    /// Waits until everything is held.
    #[track_caller]
    pub fn wait_held(&self) {
        let held = self.state.wait_for(PATIENCE, |state| (state.passed >= state.allowed).then_some(()));
        held.expect("enough bytes passed the relay");
    }

    /// Waits until `found` says something about the bytes that passed per connection.
    #[track_caller]
    pub fn wait_for<R>(&self, what: &str, mut found: impl FnMut(&[u64]) -> Option<R>) -> R {
        let result = self.state.wait_for(PATIENCE, |state| {
            let passed: Vec<u64> = state.lines.iter().map(|line| line.passed).collect();
            found(&passed)
        });
        result.unwrap_or_else(|| panic!("the relay did not see: {what}"))
    }

    pub fn cut(&self, line: usize, how: Cut) {
        self.state.change(|state| {
            let line = &mut state.lines[line];
            line.cut = Some(how);
            for end in line.ends.iter().filter_map(Weak::upgrade) {
                if how == Cut::Fin {
                    let _ = end.shutdown(Shutdown::Both);
                }
            }
        });
    }

    /// Stops reading from both ends of a connection, without closing it.
    pub fn stall(&self, line: usize) {
        self.state.change(|state| state.lines[line].stalled = true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.change(|state| {
            (state.stopped, state.allowed) = (true, u64::MAX);
            for line in &mut state.lines {
                line.cut.get_or_insert(Cut::Fin);
                line.ends.iter().filter_map(Weak::upgrade).for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
        });
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.local);
    }
}

fn carry(state: &Arc<Watched<State>>, client: TcpStream, server: TcpStream) {
    for end in [&client, &server] {
        let _ = end.set_nodelay(true);
        // A thread that reads looks at its orders as often.
        end.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }
    let (client, server) = (Arc::new(client), Arc::new(server));
    let number = state.change(|state| {
        let ends = [Arc::downgrade(&client), Arc::downgrade(&server)];
        state.lines.push(Line { ends, cut: None, stalled: false, passed: 0 });
        state.lines.len() - 1
    });
    for (from, to) in [(Arc::clone(&client), Arc::clone(&server)), (server, client)] {
        let state = Arc::clone(state);
        std::thread::spawn(move || copy(&state, number, &from, &to));
    }
}

fn copy(state: &Watched<State>, number: usize, mut from: &TcpStream, mut to: &TcpStream) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        // Held, or stalled until the connection is cut.
        let cut = state.wait_for(PATIENCE * 2, |state| {
            let line = &state.lines[number];
            match line.cut {
                Some(cut) => Some(Some(cut)),
                None if line.stalled || state.passed >= state.allowed => None,
                None => Some(None),
            }
        });
        match cut.unwrap_or(Some(Cut::Fin)) {
            None => {}
            Some(Cut::Fin) => return,
            Some(Cut::Rst) => {
                let _ = rustix::net::sockopt::set_socket_linger(from, Some(Duration::ZERO));
                return;
            }
        }
        match from.read(&mut bytes) {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            // Nothing passes any more once a connection is cut.
            Ok(_) if state.lock().lines[number].cut.is_some() => {}
            Ok(count) => {
                if to.write_all(&bytes[..count]).is_err() {
                    return;
                }
                state.change(|state| {
                    state.passed += count as u64;
                    state.lines[number].passed += count as u64;
                });
            }
            // Its time was up, or the whole process was stopped for a while.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}
