//! Against Debian's globus-xioperf, as server and as client: the same bytes on the wire, and the same
//! shapes on the screen.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the file that is sent")]

mod support;

use support::{Outcome, globus, xioperf};

fn there() -> bool {
    xdfs_test_needs::program("globus-xioperf", "globus-xioperf")
}

/// What is printed, with the figures left out.
fn shape(outcome: &Outcome) -> Vec<String> {
    let names = outcome.out.lines().map(|line| line.split_once(": ").map_or(line, |(name, _)| name).to_owned());
    names.collect()
}

/// The same, with what is repeated for each interval once.
fn shape_of_intervals(outcome: &Outcome) -> Vec<String> {
    let lines = shape(outcome);
    let is_time = |line: &String| line.trim() == "Time";
    let times: Vec<_> = lines.iter().enumerate().filter(|(_, line)| is_time(line)).map(|(at, _)| at).collect();
    let [first, second, .., _] = times[..] else { panic!("fewer than two intervals and an end: {outcome:?}") };
    let of_interval = &lines[first..second];
    let mut rest = &lines[second..];
    while let Some(after) = rest.strip_prefix(of_interval) {
        rest = after;
    }
    [&lines[..second], rest].concat()
}

#[test]
fn intervals_look_the_same() {
    if !there() {
        return;
    }
    // With -i theirs has no limit of time: the client that ends the run is ours.
    let mut server = globus("-s -D tcp -i 1");
    let client = xioperf(&format!("-c localhost:{} -D tcp -i 1 -t 8.5 -b 1G", server.port())).succeeds();
    let theirs = server.succeeds();
    let mut server = xioperf("-s -D tcp -i 1");
    xioperf(&format!("-c localhost:{} -D tcp -t 8.5 -b 1G", server.port())).succeeds();
    let ours = server.succeeds();
    assert_eq!(shape_of_intervals(&ours), shape_of_intervals(&theirs));
    let as_server = |line: &String| line.replace("Bytes sent", "Bytes recv").replace("Write BW", "Read BW");
    let client: Vec<_> = shape_of_intervals(&client).iter().map(as_server).collect();
    // A server says first where it listens.
    assert!(shape_of_intervals(&ours).ends_with(&client), "{client:?} {ours:?}");
    for outcome in [&ours, &theirs] {
        let time = |line: &str| line.trim().strip_prefix("Time:").map(|time| time.trim().to_owned());
        let times: Vec<_> = outcome.out.lines().filter_map(time).collect();
        // Who is woken late says so.
        let in_time = times.iter().filter(|time| time.starts_with("00:1.") || time.starts_with("00:0.9"));
        assert!(in_time.count() >= 2, "{times:?}");
    }
}

#[test]
fn its_client_sends_to_our_server_and_both_print_the_same() {
    if !there() {
        return;
    }
    let mut server = xioperf("-s -D tcp -B 127.0.0.1");
    let client = globus(&format!("-c 127.0.0.1:{} -D tcp -n 10M", server.port())).succeeds();
    let server = server.succeeds();
    assert_eq!(
        (client.field("Bytes sent:"), server.field("Bytes recv:")),
        ("10.00 M".to_owned(), "10.00 M".to_owned())
    );

    let mut theirs = globus("-s -D tcp");
    let ours = xioperf(&format!("-c 127.0.0.1:{} -D tcp -n 10M", theirs.port())).succeeds();
    let theirs = theirs.succeeds();
    assert_eq!(theirs.field("Bytes recv:"), "10.00 M");
    assert_eq!((shape(&ours), shape(&theirs)), (shape(&client), shape(&server)));
}

#[test]
fn mode_e_is_understood_both_ways_on_any_number_of_connections() {
    if !there() {
        return;
    }
    for streams in [1, 4, 16, 64] {
        let mut server = xioperf("-s -D tcp -D mode_e -D ordering -B 127.0.0.1");
        let client = globus(&format!("-c 127.0.0.1:{} -D tcp -D mode_e -P {streams} -n 10M", server.port())).succeeds();
        assert_eq!(server.succeeds().field("Bytes recv:"), client.field("Bytes sent:"), "{streams}");

        let mut theirs = globus(&format!("-s -D tcp -D mode_e -P {streams}"));
        let ours = xioperf(&format!("-c 127.0.0.1:{} -D tcp -D mode_e -P {streams} -n 10M", theirs.port())).succeeds();
        let theirs = theirs.succeeds();
        let sent = (ours.field("Bytes sent:"), theirs.field("Bytes recv:"));
        assert_eq!(sent, ("10.00 M".to_owned(), "10.00 M".to_owned()), "{streams}");
    }
}

#[test]
fn its_server_sends_to_our_client_until_that_has_had_enough() {
    if !there() {
        return;
    }
    let mut server = globus("-s -S -D tcp");
    let client = xioperf(&format!("-c 127.0.0.1:{} -D tcp -R -t 2", server.port())).succeeds();
    assert!(client.errors.contains("Time exceeded.  Terminating."), "{client:?}");
    assert_ne!(client.field("Bytes recv:"), "0.00 M");
    server.wait();
}

#[test]
fn our_server_sends_to_its_client_as_much_as_it_has() {
    if !there() {
        return;
    }
    let mut server = xioperf("-s -S -D tcp -B 127.0.0.1 -n 10M");
    let client = globus(&format!("-c 127.0.0.1:{} -R -D tcp", server.port())).succeeds();
    let sent = server.succeeds().field("Bytes sent:");
    assert_eq!((sent, client.field("Bytes recv:")), ("10.00 M".to_owned(), "10.00 M".to_owned()));
}

#[test]
fn the_words_of_the_paper_for_mode_e_serve_at_both_ends() {
    if !there() {
        return;
    }
    let line = "-D tcp -D mode_e -P 4";
    let mut server = xioperf(&format!("-s {line} -B 127.0.0.1"));
    let client = globus(&format!("-c 127.0.0.1:{} {line} -n 10M", server.port())).succeeds();
    // Theirs posts several blocks at a time, and so sends some more than it is asked for.
    let sent = client.field("Bytes sent:");
    assert_eq!(server.succeeds().field("Bytes recv:"), sent);
    assert!(sent.starts_with("10."), "{sent}");
    let mut server = globus(&format!("-s {line}"));
    let client = xioperf(&format!("-c 127.0.0.1:{} {line} -n 10M", server.port())).succeeds();
    let sizes = (client.field("Bytes sent:"), server.succeeds().field("Bytes recv:"));
    assert_eq!(sizes, ("10.00 M".to_owned(), "10.00 M".to_owned()));
}

#[test]
fn a_file_arrives_as_it_was_sent_by_either_program() {
    if !there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let content: Vec<u8> = (0..3_000_017_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(path("source"), &content).unwrap();
    let (source, copy) = (path("source"), path("copy"));
    let (tcp, ordered) = ("-D tcp", "-D tcp -D mode_e -D ordering");
    // With `ordering` their receiver stops after its first block, whoever sends; on one connection it needs none.
    for (sends, receives) in [(tcp, tcp), (ordered, "-D tcp -D mode_e")] {
        std::fs::write(&copy, b"").unwrap();
        let mut server = globus(&format!("-s {receives} -F {copy}"));
        xioperf(&format!("-c 127.0.0.1:{} {sends} -F {source}", server.port())).succeeds();
        server.succeeds();
        assert!(std::fs::read(&copy).unwrap() == content, "{sends}: theirs receives");
    }
    for stack in [tcp, ordered] {
        std::fs::write(&copy, b"").unwrap();
        let mut server = xioperf(&format!("-s {stack} -B 127.0.0.1 -F {copy}"));
        globus(&format!("-c 127.0.0.1:{} {stack} -F {source}", server.port())).succeeds();
        server.succeeds();
        assert!(std::fs::read(&copy).unwrap() == content, "{stack}: ours receives");
    }
}

#[test]
fn both_directions_at_a_time_pass_both_programs() {
    if !there() {
        return;
    }
    let mut server = globus("-s -S -R -D tcp");
    let client = xioperf(&format!("-c 127.0.0.1:{} -D tcp -S -R -t 4", server.port())).succeeds();
    let server = server.wait();
    for name in ["Bytes recv:", "Bytes sent:"] {
        assert_ne!(client.field(name), "0.00 M", "{client:?}");
        assert_ne!(server.field(name), "0.00 M", "{server:?}");
    }
}

#[test]
fn its_quiet_line_has_our_five_numbers() {
    if !there() {
        return;
    }
    let mut server = xioperf("-s --json -B 127.0.0.1");
    let theirs = globus(&format!("-c 127.0.0.1:{} -D tcp -q -n 10M", server.json_port())).succeeds();
    assert_eq!(server.succeeds().end()["received_bytes"], 10 << 20);
    let mut server = xioperf("-s --json");
    let ours = xioperf(&format!("-c localhost:{} -D tcp -q -n 10M", server.json_port())).succeeds();
    server.succeeds();
    let numbers = |outcome: &Outcome| outcome.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (theirs, ours) = (numbers(&theirs), numbers(&ours));
    assert_eq!((ours.len(), &ours[1..4]), (theirs.len(), &theirs[1..4]));
}
