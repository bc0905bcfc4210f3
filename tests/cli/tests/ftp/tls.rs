//! FTP with TLS: the data channels resume the control channel's session, and no server is believed
//! that nobody vouches for.

use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256};
use xdfs_test_cli::{Scene, exit, pattern};

use super::run;
use super::scripted::{Answer, Say, Scripted};
use super::servers::FtpServer;

/// A certificate for `name` that nobody has signed, as `cert.pem` and `key.pem` of the scene.
fn certify(scene: &Scene, name: &str) {
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("a key");
    let parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    scene.write("cert.pem", parameters.self_signed(&key).expect("a certificate").pem().as_bytes());
    scene.write("key.pem", key.serialize_pem().as_bytes());
}

/// vsftpd with TLS, as it comes: data channels must resume the control channel's session.
fn vsftpd(scene: &Scene, environment: Vec<(&'static str, PathBuf)>) -> FtpServer {
    let (certificate, key) = (scene.path("cert.pem"), scene.path("key.pem"));
    let lines = format!(
        "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
         rsa_cert_file={}\nrsa_private_key_file={}\n",
        certificate.display(),
        key.display()
    );
    by_tls(FtpServer::vsftpd_in(&lines, environment))
}

fn by_tls(mut server: FtpServer) -> FtpServer {
    server.url = server.url.replace("ftp://", "ftps://");
    server
}

/// Files, listings and a tree, with so many data channels that no number of tickets suffices.
fn all_moves(scene: &Scene, server: &FtpServer) {
    let with = |words: &[&str]| {
        let (verb, rest) = words.split_first().expect("a verb");
        run(scene, &[&[verb, "--ca", "cert.pem"], rest].concat())
    };
    let content = pattern(3_000_001, 4);
    scene.write("f", &content);
    scene.write("empty", b"");
    let done = with(&["cp", "--json", "f", &server.url("f")]);
    assert_eq!(done.ends_with(0).objects()[0]["protection"], "private");
    assert!(server.read("f") == content);
    with(&["cp", "f", "empty", &server.url("")]).ends_with(0);
    assert_eq!(server.read("empty"), b"");
    with(&["cp", &server.url("f"), &server.url("empty"), "f", "empty"]);
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
}

#[test]
fn everything_moves_through_tls_with_vsftpd() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    all_moves(&scene, &vsftpd(&scene, Vec::new()));
}

#[test]
fn everything_moves_through_tls_with_proftpd() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    let (certificate, key) = (scene.path("cert.pem"), scene.path("key.pem"));
    all_moves(
        &scene,
        &by_tls(FtpServer::proftpd(&format!(
            "TLSEngine on\nTLSRequired on\nTLSRSACertificateFile {}\nTLSRSACertificateKeyFile {}\n",
            certificate.display(),
            key.display()
        ))),
    );
}

#[test]
fn everything_moves_through_tls_with_pure_ftpd() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    let both = scene.write("both.pem", &[scene.read("cert.pem"), scene.read("key.pem")].concat());
    all_moves(&scene, &by_tls(FtpServer::pure_ftpd(&["-Y", "3", "-2", both.to_str().expect("text")])));
}

#[test]
fn everything_moves_through_tls_1_3_where_nothing_else_is_spoken() {
    let scene = Scene::new();
    certify(&scene, "127.0.0.1");
    scene.write(
        "openssl.cnf",
        b"openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1.3\n",
    );
    all_moves(&scene, &vsftpd(&scene, vec![("OPENSSL_CONF", scene.path("openssl.cnf"))]));
}

#[test]
fn a_server_is_believed_only_for_its_name_and_by_its_authority() {
    let scene = Scene::new();
    certify(&scene, "ftp.example.org");
    let server = vsftpd(&scene, Vec::new());
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
    let expired = vsftpd(&scene, Vec::new());
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
