//! What `popen` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "looks at files from outside")]

use crate::{Answer, ErrorKind, Handle, Options, Stack, Timeouts, WriteInfo};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);
const SHELL: &str = "/bin/sh";

fn timeouts() -> Timeouts {
    Timeouts { read: Some(PATIENCE), write: Some(PATIENCE), close: Some(PATIENCE), ..Timeouts::default() }
}

fn start(program: &str, arguments: &str, timeouts: Timeouts) -> crate::Result<Handle> {
    let stack = Stack::new().push("popen", &format!("/bin/cat:{SHELL}:/usr/bin/yes;arguments={arguments}"))?;
    Handle::open(&stack, program, &Options { timeouts })
}

/// A shell with a script.
fn script(text: &str, timeouts: Timeouts) -> (Handle, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    (start(SHELL, file.path().to_str().unwrap(), timeouts).unwrap(), file)
}

#[test]
fn a_program_gets_what_is_written_and_its_output_is_read_to_the_end() {
    let cat = start("/bin/cat", "-", timeouts()).unwrap();
    let (tell, told) = sync_channel(1);
    let content = vec![3; 1 << 20];
    let written = move |handle: &Handle, done: crate::Completed| {
        handle.control(Some("popen"), "finish_sending", None).unwrap();
        tell.send(done.result.unwrap().bytes).unwrap();
    };
    cat.register_write(content.clone(), WriteInfo::default(), written).unwrap();
    let mut back = vec![0; content.len() + 1];
    let read = cat.read(&mut back, content.len() + 1).unwrap();
    assert_eq!((read.bytes, read.info.end), (content.len(), true));
    assert!(back[..read.bytes] == content);
    assert_eq!(told.recv_timeout(PATIENCE), Ok(content.len()));
    cat.close().unwrap();
}

#[test]
fn what_a_program_says_after_the_end_of_its_input_is_read_to_the_last_byte() {
    let (handle, _file) = script("cat >/dev/null; head -c 3000000 /dev/zero; exit 3", timeouts());
    handle.write(&[1; 100_000]).unwrap();
    handle.finish_sending().unwrap();
    let mut back = vec![1; 3_000_001];
    let error = handle.read(&mut back, 3_000_001).unwrap_err();
    assert_eq!(error.transferred(), 3_000_000, "{error}");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    assert!(handle.close().unwrap_err().to_string().contains("exit status: 3"));
}

#[test]
fn a_close_that_waits_for_a_program_takes_no_processor() {
    let used = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    };
    let (handle, _file) = script("cat >/dev/null; sleep 0.5", timeouts());
    handle.write(b"text").unwrap();
    let (before, since) = (used(), Instant::now());
    handle.close().unwrap();
    assert!(since.elapsed() >= Duration::from_millis(400), "it waits for the program's end");
    assert!(used() - before < Duration::from_millis(100), "{:?} of {:?}", used() - before, since.elapsed());
}

#[test]
fn a_registered_close_hears_of_the_end_of_a_program_that_comes_after_its_output() {
    let (handle, _file) = script("exec 1>&- 0<&-; sleep 0.2; exit 3", timeouts());
    let (tell, told) = sync_channel(1);
    let since = Instant::now();
    handle.register_close(move |closed| tell.send(closed.unwrap_err()).unwrap()).unwrap();
    let error = told.recv_timeout(PATIENCE).unwrap();
    assert!(error.to_string().contains("exit status: 3") && since.elapsed() < PATIENCE / 2, "{error}");
}

#[test]
fn only_listed_programs_are_started_and_only_by_their_own_paths() {
    let marker = tempfile::tempdir().unwrap();
    let hostile = marker.path().join("made");
    let command = format!("/bin/cat; touch {}", hostile.display());
    for program in ["/bin/ls", "cat", "./cat", "/bin/../bin/cat", "/bin/cat -", &command, "/bin", ""] {
        let Err(error) = start(program, "", timeouts()) else { panic!("{program} was started") };
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Contact), "{program}: {error}");
    }
    assert!(!hostile.exists());
    let none = Handle::open(&Stack::new().push("popen", "").unwrap(), "/bin/cat", &Options::default()).unwrap_err();
    assert_eq!((none.kind(), none.driver()), (ErrorKind::Denied, Some("popen")), "{none}");
    let missing = Stack::new().push("popen", "/no/such/program").unwrap();
    let error = Handle::open(&missing, "/no/such/program", &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_program_that_fails_is_an_error_at_the_end_and_of_the_close() {
    let (handle, _file) = script("echo before; exec 1>&- 0<&-; exit 3", timeouts());
    let mut back = [0; 7];
    let error = handle.read(&mut [0; 100], 100).unwrap_err();
    assert_eq!(error.transferred(), 7, "{error}");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    assert!(handle.close().unwrap_err().to_string().contains("exit status: 3"));
    let (handle, _file) = script("echo before; cat >/dev/null", timeouts());
    handle.read(&mut back, 7).unwrap();
    assert_eq!(&back, b"before\n");
    handle.write(b"text").unwrap();
    handle.close().unwrap();
}

#[test]
fn a_close_lets_the_program_finish_its_work() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let (handle, _file) = script(&format!("tee {}", out.display()), timeouts());
    let content = vec![b'x'; 100_000];
    handle.write(&content).unwrap();
    let (tell, told) = sync_channel(1);
    handle.register_close(move |closed| tell.send(closed.is_ok()).unwrap()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
    assert!(std::fs::read(&out).unwrap() == content, "although nobody read what it wrote");
}

#[test]
fn a_program_that_does_not_end_is_killed_with_its_handle_and_waited_for() {
    for closes in [true, false] {
        let handle = start("/usr/bin/yes", "", Timeouts { close: Some(SHORT), ..timeouts() }).unwrap();
        handle.read(&mut [0; 100], 100).unwrap();
        let Answer::Number(process) = handle.control(None, "process", None).unwrap() else { panic!("a number") };
        if closes {
            assert_eq!(handle.close().unwrap_err().kind(), ErrorKind::TimedOut);
        }
        drop(handle);
        let began = Instant::now();
        while std::path::Path::new(&format!("/proc/{process}")).exists() {
            assert!(began.elapsed() < PATIENCE, "it runs or is a zombie");
            std::thread::yield_now();
        }
    }
}
