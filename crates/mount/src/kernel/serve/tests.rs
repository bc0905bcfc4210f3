//! Calls that panic, and threads that find nothing to do. Nothing here mounts anything.

use super::super::answer::Newer;
use super::*;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

#[test]
fn a_thread_that_finds_nothing_in_the_queue_is_one_that_waits() {
    let mut pool = Pool { threads: THREADS_MAX, ..Pool::default() };
    assert!(pool.push(b"request"));
    assert_eq!(pool.next().as_deref(), Some(&b"request"[..]));
    assert_eq!((pool.waiting, pool.queued_bytes), (0, 0), "it works");
    assert_eq!(pool.next(), None);
    assert_eq!(pool.waiting, 1, "else the next request went to the queue, and nobody would look there");
}

/// Numbers of requests.
const OPEN: u32 = 14;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const OPEN_DIRECTORY: u32 = 27;
const SYNC_DIRECTORY: u32 = 30;

/// Files of which each call panics, but for one that is answered.
struct Panicking {
    end: SyncSender<()>,
    is_ended: Mutex<Receiver<()>>,
}

struct PanickingLater;

impl Waiting for PanickingLater {
    fn attempt(&mut self) -> Option<Result<Answer, Errno>> {
        panic!("an attempt of a test");
    }

    fn undo(&mut self) {}
}

impl FileSystem for Panicking {
    fn call(&self, call: &Call<'_>) -> Outcome {
        match call.operation {
            Operation::Open { .. } => Outcome::Later(Box::new(PanickingLater)),
            Operation::OpenDirectory => panic!("a call of a test"),
            _ => Outcome::Now(Ok(Answer::Done)),
        }
    }

    fn at_once(&self, call: &Call<'_>) -> Option<Result<Answer, Errno>> {
        assert!(call.operation != Operation::FileSystem, "a call of a test that is answered at once");
        None
    }

    fn forget(&self, _: u64, _: u64) {}

    fn dropped_older(&self, _: Newer) {}

    fn undelivered(&self, _: Answer) {}

    fn locks(&self) -> bool {
        false
    }

    fn work(&self, _: &dyn crate::kernel::Kernel) {
        let _ = lock(&self.is_ended).recv();
    }

    fn end_work(&self) {
        let _ = self.end.try_send(());
    }
}

/// The kernel's side of the device.
struct Kernel(UnixDatagram);

impl Kernel {
    /// Sends a request, and takes the number and the error of its answer.
    fn ask(&self, unique: u64, code: u32, arguments: &[u8]) -> (u64, i32) {
        let mut request = ((abi::REQUEST_HEAD + arguments.len()) as u32).to_ne_bytes().to_vec();
        request.extend(code.to_ne_bytes());
        [unique, 1].iter().for_each(|field| request.extend(field.to_ne_bytes()));
        request.extend([0; 16]);
        request.extend(arguments);
        self.0.send(&request).unwrap();
        let mut answer = [0; 4096];
        let length = self.0.recv(&mut answer).unwrap();
        assert!(length >= abi::ANSWER_HEAD, "{length}");
        let error = i32::from_ne_bytes(answer[4..8].try_into().unwrap());
        (u64::from_ne_bytes(answer[8..16].try_into().unwrap()), error)
    }
}

#[test]
fn whoever_waits_for_a_call_that_panics_gets_an_error_and_the_next_call_is_answered() {
    let (kernel, device) = UnixDatagram::pair().unwrap();
    kernel.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let kernel = Kernel(kernel);
    let its_end = device.try_clone().unwrap();
    let device = File::from(OwnedFd::from(device));
    let (end, is_ended) = sync_channel(1);
    let files = Panicking { end, is_ended: Mutex::new(is_ended) };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&device, &files, &|| {}));
        let version: Vec<u8> = [abi::MAJOR, abi::MINOR, 0, 0].iter().flat_map(|field| field.to_ne_bytes()).collect();
        assert_eq!(kernel.ask(1, INIT, &version), (1, 0));
        let error = -Errno::IO.raw_os_error();
        for (unique, code, arguments) in [(2, OPEN_DIRECTORY, 8), (3, STATFS, 0), (4, OPEN, 8)] {
            assert_eq!(kernel.ask(unique, code, &vec![0; arguments]), (unique, error), "request {code}");
        }
        assert_eq!(kernel.ask(5, SYNC_DIRECTORY, &[]), (5, 0));
        its_end.shutdown(Shutdown::Both).unwrap();
        assert_eq!(server.join().unwrap(), Ok(()));
    });
}
