//! The driver `gsi` against Debian's globus-xioperf with its own, as server and as client, with certificates of
//! globus-simple-ca and proxies of grid-proxy-init.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of certificates")]

#[path = "../../gridftp/tests/support/site.rs"]
mod site;
mod support;

use site::{Site, USER};
use support::{Running, globus_in, xioperf_in};

fn site() -> Option<&'static Site> {
    let driver = "/usr/lib/x86_64-linux-gnu/libglobus_xio_gsi_driver.so";
    let found = std::fs::metadata(driver).map(drop).map_err(|error| format!("{driver}: {error}"));
    let is_there =
        xdfs_test_needs::program("globus-xioperf", "globus-xioperf") && xdfs_test_needs::found(found).is_some();
    is_there.then(Site::of_process).flatten()
}

/// A program with the host's certificate or with that proxy.
fn environment(site: &Site, proxy: Option<&str>) -> Vec<(String, String)> {
    let path = |name: &str| site.path(name).to_str().unwrap().to_owned();
    let mut all = vec![("X509_CERT_DIR".to_owned(), path("certificates"))];
    match proxy {
        Some(name) => all.push(("X509_USER_PROXY".to_owned(), path(name))),
        None => {
            all.push(("X509_USER_CERT".to_owned(), path("host/hostcert.pem")));
            all.push(("X509_USER_KEY".to_owned(), path("host/hostkey.pem")));
        }
    }
    all
}

/// Ours or theirs.
type Start = fn(&[(String, String)], &str) -> Running;

#[test]
fn gsi_is_understood_both_ways_and_in_both_directions() {
    let Some(site) = site() else { return };
    let ends: [(&str, Start, Start); 3] = [
        ("their client", xioperf_in, globus_in),
        ("their server", globus_in, xioperf_in),
        ("ours", xioperf_in, xioperf_in),
    ];
    for (what, server, client) in ends {
        let mut server = server(&environment(site, None), "-s -D tcp -D gsi");
        let line = format!("-c localhost:{} -D tcp -D gsi -n 10M", server.port());
        let client = client(&environment(site, Some("proxy")), &line).succeeds();
        let sizes = (client.field("Bytes sent:"), server.succeeds().field("Bytes recv:"));
        assert_eq!(sizes, ("10.00 M".to_owned(), "10.00 M".to_owned()), "{what}");
    }
    for (what, server, client) in ends {
        let mut server = server(&environment(site, None), "-s -S -R -D tcp -D gsi");
        let line = format!("-c localhost:{} -D tcp -D gsi -S -R -t 4", server.port());
        let client = client(&environment(site, Some("proxy")), &line).wait();
        let server = server.wait();
        for name in ["Bytes recv:", "Bytes sent:"] {
            assert_ne!(client.field(name), "0.00 M", "{what}: {client:?}");
            assert_ne!(server.field(name), "0.00 M", "{what}: {server:?}");
        }
    }
}

#[test]
fn our_client_leaves_a_server_that_is_somebody_else() {
    let Some(site) = site() else { return };
    let shown = "/O=Grid/OU=xdfs/CN=host/localhost";
    for (expected, reason) in [
        ("name=elsewhere", format!("is for '{shown}' and not for the host 'elsewhere'")),
        ("subject=/O=Grid/CN=Otto", format!("the other end is '{shown}', expected is '/O=Grid/CN=Otto'")),
    ] {
        let mut server = globus_in(&environment(site, None), "-s -D tcp -D gsi");
        let line = format!("-c localhost:{} -D tcp -D gsi:{expected} -n 10M", server.port());
        let client = xioperf_in(&environment(site, Some("proxy")), &line).wait();
        assert!(client.code != 0 && client.errors.contains(&reason), "{client:?}");
        let server = server.wait();
        assert!(server.errors.contains("connection error:"), "{server:?}");
    }
}

#[test]
fn our_client_leaves_a_server_whose_proxy_proves_nothing() {
    let Some(site) = site() else { return };
    site.proxy_of("host", "host-limited", &["-limited"]);
    site.proxy_of("host", "host-proxy", &[]);
    let read = |name: &str| std::fs::read_to_string(site.path(name)).unwrap();
    let (proxy, other) = (read("host-proxy"), read("other/othercert.pem"));
    // The own certificate and the key, and behind them that of somebody else.
    let own = &proxy[..proxy.rfind("-----BEGIN CERTIFICATE").unwrap()];
    let other = &other[other.find("-----BEGIN").unwrap()..];
    site.secret("host-wrong", format!("{own}{other}").as_bytes());
    for (name, reason) in [
        ("host-limited", "the server shows a limited proxy of '/O=Grid/OU=xdfs/CN=host/localhost'"),
        ("host-wrong", "the certificate that signed the proxy '/O=Grid/OU=xdfs/CN=host/localhost/CN="),
    ] {
        let mut server = globus_in(&environment(site, Some(name)), "-s -D tcp -D gsi");
        let line = format!("-c localhost:{} -D tcp -D gsi -n 10M", server.port());
        let client = xioperf_in(&environment(site, Some("proxy")), &line).wait();
        assert!(client.code != 0 && client.errors.contains(reason), "{client:?}");
        server.wait();
    }
    let mut server = globus_in(&environment(site, Some("host-proxy")), "-s -D tcp -D gsi");
    let line = format!("-c localhost:{} -D tcp -D gsi -n 10M", server.port());
    xioperf_in(&environment(site, Some("proxy")), &line).succeeds();
    server.succeeds();
}

#[test]
fn our_server_takes_no_one_but_who_is_expected() {
    let Some(site) = site() else { return };
    site.proxy("limited", &["-limited"]);
    site.proxy_of("other", "otto", &[]);
    let otto = "/O=Grid/OU=xdfs/CN=Otto";
    for (subject, refused, taken, reason) in [
        (format!(":subject={otto}"), "proxy", "otto", format!("the other end is '{USER}', expected is '{otto}'")),
        (String::new(), "limited", "proxy", format!("the other end shows a limited proxy of '{USER}'")),
    ] {
        let mut server = xioperf_in(&environment(site, None), &format!("-s -D tcp -D gsi{subject}"));
        let line = format!("-c localhost:{} -D tcp -D gsi -n 10M", server.port());
        let client = globus_in(&environment(site, Some(refused)), &line).wait();
        assert_eq!(client.field("Bytes sent:"), "0.00 M", "{client:?}");
        globus_in(&environment(site, Some(taken)), &line).succeeds();
        let server = server.succeeds();
        assert_eq!(server.field("Bytes recv:"), "10.00 M");
        assert!(server.errors.contains(&reason), "{server:?}");
    }
}

#[test]
fn a_credential_that_has_expired_is_refused_before_anybody_is_connected_to() {
    let Some(site) = site() else { return };
    if !xdfs_test_needs::program("faketime", "faketime") {
        return;
    }
    site.proxy_at("-5 hours", "expired");
    let client = xioperf_in(&environment(site, Some("expired")), "-c localhost:9 -D tcp -D gsi -n 1M").wait();
    assert!(client.code != 0 && client.errors.contains("has expired: it was valid until 20"), "{client:?}");
    assert!(!client.errors.contains("PRIVATE KEY"), "{client:?}");
}
