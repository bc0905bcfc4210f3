//! As much of HTTP as Prometheus needs: one thread answers `GET /metrics` on a socket that was opened
//! before.
//!
//! No client can hold it: connections are few, each has a deadline and a bounded request, and a new
//! one takes the place of the oldest where there are too many. A page in a browser cannot reach it
//! by a name of its own (DNS rebinding): the `Host` must be this machine.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Bounds of the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HttpLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Time from accept to the last byte of the answer.
    pub time: Duration,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// A text is used again for this long.
    pub fresh: Duration,
}

impl Default for HttpLimits {
    /// A few scrapers, on this machine.
    fn default() -> Self {
        Self {
            connections: 16,
            time: Duration::from_secs(5),
            request_bytes: 8 << 10,
            fresh: Duration::from_millis(200),
        }
    }
}

/// Fields of a request that are read: more are refused.
const FIELDS_MAX: usize = 32;

/// Time of a connection that is open when the server stops, to its answer and its end.
const LAST: Duration = Duration::from_secs(1);

/// Pause after a failure to accept: no descriptor was left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Answers on `listener`, which does not block, until the other end of `stop` is closed; who is connected then still has
/// an answer. `figures` is the text, if the server has one in time.
pub fn serve(listener: &OwnedFd, stop: &OwnedFd, limits: HttpLimits, figures: impl Fn() -> Option<String>) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut known: Option<(Instant, String)> = None;
    let mut accept_at: Option<Instant> = None;
    let mut stopped = false;
    loop {
        let now = Instant::now();
        connections.retain(|connection| connection.until > now);
        if stopped && connections.is_empty() {
            return;
        }
        let accepting = !stopped && accept_at.is_none_or(|at| at <= now);
        let again = accept_at.filter(|_| !accepting);
        let next = connections.iter().map(|connection| connection.until).chain(again).min();
        let many = connections.len();
        let mut watched: Vec<_> = connections.iter().map(|one| PollFd::new(&one.socket, one.waits_for())).collect();
        watched.push(PollFd::new(listener, if accepting { PollFlags::IN } else { PollFlags::empty() }));
        if !stopped {
            watched.push(PollFd::new(stop, PollFlags::IN));
        }
        let timeout = next.map(|at| timespec(at.saturating_duration_since(now)));
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        // The wait may have been long.
        let now = Instant::now();
        let ready: Vec<bool> = watched.iter().map(|one| !one.revents().is_empty()).collect();
        drop(watched);
        if ready.get(many + 1) == Some(&true) {
            (stopped, accept_at) = (true, None);
            connections.iter_mut().for_each(|connection| connection.until = connection.until.min(now + LAST));
        }
        let mut text = || {
            let stale = known.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= limits.fresh);
            if stale {
                known = figures().map(|text| (now, text));
            }
            known.as_ref().map(|(_, text)| text.clone())
        };
        let mut turns = ready.iter().copied();
        connections.retain_mut(|connection| {
            let turn = turns.next().unwrap_or(false);
            !turn || connection.advance(limits.request_bytes, &mut text)
        });
        if ready[many] && accepting && !stopped {
            accept_at = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if connections.len() >= limits.connections {
                        connections.remove(0);
                    }
                    connections.push(Connection {
                        socket,
                        until: now + limits.time,
                        state: State::Reading(Vec::new()),
                    });
                    None
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => None,
                Err(_) => Some(now + ACCEPT_AGAIN),
            };
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    // A moment more, so that the deadline has passed when it is checked.
    let time = time + Duration::from_millis(1);
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

struct Connection {
    socket: OwnedFd,
    until: Instant,
    state: State,
}

enum State {
    /// What arrived of the request.
    Reading(Vec<u8>),
    /// What is left of the answer.
    Writing(Vec<u8>),
    /// The answer was sent; the client closes.
    Closing,
}

impl Connection {
    const fn waits_for(&self) -> PollFlags {
        match self.state {
            State::Reading(_) | State::Closing => PollFlags::IN,
            State::Writing(_) => PollFlags::OUT,
        }
    }

    /// Goes on as far as it can without waiting; false when it is over.
    fn advance(&mut self, request_bytes: usize, text: &mut impl FnMut() -> Option<String>) -> bool {
        if let State::Reading(request) = &mut self.state {
            let mut buffer = [0; 2048];
            match recv(self.socket.as_fd(), &mut buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((count, _)) => request.extend_from_slice(&buffer[..count]),
                Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
            }
            let answer = match judge(request) {
                Verdict::More if request.len() >= request_bytes => Some(plain("431 Request Header Fields Too Large")),
                Verdict::More => None,
                Verdict::Refuse(status) => Some(plain(status)),
                Verdict::Metrics { body } => Some(match text() {
                    Some(text) => answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", &text, body),
                    None => plain("503 Service Unavailable"),
                }),
            };
            match answer {
                Some(answer) => self.state = State::Writing(answer),
                None => return true,
            }
        }
        if let State::Writing(rest) = &mut self.state {
            match send(self.socket.as_fd(), rest, SendFlags::NOSIGNAL) {
                Ok(count) => drop(rest.drain(..count)),
                Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
            }
            if !rest.is_empty() {
                return true;
            }
            // Closing at once could take the answer away from a client that is still sending.
            let _ = rustix::net::shutdown(self.socket.as_fd(), rustix::net::Shutdown::Write);
            self.state = State::Closing;
            return true;
        }
        // Whatever else the client sends is not read: its time is over soon.
        let mut buffer = [0; 2048];
        match recv(self.socket.as_fd(), &mut buffer[..], RecvFlags::empty()) {
            Ok((count, _)) => count > 0,
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// What to do with the bytes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is not complete.
    More,
    /// It is refused with this status.
    Refuse(&'static str),
    /// It asks for the metrics, and for the `body` or not.
    Metrics { body: bool },
}

fn judge(bytes: &[u8]) -> Verdict {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Verdict::More,
        Err(_) => return Verdict::Refuse("400 Bad Request"),
    }
    let mut hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => std::str::from_utf8(host.value).unwrap_or_default(),
        _ => return Verdict::Refuse("400 Bad Request"),
    };
    if !is_this_machine(host) {
        return Verdict::Refuse("403 Forbidden");
    }
    let path = request.path.unwrap_or_default().split('?').next();
    match (request.method, path) {
        (Some(method @ ("GET" | "HEAD")), Some("/metrics")) => Verdict::Metrics { body: method == "GET" },
        (Some("GET" | "HEAD"), _) => Verdict::Refuse("404 Not Found"),
        _ => Verdict::Refuse("405 Method Not Allowed"),
    }
}

/// Whether a `Host` names this machine: a loopback address or `localhost`, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let port = |text: &str| text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let (name, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(parts) => parts,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let address = name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    (address || name.eq_ignore_ascii_case("localhost")) && port(rest)
}

fn plain(status: &str) -> Vec<u8> {
    answer(status, "text/plain; charset=utf-8", &format!("{status}\n"), true)
}

fn answer(status: &str, kind: &str, text: &str, body: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        text.len()
    );
    [head.as_bytes(), if body { text.as_bytes() } else { b"" }].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Runs `clients` against a listener with these limits; it stops when they end.
    fn with(limits: HttpLimits, clients: impl FnOnce(&dyn Fn() -> TcpStream)) {
        with_stop(limits, |connect, _stop| clients(connect));
    }

    /// The same; it stops when `clients` drop what they are given.
    fn with_stop(limits: HttpLimits, clients: impl FnOnce(&dyn Fn() -> TcpStream, OwnedFd)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = OwnedFd::from(listener);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || serve(&listener, &theirs.into(), limits, || Some("xdfs_sessions 1\n".into())));
            clients(&|| TcpStream::connect(address).unwrap(), ours.into());
        });
    }

    fn asks(mut stream: TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn it_answers_who_asks_for_the_metrics_of_this_machine() {
        with(HttpLimits::default(), |connect| {
            let answer = asks(connect(), "GET /metrics HTTP/1.1\r\nHost: localhost:9\r\nAccept: */*\r\n\r\n");
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nxdfs_sessions 1\n"),
                "{answer}"
            );
            let head = asks(connect(), "HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
            assert!(head.contains("Content-Length: 16\r\n") && head.ends_with("\r\n\r\n"), "{head}");
            for (request, status) in [
                ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
                ("GET /metrics HTTP/1.1\r\n\r\n", "400"),
                ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "400"),
                ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
                ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
                ("\u{16}\u{3}nonsense\r\n\r\n", "400"),
            ] {
                assert!(asks(connect(), request).starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}");
            }
            let long = format!("GET /metrics HTTP/1.1\r\nHost: {}", "a".repeat(8 << 10));
            assert!(asks(connect(), &long).starts_with("HTTP/1.1 431 "));
        });
    }

    #[test]
    fn who_asks_after_a_long_silence_has_all_the_time_there_is() {
        let limits = HttpLimits { time: Duration::from_secs(1), ..HttpLimits::default() };
        with(limits, |connect| {
            // Nobody sends here, so it takes the whole time.
            let (_sender, never) = std::sync::mpsc::sync_channel::<()>(1);
            assert!(never.recv_timeout(limits.time + Duration::from_millis(200)).is_err());
            let answer = asks(connect(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        });
    }

    #[test]
    fn who_is_connected_when_it_stops_has_an_answer_and_who_is_silent_keeps_nobody() {
        with_stop(HttpLimits::default(), |connect, stop| {
            let (silent, early) = (connect(), connect());
            // Connections are accepted in their order.
            assert!(asks(connect(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200 "));
            let began = Instant::now();
            drop(stop);
            assert!(asks(early, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200 "));
            assert!(matches!((&silent).read(&mut [0; 8]), Ok(0) | Err(_)));
            assert!(began.elapsed() < HttpLimits::default().time, "the silent one was not waited for as ever");
        });
    }

    #[test]
    fn silent_clients_hold_up_nobody_and_are_disconnected() {
        let limits = HttpLimits { connections: 3, time: Duration::from_secs(3), ..HttpLimits::default() };
        with(limits, |connect| {
            let mut silent: Vec<TcpStream> = (0..9).map(|_| connect()).collect();
            silent[8].write_all(b"GET /met").unwrap();
            let answer = asks(connect(), "GET /metrics HTTP/1.1\r\nHost: [::1]:9100\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            for mut stream in silent {
                // The end, or a reset where something was not read.
                assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
            }
        });
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        for host in
            ["localhost", "LOCALHOST:9100", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:65535", "[::ffff:127.0.0.1]"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "localhost.",
            "localhost:x",
            "localhost:65536",
            "127.0.0.1.nip.io",
            "[::1",
            "::1",
            "10.0.0.1",
            "a",
            "[::1]a",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
