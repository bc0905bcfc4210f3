//! The drivers `ftp` and `gridftp` against Debian's vsftpd, proftpd, pure-ftpd and globus-gridftp-server.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the servers' files themselves")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Server, content, log_with, put};
use xdfs_gridftp::driver;
use xdfs_xio::{Answer, ErrorKind, Handle, Options, Registry, Stack, Timeouts};

/// More than the buffers of an element hold, and no multiple of them.
const LENGTH: usize = 12_000_001;

fn options() -> Options {
    let limit = Some(Duration::from_secs(30));
    Options { timeouts: Timeouts { open: limit, read: limit, write: limit, close: limit } }
}

/// Opens a server's file with a driver and its attributes.
fn open(server: &Server, driver: &str, name: &str) -> xdfs_xio::Result<Handle> {
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    let stack = Stack::of(Arc::new(registry)).push_all(driver).unwrap();
    let contact = format!("ftp://{}{}/{}/{name}", server.login, server.address, server.there);
    Handle::open(&stack, &contact, &options())
}

fn read(handle: &Handle, most: usize) -> xdfs_xio::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let count = handle.read(&mut bytes, most)?.bytes;
    bytes.truncate(count);
    Ok(bytes)
}

fn read_all(handle: &Handle) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        let received = handle.read(&mut buffer, 1).unwrap();
        all.extend_from_slice(&buffer[..received.bytes]);
        if received.info.end {
            return all;
        }
    }
}

fn seek(handle: &Handle, to: usize) {
    assert_eq!(handle.control(None, "seek", Some(&to.to_string())).unwrap(), Answer::Number(to as u64));
}

/// Writes in pieces that are no multiple of any buffer.
fn write(handle: &Handle, bytes: &[u8]) {
    for piece in bytes.chunks(77_777) {
        assert_eq!(handle.write(piece).unwrap(), piece.len());
    }
}

fn files_are_written_and_read(server: &Server, driver: &str) {
    for length in [0, 1, LENGTH] {
        let sent = content(length);
        let writer = open(server, &format!("{driver};access=write"), "file").unwrap();
        write(&writer, &sent);
        writer.close().unwrap();
        assert!(std::fs::read(server.here.join("file")).unwrap() == sent, "{driver}: {length}");
        let reader = open(server, driver, "file").unwrap();
        assert_eq!(reader.control(None, "size", None).unwrap(), Answer::Number(length as u64));
        assert!(read_all(&reader) == sent, "{driver}: {length}");
        assert_eq!(read(&reader, 1).unwrap(), b"", "the end stays");
        reader.close().unwrap();
    }
}

/// Before the first byte, in the middle of a transfer, back, behind the end, and after it.
const PLACES: [usize; 7] = [5_000_000, 17, 11_999_000, 0, LENGTH, LENGTH + 5, 6_000_000];

fn seeks_count_from_the_beginning(server: &Server, driver: &str, places: &[usize]) {
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    let reader = open(server, driver, "file").unwrap();
    for &at in places {
        seek(&reader, at);
        let expected = &bytes[at.min(LENGTH)..(at + 100_000).min(LENGTH).max(at.min(LENGTH))];
        assert!(read(&reader, 100_000).unwrap() == expected, "{driver}: {at}");
    }
    seek(&reader, 11_000_000);
    assert!(read_all(&reader) == bytes[11_000_000..], "{driver}");
    assert_eq!(reader.control(None, "position", None).unwrap(), Answer::Number(LENGTH as u64));
    reader.close().unwrap();
}

/// Offsets and lengths.
const PARTS: [(usize, usize); 5] = [(0, 1), (3, 5_000_000), (11_000_000, 5_000_000), (LENGTH, 1), (7, 0)];

fn a_part_is_read(server: &Server, driver: &str, parts: &[(usize, usize)]) {
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    for &(offset, length) in parts {
        let reader = open(server, &format!("{driver};offset={offset};length={length}"), "file").unwrap();
        let expected = &bytes[offset..(offset + length).min(LENGTH)];
        assert!(read_all(&reader) == expected, "{driver}: {offset} {length}");
        reader.close().unwrap();
    }
}

fn seeks_while_writing(server: &Server, driver: &str) {
    let bytes = content(3_000_000);
    let writer = open(server, &format!("{driver};access=write"), "holes").unwrap();
    write(&writer, &bytes[..1_000_000]);
    seek(&writer, 2_000_000);
    write(&writer, &bytes[2_000_000..]);
    seek(&writer, 1_000_000);
    write(&writer, &bytes[1_000_000..2_000_000]);
    let refused = writer.control(None, "seek", Some("0")).unwrap_err();
    assert!(refused.to_string().contains("empties"), "{refused}");
    writer.close().unwrap();
    assert!(std::fs::read(server.here.join("holes")).unwrap() == bytes, "{driver}");
    let writer = open(server, &format!("{driver};access=append"), "holes").unwrap();
    write(&writer, b"more");
    writer.close().unwrap();
    assert!(std::fs::read(server.here.join("holes")).unwrap() == [&bytes[..], b"more"].concat(), "{driver}");
}

/// As every server can: from where the file has bytes.
fn goes_back_while_writing(server: &Server, driver: &str) {
    let bytes = content(3_000_000);
    let writer = open(server, &format!("{driver};access=write"), "parts").unwrap();
    write(&writer, &content(1_000_000));
    seek(&writer, 400_000);
    write(&writer, &bytes[400_000..]);
    writer.close().unwrap();
    assert!(std::fs::read(server.here.join("parts")).unwrap() == bytes, "{driver}");
    let writer = open(server, &format!("{driver};access=write;offset=2000000"), "parts").unwrap();
    write(&writer, &bytes[..1_000_000]);
    writer.close().unwrap();
    let expected = [&bytes[..2_000_000], &bytes[..1_000_000]].concat();
    assert!(std::fs::read(server.here.join("parts")).unwrap() == expected, "{driver}");
    for name in ["parts", "new"] {
        let writer = open(server, &format!("{driver};access=append"), name).unwrap();
        write(&writer, b"more");
        writer.close().unwrap();
    }
    assert!(std::fs::read(server.here.join("parts")).unwrap() == [&expected[..], b"more"].concat(), "{driver}");
    assert_eq!(std::fs::read(server.here.join("new")).unwrap(), b"more", "{driver}");
    std::fs::remove_file(server.here.join("new")).unwrap();
}

/// What an open costs beside a new login.
fn one_login_serves_many_handles(server: &Server, driver: &str) {
    put(&server.here, "file", &content(LENGTH));
    for _ in 0..3 {
        // Of the first byte alone, so that the transfer is broken off by the close.
        let reader = open(server, driver, "file").unwrap();
        assert_eq!(read(&reader, 1).unwrap().len(), 1);
        reader.close().unwrap();
        let reader = open(server, driver, "file").unwrap();
        read_all(&reader);
        seek(&reader, 5);
        assert_eq!(read(&reader, 7).unwrap().len(), 7);
        reader.close().unwrap();
        let writer = open(server, &format!("{driver};access=write"), "other").unwrap();
        write(&writer, b"text");
        writer.close().unwrap();
    }
    assert_eq!(server.sessions(), 1, "{driver}");
}

/// The drivers and how they move a server's files.
const MODE_S: [&str; 2] = ["ftp:window=300KiB", "gridftp:mode=s"];
const GLOBUS: [&str; 4] =
    ["ftp:window=300KiB", "gridftp:mode=e", "gridftp:streams=4", "gridftp:streams=16;window=1MiB"];

#[test]
fn files_of_vsftpd_are_written_and_read() {
    let Some(server) = Server::vsftpd() else { return };
    MODE_S.iter().for_each(|driver| files_are_written_and_read(&server, driver));
}

#[test]
fn files_of_proftpd_are_written_and_read() {
    let Some(server) = Server::proftpd() else { return };
    MODE_S.iter().for_each(|driver| files_are_written_and_read(&server, driver));
}

#[test]
fn files_of_pure_ftpd_are_written_and_read() {
    let Some(server) = Server::pure_ftpd() else { return };
    MODE_S.iter().for_each(|driver| files_are_written_and_read(&server, driver));
}

#[test]
fn files_of_globus_are_written_and_read() {
    let Some(server) = Server::globus() else { return };
    GLOBUS.iter().for_each(|driver| files_are_written_and_read(&server, driver));
}

#[test]
fn seeks_in_files_of_vsftpd_count_from_the_beginning() {
    let Some(server) = Server::vsftpd() else { return };
    MODE_S.iter().for_each(|driver| seeks_count_from_the_beginning(&server, driver, &PLACES));
}

#[test]
fn seeks_in_files_of_proftpd_count_from_the_beginning() {
    let Some(server) = Server::proftpd() else { return };
    MODE_S.iter().for_each(|driver| seeks_count_from_the_beginning(&server, driver, &PLACES));
}

#[test]
fn seeks_in_files_of_pure_ftpd_count_from_the_beginning() {
    let Some(server) = Server::pure_ftpd() else { return };
    // It never answers a download that is broken off, which is waited for.
    seeks_count_from_the_beginning(&server, "ftp:window=300KiB", &[5_000_000, LENGTH, 17]);
}

#[test]
fn seeks_in_files_of_globus_count_from_the_beginning() {
    let Some(server) = Server::globus() else { return };
    GLOBUS.iter().for_each(|driver| seeks_count_from_the_beginning(&server, driver, &PLACES));
}

#[test]
fn a_part_of_a_file_of_vsftpd_is_read() {
    let Some(server) = Server::vsftpd() else { return };
    MODE_S.iter().for_each(|driver| a_part_is_read(&server, driver, &PARTS));
}

#[test]
fn a_part_of_a_file_of_proftpd_is_read() {
    let Some(server) = Server::proftpd() else { return };
    MODE_S.iter().for_each(|driver| a_part_is_read(&server, driver, &PARTS));
}

#[test]
fn a_part_of_a_file_of_pure_ftpd_is_read() {
    let Some(server) = Server::pure_ftpd() else { return };
    // Of those whose transfer is broken off one.
    a_part_is_read(&server, "ftp:window=300KiB", &PARTS[1..]);
}

#[test]
fn a_part_of_a_file_of_globus_is_read() {
    let Some(server) = Server::globus() else { return };
    GLOBUS.iter().for_each(|driver| a_part_is_read(&server, driver, &PARTS));
}

#[test]
fn a_file_of_vsftpd_is_written_in_parts() {
    let Some(server) = Server::vsftpd() else { return };
    MODE_S.iter().for_each(|driver| seeks_while_writing(&server, driver));
}

#[test]
fn a_file_of_proftpd_is_written_in_parts_and_appended_to() {
    let Some(server) = Server::proftpd() else { return };
    MODE_S.iter().for_each(|driver| goes_back_while_writing(&server, driver));
}

#[test]
fn proftpd_refuses_to_write_behind_the_end_of_a_file_and_that_is_said() {
    let Some(server) = Server::proftpd() else { return };
    let writer = open(&server, "ftp:access=write", "file").unwrap();
    write(&writer, b"text");
    seek(&writer, 100);
    let error = writer.write(b"behind").and_then(|_| writer.close()).unwrap_err();
    assert!(error.to_string().contains("the server refused STOR: 554"), "{error}");
    assert_eq!(std::fs::read(server.here.join("file")).unwrap(), b"text");
}

#[test]
fn what_pure_ftpd_writes_elsewhere_than_behind_the_end_of_a_file_is_an_error() {
    let Some(server) = Server::pure_ftpd() else { return };
    let writer = open(&server, "ftp:access=write", "file").unwrap();
    write(&writer, b"text");
    seek(&writer, 100);
    let error = writer.write(b"behind").and_then(|_| writer.close()).unwrap_err();
    assert!(error.to_string().contains("the server's file has 10 bytes, not 106"), "{error}");
}

#[test]
fn a_file_of_pure_ftpd_is_written_in_parts_and_appended_to() {
    let Some(server) = Server::pure_ftpd() else { return };
    MODE_S.iter().for_each(|driver| goes_back_while_writing(&server, driver));
}

#[test]
fn a_file_of_globus_is_written_in_parts() {
    let Some(server) = Server::globus() else { return };
    GLOBUS.iter().for_each(|driver| seeks_while_writing(&server, driver));
}

#[test]
fn one_login_at_vsftpd_serves_many_handles() {
    let Some(server) = Server::vsftpd() else { return };
    one_login_serves_many_handles(&server, "ftp:silence=19s");
    assert_eq!(server.logins(), 1);
}

#[test]
fn one_login_at_proftpd_serves_many_handles() {
    let Some(server) = Server::proftpd() else { return };
    one_login_serves_many_handles(&server, "ftp:silence=19s");
}

#[test]
fn one_login_at_pure_ftpd_serves_whole_transfers() {
    let Some(server) = Server::pure_ftpd() else { return };
    put(&server.here, "file", &content(LENGTH));
    for _ in 0..3 {
        let reader = open(&server, "ftp", "file").unwrap();
        assert_eq!(read_all(&reader).len(), LENGTH);
        reader.close().unwrap();
        let writer = open(&server, "ftp:access=write", "other").unwrap();
        write(&writer, b"text");
        writer.close().unwrap();
    }
    assert_eq!(server.sessions(), 1);
}

#[test]
fn one_login_at_globus_serves_many_handles() {
    let scratch = tempfile::tempdir().unwrap();
    for driver in ["ftp:silence=20s", "gridftp:streams=4"] {
        let log = scratch.path().join(driver);
        let arguments = ["-d", "ALL", "-l", log.to_str().unwrap()];
        let Some(server) = Server::globus_with("127.0.0.1:0", &arguments) else { return };
        one_login_serves_many_handles(&server, driver);
        // The session is kept: the server writes what it has of it before it ends.
        let log = log_with(&log, "[CLIENT]: RETR", 9);
        assert_eq!(log.matches("[CLIENT]: USER").count(), 1, "{driver}");
    }
}

#[test]
fn a_gsiftp_url_and_ipv6_name_files_of_globus() {
    let Some(server) = Server::globus_at("[::1]:0") else { return };
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    let stack = Stack::of(Arc::new(registry)).push_all("gridftp:streams=3").unwrap();
    let handle =
        Handle::open(&stack, &format!("gsiftp://{}{}/file", server.address, server.there), &options()).unwrap();
    assert!(read_all(&handle) == bytes);
}

#[test]
fn what_is_not_there_or_not_allowed_is_an_error_with_its_name() {
    let Some(server) = Server::vsftpd() else { return };
    let error = open(&server, "ftp", "missing").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("/missing: the server refused SIZE: 550"), "{error}");
    let writer = open(&server, "ftp:access=write", "no/such/file").unwrap();
    let error = writer.write(b"text").and_then(|_| writer.close()).unwrap_err();
    assert!(error.to_string().contains("the server refused STOR"), "{error}");
    put(&server.here, "file", b"text");
    let reader = open(&server, "ftp", "file").unwrap();
    assert!(reader.write(b"x").unwrap_err().to_string().contains("opened for reading"));
    assert_eq!(read(&reader, 10).unwrap(), b"text");
}

#[test]
fn bytes_of_other_handles_and_sessions_do_not_mix() {
    let Some(server) = Server::globus() else { return };
    let bytes: Vec<_> = (0..8).map(|number| content(2_000_000 + number)).collect();
    std::thread::scope(|scope| {
        for (number, bytes) in bytes.iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                for _ in 0..3 {
                    let name = format!("file-{number}");
                    let writer = open(server, "gridftp:access=write;streams=3", &name).unwrap();
                    write(&writer, bytes);
                    writer.close().unwrap();
                    assert!(read_all(&open(server, "gridftp:streams=3", &name).unwrap()) == *bytes);
                }
            });
        }
    });
    assert!(server.sessions() <= 8, "{}", server.sessions());
}

/// A server of one file, `text`, that ends a session when it is asked for the file's length a second time.
fn forgetful_server() -> (std::net::SocketAddr, std::sync::mpsc::Receiver<()>) {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (begun, sessions) = std::sync::mpsc::sync_channel(16);
    std::thread::spawn(move || {
        for mut control in listener.incoming().flatten() {
            begun.send(()).unwrap();
            let passive = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = passive.local_addr().unwrap().port();
            let mut sizes = 0;
            control.write_all(b"220 hello\r\n").unwrap();
            for line in BufReader::new(control.try_clone().unwrap()).lines() {
                let answer = match line.unwrap().get(..4).unwrap_or_default() {
                    "USER" => "331 password\r\n".to_owned(),
                    "PASS" => "230 in\r\n".to_owned(),
                    "TYPE" => "200 ok\r\n".to_owned(),
                    "EPSV" => format!("229 (|||{port}|)\r\n"),
                    "SIZE" if sizes == 1 => break,
                    "SIZE" => {
                        sizes += 1;
                        "213 4\r\n".to_owned()
                    }
                    "RETR" => {
                        control.write_all(b"150 opening\r\n").unwrap();
                        passive.accept().unwrap().0.write_all(b"text").unwrap();
                        "226 done\r\n".to_owned()
                    }
                    _ => "500 what\r\n".to_owned(),
                };
                control.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    (address, sessions)
}

#[test]
fn a_kept_session_that_its_server_has_ended_is_replaced_by_a_new_one() {
    let (address, sessions) = forgetful_server();
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    let stack = Stack::of(Arc::new(registry)).push_all("ftp").unwrap();
    for _ in 0..3 {
        let reader = Handle::open(&stack, &format!("ftp://{address}/file"), &options()).unwrap();
        assert_eq!(read_all(&reader), b"text");
        reader.close().unwrap();
    }
    assert_eq!(sessions.try_iter().count(), 3);
}

#[test]
fn registered_operations_move_files_and_a_read_that_is_cancelled_or_late_loses_no_byte() {
    let Some(server) = Server::globus() else { return };
    let sent = content(LENGTH);
    for driver in ["ftp", "gridftp:streams=4"] {
        let (tell, told) = std::sync::mpsc::sync_channel(1024);
        let done = move |_: &Handle, done: xdfs_xio::Completed| tell.send(done).unwrap();
        let patience = Duration::from_secs(30);
        let separator = if driver.contains(':') { ';' } else { ':' };
        let writer = open(&server, &format!("{driver}{separator}access=write"), "file").unwrap();
        for piece in sent.chunks(99_991) {
            writer.register_write(piece.to_vec(), xdfs_xio::WriteInfo::default(), done.clone()).unwrap();
        }
        for _ in sent.chunks(99_991) {
            told.recv_timeout(patience).unwrap().result.unwrap();
        }
        writer.close().unwrap();
        assert!(std::fs::read(server.here.join("file")).unwrap() == sent, "{driver}");
        let reader = open(&server, driver, "file").unwrap();
        let (mut received, mut number) = (Vec::new(), 0);
        while received.len() < LENGTH {
            let size = (LENGTH - received.len()).min(1_300_000);
            let read = reader.register_read(vec![0; size], size, done.clone()).unwrap();
            number += 1;
            if number % 2 == 0 {
                reader.cancel(read);
            }
            let completed = told.recv_timeout(patience).unwrap();
            let moved = completed.result.map_or_else(|error| error.transferred(), |read| read.bytes);
            received.extend_from_slice(&completed.buffers.into_one()[..moved]);
        }
        assert!(received == sent, "{driver}");
        reader.close().unwrap();
    }
}

#[test]
fn a_window_is_set_at_the_server_too() {
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace");
    let Some(server) = Server::globus_traced(&trace) else { return };
    put(&server.here, "file", &content(100));
    for (driver, window, option) in [
        ("gridftp:mode=s;window=123456", "123456", "SO_SNDBUF"),
        ("gridftp:streams=2;window=234567", "234567", "SO_SNDBUF"),
    ] {
        let reader = open(&server, driver, "file").unwrap();
        assert!(read_all(&reader) == content(100));
        reader.close().unwrap();
        let calls = std::fs::read_to_string(&trace).unwrap();
        let is_set =
            |line: &str| line.contains(option) && line.contains(&format!("[{window}]")) && line.contains("= 0");
        assert!(calls.lines().any(is_set), "{driver}: {calls}");
        // And for what it receives.
        let larger = format!("{}", window.parse::<u32>().unwrap() + 1);
        let writer = open(&server, &format!("{};access=write", driver.replace(window, &larger)), "written").unwrap();
        write(&writer, &content(100));
        writer.close().unwrap();
        let calls = std::fs::read_to_string(&trace).unwrap();
        let is_set =
            |line: &str| line.contains("SO_RCVBUF") && line.contains(&format!("[{larger}]")) && line.contains("= 0");
        assert!(calls.lines().any(is_set), "{driver}: {calls}");
    }
}
