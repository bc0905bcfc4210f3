//! What `file` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "looks at files from outside")]

use crate::{Answer, ErrorKind, Handle, Options, Stack, WriteInfo};
use std::io::IoSlice;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("file")
}

fn open(attributes: &str, path: &std::path::Path) -> crate::Result<Handle> {
    Handle::open(&Stack::new().push("file", attributes)?, path.to_str().unwrap(), &Options::default())
}

fn refused(attributes: &str, path: &std::path::Path) -> (ErrorKind, String) {
    let error = open(attributes, path).unwrap_err();
    assert_eq!(error.driver(), Some("file"), "{error}");
    (error.kind(), error.to_string())
}

#[test]
fn reads_and_writes_share_a_position_and_offsets_leave_it_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = open("create", &path(&directory)).unwrap();
    file.write(b"0123456789").unwrap();
    assert_eq!(file.control(None, "position", None).unwrap(), Answer::Number(10));
    let info = WriteInfo { offset: Some(3), ..WriteInfo::default() };
    file.writev(&mut [IoSlice::new(b"ab"), IoSlice::new(b"c")], &info).unwrap();
    assert_eq!(file.control(None, "position", None).unwrap(), Answer::Number(10), "left alone");
    assert_eq!(file.control(Some("file"), "seek", Some("2")).unwrap(), Answer::Number(2));
    let mut bytes = [0; 5];
    let read = file.read(&mut bytes, 5).unwrap();
    assert_eq!((&bytes, read.info.offset, read.info.end), (b"2abc6", Some(2), false));
    let read = file.read(&mut bytes, 5).unwrap();
    assert_eq!((read.bytes, &bytes[..3], read.info.end), (3, b"789".as_slice(), true));
    file.write(b"more").unwrap();
    file.control(None, "seek", Some("10")).unwrap();
    assert_eq!((file.read(&mut bytes, 4).unwrap().bytes, &bytes[..4]), (4, b"more".as_slice()), "it grew");
    file.control(None, "truncate", Some("1")).unwrap();
    assert_eq!(file.control(None, "size", None).unwrap(), Answer::Number(1));
    file.control(None, "sync", None).unwrap();
    for (command, value) in [("seek", None), ("seek", Some("-1")), ("truncate", Some("9223372036854775808"))] {
        let error = file.control(None, command, value).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("file")), "{error}");
    }
    file.close().unwrap();
    assert_eq!(std::fs::read(path(&directory)).unwrap(), b"0");
}

#[test]
fn each_attribute_does_what_its_sentence_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(&directory);
    assert_eq!(refused("", &path).0, ErrorKind::NotFound);
    open("exclusive;permissions=600", &path).unwrap().write(b"hello").unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(refused("exclusive", &path).1.contains("exists"));
    let appending = open("append;sync", &path).unwrap();
    std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write(&mut file, b" a"))
        .unwrap();
    appending.write(b" b").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"hello a b");
    let mut bytes = [0; 9];
    assert_eq!(appending.read(&mut bytes, 9).unwrap().bytes, 9, "appending does not move where is read");
    let reading = open("read", &path).unwrap();
    assert!(reading.write(b"x").is_err());
    let writing = open("access=write;length=6;offset=2", &path).unwrap();
    assert!(writing.read(&mut bytes, 1).is_err());
    writing.write(b"LL").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"heLLo ");
    open("truncate", &path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    for attributes in
        ["access=all", "permissions=8", "permissions=77777", "permissions=+7", "read;truncate", "read;length=1"]
    {
        assert_eq!(refused(attributes, &path).0, ErrorKind::Usage, "{attributes}");
    }
}

#[test]
fn what_is_no_file_is_refused_at_once_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = path(&directory);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(refused("read", &fifo).1.contains("a named pipe; the driver 'pipe' takes it"));
    assert!(refused("read", directory.path()).1.contains("a directory"));
    let link = directory.path().join("link");
    symlink(&link, &link).unwrap();
    assert!(refused("", &link).1.contains("link"));
    let zero = open("read", std::path::Path::new("/dev/zero")).unwrap();
    assert_eq!(zero.read(&mut [1; 100], 100).unwrap().bytes, 100, "a device that never waits");
}

#[test]
fn registered_operations_run_on_the_pool_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let file = open("create", &path(&directory)).unwrap();
    let (tell, told) = sync_channel(16);
    for number in 0..8_u8 {
        let tell = tell.clone();
        let done = move |_: &Handle, done: crate::Completed| tell.send(done.result.unwrap().bytes).unwrap();
        file.register_write(vec![number; 10_000], WriteInfo::default(), done).unwrap();
    }
    for _ in 0..8 {
        assert_eq!(told.recv_timeout(PATIENCE), Ok(10_000));
    }
    file.control(None, "seek", Some("0")).unwrap();
    let (tell, told) = sync_channel(1);
    file.register_read(vec![9; 100_000], 100_000, move |_, done| tell.send(done).unwrap()).unwrap();
    let done = told.recv_timeout(PATIENCE).unwrap();
    let read = done.result.unwrap();
    assert_eq!((read.bytes, read.info.end), (80_000, true));
    let bytes = done.buffers.into_one();
    assert!(
        (0..8).all(|number| bytes[number * 10_000..(number + 1) * 10_000].iter().all(|byte| *byte == number as u8))
    );
    file.close().unwrap();
}
