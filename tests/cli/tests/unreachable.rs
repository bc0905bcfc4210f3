//! What is said where no server answers as it should: a port that a firewall closes, another program, and a server that
//! allows no more. Each text says the cause and what to do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{ConnectOptions, Pinned};
use xdfs_test_cli::{Running, Scene, Server, exit, xdfs_binary};

/// A port whose packets nobody answers, as behind a firewall that drops them: its queue is full for ever.
struct Filtered {
    _listener: OwnedFd,
    _queued: Vec<OwnedFd>,
    address: SocketAddr,
}

impl Filtered {
    fn at(ip: &str) -> Self {
        let wanted = SocketAddr::new(ip.parse().expect("an address"), 0);
        let family = if wanted.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let listener = socket(family, SocketType::STREAM, None).expect("a socket");
        bind(&listener, &wanted).expect("a free port");
        listen(&listener, 0).expect("a socket may listen");
        let address = rustix::net::getsockname(&listener).expect("it is bound").try_into().expect("an address");
        let mut queued = Vec::new();
        loop {
            let next = socket(family, SocketType::STREAM, None).expect("a socket");
            rustix::io::ioctl_fionbio(&next, true).expect("a socket");
            // Under way; it is queued at once or never.
            let _ = connect(&next, &address);
            let open = rustix::net::getpeername(&next).is_ok_and(|peer| peer.is_some());
            queued.push(next);
            if !open {
                return Self { _listener: listener, _queued: queued, address };
            }
        }
    }
}

#[test]
fn a_port_that_drops_what_comes_is_told_with_what_may_be_the_cause_and_another_way() {
    let scene = Scene::new();
    let filtered = Filtered::at("127.0.0.1");
    let port = filtered.address.port();
    let url = format!("xdfs://{}/data/", filtered.address);
    let told = scene.run(["ls", &url]);
    told.ends_with(exit::CONNECTION_LOST).says(&[
        &format!("error: {url}: no answer from {} within 10s\n", filtered.address),
        &format!("help: a firewall may drop what goes to port {port}; there TCP must be let in, or use ssh: "),
        "xdfs ls ssh://127.0.0.1/\n",
    ]);
    assert_eq!(told.messages.lines().count(), 2, "{}", told.messages);
}

#[test]
fn a_machine_without_a_way_to_the_server_is_told_so() {
    assert!(xdfs_test_needs::root("a network namespace"));
    let scene = Scene::new();
    let mut command = Command::new("unshare");
    command.arg("--net").arg(xdfs_binary()).args(["ls", "xdfs://192.0.2.1/data/"]);
    scene.dress("somebody", &mut command);
    let lost = Running::start(command).wait();
    lost.ends_with(exit::CONNECTION_LOST).says(&[
        "nreachable",
        "\nhelp: no network of this machine",
        "with: ip route\n",
    ]);
    assert!(!lost.messages.contains("xdfs serve"), "{}", lost.messages);
}

#[test]
fn a_host_with_one_address_that_answers_is_reached_at_that_one() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    let scene = Scene::new();
    // By the rules of addresses IPv6 is tried first.
    let filtered = Filtered::at("::1");
    scene.write("server/file", b"content");
    // No other server listens at this one.
    let server = scene.serve_with(&["--listen", &format!("127.0.0.3:{}", filtered.address.port())]);
    scene.write("hosts", b"::1 both.example\n127.0.0.3 both.example\n");
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(scene.path("hosts"));
    let url = format!("xdfs://both.example:{}/data/file#{}", filtered.address.port(), server.host_key());
    command.arg(xdfs_binary()).args(["cat", &url]).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    let got = Running::start(command).wait();
    got.ends_with(exit::DONE);
    assert_eq!(got.output, b"content");
}

/// Answers every connection with `greeting`, until the test ends.
fn another_program(greeting: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Either fails when the client has left.
            let _ = stream.write_all(greeting);
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    address
}

#[test]
fn another_program_at_the_port_is_told_as_such_with_what_to_name_instead() {
    let scene = Scene::new();
    for greeting in [
        &b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"220 ftp.example.org FTP server ready\r\n",
    ] {
        let address = another_program(greeting);
        let told = scene.run(["ls", &format!("xdfs://{address}/data/")]);
        told.ends_with(exit::REFUSED).says(&[
            &format!("error: xdfs://{address}/data/: what answers there is not an xdfs server\n"),
            &format!("\nhelp: another program listens on port {}, or the server has a stack", address.port()),
            "\nhelp: name the port of 'xdfs serve', as in xdfs://127.0.0.1:PORT/",
        ]);
    }
}

/// A name of this many letters, eight directories deep: what is open under it fills a user's memory at the server soon.
const LETTERS: usize = 250;

fn remote(server: &Server) -> Arc<Remote> {
    let address: SocketAddr = server.address().parse().expect("an address");
    let host_check = Arc::new(Pinned(server.host_key().parse().expect("a key")));
    Remote::new(ConnectOptions { host_check, deadline: Duration::from_secs(60), ..ConnectOptions::to(address) })
}

#[test]
fn what_is_more_than_a_server_allows_is_told_with_where_that_is_set() {
    let scene = Scene::new();
    let path = vec!["n".repeat(LETTERS); 8].join("/");
    scene.write(format!("server/{path}"), b"x");
    let server = scene.serve();
    let client = remote(&server);
    let mut files = Vec::new();
    let refused = loop {
        match File::open(&client, format!("data/{path}"), &OpenOptions::new().read(true)) {
            Ok(file) => files.push(file),
            Err(error) => break error,
        }
        assert!(files.len() < 20_000, "nothing bounds what one user has open");
    };
    let text = "it is more than the server allows at a time (an xdfs server: see 'limits' of its configuration)";
    assert!(refused.message.ends_with(text), "{}", refused.message);
    let url = server.url(&path);
    let told = scene.run(["lock", "--shared", &url, "--", "true"]);
    told.ends_with(exit::REFUSED).says(&[&format!("error: {url}: {text}\n")]);
    files.pop().expect("it is open").close().expect("room for another one");
    scene.run(["lock", "--shared", &url, "--", "true"]).ends_with(exit::DONE);
}
