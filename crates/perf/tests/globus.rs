//! Against Debian's globus-xioperf, as server and as client: the same bytes on the wire, and the same
//! shapes on the screen.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

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
    let client = xioperf(&format!("-c localhost:{} -D tcp -i 1 -t 2.5 -b 1G", server.port())).succeeds();
    let theirs = server.succeeds();
    let mut server = xioperf("-s -D tcp -i 1");
    xioperf(&format!("-c localhost:{} -D tcp -t 2.5 -b 1G", server.port())).succeeds();
    let ours = server.succeeds();
    assert_eq!(shape_of_intervals(&ours), shape_of_intervals(&theirs));
    let as_server = |line: &String| line.replace("Bytes sent", "Bytes recv").replace("Write BW", "Read BW");
    let client: Vec<_> = shape_of_intervals(&client).iter().map(as_server).collect();
    // A server says first where it listens.
    assert!(shape_of_intervals(&ours).ends_with(&client), "{client:?} {ours:?}");
    for outcome in [&ours, &theirs] {
        let time = |line: &str| line.trim().strip_prefix("Time:").map(|time| time.trim().to_owned());
        let times: Vec<_> = outcome.out.lines().filter_map(time).collect();
        assert!(times[..2].iter().all(|time| time.starts_with("00:1.0") || time.starts_with("00:0.9")), "{times:?}");
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
    let client = xioperf(&format!("-c 127.0.0.1:{} -D tcp -R -t 0.3", server.port())).succeeds();
    assert!(client.errors.contains("Time exceeded.  Terminating."), "{client:?}");
    assert_ne!(client.field("Bytes recv:"), "0.00 M");
    server.wait();
}

#[test]
fn both_directions_at_a_time_pass_both_programs() {
    if !there() {
        return;
    }
    let mut server = globus("-s -S -R -D tcp");
    let client = xioperf(&format!("-c 127.0.0.1:{} -D tcp -S -R -t 0.3", server.port())).succeeds();
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
