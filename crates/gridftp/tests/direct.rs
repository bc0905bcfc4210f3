//! Third party between two of Debian's globus-gridftp-server: the bytes go from server to server.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the servers' files themselves")]

mod support;

use support::{Server, content, put};
use xdfs_gridftp::client::direct::{Direct, DirectError, copy};
use xdfs_gridftp::client::{Client, Error};
use xdfs_gridftp::ranges::{Range, Ranges};

const LENGTH: usize = 3_000_001;

/// Copies `/f` to `/g` with nothing there before.
fn moved(
    source: (&mut Client, &[u8]),
    target: (&mut Client, &[u8]),
    length: u64,
    streams: u16,
) -> Result<(), DirectError> {
    let what = Direct { from: source.1, to: target.1, length, streams };
    copy(source.0, target.0, &what, &mut Ranges::default(), &mut |_| Ok(()))
}

#[test]
fn files_move_between_two_servers_on_1_4_and_16_streams() {
    let (Some(one), Some(other)) = (Server::globus(), Server::globus()) else { return };
    let (mut source, mut target) = (one.client(), other.client());
    for length in [0, 1, LENGTH] {
        let bytes = content(length);
        put(&one.here, "f", &bytes);
        for streams in [1, 4, 16] {
            let name = format!("g-{length}-{streams}");
            moved((&mut source, &one.name("f")), (&mut target, &other.name(&name)), length as u64, streams).unwrap();
            assert!(std::fs::read(other.here.join(&name)).unwrap() == bytes, "{name}");
        }
    }
    assert_eq!((one.sessions(), other.sessions()), (1, 1), "one session each");
}

#[test]
fn files_move_between_two_servers_over_ipv6() {
    let (Some(one), Some(other)) = (Server::globus_at("[::1]:0"), Server::globus_at("[::1]:0")) else { return };
    let (mut source, mut target) = (one.client(), other.client());
    let bytes = content(LENGTH);
    put(&one.here, "f", &bytes);
    for streams in [1, 4] {
        let name = format!("g-{streams}");
        moved((&mut source, &one.name("f")), (&mut target, &other.name(&name)), LENGTH as u64, streams).unwrap();
        assert!(std::fs::read(other.here.join(&name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn what_the_target_has_does_not_move_again() {
    let (Some(one), Some(other)) = (Server::globus(), Server::globus()) else { return };
    let bytes = content(LENGTH);
    put(&one.here, "f", &bytes);
    // What moves again would be seen: the target's bytes are others.
    put(&other.here, "g", &vec![b'x'; 1_000_000]);
    std::fs::set_permissions(other.here.join("g"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mut stored = Ranges::default();
    stored.cover(Range { start: 0, end: 500_000 }).unwrap();
    stored.cover(Range { start: 700_000, end: 1_000_000 }).unwrap();
    let (from, to) = (one.name("f"), other.name("g"));
    let what = Direct { from: &from, to: &to, length: LENGTH as u64, streams: 2 };
    copy(&mut one.client(), &mut other.client(), &what, &mut stored, &mut |_| Ok(())).unwrap();
    let found = std::fs::read(other.here.join("g")).unwrap();
    assert_eq!(found.len(), LENGTH);
    assert!(found[..500_000].iter().chain(&found[700_000..1_000_000]).all(|byte| *byte == b'x'));
    assert!(found[500_000..700_000] == bytes[500_000..700_000] && found[1_000_000..] == bytes[1_000_000..]);
}

#[test]
fn a_refusal_names_its_side() {
    let (Some(one), Some(other)) = (Server::globus(), Server::globus()) else { return };
    put(&one.here, "f", b"text");
    let missing = moved((&mut one.client(), &one.name("no")), (&mut other.client(), &other.name("g")), 4, 1);
    assert!(matches!(missing, Err(DirectError::Source(Error::Refused { verb: "RETR", .. }))), "{missing:?}");
    let nowhere = moved((&mut one.client(), &one.name("f")), (&mut other.client(), &other.name("no/g")), 4, 1);
    assert!(matches!(nowhere, Err(DirectError::Target(Error::Refused { verb: "STOR", .. }))), "{nowhere:?}");
}

#[test]
fn a_server_without_mode_e_is_said_to_be_apart() {
    let (Some(one), Some(other)) = (Server::globus(), Server::vsftpd()) else { return };
    put(&one.here, "f", b"text");
    let (mut source, mut target) = (one.client(), other.client());
    let apart = moved((&mut source, &one.name("f")), (&mut target, &other.name("g")), 4, 1);
    assert!(matches!(&apart, Err(DirectError::Apart(why)) if why.contains("refused MODE E")), "{apart:?}");
    // Both sessions go on.
    assert_eq!(source.size(&one.name("f")).unwrap(), 4);
    assert!(target.size(&other.name("g")).is_err() && target.is_ready());
}
