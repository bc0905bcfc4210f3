//! Somebody between the ends of a session with TLS ends a data channel early and lets the server say that all went well:
//! whoever is between can end a connection, but not say within TLS that this is the end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

use xdfs_test_cli::{Scene, pattern};

use super::run;
use super::servers::FtpServer;
use super::tls::{certify, tls_of_pure_ftpd, vsftpd};

/// Where the client finds who is between; the server is at 127.0.0.1, and neither sees the other's replies.
const BETWEEN: &str = "127.0.0.2";

/// Kinds of records of TLS 1.2 that carry what is sent, or the end of it.
const CONTENT: u8 = 23;
const ALERT: u8 = 21;

/// Who is between: takes the control connections of clients, and the data connections to one port, which is the only one that
/// the server may announce.
struct Between {
    control: TcpListener,
    data: TcpListener,
}

impl Between {
    fn new() -> Self {
        Self { control: TcpListener::bind((BETWEEN, 0)).expect("a free port"), data: own_port() }
    }

    /// The port of data channels.
    fn data_port(&self) -> u16 {
        self.data.local_addr().expect("its address").port()
    }

    /// Begins to pass on, and to cut data channels when so many bytes of content have gone to the client, at the end of a
    /// record. Returns what URLs of the server start with.
    fn start(self, server: &FtpServer, most: usize) -> String {
        let to = server.url.split(['/', '@']).find(|part| part.starts_with("127.0.0.1:")).expect("a host").to_owned();
        let url = server.url.replace(&to, &self.control.local_addr().expect("its address").to_string());
        let data = format!("127.0.0.1:{}", self.data_port());
        std::thread::spawn(move || pass_all(&self.control, &to, usize::MAX));
        std::thread::spawn(move || pass_all(&self.data, &data, most));
        url
    }
}

/// A port that is free at both addresses, of those that the system gives to nobody who does not name one: otherwise the server's
/// could become another test's meanwhile.
fn own_port() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 20_000).expect("it is small") + 10_000;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && let Ok(listener) = TcpListener::bind((BETWEEN, port))
        {
            return listener;
        }
    }
}

fn pass_all(listener: &TcpListener, to: &str, most: usize) {
    for client in listener.incoming().flatten() {
        // A server whose session has ended takes no data connection any more.
        let Ok(server) = TcpStream::connect(to) else { continue };
        let (Ok(from), Ok(back)) = (client.try_clone(), server.try_clone()) else { continue };
        std::thread::spawn(move || pass_plainly(from, back));
        std::thread::spawn(move || pass_records(server, client, most));
    }
}

fn pass_plainly(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Passes on what the server sends, record by record, and takes the rest from it without passing it on.
fn pass_records(mut server: TcpStream, mut client: TcpStream, most: usize) {
    let mut passed = 0;
    if most == usize::MAX {
        return pass_plainly(server, client);
    }
    loop {
        let mut record = vec![0; 5];
        if server.read_exact(&mut record).is_err() {
            break;
        }
        let (kind, length) = (record[0], usize::from(u16::from_be_bytes([record[3], record[4]])));
        record.resize(5 + length, 0);
        if server.read_exact(&mut record[5..]).is_err() || kind == ALERT || (kind == CONTENT && passed >= most) {
            break;
        }
        passed += if kind == CONTENT { length } else { 0 };
        if client.write_all(&record).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
    let _ = std::io::copy(&mut server, &mut std::io::sink());
}

/// A command that trusts the certificate of the scene.
#[track_caller]
fn trusting(scene: &Scene, words: &[&str]) -> xdfs_test_cli::Outcome {
    run(scene, &[&words[..1], &["--ca", "cert.pem"], &words[1..]].concat())
}

#[test]
fn a_file_whose_data_channel_ends_without_the_end_of_its_tls_gets_no_name() {
    let scene = Scene::new();
    certify(&scene, BETWEEN);
    scene.directory("here");
    // Of the last all has arrived: what is missing is the word that this was all.
    for (length, most) in [(3_000_001, 1 << 20), (1000, 1)] {
        let between = Between::new();
        let ports = format!("pasv_min_port={0}\npasv_max_port={0}\n", between.data_port());
        let server = vsftpd(&scene, &ports, Vec::new());
        let content = pattern(length, 4);
        server.put("f", &content);
        let url = format!("{}/f", between.start(&server, most));
        for before in [None, Some(&b"before"[..])] {
            before.map(|before| scene.write("here/f", before));
            let cut = trusting(&scene, &["cp", "--retry", "0", &url, "here/f"]);
            cut.fails().says(&["the connection to the server was lost"]);
            let there = scene.path("here/f").exists().then(|| scene.read("here/f"));
            assert_eq!(there.as_deref(), before, "{length} {most}");
        }
        std::fs::remove_file(scene.path("here/f")).expect("it is there");
    }
}

#[test]
fn a_download_goes_on_each_time_its_data_channel_with_tls_is_cut() {
    let scene = Scene::new();
    certify(&scene, BETWEEN);
    let between = Between::new();
    let ports = format!("pasv_min_port={0}\npasv_max_port={0}\n", between.data_port());
    let server = vsftpd(&scene, &ports, Vec::new());
    let content = pattern(5_000_001, 4);
    server.put("f", &content);
    let url = format!("{}/f", between.start(&server, 2 << 20));
    let done = trusting(&scene, &["cp", "--json", &url, "f"]);
    done.ends_with(0).says(&["trying again"]);
    assert!(scene.read("f") == content);
    let resumed = done.objects()[0]["resumed_bytes"].as_u64().expect("a number");
    assert!(resumed >= 2 << 20, "the last attempt began at {resumed}");
}

#[test]
fn nothing_is_removed_that_is_missing_from_a_list_whose_tls_did_not_end() {
    let scene = Scene::new();
    certify(&scene, BETWEEN);
    for number in 0..2000 {
        scene.write(format!("tree/name-{number:04}"), b"");
    }
    let names = scene.names("tree");
    // Nothing of the list, which would be that of an empty directory; and some of it.
    for most in [0, 40_000] {
        let between = Between::new();
        let ports = format!("{0}:{0}", between.data_port());
        let server = tls_of_pure_ftpd(&scene, &["-p", &ports]);
        for name in &names {
            server.put(&format!("tree/{name}"), b"");
        }
        let url = format!("{}/tree", between.start(&server, most));
        let cut = trusting(&scene, &["sync", "-P", "1", "--retry", "0", "--delete", &url, "tree"]);
        cut.fails().says(&["the connection to the server was lost"]);
        assert_eq!(scene.names("tree"), names);
        trusting(&scene, &["ls", &url]).fails().says(&["the connection to the server was lost"]);
    }
    // The same server without anybody who cuts.
    let between = Between::new();
    let ports = format!("{0}:{0}", between.data_port());
    let server = tls_of_pure_ftpd(&scene, &["-p", &ports]);
    server.put("tree/name-0000", b"");
    let url = format!("{}/tree", between.start(&server, usize::MAX));
    trusting(&scene, &["sync", "-P", "1", "--delete", &url, "tree"]).ends_with(0);
    assert_eq!(scene.names("tree"), ["name-0000"]);
}
