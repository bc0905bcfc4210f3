//! The bound program moves what it says it moves, and serves nothing but plain names in its directory.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use xdfs_bench::bound::{self, Direction, Server};

const BLOCK: u32 = 64 << 10;

/// Odd on purpose: not a multiple of the block, of the page, or of the number of channels.
const LENGTH: usize = 3 * BLOCK as usize + 4321;

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bound-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("directory of the test");
    path
}

/// A server for exactly `clients` clients on a thread of its own; returns what became of each.
fn server(directory: &std::path::Path, clients: usize) -> (SocketAddr, thread::JoinHandle<Vec<bool>>) {
    let server = Server::listen(bound::any_port(), Some(directory.to_owned()), "cubic").expect("listen");
    let address = server.address().expect("address");
    (address, thread::spawn(move || (0..clients).map(|_| server.serve_one().is_ok()).collect()))
}

#[test]
fn a_file_arrives_unchanged_both_ways() {
    let directory = directory("file");
    let bytes: Vec<u8> = (0..LENGTH).map(|index| (index * 31 % 251) as u8).collect();
    fs::write(directory.join("source"), &bytes).expect("source");
    let (address, server) = server(&directory, 2);
    let (source, back) = (directory.join("source"), directory.join("back"));
    let up = bound::move_file(address, Direction::Up, &source, "copy", BLOCK, "cubic").expect("upload");
    let down = bound::move_file(address, Direction::Down, &back, "copy", BLOCK, "cubic").expect("download");
    assert_eq!((up.bytes, down.bytes), (LENGTH as u64, LENGTH as u64));
    assert_eq!(server.join().expect("server"), [true, true]);
    assert!(fs::read(directory.join("copy")).expect("copy") == bytes);
    assert!(fs::read(back).expect("back") == bytes);
    fs::remove_dir_all(directory).expect("clean");
}

#[test]
fn memory_moves_every_byte_over_several_channels() {
    let directory = directory("memory");
    let (address, server) = server(&directory, 3);
    for (direction, channels, bytes) in
        [(Direction::Up, 7, 1_000_003), (Direction::Down, 7, 1_000_003), (Direction::Up, 5, 2)]
    {
        let moved = bound::move_memory(address, direction, channels, bytes, BLOCK, "cubic").expect("move");
        assert_eq!(moved.bytes, bytes);
    }
    assert_eq!(server.join().expect("server"), [true, true, true]);
    fs::remove_dir_all(directory).expect("clean");
}

#[test]
fn a_name_that_leaves_the_directory_is_refused() {
    let directory = directory("names");
    fs::write(directory.join("inside"), b"x").expect("file");
    let names = ["../inside", "/etc/hostname", "..", "."];
    let (address, server) = server(&directory, names.len());
    for name in names {
        let target = directory.join("stolen");
        assert!(bound::move_file(address, Direction::Down, &target, name, BLOCK, "cubic").is_err(), "{name}");
        assert!(!target.exists(), "{name}");
    }
    assert_eq!(server.join().expect("server"), [false; 4]);
    fs::remove_dir_all(directory).expect("clean");
}

#[test]
fn an_existing_target_is_not_written_over() {
    let directory = directory("existing");
    fs::write(directory.join("source"), b"new").expect("source");
    fs::write(directory.join("target"), b"old").expect("target");
    let (address, server) = server(&directory, 1);
    let source = directory.join("source");
    assert!(bound::move_file(address, Direction::Up, &source, "target", BLOCK, "cubic").is_err());
    assert_eq!(server.join().expect("server"), [false]);
    assert_eq!(fs::read(directory.join("target")).expect("target"), b"old");
    fs::remove_dir_all(directory).expect("clean");
}

#[test]
fn the_server_listens_on_loopback_only() {
    assert!(Server::listen(SocketAddr::from(([0, 0, 0, 0], 0)), None, "cubic").is_err());
}
