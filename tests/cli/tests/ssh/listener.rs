//! The port on which more channels of a session connect: which one it is, at which address, and for how long.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Scene, TcpState, exit, is_running, pattern, tcp_sockets};

use super::sshd::{Options, Sshd};
use super::{start, told, url, wait_until};

/// So long may further channels connect: `CHANNELS_JOIN` of the command.
const CHANNELS_JOIN: Duration = Duration::from_secs(15);

#[test]
fn it_is_a_free_one_of_the_range_where_ssh_came_to_and_it_is_gone_after_its_time() {
    let scene = Scene::new();
    let address = "127.0.0.2";
    let _sshd = Sshd::start_with(&scene, &Options { address, ..Options::default() });
    // The first port of the range is somebody else's.
    let taken = TcpListener::bind((address, 0)).unwrap();
    let first = taken.local_addr().unwrap().port();
    let range = first..=first.saturating_add(40);
    let command = format!(
        "--remote-command=echo $$ > {}; exec xdfs serve --stdio --ports {}-{}",
        scene.path("pid").display(),
        range.start(),
        range.end()
    );
    let began = Instant::now();
    let mut copy = start(&scene, &["cp", "--json", "-P", "4", "-", &url(&scene, "box", "there"), &command]);
    let server = told(&scene);
    let content = pattern(24 << 20, 9);
    assert!(copy.feed(&content));
    let mut port = 0;
    wait_until("channels at a port of the range", || {
        for at in tcp_sockets(server, TcpState::Listening) {
            assert_eq!(at.ip().to_string(), address, "it listens where ssh came to and nowhere else");
            port = at.port();
        }
        tcp_sockets(server, TcpState::Established).iter().filter(|at| port != 0 && at.port() == port).count() > 1
    });
    assert!(range.contains(&port) && port != first, "{port} is a free one of {range:?}");
    wait_until("the end of the listener", || tcp_sockets(server, TcpState::Listening).is_empty());
    assert!(began.elapsed() < CHANNELS_JOIN + Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(is_running(server) && copy.is_running(), "the session goes on");
    assert!(!tcp_sockets(server, TcpState::Established).is_empty(), "with its channels");
    assert!(copy.feed(&content));
    let done = copy.wait();
    done.ends_with(exit::DONE);
    assert!(scene.read("there") == [&content[..], &content].concat());
    let by_channel = done.objects()[0]["channel_bytes"].as_array().unwrap().clone();
    assert!(by_channel.iter().filter(|bytes| bytes.as_u64() > Some(0)).count() > 1, "{by_channel:?}");
}

#[test]
fn a_range_that_cannot_be_reached_costs_speed_alone_and_that_is_said() {
    let scene = Scene::new();
    let _sshd = Sshd::start(&scene, "");
    // The other end has a network of its own: its ports are free there, and closed here.
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let server = format!("echo $$ > {}; exec xdfs serve --stdio --ports {free}-{free}", scene.path("pid").display());
    let command = format!("--remote-command=unshare --net sh -c 'ip link set lo up; {server}'");
    let mut copy = start(&scene, &["cp", "--json", "-P", "4", "-", &url(&scene, "box", "there"), &command]);
    let process = told(&scene);
    let content = pattern(64 << 10, 9);
    let (began, mut fed) = (Instant::now(), Vec::new());
    // Longer than what is over at once: that would not be worth saying.
    while began.elapsed() < Duration::from_secs(2) {
        assert!(copy.feed(&content), "data moves, though nobody else joins");
        fed.extend_from_slice(&content);
    }
    assert!(is_running(process));
    let done = copy.wait();
    let reason = format!("127.0.0.1:{free} cannot be reached from here");
    done.ends_with(exit::DONE).says(&["went through ssh itself", &reason, "--remote-command", "--ports"]);
    assert!(scene.read("there") == fed);
    let channels = done.objects()[0]["channel_bytes"].as_array().unwrap().clone();
    assert_eq!(channels.iter().filter(|bytes| bytes.as_u64() > Some(0)).count(), 1, "{channels:?}");
}
