//! The program at both ends, as a person uses it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files that are sent, and is the stranger at the other end")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use support::{Outcome, on_terminal, traced, xioperf};

/// A server and a client that connects to it over TCP, until both have ended well. Reports are JSON.
#[track_caller]
fn run(server: &str, client: &str) -> (Outcome, Outcome) {
    let mut server = xioperf(&format!("-s --json {server}"));
    let client = xioperf(&format!("-c localhost:{} --json {client}", server.json_port())).succeeds();
    (server.succeeds(), client)
}

#[test]
fn the_server_receives_what_the_client_sends() {
    let (server, client) = run("", "-n 10M");
    assert_eq!(
        (&server.end()["received_bytes"], &client.end()["sent_bytes"]),
        (&(10 << 20).into(), &(10 << 20).into())
    );
    assert!(server.end().get("sent_bytes").is_none());
}

#[test]
fn only_the_stack_is_named_anew_for_another_protocol() {
    for stack in ["-D tcp -D noop", "-D tcp -D noop -D noop -D rate:1GB/s", "-D tcp:window=256KiB", "-w 128K -N"] {
        let (server, _) = run(stack, &format!("{stack} -n 3M"));
        assert_eq!(server.end()["received_bytes"], 3 << 20, "{stack}");
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let socket = socket.to_str().unwrap();
    let mut server = xioperf(&format!("-s --json -D unix -B {socket}"));
    server.line("listening");
    xioperf(&format!("-c {socket} -D unix -n 1M")).succeeds();
    assert_eq!(server.succeeds().end()["received_bytes"], 1 << 20);
}

#[test]
fn who_sends_is_independent_of_who_listens() {
    let (server, client) = run("-S -n 2M", "-R");
    assert_eq!((&server.end()["sent_bytes"], &client.end()["received_bytes"]), (&(2 << 20).into(), &(2 << 20).into()));
    let (server, client) = run("-S -R -n 2M", "-S -R -n 3M");
    assert_eq!(
        (&server.end()["received_bytes"], &client.end()["received_bytes"]),
        (&(3 << 20).into(), &(2 << 20).into())
    );
}

/// Each says that it has sent all in the way of its stack, and goes on receiving.
#[test]
fn both_ends_send_and_come_to_their_end_over_any_stack() {
    for stack in ["-D tcp -D noop", "-D tcp -D zstd", "-D tcp -D telnet -D queue", "-D tcp -D fault -D zstd -D fault"] {
        let (server, client) = run(&format!("{stack} -S -R -n 2M"), &format!("{stack} -S -R -n 3M"));
        assert_eq!(
            (&server.end()["received_bytes"], &client.end()["received_bytes"]),
            (&(3 << 20).into(), &(2 << 20).into()),
            "{stack}"
        );
        // The client has had enough, and what the server's drivers hold then is nobody's loss. One that is busy elsewhere for as
        // long as the client waits for it loses what it has not received.
        let comes_to_its_end = || {
            let mut server = xioperf(&format!("-s --json {stack} -S -R"));
            let line = format!("-c localhost:{} --json {stack} -S -R -t 0.2", server.json_port());
            let client = xioperf(&line).succeeds().end();
            let server = server.wait();
            println!("{stack}: {server:?}");
            let (received, sent) = (server.end()["received_bytes"].as_u64(), client["sent_bytes"].as_u64());
            assert!(received <= sent, "{stack}: {received:?} of {sent:?}");
            server.code == 0 && received == sent && client["received_bytes"].as_u64() > Some(0)
        };
        assert!((0..3).any(|_| comes_to_its_end()), "{stack}");
    }
}

#[test]
fn a_run_ends_when_its_time_is_up() {
    let (server, client) = run("", "-t 0.2");
    assert!(client.errors.contains("Time exceeded"), "{client:?}");
    assert_eq!(client.end()["why"], "time");
    let seconds = client.end()["seconds"].as_f64().unwrap();
    assert!((0.2..10.0).contains(&seconds), "{seconds}");
    assert_eq!(server.end()["received_bytes"], client.end()["sent_bytes"]);
}

#[test]
fn a_server_without_a_limit_sends_until_its_client_has_had_enough() {
    let (server, client) = run("-S", "-R -t 2");
    let bytes = |end: serde_json::Value, name: &str| end[name].as_u64().unwrap();
    let received = bytes(client.end(), "received_bytes");
    assert!(received > 0 && bytes(server.end(), "sent_bytes") >= received, "{server:?} {client:?}");
}

#[test]
fn streams_and_intervals_add_up() {
    let (server, client) = run("-P 3", "-P 3 -n 64M -b 100M -i 0.02");
    let intervals = client.events("interval");
    assert!(intervals.len() > 1, "{client:?}");
    let end = client.end();
    let sum = |of: &serde_json::Value| -> u64 {
        of["streams"].as_array().unwrap().iter().map(|stream| stream["sent_bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!((sum(&end), end["streams"].as_array().unwrap().len()), (64 << 20, 3));
    for interval in &intervals {
        assert_eq!(Some(sum(interval)), interval["sent_bytes"].as_u64());
    }
    assert!(intervals.iter().map(sum).sum::<u64>() <= 64 << 20);
    assert_eq!(server.end()["received_bytes"], 64 << 20);
}

#[test]
fn streams_are_parallel_over_any_stack() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let unix = (socket.to_str().unwrap(), "-D unix -D queue");
    for (place, stack) in [("", "-D tcp -D noop -D zstd"), ("", "-D tcp:delay=false -D telnet -D rate:1GB/s"), unix] {
        let bind = if place.is_empty() { String::new() } else { format!("-B {place}") };
        let mut server = xioperf(&format!("-s --json -P 3 {stack} {bind}"));
        let listening: serde_json::Value = serde_json::from_str(&server.line("listening")).unwrap();
        let port = listening["contact"].as_str().unwrap().rsplit_once(':').map(|(_, port)| format!("localhost:{port}"));
        let contact = if place.is_empty() { port.unwrap() } else { place.to_owned() };
        let client = xioperf(&format!("-c {contact} --json -P 3 {stack} -n 24M -b 25M")).succeeds();
        for (outcome, name) in [(&server.succeeds(), "received_bytes"), (&client, "sent_bytes")] {
            assert_eq!(outcome.events("connected")[0]["streams"], 3, "{stack}: {outcome:?}");
            let end = outcome.end();
            let streams: Vec<_> =
                end["streams"].as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).collect();
            assert_eq!((streams.len(), streams.iter().sum()), (3, 24 << 20), "{stack}: {end}");
            assert!(end[name] == 24 << 20 && !streams.contains(&0), "{stack}: {end}");
        }
    }
}

#[test]
fn a_window_is_that_of_the_sockets_at_both_ends() {
    if !xdfs_test_needs::program("strace", "strace") || !xdfs_test_needs::tracing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let calls = |name: &str| folder.path().join(name);
    let mut server = traced("setsockopt", &calls("server"), "-s --json -D tcp -w 192K");
    let contact = format!("localhost:{}", server.json_port());
    traced("setsockopt", &calls("client"), &format!("-c {contact} -D tcp -D noop -w 96K -n 1M")).succeeds();
    server.succeeds();
    // Without it the kernel chooses, and of the stack it is the transport's.
    for (name, bytes) in [("server", 192 << 10), ("client", 96 << 10)] {
        let calls = std::fs::read_to_string(calls(name)).unwrap();
        for option in ["SO_SNDBUF", "SO_RCVBUF"] {
            assert!(calls.contains(&format!("{option}, [{bytes}], 4) = 0")), "{name}: {calls}");
        }
    }
    let mut server = traced("setsockopt", &calls("server"), "-s --json");
    traced("setsockopt", &calls("client"), &format!("-c localhost:{} -n 1M", server.json_port())).succeeds();
    server.succeeds();
    for name in ["server", "client"] {
        assert!(!std::fs::read_to_string(calls(name)).unwrap().contains("BUF"), "{name}");
    }
}

#[test]
fn a_block_of_that_size_is_posted_at_a_time() {
    if !xdfs_test_needs::program("strace", "strace") || !xdfs_test_needs::tracing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let calls = |name: &str| folder.path().join(name);
    // The socket's queue takes a block whole, so that none is posted in parts.
    for (block, bytes) in [("128K", 128 << 10), ("48K", 48 << 10), ("", 64 << 10)] {
        let size = if block.is_empty() { String::new() } else { format!("-bs {block}") };
        let mut server = xioperf("-s --json");
        let contact = format!("localhost:{}", server.json_port());
        let line = format!("-c {contact} -n 768K -w 4M {size}");
        traced("sendto,sendmsg,write,writev", &calls("client"), &line).succeeds();
        assert_eq!(server.succeeds().end()["received_bytes"], 768 << 10);
        let calls = std::fs::read_to_string(calls("client")).unwrap();
        let posted = posted(&calls);
        let whole = posted.iter().filter(|length| **length == bytes).count();
        assert!(whole >= (768 << 10) / bytes, "{block}: {posted:?}");
        assert!(posted.iter().all(|length| *length <= bytes), "{block}: {posted:?}");
    }
}

/// How much each call gave to a socket, of those that are longer than a message to another thread.
fn posted(calls: &str) -> Vec<usize> {
    let lines =
        calls.lines().filter(|line| line.contains("sendto(") || line.contains("msg(") || line.contains("write"));
    let length = |line: &str| {
        let vector = line.split_once("iov_len=").map(|(_, rest)| rest.to_owned());
        let plain = line.split_once("\"\"..., ").map(|(_, rest)| rest.to_owned());
        let digits = |text: String| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        vector.or(plain).and_then(|text| digits(text).parse::<usize>().ok())
    };
    lines.filter_map(length).filter(|length| *length >= 4096).collect()
}

#[test]
fn each_interval_of_several_streams_is_a_block_of_lines() {
    let mut server = xioperf("-s -P 2 -i 0.1");
    let client = xioperf(&format!("-c localhost:{} -P 2 -i 0.1 -n 48M -b 100M", server.port())).succeeds();
    for (outcome, [amount, rate]) in
        [(&client, ["Bytes sent:", "Write BW:"]), (&server.succeeds(), ["Bytes recv:", "Read BW:"])]
    {
        let lines: Vec<_> = outcome.out.lines().map(str::trim).collect();
        let rule = "-".repeat(63);
        let begin = lines.iter().position(|line| line.starts_with("Connection established")).unwrap();
        let end = lines.iter().position(|line| line.starts_with("Closing connection")).unwrap();
        // The rule of the first line is behind it.
        let blocks: Vec<_> =
            lines[begin + 2..end].split(|line| *line == rule).filter(|lines| !lines.is_empty()).collect();
        assert!(blocks.len() >= 2, "{outcome:?}");
        for block in &blocks {
            let names = ["Time:", "Stream 1", "Stream 2", amount, rate];
            let are_these =
                block.len() == names.len() && block.iter().zip(names).all(|(line, name)| line.starts_with(name));
            assert!(are_these, "{block:?}");
            assert!(block[1].contains(" M ") && block[1].ends_with(" m/s"), "{block:?}");
        }
    }
    assert_eq!(client.field("Bytes sent:"), "48.00 M");
}

#[test]
fn the_findings_about_datagrams_are_lines_of_the_receiver() {
    let mut server = xioperf("-s -D udp");
    let client = xioperf(&format!("-c localhost:{} -D udp -n 20000 -bs 100 -b 1M", server.port())).succeeds();
    let server = server.succeeds();
    let jitter = server.field("Jitter:");
    let milliseconds: f64 = jitter.strip_suffix(" ms").unwrap().parse().unwrap();
    assert!((0.0..1000.0).contains(&milliseconds), "{jitter}");
    let lost = server.field("Lost:");
    let (count, rest) = lost.split_once(" of 200 (").unwrap_or_else(|| panic!("{lost}"));
    let share: f64 = rest.strip_suffix(" %)").unwrap().parse().unwrap();
    let count: f64 = count.parse().unwrap();
    assert!((share - count / 2.0).abs() < 0.01, "{lost}");
    // Who sends knows neither.
    assert!(!client.out.contains("Jitter:") && !client.out.contains("Lost:"), "{client:?}");
}

#[test]
fn streams_are_parallel_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    std::fs::write(path("certificate"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(path("key"), key.serialize_pem()).unwrap();
    let (certificate, key) = (path("certificate"), path("key"));
    let server = format!("-P 3 -D tcp -D tls:certificate={certificate};key={key}");
    let (server, client) = run(&server, &format!("-P 3 -D tcp -D tls:trust={certificate} -n 24M -b 25M"));
    for (end, name) in [(server.end(), "received_bytes"), (client.end(), "sent_bytes")] {
        let streams: Vec<_> =
            end["streams"].as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).collect();
        assert_eq!((streams.len(), streams.iter().sum()), (3, 24 << 20), "{end}");
        assert!(!streams.contains(&0), "{end}");
    }
    let stranger = xioperf(&format!("-c localhost:1 -P 3 -D tcp -D tls:trust={} -n 1M", path("none"))).wait();
    assert!(stranger.code != 0 && stranger.errors.contains("driver tls"), "{stranger:?}");
}

#[test]
fn each_stream_has_a_line_of_its_own() {
    let mut server = xioperf("-s -P 2");
    let client = xioperf(&format!("-c localhost:{} -P 2 -n 2M", server.port())).succeeds();
    for outcome in [&client, &server.succeeds()] {
        assert!(outcome.field("Stream 1").contains(" M "), "{outcome:?}");
        assert!(outcome.field("Stream 2").contains(" m/s"), "{outcome:?}");
    }
    assert_eq!(client.field("Bytes sent:"), "2.00 M");
}

#[test]
fn a_rate_is_kept() {
    // A MiB at 8 MiB a second; a tenth of a second's bytes may go at once.
    let (_, client) = run("", "-n 1M -b 64M");
    let seconds = client.end()["seconds"].as_f64().unwrap();
    assert!((0.02..20.0).contains(&seconds) && client.end()["sent_bytes"] == 1 << 20, "{client:?}");
    // Without a rate it takes about a millisecond.
    let (_, client) = run("", "-n 1M -b 16M");
    assert!(client.end()["seconds"].as_f64().unwrap() > 0.3, "{client:?}");
}

#[test]
fn a_file_arrives_as_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let content: Vec<u8> = (0..1_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    std::fs::write(&target, vec![7; 2_000_000]).unwrap();
    let (server, client) = run(&format!("-F {}", target.display()), &format!("-F {}", source.display()));
    assert_eq!((&server.end()["received_bytes"], &client.end()["sent_bytes"]), (&1_000_003.into(), &1_000_003.into()));
    assert!(std::fs::read(&target).unwrap() == content, "the file differs");
}

#[test]
fn what_is_sent_does_not_get_shorter() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    run(&format!("-F {}", target.display()), "-n 64K");
    let received = std::fs::read(&target).unwrap();
    let distinct = received.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(received.len() == 65_536 && distinct == 256, "{} bytes, {distinct} of 256 values", received.len());
}

#[test]
fn datagrams_are_counted_with_their_loss_and_jitter() {
    let mut server = xioperf("-s -D udp --json");
    let line = format!("-c localhost:{} -D udp -n 20000 -bs 100 -b 1M --json", server.json_port());
    let client = xioperf(&line).succeeds();
    let (server, client) = (server.succeeds().end(), client.end());
    let number = |name: &str| server[name].as_u64().unwrap();
    assert_eq!((number("datagrams"), &client["sent_bytes"]), (200, &20_000.into()));
    assert_eq!(number("received_bytes") / 100, 200 - number("datagrams_lost"));
    assert!((0.0..1.0).contains(&server["jitter_seconds"].as_f64().unwrap()), "{server}");
}

#[test]
fn a_server_of_datagrams_ends_when_its_client_falls_silent() {
    let mut server = xioperf("-s -D udp --json -B 127.0.0.1");
    let address = format!("127.0.0.1:{}", server.json_port());
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"not of any run", &address).unwrap();
    let mut head = *b"xpf1--run---number---when--\0\0";
    for number in [0, 2_u8] {
        head[12..20].copy_from_slice(&u64::from(number).to_be_bytes());
        socket.send_to(&head, &address).unwrap();
    }
    let end = server.succeeds().end();
    assert_eq!((&end["datagrams_lost"], &end["datagrams_of_others"]), (&1.into(), &1.into()));
    // The wait for what did not come is no part of it.
    assert!(end["seconds"].as_f64().unwrap() < 1.0, "{end}");
}

#[test]
fn a_daemon_serves_one_client_after_another() {
    let mut server = xioperf("-s -d --json");
    let port = server.json_port();
    for bytes in ["1M", "2M"] {
        xioperf(&format!("-c localhost:{port} -n {bytes}")).succeeds();
        server.line("\"end\"");
    }
    server.interrupt();
    let server = server.wait();
    let received: Vec<_> = server.events("end").iter().map(|end| end["received_bytes"].as_u64().unwrap()).collect();
    assert_eq!((server.code, received), (130, vec![1 << 20, 2 << 20]), "{}", server.errors);
}

#[test]
fn ctrl_c_ends_a_run_and_reports_what_had_moved() {
    let mut server = xioperf("-s --json");
    let mut client = xioperf(&format!("-c localhost:{} -t 50 -i 0.05 --json", server.json_port()));
    client.line("interval");
    client.interrupt();
    let client = client.wait();
    assert_eq!((client.code, &client.end()["why"]), (130, &"interrupted".into()), "{client:?}");
    assert_eq!(server.succeeds().end()["received_bytes"], client.end()["sent_bytes"]);
}

#[test]
fn ctrl_c_ends_a_server_that_waits() {
    for arguments in ["-s", "-s -R -P 2"] {
        let mut server = xioperf(arguments);
        server.port();
        server.interrupt();
        let server = server.wait();
        assert_eq!((server.code, server.errors.as_str()), (130, ""), "{arguments}");
    }
}

#[test]
fn failures_name_what_failed_and_end_the_run() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = xioperf(&format!("-c {free}")).wait();
    assert_eq!(refused.code, 1);
    assert!(refused.errors.contains("driver tcp") && refused.errors.contains("refused"), "{refused:?}");

    let usage = xioperf("-c host:1 -D noop").wait();
    assert_eq!(usage.code, 2);

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let stalled = xioperf(&format!("-c {} -n 1G --timeout 0.2", silent.local_addr().unwrap())).wait();
    assert_eq!(stalled.code, 1, "{stalled:?}");
    assert!(stalled.errors.contains("longer than its timeout"), "{stalled:?}");

    let mut server = xioperf("-s -P 2 --timeout 0.2");
    let port = server.port();
    let client = xioperf(&format!("-c localhost:{port} -t 50"));
    let server = server.wait();
    assert_eq!(server.code, 1);
    assert!(server.errors.contains("only 1 of 2 streams connected"), "{server:?}");
    assert_eq!(client.wait().code, 1);
}

#[test]
fn a_terminal_shows_the_rate_while_the_run_goes_on() {
    let mut server = xioperf("-s");
    let client = on_terminal(&format!("-c localhost:{} -t 4", server.port())).succeeds();
    server.succeeds();
    let before_the_end = client.out.split("Closing").next().unwrap();
    assert!(before_the_end.contains("sent, "), "{client:?}");
}

#[test]
fn a_stranger_who_fails_at_the_handshake_does_not_end_it_for_the_client() {
    let mut server = xioperf("-s --json -D tcp -D http");
    let port = server.json_port();
    let mut stranger = TcpStream::connect(format!("localhost:{port}")).unwrap();
    stranger.write_all(b"nonsense\r\n\r\n").unwrap();
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    xioperf(&format!("-c http://localhost:{port}/ -D tcp -D http:POST -n 1M")).succeeds();
    let server = server.succeeds();
    assert_eq!(server.end()["received_bytes"], 1 << 20);
    assert!(server.errors.contains("left out"), "{}", server.errors);
}

#[test]
fn datagrams_of_others_do_not_keep_a_receiver_waiting_for_its_sender() {
    let mut server = xioperf("-s --json -D udp");
    let address = format!("127.0.0.1:{}", server.json_port());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The head of a datagram, with some data: the run has begun, and its sender is gone.
    let first = [&b"xpf1"[..], &[0; 25], &[7; 100]].concat();
    socket.send_to(&first, &address).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let others = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            // The receiver may be gone already.
            let _ = socket.send_to(b"hello", &address);
            std::thread::park_timeout(Duration::from_millis(10));
        }
    });
    let outcome = server.succeeds();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    others.join().unwrap();
    assert!(Instant::now() < until, "the others kept it waiting: {outcome:?}");
    assert_eq!(outcome.end()["received_bytes"], first.len());
}
