//! Ping-pong: messages of one size back and forth, by blocking calls, between two threads. Plain sockets
//! in the form that can be cancelled and has timeouts (non-blocking, `poll`) and in the form that cannot.

use crate::pinned::on_one_processor;
use crate::switches::switches;
use crate::{System, Table, Taken, rounds};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;
use xdfs_xio::{Handle, Options, Server, Stack};

const SIZES: [usize; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
/// The congestion control of all: pacing (`bbr`) within one host is slower by half.
const CONTROL: &str = "cubic";
/// Bytes of a run, and the limits of its number of messages.
const RUN_BYTES: usize = 100_000_000;
const MESSAGES: (usize, usize) = (10, 3000);
const MESSAGES_OF_SHORT: usize = 100;
/// A message that arrives whole: each end waits once for it, at the most.
pub(crate) const ONE_READ: usize = 1000;

/// Prints the time of a message over a stack of one driver, over that of a plain socket, for each size.
pub(crate) fn run(count: usize, table: &mut Table) -> io::Result<()> {
    for size in SIZES.into_iter().step_by(table.work(1, 3)) {
        let messages = table.work((RUN_BYTES / size).clamp(MESSAGES.0, MESSAGES.1), MESSAGES_OF_SHORT);
        let used = [(); 3].map(|()| Cell::new(f64::INFINITY));
        let fewest = Cell::new(f64::INFINITY);
        // The processor time of the round that used least, and the switches of the one that had fewest.
        let note = |at: usize, run: io::Result<Run>| {
            run.map(|run| {
                used[at].set(used[at].get().min(run.used));
                if at == 2 {
                    fewest.set(fewest.get().min(run.switches));
                }
                run.taken
            })
        };
        let mut systems: [System<'_>; 3] = [
            ("polled", Box::new(|| note(0, sockets(size, messages, true)))),
            ("blocking", Box::new(|| note(1, sockets(size, messages, false)))),
            ("stack", Box::new(|| note(2, stack(size, messages)))),
        ];
        let taken = on_one_processor(|| rounds(count, &mut systems))?;
        drop(systems);
        for (at, name) in ["polled", "blocking"].into_iter().enumerate() {
            let Taken { best, median } = taken[at];
            let (own, its) = (used[2].get() * 1e6, used[at].get() * 1e6);
            let best_us = best * 1e6;
            let what = format!(
                "ping-pong of {size} bytes, `tcp` over a {name} socket ({best_us:.1} us; of processors {own:.1} and {its:.1})"
            );
            table.time_of_threads(&what, taken[2].best / best, taken[2].median / median, 1.02);
        }
        if size <= ONE_READ {
            table.switches(&format!("ping-pong of {size} bytes, `tcp`"), fewest.get(), 2.0);
        }
    }
    Ok(())
}

/// What a message took.
struct Run {
    taken: f64,
    /// Of all processors.
    used: f64,
    /// How often the kernel switched between its threads.
    switches: f64,
}

/// The processor time of the whole program, seconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// One end of a connection.
trait End: Send {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<()>;
}

struct Blocking(TcpStream);

impl End for Blocking {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes)
    }
}

struct Polled(TcpStream);

impl Polled {
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        poll(&mut [PollFd::new(&self.0, flags)], None)?;
        Ok(())
    }
}

impl End for Polled {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.0.read(bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(received) => bytes = &mut bytes[received..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl End for Handle {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        Ok(self.write(bytes).map(drop)?)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let wanted = bytes.len();
        Ok(self.read(bytes, wanted).map(drop)?)
    }
}

fn sockets(size: usize, messages: usize, polled: bool) -> io::Result<Run> {
    let (one, other) = pair()?;
    if !polled {
        return play(Blocking(one), Blocking(other), size, messages);
    }
    one.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    play(Polled(one), Polled(other), size, messages)
}

/// Two connected sockets.
pub(crate) fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = listener()?;
    // The control is chosen before the connection is made: a socket that has once had `bbr` goes on pacing.
    let one = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_tcp_congestion(&one, CONTROL)?;
    connect(&one, &listener.local_addr()?)?;
    let one = TcpStream::from(one);
    let other = listener.accept()?.0;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// A listener whose connections have the options that the stack's have.
pub(crate) fn listener() -> io::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    sockopt::set_tcp_congestion(&listener, CONTROL)?;
    Ok(listener)
}

/// The stack that is measured.
pub(crate) fn stack_of_one() -> io::Result<Stack> {
    Ok(Stack::new().push("tcp", &format!("congestion={CONTROL}"))?)
}

/// Two connected handles of a stack of one driver.
pub(crate) fn handles() -> io::Result<(Handle, Handle)> {
    let stack = stack_of_one()?;
    let server = Server::listen(&stack, "127.0.0.1:0")?;
    let one = Handle::open(&stack, &server.contact()?, &Options::default())?;
    Ok((one, server.accept(None)?.open(&Options::default())?))
}

fn stack(size: usize, messages: usize) -> io::Result<Run> {
    let (one, other) = handles()?;
    play(one, other, size, messages)
}

fn play(mut one: impl End, mut other: impl End, size: usize, messages: usize) -> io::Result<Run> {
    let warming = messages / 10 + 1;
    thread::scope(|scope| {
        let (end, is_ended) = sync_channel::<()>(0);
        let echo = scope.spawn(move || {
            let mut message = vec![1; size];
            let outcome = (0..messages + warming).try_for_each(|_| {
                other.receive(&mut message)?;
                other.send(&message)
            });
            // The kernel counts the switches of threads that are there.
            let _ = is_ended.recv();
            outcome
        });
        let mut message = vec![1; size];
        let mut started = (Instant::now(), processor_time(), switches()?);
        for number in 0..messages + warming {
            if number == warming {
                started = (Instant::now(), processor_time(), switches()?);
            }
            one.send(&message)?;
            one.receive(&mut message)?;
        }
        let taken = started.0.elapsed().as_secs_f64() / messages as f64;
        let used = (processor_time() - started.1) / messages as f64;
        let switches = (switches()? - started.2) as f64 / messages as f64;
        drop(end);
        echo.join().map_err(|_| io::Error::other("the other end panicked"))??;
        Ok(Run { taken, used, switches })
    })
}
