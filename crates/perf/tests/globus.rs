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
    for streams in [1, 4, 16] {
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
