//! Against Debian's globus-gridftp-server and vsftpd: what we take for the protocol is what they
//! speak.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the servers' files themselves")]

mod support;

use support::{Server, content, download, many_both_ways, put, upload, whole};
use xdfs_gridftp::client::Error;
use xdfs_gridftp::listing::Kind;
use xdfs_gridftp::ranges::Range;

/// Longer than several blocks, and no multiple of one.
const LENGTH: usize = 3_000_001;

fn stream_mode_both_ways(server: &Server) {
    let mut client = server.client();
    for length in [0, 1, LENGTH] {
        let bytes = content(length);
        let name = server.name(&format!("up-{length}"));
        assert_eq!(upload(&mut client, &name, &bytes, 0, None).unwrap(), length as u64);
        assert_eq!(std::fs::read(server.here.join(format!("up-{length}"))).unwrap(), bytes);
        assert_eq!(client.size(&name).unwrap(), length as u64);
        assert_eq!(download(&mut client, &name, whole(length), None).unwrap(), bytes);
    }
    client.quit();
}

fn restarts(server: &Server) {
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    let mut client = server.client();
    let wanted = Range { start: 1_000_003, end: LENGTH as u64 };
    let rest = download(&mut client, &server.name("file"), wanted, None).unwrap();
    assert_eq!(rest[1_000_003..], bytes[1_000_003..]);
    upload(&mut client, &server.name("half"), &bytes[..1_000_003], 0, None).unwrap();
    assert_eq!(upload(&mut client, &server.name("half"), &bytes, 1_000_003, None).unwrap(), LENGTH as u64);
    assert_eq!(std::fs::read(server.here.join("half")).unwrap(), bytes);
}

fn names_are_changed_and_refusals_leave_the_session_usable(server: &Server) {
    let mut client = server.client();
    client.make_directory(&server.name("d")).unwrap();
    upload(&mut client, &server.name("d/a"), b"text", 0, None).unwrap();
    client.rename(&server.name("d/a"), &server.name("d/b c")).unwrap();
    assert_eq!(std::fs::read(server.here.join("d/b c")).unwrap(), b"text");
    let refused = client.remove_directory(&server.name("d"));
    assert!(matches!(refused, Err(Error::Refused { verb: "RMD", .. })), "{refused:?}");
    assert!(server.here.join("d/b c").exists());
    client.remove(&server.name("d/b c")).unwrap();
    client.remove_directory(&server.name("d")).unwrap();
    assert!(!server.here.join("d").exists());
    assert!(matches!(client.size(&server.name("no")), Err(Error::Refused { code: 550, .. })));
    assert!(matches!(download(&mut client, &server.name("no"), whole(0), None), Err(Error::Refused { .. })));
    assert!(matches!(client.remove(b"a\r\nDELE b"), Err(Error::Control(_))));
    put(&server.here, "there", b"x");
    assert_eq!(client.size(&server.name("there")).unwrap(), 1);
}

#[test]
fn globus_takes_and_gives_files_in_mode_s() {
    let Some(server) = Server::globus() else { return };
    stream_mode_both_ways(&server);
}

#[test]
fn vsftpd_takes_and_gives_files_in_mode_s() {
    let Some(server) = Server::vsftpd() else { return };
    stream_mode_both_ways(&server);
}

#[test]
fn globus_restarts_a_transfer_where_it_ended() {
    let Some(server) = Server::globus() else { return };
    restarts(&server);
}

#[test]
fn vsftpd_restarts_a_transfer_where_it_ended() {
    let Some(server) = Server::vsftpd() else { return };
    restarts(&server);
}

#[test]
fn globus_makes_renames_and_removes_names() {
    let Some(server) = Server::globus() else { return };
    names_are_changed_and_refusals_leave_the_session_usable(&server);
}

#[test]
fn vsftpd_makes_renames_and_removes_names() {
    let Some(server) = Server::vsftpd() else { return };
    names_are_changed_and_refusals_leave_the_session_usable(&server);
}

#[test]
fn globus_takes_and_gives_files_in_mode_e_on_1_4_and_16_streams() {
    let Some(server) = Server::globus() else { return };
    let mut client = server.client();
    for streams in [1, 4, 16] {
        for length in [0, 1, LENGTH] {
            let bytes = content(length);
            let name = format!("up-{length}-{streams}");
            let sent = upload(&mut client, &server.name(&name), &bytes, 0, Some(streams)).unwrap();
            assert_eq!(sent, length as u64);
            assert_eq!(std::fs::read(server.here.join(&name)).unwrap(), bytes, "{name}");
            let received = download(&mut client, &server.name(&name), whole(length), Some(streams)).unwrap();
            assert_eq!(received, bytes, "{name}");
        }
    }
}

#[test]
fn globus_is_reached_by_ipv6_in_both_modes() {
    let Some(server) = Server::globus_at("[::1]:0") else { return };
    let bytes = content(LENGTH);
    let mut client = server.client();
    for streams in [None, Some(3)] {
        upload(&mut client, &server.name("file"), &bytes, 0, streams).unwrap();
        assert_eq!(download(&mut client, &server.name("file"), whole(LENGTH), streams).unwrap(), bytes);
    }
}

#[test]
fn globus_restarts_a_download_in_mode_e() {
    let Some(server) = Server::globus() else { return };
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    let wanted = Range { start: 1_000_003, end: LENGTH as u64 };
    let rest = download(&mut server.client(), &server.name("file"), wanted, Some(4)).unwrap();
    assert_eq!(rest[1_000_003..], bytes[1_000_003..]);
}

#[test]
fn one_session_alternates_between_modes() {
    let Some(server) = Server::globus() else { return };
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    let mut client = server.client();
    for streams in [None, Some(2), None, Some(3)] {
        assert_eq!(download(&mut client, &server.name("file"), whole(LENGTH), streams).unwrap(), bytes);
    }
    assert!(matches!(download(&mut client, &server.name("no"), whole(1), Some(2)), Err(Error::Refused { .. })));
    assert_eq!(download(&mut client, &server.name("file"), whole(LENGTH), Some(2)).unwrap(), bytes);
}

#[test]
fn globus_lists_10_000_names_with_their_facts() {
    let Some(server) = Server::globus() else { return };
    for number in 0..10_000 {
        put(&server.here, &format!("name {number}"), b"");
    }
    std::fs::create_dir(server.here.join("directory")).unwrap();
    let (mut files, mut others) = (Vec::new(), Vec::new());
    let mut client = server.client();
    client
        .list(server.there.as_bytes(), &mut |entry| match entry.kind {
            Kind::File => files.push(entry.name),
            _ => others.push((entry.kind, entry.name)),
        })
        .unwrap();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 10_000);
    assert_eq!(others, [(Kind::Directory, b"directory".to_vec())]);
    assert_eq!(client.facts(&server.name("directory")).unwrap().kind, Kind::Directory);
}

#[test]
fn globus_says_a_files_checksum_and_vsftpd_does_not() {
    let (Some(globus), Some(vsftpd)) = (Server::globus(), Server::vsftpd()) else { return };
    for server in [&globus, &vsftpd] {
        put(&server.here, "file", b"hello\n");
    }
    let sum = globus.client().checksum("SHA256", &globus.name("file")).unwrap();
    assert_eq!(sum, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    let refused = vsftpd.client().checksum("SHA256", &vsftpd.name("file"));
    assert!(matches!(refused, Err(Error::Refused { code: 500, .. })), "{refused:?}");
}

#[test]
fn globus_takes_and_gives_many_files_over_one_data_channel() {
    let Some(server) = Server::globus() else { return };
    many_both_ways(&server, &mut server.client());
}
