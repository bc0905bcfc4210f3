//! Tests of the command line.

use super::*;

fn plan(line: &str) -> Plan {
    Plan::of(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str) -> String {
    Plan::of(words(line)).map(drop).expect_err(line).to_string()
}

fn words(line: &str) -> impl Iterator<Item = OsString> {
    std::iter::once("xioperf".into()).chain(line.split_whitespace().map(OsString::from))
}

#[test]
fn the_client_sends_for_ten_seconds_and_the_server_receives() {
    let client = plan("-c host:5000");
    assert_eq!((client.sends, client.receives, client.limits.time), (true, false, Some(Duration::from_secs(10))));
    assert_eq!((client.block, client.stack.name().as_str()), (65_536, "tcp"));
    let server = plan("-s");
    assert_eq!((server.sends, server.receives, server.limits.time), (false, true, None));
    assert_eq!(server.side, Side::Server { contact: ":0".to_owned(), again: false });
}

#[test]
fn every_option_of_globus_xioperf_is_read() {
    let line =
        "-c host -p 5001 -i 2 -bs 128K -w 1M -n 3M -S -P 4 -D tcp -D noop -t 7 -f K -N -q -b 8M -DN /O=Grid/CN=host";
    let plan = plan(line);
    assert_eq!(plan.side, Side::Client { contact: "xio://</O=Grid/CN=host>host:5001".to_owned() });
    assert_eq!((plan.block, plan.streams, plan.stack.name().as_str()), (128 << 10, 4, "tcp,noop"));
    assert_eq!(plan.limits.time, Some(Duration::from_secs(7)));
    assert_eq!((plan.limits.bytes, plan.limits.rate), (Some(3 << 20), Some(8 << 20)));
    assert_eq!((plan.reports.style, plan.reports.interval), (Style::Quiet, Some(Duration::from_secs(2))));
    assert_eq!(super::tests::plan("-s -d -R -B ::1 -p 7 -l 8K -F out").block, 8192);
    for help in ["-help", "-h", "--help"] {
        assert!(refused(help).contains("--block-size") && refused(help).contains("XDFS_DRIVER_PATH"), "{help}");
    }
    assert!(refused("-v").starts_with("xioperf "));
}

#[test]
fn an_address_with_colons_gets_brackets_before_its_port() {
    assert_eq!(plan("-c ::1 -p 7").side, Side::Client { contact: "[::1]:7".to_owned() });
    assert_eq!(plan("-c host:8 -p 7").side, Side::Client { contact: "host:8".to_owned() });
    assert_eq!(plan("-c /run/x -D unix").side, Side::Client { contact: "/run/x".to_owned() });
    assert_eq!(plan("-s -B ::1").side, Side::Server { contact: "[::1]:0".to_owned(), again: false });
    assert_eq!(plan("-s -B /run/x -D unix").side, Side::Server { contact: "/run/x".to_owned(), again: false });
}

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    for (line, says) in [
        ("", "--server"),
        ("-s -c host", "cannot be used with"),
        ("-c host:1 -D nothing", "no driver 'nothing'"),
        ("-c host:1 -D noop", "needs a transport"),
        ("-c host:1 -D tcp -D rate:fast", "the attribute 'rate'"),
        ("-c host:1 -bs 0", "-bs"),
        ("-c host:1 -bs 2G", "-bs"),
        ("-c host:1 -P 0", "0"),
        ("-c host:1 -P 1025", "1025"),
        ("-c host:1 -t 0", "shortest"),
        ("-c host:1 -t -1", "-1"),
        ("-c host:1 -b 0", "-b"),
        ("-c host:1 -R -n 5", "-n"),
        ("-c host:1 -F x -P 2", "-F"),
        ("-s -F x -D tcp -D mode_e", "-D ordering"),
        ("-c host:1 -F x -S -R", "-F"),
        ("-c host:1 -D udp -P 2", "udp"),
        ("-c host:1 -D udp -bs 10", "datagram"),
        ("-c host:1 -D udp -bs 128K", "datagram"),
        ("-c host:1 -D unix -N", "-N: the transport unix has no attribute 'delay'"),
        ("-c host:1 -f x", "kmgKMG"),
        ("-s -d -DN x", "cannot be used with"),
    ] {
        let told = refused(line);
        assert!(told.contains(says), "{line}: {told}");
    }
}

#[test]
fn datagrams_have_a_rate_and_fit_an_ethernet() {
    let plan = plan("-c host:1 -D udp");
    assert_eq!((plan.datagrams, plan.block, plan.limits.rate), (true, 1470, Some(1 << 20)));
}
