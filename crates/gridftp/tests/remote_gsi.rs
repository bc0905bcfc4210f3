//! The driver `gridftp` with certificates, against Debian's globus-gridftp-server with an authority of globus-simple-ca and
//! proxies of grid-proxy-init.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the servers' files themselves")]

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use support::site::Site;
use support::{Server, content, put};
use xdfs_gridftp::driver;
use xdfs_xio::{ErrorKind, Handle, Options, Registry, Stack, Timeouts};

/// More than the buffers of an element hold, and no multiple of them.
const LENGTH: usize = 12_000_001;

/// Whom the site's host is.
const HOST: &str = "/O=Grid/OU=xdfs/CN=host/localhost";

fn options() -> Options {
    let limit = Some(Duration::from_secs(30));
    Options { timeouts: Timeouts { open: limit, read: limit, write: limit, close: limit } }
}

/// Opens `file` of a server, with `before` in front of the host and a proxy of the site.
fn open(site: &Site, server: &Server, before: &str, attributes: &str, proxy: &str) -> xdfs_xio::Result<Handle> {
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    let path = |name: &str| site.path(name).to_str().unwrap().to_owned();
    let attributes = format!("credential={};authorities={};{attributes}", path(proxy), path("certificates"));
    let stack = Stack::of(Arc::new(registry)).push("gridftp", &attributes).unwrap();
    let contact = format!("gsiftp://{before}localhost:{}{}/file", server.address.port(), server.there);
    Handle::open(&stack, &contact, &options())
}

fn read_all(handle: &Handle) -> xdfs_xio::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        let received = handle.read(&mut buffer, 1)?;
        all.extend_from_slice(&buffer[..received.bytes]);
        if received.info.end {
            return Ok(all);
        }
    }
}

#[test]
fn a_certificate_writes_and_reads_files_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    let bytes = content(LENGTH);
    for attributes in ["", "protection=integrity;streams=4", "protection=clear;streams=1", "protection=clear;mode=s"] {
        let writer = open(site, &server, "", &format!("access=write;{attributes}"), "proxy").unwrap();
        for piece in bytes.chunks(77_777) {
            writer.write(piece).unwrap();
        }
        writer.close().unwrap();
        assert!(std::fs::read(server.here.join("file")).unwrap() == bytes, "{attributes}");
        let reader = open(site, &server, "", attributes, "proxy").unwrap();
        assert!(read_all(&reader).unwrap() == bytes, "{attributes}");
        reader.control(None, "seek", Some("11000000")).unwrap();
        assert!(read_all(&reader).unwrap() == bytes[11_000_000..], "{attributes}");
        reader.close().unwrap();
    }
    // One for each protection.
    assert_eq!(server.sessions(), 3);
}

#[test]
fn a_contact_names_the_subject_that_the_server_must_show() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    put(&server.here, "file", b"text");
    for before in [format!("<{HOST}>"), format!("<{}>", HOST.replace('/', "%2F")), format!("root@<{HOST}>")] {
        let reader = open(site, &server, &before, "", "proxy").unwrap();
        assert_eq!(read_all(&reader).unwrap(), b"text", "{before}");
    }
    for (before, reason) in [
        ("</O=Grid/CN=Otto>", format!("the other end is '{HOST}', expected is '/O=Grid/CN=Otto'")),
        ("nobody@", "the server refused the login".to_owned()),
    ] {
        let error = open(site, &server, before, "", "proxy").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(&reason), "{before}: {error}");
    }
}

#[test]
fn a_session_serves_the_next_handle_of_the_same_certificate_and_no_other() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    put(&server.here, "file", b"text");
    site.proxy("another", &[]);
    for (proxy, before, sessions) in [
        ("proxy", "", 1),
        ("proxy", "", 1),
        ("another", "", 2),
        ("proxy", &*format!("<{HOST}>"), 3),
        ("proxy", "root@", 4),
        ("another", "", 4),
    ] {
        let reader = open(site, &server, before, "", proxy).unwrap();
        assert_eq!(read_all(&reader).unwrap(), b"text");
        reader.close().unwrap();
        assert_eq!(server.sessions(), sessions, "{proxy} {before}");
    }
}

#[test]
fn what_cannot_log_in_is_refused_with_its_reason_before_anybody_is_connected_to() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    if !xdfs_test_needs::program("faketime", "faketime") {
        return;
    }
    site.proxy_at("-5 hours", "driver-expired");
    let readable = site.secret("driver-readable", &std::fs::read(site.path("proxy")).unwrap());
    std::fs::set_permissions(&readable, Permissions::from_mode(0o640)).unwrap();
    for (before, attributes, proxy, kind, words) in [
        ("", "", "driver-expired", ErrorKind::Denied, "has expired: it was valid until 20"),
        ("", "", "driver-readable", ErrorKind::Denied, "other users can read this private key"),
        ("", "", "missing", ErrorKind::Denied, "make a proxy with grid-proxy-init"),
        ("", "protection=none", "proxy", ErrorKind::Usage, "'protection' is private, integrity or clear"),
        ("anonymous@", "", "proxy", ErrorKind::Usage, "leave out either them or the login"),
        ("anna:word@", "", "proxy", ErrorKind::Usage, "leave out either them or the login"),
    ] {
        let error = open(site, &server, before, attributes, proxy).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{before} {attributes} {proxy}: {error}");
        assert!(!error.to_string().contains("word@"), "{error}");
    }
    assert_eq!(server.sessions(), 0);
}

/// Offsets and lengths.
const PARTS: [(usize, usize); 5] = [(0, 1), (3, 5_000_000), (11_000_000, 5_000_000), (LENGTH, 1), (7, 0)];

#[test]
fn a_certificate_reads_parts_of_a_file_and_appends_to_it_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    let bytes = content(LENGTH);
    put(&server.here, "file", &bytes);
    for attributes in ["protection=private;streams=4", "protection=integrity;mode=s", "protection=clear;streams=16"] {
        for (offset, length) in PARTS {
            let part = format!("{attributes};offset={offset};length={length}");
            let reader = open(site, &server, "", &part, "proxy").unwrap();
            assert!(read_all(&reader).unwrap() == bytes[offset..(offset + length).min(LENGTH)], "{part}");
            reader.close().unwrap();
        }
        put(&server.here, "file", &bytes);
        let writer = open(site, &server, "", &format!("{attributes};access=append"), "proxy").unwrap();
        for piece in bytes[..1_000_000].chunks(77_777) {
            writer.write(piece).unwrap();
        }
        writer.close().unwrap();
        let there = std::fs::read(server.here.join("file")).unwrap();
        assert!(there == [&bytes[..], &bytes[..1_000_000]].concat(), "{attributes}");
        put(&server.here, "file", &bytes);
    }
}
