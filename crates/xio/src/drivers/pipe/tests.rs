//! What `pipe` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::{Completed, ErrorKind, Handle, Options, Stack, Timeouts, WriteInfo};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(30);
/// More than a pipe holds.
const MUCH: usize = 1 << 20;

fn fifo(path: &Path) -> String {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    path.to_str().unwrap().to_owned()
}

fn open(attributes: &str, timeouts: Timeouts) -> crate::Result<Handle> {
    Handle::open(&Stack::new().push("pipe", attributes)?, "-", &Options { timeouts })
}

fn patient() -> Timeouts {
    Timeouts { open: Some(PATIENCE), read: Some(PATIENCE), write: Some(PATIENCE), ..Timeouts::default() }
}

/// Two processes' ends of two named pipes.
fn pair(directory: &Path) -> (Handle, Handle) {
    let (there, back) = (fifo(&directory.join("there")), fifo(&directory.join("back")));
    let other = format!("input={there};output={back}");
    let opening = thread::spawn(move || open(&other, patient()).unwrap());
    let near = open(&format!("output={there};input={back}"), patient()).unwrap();
    (near, opening.join().unwrap())
}

#[test]
fn each_direction_waits_for_its_own_pipe_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (near, far) = pair(directory.path());
    // The output of both is full and stays so while the inputs are waited for.
    let (tell, told) = sync_channel(8);
    let write = |handle: &Handle| {
        let tell = tell.clone();
        let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap().bytes).unwrap();
        handle.register_write(vec![7; MUCH], WriteInfo::default(), done).unwrap();
    };
    write(&near);
    write(&far);
    for handle in [&near, &far] {
        let mut bytes = vec![0; MUCH];
        assert_eq!(handle.read(&mut bytes, MUCH).unwrap().bytes, MUCH);
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
    assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(MUCH), Ok(MUCH)]);
    // A registered read, while a blocking write waits for the other pipe.
    let (tell, told) = sync_channel(1);
    near.register_read(vec![0; 100], 5, move |_, done| tell.send(done.result.unwrap().bytes).unwrap()).unwrap();
    let writing = {
        let near = near.clone();
        thread::spawn(move || near.write(&vec![1; MUCH]).unwrap())
    };
    far.write(b"hello").unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(5));
    far.read(&mut vec![0; MUCH], MUCH).unwrap();
    assert_eq!(writing.join().unwrap(), MUCH);
    near.control(None, "finish_sending", None).unwrap();
    let read = far.read(&mut [0; 10], 1).unwrap();
    assert_eq!((read.bytes, read.info.end), (0, true));
    assert_eq!(near.write(b"x").unwrap_err().kind(), ErrorKind::Unsupported);
    far.close().unwrap();
    assert!(near.read(&mut [0; 10], 1).unwrap().info.end);
}

#[test]
fn a_pipe_without_a_writer_has_not_ended_and_one_without_a_reader_is_not_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = fifo(&directory.path().join("pipe"));
    let impatient = Timeouts { open: Some(SHORT), read: Some(SHORT), ..Timeouts::default() };
    let reader = open(&format!("input={path}"), impatient).unwrap();
    assert_eq!(reader.read(&mut [0; 10], 1).unwrap_err().kind(), ErrorKind::TimedOut);
    let writer = open(&format!("output={path}"), impatient).unwrap();
    assert!(writer.read(&mut [0; 10], 1).unwrap().info.end, "it has no input");
    writer.write(b"now").unwrap();
    writer.close().unwrap();
    let read = reader.read(&mut [0; 10], 10).unwrap();
    assert_eq!((read.bytes, read.info.end), (3, true));
    drop(reader);
    // A process that another test starts has the reader, too, until it runs its program.
    let began = std::time::Instant::now();
    let error = loop {
        match open(&format!("output={path}"), impatient) {
            Ok(_) => assert!(began.elapsed() < PATIENCE, "opened without a reader"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let (tell, told) = sync_channel(1);
    let options = Options { timeouts: patient() };
    let stack = Stack::new().push("pipe", &format!("output={path}")).unwrap();
    let opening =
        Handle::register_open(&stack, "-", &options, move |_, done| tell.send(done.is_ok()).unwrap()).unwrap();
    let reader = open(&format!("input={path}"), patient()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "opened by the reactor when the reader came");
    opening.write(b"x").unwrap();
    assert_eq!(reader.read(&mut [0; 1], 1).unwrap().bytes, 1);
    let error = open("input=/no/such/pipe", impatient).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::NotFound, Some("pipe")), "{error}");
    let wrong = Handle::open(&Stack::new().push("pipe", "").unwrap(), "host:1", &Options::default()).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Contact);
}

/// Set for the process that the test below starts: itself once more, which copies its input.
const COPIES: &str = "XDFS_PIPE_COPIES";

/// Copies standard input to standard output.
fn copy_standard_input() {
    let handle = open("", patient()).unwrap();
    let mut buffer = vec![0; 10_000];
    loop {
        let read = handle.read(&mut buffer, 1).unwrap();
        if read.info.end {
            break;
        }
        handle.write(&buffer[..read.bytes]).unwrap();
    }
}

#[test]
fn the_standard_streams_are_pipes_files_or_sockets_and_keep_their_flags() {
    use std::io::{Read, Seek, Write};
    use std::os::fd::OwnedFd;
    if std::env::var_os(COPIES).is_some() {
        return copy_standard_input();
    }
    let name = "drivers::pipe::tests::the_standard_streams_are_pipes_files_or_sockets_and_keep_their_flags";
    let run = |input: OwnedFd, output: OwnedFd| {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let program = program.args(["--exact", "--quiet", "--nocapture", name]).env(COPIES, "1");
        program.stdin(input).stdout(output).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let content = vec![5; MUCH];
    let check = |output: &[u8], what| {
        let copied = output.iter().filter(|byte| **byte == 5).count();
        assert_eq!(copied, content.len(), "{what}");
    };
    // Pipes; a copy of the input's flags is looked at afterwards.
    let (reading, mut writing) = std::io::pipe().unwrap();
    let (mut result, output) = std::io::pipe().unwrap();
    let kept = reading.try_clone().unwrap();
    let mut child = run(reading.into(), output.into());
    let sent = content.clone();
    let sending = thread::spawn(move || writing.write_all(&sent).unwrap());
    let mut copied = Vec::new();
    result.read_to_end(&mut copied).unwrap();
    sending.join().unwrap();
    assert!(child.wait().unwrap().success());
    check(&copied, "pipes");
    assert!(!rustix::fs::fcntl_getfl(&kept).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
    // A file from where it stands, into a file.
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"line\n").unwrap();
    input.write_all(&content).unwrap();
    input.seek(std::io::SeekFrom::Start(5)).unwrap();
    let mut output = tempfile::tempfile().unwrap();
    assert!(run(input.into(), output.try_clone().unwrap().into()).wait().unwrap().success());
    let mut copied = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut copied).unwrap();
    check(&copied, "files");
    assert!(!copied.windows(5).any(|window| window == b"line\n"));
    // One socket for both.
    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut child = run(far.try_clone().unwrap().into(), far.into());
    let mut receiving = near.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut copied = Vec::new();
        receiving.read_to_end(&mut copied).map(|_| copied)
    });
    near.write_all(&content).unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    check(&reader.join().unwrap().unwrap(), "a socket");
    assert!(child.wait().unwrap().success());
}
