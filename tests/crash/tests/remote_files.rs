//! Remote files whose server loses its power: what was synced is there, and what was not is written again. The disk is a real ext4,
//! which loses everything that is not on the medium, with the times of the file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{ConnectOptions, ErrorKind, Pinned};
use xdfs_test_cli::{LISTEN, Scene, Server};
use xdfs_test_crash::loopback::Disk;

/// Operations where nobody asks for others (`XDFS_OPERATIONS`), and how long a server lives (`XDFS_SERVER_MS`).
const OPERATIONS: u64 = 1_500;
const LIFE_MS: u64 = 250;
/// Kills that a run has at least.
const OUTAGES_MIN: u64 = 4;
/// Longest file: the disk is small.
const LENGTH_MAX: u64 = 600_000;

const OPTIONS: OpenOptions = OpenOptions::new().read(true).write(true).create(true);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect(name))
}

fn serve(scene: &Scene, disk: &Disk, address: &str) -> Server {
    let export = format!("data={}", disk.folder().display());
    // The disk is mounted in a namespace of its own, into which a confined server cannot look.
    let words = ["--quiet", "--export", &export, "--allow-anonymous", "rw", "--confinement", "off"];
    Server::start(scene.command(["serve", "--json", "--listen", address]), &words)
}

fn remote(server: &Server) -> Arc<Remote> {
    let address: SocketAddr = server.address().parse().unwrap();
    let host_check = Arc::new(Pinned(server.host_key().parse().unwrap()));
    Remote::new(ConnectOptions { host_check, ..ConnectOptions::to(address) })
}

/// A server that is killed again and again; every other time the power of its disk is cut. Each lives until the client has got on,
/// however busy the machine is.
struct Outages {
    /// Operations of the client.
    done: Arc<AtomicU64>,
    /// How often the server was killed.
    count: Arc<AtomicU64>,
    over: SyncSender<()>,
    thread: JoinHandle<(Disk, Server)>,
}

impl Outages {
    fn begin(scene: Arc<Scene>, mut disk: Disk, mut server: Server) -> Self {
        let life = Duration::from_millis(number("XDFS_SERVER_MS", LIFE_MS));
        let address = server.address().to_owned();
        let (over, is_over) = sync_channel::<()>(0);
        let done = Arc::new(AtomicU64::new(0));
        let count = Arc::new(AtomicU64::new(0));
        let (client, kills) = (Arc::clone(&done), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            let mut before = 0;
            while is_over.recv_timeout(life) == Err(RecvTimeoutError::Timeout) {
                if client.load(Ordering::Relaxed) == before {
                    continue;
                }
                server.kill();
                before = client.load(Ordering::Relaxed);
                if kills.load(Ordering::Relaxed) % 2 == 0 {
                    disk.cut();
                }
                server = serve(&scene, &disk, &address);
                kills.fetch_add(1, Ordering::Relaxed);
            }
            (disk, server)
        });
        Self { done, count, over, thread }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn end(self) -> (Disk, Server, u64) {
        drop(self.over);
        let (disk, server) = self.thread.join().unwrap();
        (disk, server, self.count.load(Ordering::Relaxed))
    }
}

/// Numbers that the seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One operation on the file and on the buffer.
fn step(file: &File, buffer: &mut Vec<u8>, random: &mut Random) {
    let offset = random.below(LENGTH_MAX - 20_000);
    let data = vec![random.below(255) as u8 + 1; random.below(20_000) as usize + 1];
    match random.below(8) {
        0..=2 => {
            file.write_at(&data, offset).unwrap();
            let end = offset as usize + data.len();
            if buffer.len() < end {
                buffer.resize(end, 0);
            }
            buffer[offset as usize..end].copy_from_slice(&data);
        }
        3 => {
            file.set_len(offset).unwrap();
            buffer.resize(offset as usize, 0);
        }
        4 => {
            file.punch(offset, data.len() as u64).unwrap();
            let range = (offset as usize).min(buffer.len())..(offset as usize + data.len()).min(buffer.len());
            buffer[range].fill(0);
        }
        5 => file.sync_data().unwrap(),
        6 => file.sync_all().unwrap(),
        _ => {
            let mut read = vec![0; data.len()];
            let count = file.read_at(&mut read, offset).unwrap();
            let range = (offset as usize).min(buffer.len())..(offset as usize + data.len()).min(buffer.len());
            assert!(read[..count] == buffer[range], "{} bytes at {offset}", data.len());
        }
    }
}

/// Another client, which reads what the first one writes.
struct Reader {
    file: File,
    random: Random,
    /// Reads that were compared, and those of them that found what a power cut had undone.
    compared: u64,
    undone: u64,
}

impl Reader {
    fn new(server: &Server, seed: u64) -> Self {
        let file = File::open(&remote(server), "data/f", &OpenOptions::new().read(true)).unwrap();
        Self { file, random: Random(seed), compared: 0, undone: 0 }
    }

    /// Whether it reads there what is in the buffer.
    fn sees(&mut self, buffer: &[u8], (offset, length): (usize, usize)) -> bool {
        let mut read = vec![0; length];
        let count = self.file.read_at(&mut read, offset as u64).unwrap();
        let range = offset.min(buffer.len())..(offset + read.len()).min(buffer.len());
        self.compared += 1;
        read[..count] == buffer[range]
    }

    /// It reads what the first client wrote; what a cut undid meanwhile, when that client has noticed.
    fn reads(&mut self, buffer: &[u8], writer: &File, outages: &Outages) {
        let place = (self.random.below(LENGTH_MAX) as usize, self.random.below(20_000) as usize + 1);
        while !self.sees(buffer, place) {
            // A new server is there, which may not be counted yet; the first client has to learn of it.
            assert_eq!(writer.length().unwrap(), buffer.len() as u64);
            self.undone += 1;
            assert!(self.undone <= 2 * outages.count() + 2, "{place:?} is something else, without an outage");
        }
    }
}

#[test]
fn a_file_is_what_a_buffer_is_though_its_server_loses_what_was_not_synced() {
    let Some(disk) = Disk::new() else { return };
    let (seed, operations) = (number("XDFS_SEED", 22), number("XDFS_OPERATIONS", OPERATIONS));
    println!("XDFS_SEED={seed}");
    let scene = Arc::new(Scene::new());
    let server = serve(&scene, &disk, LISTEN);
    let file = File::open(&remote(&server), "data/f", &OPTIONS.deny(false, true)).unwrap();
    // Its name is there from now on.
    file.sync_all().unwrap();
    let mut reader = Reader::new(&server, seed + 1);
    let outages = Outages::begin(scene, disk, server);
    let (mut buffer, mut random) = (Vec::new(), Random(seed));
    let mut number = 0;
    // A fast machine does more of them, so that the server is killed often enough.
    while number < operations || outages.count() < OUTAGES_MIN {
        step(&file, &mut buffer, &mut random);
        outages.done.fetch_add(1, Ordering::Relaxed);
        let length = file.length().unwrap();
        assert_eq!(length, buffer.len() as u64, "operation {number} of XDFS_SEED={seed}");
        reader.reads(&buffer, &file, &outages);
        number += 1;
    }
    file.sync_all().unwrap();
    let (disk, server, count) = outages.end();
    file.close().unwrap();
    drop(server);
    assert!(disk.read("f").unwrap() == buffer, "XDFS_SEED={seed}");
    println!(
        "{number} operations, {count} kills, {} of them with a power cut; {} reads of another client, {} of them again",
        count.div_ceil(2),
        reader.compared,
        reader.undone
    );
}

#[test]
fn what_a_power_cut_undid_is_written_again_but_not_over_what_somebody_else_wrote_since() {
    let Some(mut disk) = Disk::new() else { return };
    let scene = Scene::new();
    let server = serve(&scene, &disk, LISTEN);
    let address = server.address().to_owned();
    let remote = remote(&server);
    let file = File::open(&remote, "data/f", &OPTIONS).unwrap();
    file.write_at(b"synced", 0).unwrap();
    file.sync_all().unwrap();
    file.write_at(b"not", 0).unwrap();
    server.kill();
    disk.cut();
    assert_eq!(disk.read("f").unwrap(), b"synced", "the cut undid it");
    let server = serve(&scene, &disk, &address);
    assert_eq!(file.length().unwrap(), 6);
    assert_eq!(disk.read("f").unwrap(), b"notced");
    server.kill();
    disk.cut();
    std::fs::write(disk.folder().join("f"), b"another").unwrap();
    let _server = serve(&scene, &disk, &address);
    assert_eq!(file.length().unwrap_err().kind, ErrorKind::TargetChanged);
    assert_eq!(disk.read("f").unwrap(), b"another");
}
