//! Callbacks: a ping-pong whose next operation is registered from the callback of the one before, beside
//! a bare epoll loop. The other end is the same thread with a plain socket for both.

use crate::pinned::on_one_processor;
use crate::switches::switches;
use crate::{System, Table, ping_pong, rounds};
use rustix::event::epoll;
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Instant;
use xdfs_xio::{Completed, Handle, Options, WriteInfo};

const SIZES: [usize; 3] = [1, 1000, 65_536];
const MESSAGES: usize = 3000;

/// Prints the time of a message by callbacks over that of an epoll loop.
pub(crate) fn run(count: usize, table: &mut Table) -> io::Result<()> {
    let messages = table.work(MESSAGES, MESSAGES / 10);
    for size in SIZES {
        let fewest = Cell::new(f64::INFINITY);
        let mut systems: [System<'_>; 2] = [
            ("epoll", Box::new(move || bare(size, messages))),
            ("callbacks", Box::new(|| callbacks(size, messages, &fewest))),
        ];
        let taken = on_one_processor(|| rounds(count, &mut systems))?;
        drop(systems);
        let what = format!("callbacks, {size} bytes, over a bare epoll loop ({:.1} us)", taken[0].best * 1e6);
        table.time_of_threads(&what, taken[1].best / taken[0].best, taken[1].median / taken[0].median, 1.02);
        if size <= ping_pong::ONE_READ {
            table.switches(&format!("callbacks, {size} bytes"), fewest.get(), 2.0);
        }
    }
    Ok(())
}

/// Sends every message back.
fn echo(mut socket: TcpStream, size: usize, messages: usize) -> io::Result<()> {
    let mut message = vec![0; size];
    (0..messages).try_for_each(|_| {
        socket.read_exact(&mut message)?;
        socket.write_all(&message)
    })
}

fn bare(size: usize, messages: usize) -> io::Result<f64> {
    let (mut socket, other) = ping_pong::pair()?;
    let echo = thread::spawn(move || echo(other, size, messages));
    socket.set_nonblocking(true)?;
    let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(&events, &socket, epoll::EventData::new_u64(1), flags)?;
    let mut message = vec![1; size];
    let mut ready = Vec::with_capacity(8);
    let started = Instant::now();
    for _ in 0..messages {
        let (mut sent, mut received) = (0, 0);
        while received < size {
            while sent < size {
                match socket.write(&message[sent..]) {
                    Ok(bytes) => sent += bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            match socket.read(&mut message[received..]) {
                Ok(bytes) => received += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear();
                    epoll::wait(&events, rustix::buffer::spare_capacity(&mut ready), None)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    let taken = started.elapsed().as_secs_f64() / messages as f64;
    echo.join().map_err(|_| io::Error::other("the other end panicked"))??;
    Ok(taken)
}

fn callbacks(size: usize, messages: usize, fewest: &Cell<f64>) -> io::Result<f64> {
    let listener = ping_pong::listener()?;
    let contact = listener.local_addr()?.to_string();
    let handle = Handle::open(&ping_pong::stack_of_one()?, &contact, &Options::default())?;
    let other = listener.accept()?.0;
    other.set_nodelay(true)?;
    let (end, is_ended) = sync_channel::<()>(0);
    let echo = thread::spawn(move || {
        let outcome = echo(other, size, messages);
        let _ = is_ended.recv();
        outcome
    });
    let (done, is_done) = sync_channel(1);
    let before = switches()?;
    let started = Instant::now();
    send(&handle, vec![1; size], messages, done);
    is_done.recv().map_err(|_| io::Error::other("a callback failed"))?;
    let taken = started.elapsed().as_secs_f64() / messages as f64;
    fewest.set(fewest.get().min((switches()? - before) as f64 / messages as f64));
    drop(end);
    echo.join().map_err(|_| io::Error::other("the other end panicked"))??;
    Ok(taken)
}

/// An error drops `done`, which the one who waits for it notices.
fn send(handle: &Handle, message: Vec<u8>, left: usize, done: SyncSender<()>) {
    let _ = handle.register_write(message, WriteInfo::default(), move |handle, sent: Completed| {
        if sent.result.is_ok() {
            receive(handle, sent.buffers.into_one(), left, done);
        }
    });
}

fn receive(handle: &Handle, message: Vec<u8>, left: usize, done: SyncSender<()>) {
    let size = message.len();
    let _ = handle.register_read(message, size, move |handle, received: Completed| match received.result {
        Ok(_) if left > 1 => send(handle, received.buffers.into_one(), left - 1, done),
        Ok(_) => {
            let _ = done.send(());
        }
        Err(_) => {}
    });
}
