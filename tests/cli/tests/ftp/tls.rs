//! FTP with TLS: the data channels resume the control channel's session, and no server is believed
//! that nobody vouches for.

use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256};
use xdfs_test_cli::{Outcome, Scene, exit, pattern};

use super::peers::survives_a_kill;
use super::run;
use super::scripted::{Answer, Say, Scripted};
use super::servers::{FtpServer, log_with};

/// A certificate for `name` that nobody has signed, as `cert.pem` and `key.pem` of the scene.
pub fn certify(scene: &Scene, name: &str) {
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("a key");
    let parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    scene.write("cert.pem", parameters.self_signed(&key).expect("a certificate").pem().as_bytes());
    scene.write("key.pem", key.serialize_pem().as_bytes());
}

/// vsftpd with TLS, as it comes: data channels must resume the control channel's session. With these lines besides.
pub fn vsftpd(scene: &Scene, lines: &str, environment: Vec<(&'static str, PathBuf)>) -> FtpServer {
    let (certificate, key) = (scene.path("cert.pem"), scene.path("key.pem"));
    let lines = format!(
        "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
         rsa_cert_file={}\nrsa_private_key_file={}\n{lines}",
        certificate.display(),
        key.display()
    );
    by_tls(FtpServer::vsftpd_in(&lines, environment))
}

/// pure-ftpd with TLS on all channels, with these arguments besides.
pub fn tls_of_pure_ftpd(scene: &Scene, arguments: &[&str]) -> FtpServer {
    let both = scene.write("both.pem", &[scene.read("cert.pem"), scene.read("key.pem")].concat());
    let with_tls = ["-Y", "3", "-2", both.to_str().expect("text")];
    by_tls(FtpServer::pure_ftpd(&[&with_tls, arguments].concat()))
}

/// proftpd with TLS on all channels, with these lines besides.
pub fn tls_of_proftpd(scene: &Scene, lines: &str) -> FtpServer {
    let (certificate, key) = (scene.path("cert.pem"), scene.path("key.pem"));
    by_tls(FtpServer::proftpd(&format!(
        "TLSEngine on\nTLSRSACertificateFile {}\nTLSRSACertificateKeyFile {}\n{lines}",
        certificate.display(),
        key.display()
    )))
}

fn by_tls(mut server: FtpServer) -> FtpServer {
    server.url = server.url.replace("ftp://", "ftps://");
    server
}

/// Runs the command with the certificate of the scene.
#[track_caller]
fn by_ca(scene: &Scene, words: &[&str]) -> Outcome {
    run(scene, &[&words[..1], &["--ca", "cert.pem"], &words[1..]].concat())
}

/// Files, listings and a tree, with so many data channels that no number of tickets suffices.
fn all_moves(scene: &Scene, server: &FtpServer) {
    let with = |words: &[&str]| by_ca(scene, words);
    let content = pattern(3_000_001, 4);
    scene.write("f", &content);
    scene.write("empty", b"");
    let done = with(&["cp", "--json", "f", &server.url("f")]);
    assert_eq!(done.ends_with(0).objects()[0]["protection"], "private");
    assert!(server.read("f") == content);
    with(&["cp", "f", "empty", &server.url("")]).ends_with(0);
    assert_eq!(server.read("empty"), b"");
    scene.directory("into");
    with(&["cp", &server.url("f"), &server.url("empty"), "into"]).ends_with(0);
    assert!(scene.read("into/f") == content && scene.read("into/empty").is_empty());
    with(&["cp", &server.url("f"), "g"]).ends_with(0);
    assert!(scene.read("g") == content);
    for number in 0..24 {
        scene.write(format!("tree/{number}"), &pattern(100 + number, 1));
    }
    with(&["sync", "-P", "2", "tree", &server.url("tree")]).ends_with(0);
    with(&["sync", "-P", "2", &server.url("tree"), "back"]).ends_with(0);
    assert_eq!(scene.names("back").len(), 24);
    for number in 0..24 {
        assert_eq!(scene.read(format!("back/{number}")), pattern(100 + number, 1));
    }
    assert_eq!(with(&["cat", &server.url("tree/3")]).ends_with(0).output, pattern(103, 1));
    with(&["rm", &server.url("tree/3")]).ends_with(0);
    assert!(!server.here.join("tree/3").exists());
    names_are_changed(scene, server);
}

/// Names are looked at, made, moved and removed.
fn names_are_changed(scene: &Scene, server: &FtpServer) {
    let with = |words: &[&str]| by_ca(scene, words);
    assert_eq!(with(&["ls", &server.url("tree")]).ends_with(0).text().lines().count(), 23);
    let told = with(&["stat", "--json", &server.url("f"), &server.url("tree")]);
    let told = told.ends_with(0).objects();
    assert_eq!((told[0]["size"].as_u64(), &told[1]["type"]), (Some(3_000_001), &"directory".into()));
    let sums = with(&["sum", "f", &server.url("f")]);
    let sums: Vec<&str> = sums.ends_with(0).text().lines().map(|line| &line[..64]).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1], "{sums:?}");
    with(&["mkdir", "-p", &server.url("new/deep")]).ends_with(0);
    with(&["mv", &server.url("empty"), &server.url("new/deep/")]).ends_with(0);
    assert_eq!(server.read("new/deep/empty"), b"");
    assert!(!server.here.join("empty").exists());
    // The tree lost a file there, and gets one here; vsftpd does not say enough of its names to remove any.
    scene.write("tree/only-here", b"text");
    let deleted = with(&["sync", "--delete", &server.url("tree"), "tree"]);
    match deleted.code {
        Some(exit::REFUSED) => drop(deleted.says(&["names alone"])),
        _ => {
            deleted.ends_with(0);
            assert_eq!(scene.names("tree").len(), 23);
            std::fs::remove_file(scene.path("tree/5")).expect("it is there");
            with(&["sync", "--delete", "tree", &server.url("tree")]).ends_with(0);
            assert!(!server.here.join("tree/5").exists() && server.read("tree/6") == pattern(106, 1));
        }
    }
}

#[test]
fn files_cross_between_a_server_with_tls_and_other_servers() {
    let (scene, content) = (Scene::new(), pattern(3_000_001, 5));
    certify(&scene, "127.0.0.1");
    scene.write("server/f", &content);
    let (xdfs, globus) = (scene.serve(), FtpServer::globus());
    for ftps in [vsftpd(&scene, "", Vec::new()), tls_of_proftpd(&scene, "TLSRequired on\n")] {
        // The protection is that of the weaker part of the way.
        for (from, to, protection) in [
            (xdfs.url("f"), ftps.url("g"), "private"),
            (ftps.url("g"), xdfs.url("back"), "private"),
            (ftps.url("g"), globus.url("h"), "clear"),
            (globus.url("h"), ftps.url("h"), "clear"),
        ] {
            let done = by_ca(&scene, &["cp", "--json", &from, &to]);
            let told = done.ends_with(0).objects().remove(0);
            assert_eq!((told["bytes"].as_u64(), &told["protection"]), (Some(3_000_001), &protection.into()), "{told}");
        }
        assert!(ftps.read("g") == content && scene.read("server/back") == content);
        assert!(globus.read("h") == content && ftps.read("h") == content);
        assert_eq!(ftps.names(), ["g", "h"], "no temporary name is left");
        by_ca(&scene, &["cp", &ftps.url("no"), &globus.url("no")]).ends_with(6);
        assert!(!globus.here.join("no").exists());
    }
}

#[test]
fn copies_with_tls_go_on_after_their_server_was_killed() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    let start = |words: &[&str]| scene.start([&words[..1], &["--ca", "cert.pem"], &words[1..]].concat());
    for server in [
        vsftpd(&scene, "anon_max_rate=6000000\n", Vec::new()),
        tls_of_proftpd(&scene, "TLSRequired on\nTransferRate RETR,STOR 6000\n"),
    ] {
        survives_a_kill(&scene, &server, 16 << 20, &start);
        std::fs::remove_file(scene.path("down")).expect("it is there");
    }
}

/// What other programs call `ftps://`. The port says that TLS begins with the first byte, so the server has an address of
/// its own.
#[test]
fn tls_begins_with_the_first_byte_on_port_990() {
    let scene = Scene::new();
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = format!("127.99.{}.{}", high, low.max(1));
    certify(&scene, &address);
    let (certificate, key) = (scene.path("cert.pem"), scene.path("key.pem"));
    let lines = format!(
        "ssl_enable=YES\nimplicit_ssl=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
         rsa_cert_file={}\nrsa_private_key_file={}\n",
        certificate.display(),
        key.display()
    );
    let server = by_tls(FtpServer::vsftpd_at(&format!("{address}:990"), &lines));
    let content = pattern(3_000_001, 6);
    scene.write("f", &content);
    let done = by_ca(&scene, &["cp", "--json", "f", &server.url("f")]);
    assert_eq!(done.ends_with(0).objects()[0]["protection"], "private");
    assert!(server.read("f") == content);
    by_ca(&scene, &["cp", &server.url("f"), "back"]).ends_with(0);
    assert!(scene.read("back") == content);
    assert_eq!(by_ca(&scene, &["ls", &server.url("")]).ends_with(0).text(), "f\n");
    run(&scene, &["cat", &server.url("f")]).ends_with(exit::NOT_TRUSTED);
}

#[test]
fn everything_moves_through_tls_with_vsftpd() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    all_moves(&scene, &vsftpd(&scene, "", Vec::new()));
}

#[test]
fn everything_moves_through_tls_with_proftpd() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    all_moves(&scene, &tls_of_proftpd(&scene, "TLSRequired on\n"));
}

/// proftpd with TLS on the control channel alone.
#[test]
fn a_server_that_refuses_to_protect_the_data_is_left_before_a_name_is_sent() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    let log = scene.path("log");
    let lines = format!("TLSRequired ctrl+!data\nLogFormat whole \"%r\"\nExtendedLog {} ALL whole\n", log.display());
    let server = tls_of_proftpd(&scene, &lines);
    server.put("f", b"content");
    let url = server.url("f");
    for words in [["cp", &url, "g"], ["cp", "cert.pem", &url], ["sync", &server.url(""), "tree"]] {
        let words = [&words[..1], &["--ca", "cert.pem", "--retry", "0"], &words[1..]].concat();
        run(&scene, &words).says(&["refused PROT P: 534"]).fails();
        let told = log_with(&log, |told| told.contains("PROT P"));
        let heard: Vec<&str> = told.lines().collect();
        assert_eq!(heard, ["AUTH TLS", "USER anonymous", "PASS (hidden)", "PBSZ 0", "PROT P"], "{words:?}");
        std::fs::remove_file(scene.path("log")).expect("the log");
    }
    assert!(!scene.path("g").exists() && server.read("f") == b"content");
}

#[test]
fn everything_moves_through_tls_with_pure_ftpd() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    all_moves(&scene, &tls_of_pure_ftpd(&scene, &[]));
}

#[test]
fn everything_moves_through_tls_1_3_where_nothing_else_is_spoken() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    scene.write(
        "openssl.cnf",
        b"openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1.3\n",
    );
    all_moves(&scene, &vsftpd(&scene, "", vec![("OPENSSL_CONF", scene.path("openssl.cnf"))]));
}

#[test]
fn a_server_is_believed_only_for_its_name_and_by_its_authority() {
    let scene = Scene::new();
    certify(&scene, "ftp.example.org");
    let server = vsftpd(&scene, "", Vec::new());
    server.put("f", b"content");
    let url = server.url("f");
    run(&scene, &["cat", &url]).ends_with(exit::NOT_TRUSTED).says(&[
        "signed by nobody",
        "--ca FILE",
        "nothing was sent",
    ]);
    run(&scene, &["cat", "--ca", "cert.pem", &url]).ends_with(exit::NOT_TRUSTED).says(&["for another name"]);
    for words in [["cp", "--ca", "cert.pem", &url, "f"], ["cp", "--ca", "cert.pem", "cert.pem", &url]] {
        run(&scene, &words).ends_with(exit::NOT_TRUSTED);
    }
    assert!(!scene.path("f").exists() && server.read("f") == b"content");
    // The same for one that is not valid now.
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    scene.write("cert.pem", parameters.self_signed(&key).expect("a certificate").pem().as_bytes());
    scene.write("key.pem", key.serialize_pem().as_bytes());
    let expired = vsftpd(&scene, "", Vec::new());
    let words = ["cat", "--ca", "cert.pem", &expired.url("f")];
    run(&scene, &words).ends_with(exit::NOT_TRUSTED).says(&["it has run out"]);
}

#[test]
fn no_password_is_sent_to_a_server_without_tls() {
    let scene = Scene::new();
    let without: Answer = |_| None;
    let early: Answer = |line| line.starts_with("AUTH").then_some(Say::Reply("234 go\r\n230 in"));
    let partial: Answer = |line| line.starts_with("AUTH").then_some(Say::Reply("234 go\r\nno TLS this is"));
    for (answer, words) in [(without, "offers no TLS"), (early, "before TLS began"), (partial, "is no FTP reply")] {
        let server = Scripted::start(answer);
        let url = format!("ftps://anna:secret@127.0.0.1:{}/f", server.port);
        let refused = run(&scene, &["cat", &url]);
        refused.says(&[words]).fails();
        assert!(server.heard("USER").is_empty() && server.heard("PASS").is_empty());
    }
}
