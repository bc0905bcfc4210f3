//! GSI against Debian's globus-gridftp-server, with an authority of globus-simple-ca and proxies of grid-proxy-init.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the servers' files themselves")]

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{Server, WAIT, content, download, log_with, many_both_ways, put, upload, whole};

use support::site::{Site, USER};
use xdfs_gridftp::client::{Client, DataProtection, Error, GsiPeer, Security, Settings};
use xdfs_gridftp::command::Login;
use xdfs_gridftp::credentials::Places;
use xdfs_secure::handshake::tls::gsi::{Expected, Gsi, ProxyKind};

/// Longer than several blocks, and no multiple of one.
const LENGTH: usize = 3_000_001;

/// The site's user.
trait User {
    /// Where the user has a proxy of this name.
    fn places(&self, proxy: &str) -> Places;
}

impl User for Site {
    fn places(&self, proxy: &str) -> Places {
        let proxy = self.path(proxy);
        Places { chain: proxy.clone(), key: proxy, authorities: self.path("certificates"), is_named: true }
    }
}

fn connect(server: &Server, gsi: Gsi, expected: Expected, data: DataProtection) -> Result<Client, Error> {
    let security = Security::Gsi(GsiPeer { gsi, expected, data });
    Client::connect(server.address, Login::mapped(), Settings { waiting: WAIT.into(), security })
}

fn localhost() -> Expected {
    Expected::Host("localhost".to_owned())
}

#[test]
fn globus_lets_a_proxy_in_and_lists_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    put(&server.here, "file", b"text");
    for data in EVERY {
        let mut client = connect(&server, site.places("proxy").load().unwrap(), localhost(), data).unwrap();
        let mut names = Vec::new();
        let listed = client.list(server.there.as_bytes(), &mut |entry| names.push(entry.name));
        assert!(listed.is_ok(), "{data:?}: {listed:?}");
        assert_eq!(names, [b"file".to_vec()], "{data:?}");
        client.quit();
    }
}

const EVERY: [DataProtection; 4] =
    [DataProtection::None, DataProtection::Authenticated, DataProtection::Safe, DataProtection::Private];

#[test]
fn files_move_in_mode_s_and_on_1_4_and_16_streams_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    for data in EVERY {
        let mut client = connect(&server, site.places("proxy").load().unwrap(), localhost(), data).unwrap();
        for streams in [None, Some(1), Some(4), Some(16)] {
            for length in [0, 1, LENGTH] {
                let bytes = content(length);
                let name = format!("{data:?}-{streams:?}-{length}");
                let sent = upload(&mut client, &server.name(&name), &bytes, 0, streams);
                assert_eq!(sent.map_err(|error| format!("{name}: {error}")), Ok(length as u64));
                assert!(std::fs::read(server.here.join(&name)).unwrap() == bytes, "{name}");
                let received = download(&mut client, &server.name(&name), whole(length), streams);
                assert!(received.map_err(|error| format!("{name}: {error}")).unwrap() == bytes, "{name}");
            }
        }
        // A refusal leaves the session usable, whoever waits for a handshake on a data channel.
        for streams in [None, Some(4)] {
            let refused = upload(&mut client, &server.name("no/where"), b"x", 0, streams);
            assert!(matches!(refused, Err(Error::Refused { .. })), "{data:?} {streams:?}: {refused:?}");
            let refused = download(&mut client, &server.name("no"), whole(1), streams);
            assert!(matches!(refused, Err(Error::Refused { .. })), "{data:?} {streams:?}: {refused:?}");
        }
        assert_eq!(client.size(&server.name(&format!("{data:?}-None-1"))).unwrap(), 1);
    }
}

/// The connections of a transfer come from the server for one direction, and go to it for the other.
#[test]
fn files_move_over_ipv6_with_a_certificate() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of_at(site, "[::1]:0", &[]) else { return };
    let bytes = content(LENGTH);
    for data in EVERY {
        let mut client = connect(&server, site.places("proxy").load().unwrap(), localhost(), data).unwrap();
        for streams in [None, Some(1), Some(4)] {
            let name = server.name(&format!("{data:?}-{streams:?}"));
            upload(&mut client, &name, &bytes, 0, streams).unwrap();
            assert!(download(&mut client, &name, whole(LENGTH), streams).unwrap() == bytes, "{data:?} {streams:?}");
        }
    }
}

#[test]
fn a_directory_of_10_000_names_is_listed_whole_over_protected_channels() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    let expected: Vec<Vec<u8>> = (0..10_000).map(|number| format!("name-{number:05}").into_bytes()).collect();
    for name in &expected {
        put(&server.here, str::from_utf8(name).unwrap(), b"");
    }
    let gsi = site.places("proxy").load().unwrap();
    let mut client = connect(&server, gsi, localhost(), DataProtection::Private).unwrap();
    for by_control in [false, true] {
        let mut names = Vec::new();
        let mut each = |entry: xdfs_gridftp::listing::Entry| names.push(entry.name);
        match by_control {
            true => client.list_by_control(server.there.as_bytes(), &mut each).unwrap(),
            false => client.list(server.there.as_bytes(), &mut each).unwrap(),
        }
        names.sort();
        assert!(names == expected, "by control: {by_control}: {} names", names.len());
    }
}

/// What the server's log has of the protection that was asked for.
#[test]
fn each_protection_is_asked_for_by_its_own_commands() {
    let Some(site) = Site::of_process() else { return };
    for (data, asked) in
        EVERY.into_iter().zip([&["DCAU N"][..], &["DCAU A", "PROT C"], &["DCAU A", "PROT S"], &["DCAU A", "PROT P"]])
    {
        let log = site.path(&format!("log-{data:?}"));
        let arguments = ["-d", "ALL", "-l", log.to_str().unwrap()];
        let Some(server) = Server::globus_of_at(site, "127.0.0.1:0", &arguments) else { return };
        let mut client = connect(&server, site.places("proxy").load().unwrap(), localhost(), data).unwrap();
        upload(&mut client, &server.name("file"), &content(1000), 0, Some(4)).unwrap();
        client.quit();
        let log = log_with(&log, "[CLIENT]: STOR", 1);
        let heard = log.lines().filter_map(|line| line.split_once("[CLIENT]: ")).map(|(_, said)| said.trim_end());
        let heard: Vec<&str> = heard.filter(|said| said.starts_with("DCAU ") || said.starts_with("PROT ")).collect();
        assert_eq!(heard, asked, "{data:?}");
    }
}

/// Why the credential of a user is refused before anybody is connected to.
fn refusal(places: &Places) -> String {
    places.load().expect_err("it is refused").to_string()
}

#[test]
fn a_proxy_that_no_server_takes_is_refused_here_with_its_reason() {
    let Some(site) = Site::of_process() else { return };
    if !xdfs_test_needs::program("faketime", "faketime") {
        return;
    }
    site.proxy_at("-5 hours", "expired");
    site.proxy_at("+5 hours", "early");
    site.proxy("old", &["-old"]);
    site.proxy("draft", &["-draft"]);
    let read = |name: &str| String::from_utf8(std::fs::read(site.path(name)).unwrap()).unwrap();
    let certificate = |text: &str| text[..=text.find("-----END CERTIFICATE-----\n").unwrap() + 25].to_owned();
    let proxy = read("proxy");
    let own = certificate(&proxy);
    let rest = &proxy[own.len()..];
    let key = &rest[..rest.find("-----BEGIN CERTIFICATE").unwrap()];
    site.secret("alone", format!("{own}{key}").as_bytes());
    let other = read("other/othercert.pem");
    let other = &other[other.find("-----BEGIN").unwrap()..];
    site.secret("wrong-signer", format!("{own}{key}{other}").as_bytes());
    site.secret("wrong-key", format!("{own}{}", read("user/userkey.pem")).as_bytes());
    site.secret("no-key", own.as_bytes());
    site.secret("empty", b"");
    let readable = site.secret("readable", proxy.as_bytes());
    std::fs::set_permissions(&readable, Permissions::from_mode(0o640)).unwrap();
    for (name, reason) in [
        ("expired", "has expired: it was valid until 20"),
        ("early", "is not valid before 20"),
        ("old", "is a proxy of an old kind; make one with grid-proxy-init -rfc"),
        ("draft", "is a proxy of an old kind"),
        ("alone", "the certificate that signed the proxy '/O=Grid/OU=xdfs/OU=Test CA/CN=Anna Example/CN="),
        ("wrong-signer", "was not signed by '/O=Grid/OU=xdfs/CN=Otto'"),
        ("wrong-key", "the private key is not that of its first certificate"),
        ("no-key", "its private key: "),
        ("empty", "there is no certificate in it"),
        ("readable", "other users can read this private key; run: chmod 600 "),
        ("missing", "make a proxy with grid-proxy-init"),
    ] {
        let said = refusal(&site.places(name));
        assert!(said.contains(reason) && said.contains(site.path(name).to_str().unwrap()), "{name}: {said}");
        assert!(!said.contains("PRIVATE KEY"), "{name}: {said}");
    }
    site.proxy("limited", &["-limited"]);
    assert_eq!(site.places("limited").load().unwrap().holder().kind, ProxyKind::Limited);
    assert_eq!(site.places("proxy").load().unwrap().holder().subject, USER);
}

#[test]
fn authorities_vouch_for_what_their_policies_and_lists_permit() {
    let Some(site) = Site::of_process() else { return };
    let hash = site.hash();
    let with = |name: &str, change: &dyn Fn(&Path)| {
        let authorities = site.other_authorities(name);
        change(&authorities);
        Places { authorities, ..site.places("proxy") }
    };
    let policy = |directory: &Path| directory.join(format!("{hash}.signing_policy"));
    let list = |directory: &Path| directory.join(format!("{hash}.r0"));
    let later = "20990101000000Z";
    let other = with("others-revoked", &|directory| {
        std::fs::write(list(directory), site.revocation_list(&["other"], later)).unwrap();
    });
    assert_eq!(other.load().unwrap().holder().subject, USER);
    for (places, reason) in [
        (
            with("no-policy", &|directory| std::fs::remove_file(policy(directory)).unwrap()),
            "the authority '/O=Grid/OU=xdfs/CN=Test CA' has no signing policy",
        ),
        (
            with("other-policy", &|directory| {
                let text = std::fs::read_to_string(policy(directory)).unwrap();
                std::fs::write(policy(directory), text.replace("/OU=xdfs/*", "/OU=elsewhere/*")).unwrap();
            }),
            "the authority '/O=Grid/OU=xdfs/CN=Test CA' may not sign '/O=Grid/OU=xdfs/OU=Test CA/CN=Anna Example'",
        ),
        (
            with("revoked", &|directory| {
                std::fs::write(list(directory), site.revocation_list(&["user"], later)).unwrap();
            }),
            "'/O=Grid/OU=xdfs/OU=Test CA/CN=Anna Example' was revoked by its authority",
        ),
        (
            with("old-list", &|directory| {
                std::fs::write(list(directory), site.revocation_list(&[], "20200102000000Z")).unwrap();
            }),
            "the revocation list of '/O=Grid/OU=xdfs/CN=Test CA' cannot be used: it has expired",
        ),
        (
            with("no-list", &|directory| std::fs::write(list(directory), "nothing").unwrap()),
            "the revocation list of '/O=Grid/OU=xdfs/CN=Test CA' cannot be used",
        ),
        (
            with("nobody", &|directory| std::fs::remove_file(directory.join(format!("{hash}.0"))).unwrap()),
            "there is no certificate of an authority (HASH.0); name the directory with X509_CERT_DIR",
        ),
    ] {
        let said = refusal(&places);
        assert!(said.contains(reason), "{}: {said}", places.authorities.display());
    }
}

#[test]
fn a_server_that_is_somebody_else_is_left_before_the_login() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    let hash = site.hash();
    let refused = |gsi: Gsi, expected: Expected| {
        connect(&server, gsi, expected, DataProtection::Authenticated).expect_err("it is refused").to_string()
    };
    let subject = |text: &str| Expected::Subject(text.to_owned());
    for (expected, reason) in [
        (
            Expected::Host("elsewhere".to_owned()),
            "is for '/O=Grid/OU=xdfs/CN=host/localhost' and not for the host 'elsewhere'",
        ),
        (Expected::Host("127.0.0.1".to_owned()), "and not for the host '127.0.0.1'"),
        (subject("/O=Grid/OU=xdfs/CN=Otto"), "the other end is '/O=Grid/OU=xdfs/CN=host/localhost', expected is"),
    ] {
        let said = refused(site.places("proxy").load().unwrap(), expected);
        assert!(said.contains(reason), "{said}");
    }
    let named = subject("/O=Grid/OU=xdfs/CN=host/localhost");
    connect(&server, site.places("proxy").load().unwrap(), named, DataProtection::Private).unwrap().quit();
    // The host's certificate was revoked.
    let authorities = site.other_authorities("host-revoked");
    std::fs::write(authorities.join(format!("{hash}.r0")), site.revocation_list(&["host"], "20990101000000Z")).unwrap();
    let gsi = Places { authorities, ..site.places("proxy") }.load().unwrap();
    let said = refused(gsi, localhost());
    assert!(said.contains("'/O=Grid/OU=xdfs/CN=host/localhost' was revoked by its authority"), "{said}");
    // Somebody whom the site does not know, and a server without GSI.
    site.proxy_of("other", "otto", &[]);
    let said = refused(site.places("otto").load().unwrap(), localhost());
    assert!(said.contains("the server refused the login") && said.contains("530"), "{said}");
    let Some(plain) = Server::vsftpd() else { return };
    let said = connect(&plain, site.places("proxy").load().unwrap(), localhost(), DataProtection::None);
    let said = said.expect_err("it is refused").to_string();
    assert!(said.contains("the server offers no GSI") && said.contains("gsiftp://anonymous@HOST/"), "{said}");
}

#[test]
fn a_limited_proxy_moves_files_too() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    site.proxy("limited-too", &["-limited"]);
    let mut client =
        connect(&server, site.places("limited-too").load().unwrap(), localhost(), DataProtection::Private).unwrap();
    let bytes = content(LENGTH);
    upload(&mut client, &server.name("file"), &bytes, 0, Some(4)).unwrap();
    assert!(download(&mut client, &server.name("file"), whole(LENGTH), Some(4)).unwrap() == bytes);
}

#[test]
fn many_files_share_a_data_channel_with_every_protection() {
    let Some(site) = Site::of_process() else { return };
    let Some(server) = Server::globus_of(site) else { return };
    for data in EVERY {
        let mut client = connect(&server, site.places("proxy").load().unwrap(), localhost(), data).unwrap();
        many_both_ways(&server, &mut client);
        std::fs::remove_dir_all(server.here.join("many")).unwrap();
        client.quit();
    }
}
