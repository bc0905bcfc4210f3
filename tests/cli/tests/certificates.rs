//! Certificates of a site: a client that believes an authority needs no pin, and nothing else is believed for it.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustix::process::Signal;
use xdfs_test_cli::{Outcome, Scene, Server};

const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody who signs certificates; what clients believe is in the scene's file of its name.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    fn new(scene: &Scene, file: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        scene.write(file, parameters.self_signed(&key).expect("a certificate").pem().as_bytes());
        Self(Issuer::new(parameters, key))
    }

    /// Puts a certificate for `names` into the scene, good until the end of `year`, and its private key.
    fn sign(&self, scene: &Scene, names: &[&str], year: i32) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).expect("names");
        (parameters.not_before, parameters.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 12, 31));
        let signed = parameters.signed_by(&key, &self.0).expect("a certificate");
        scene.write("site.crt", signed.pem().as_bytes());
        secret(scene, "site.key", key.serialize_pem().as_bytes());
    }
}

fn secret(scene: &Scene, name: &str, content: &[u8]) {
    let path = scene.write(name, content);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("it is ours");
}

const HERE: &[&str] = &["localhost", "127.0.0.1"];

fn serve(scene: &Scene) -> Server {
    scene.write("files/f", b"content");
    scene.write(
        "server.toml",
        b"certificate = \"site.crt\"\ncertificate-key = \"site.key\"\n[exports.files]\ndirectory = \"files\"\n\
          anonymous = \"ro\"\n[log]\nquiet = true\n",
    );
    Server::start(scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]), &["--config", "server.toml"])
}

/// What somebody gets who knows nothing of the server but these options.
fn look(scene: &Scene, server: &Server, options: &[&str]) -> Outcome {
    let url = format!("xdfs://{}/files/f", server.address());
    scene.run_as("stranger", [&["stat"], options, &[url.as_str()]].concat())
}

#[test]
fn a_client_that_believes_the_site_s_authority_needs_no_pin() {
    let scene = Scene::new();
    Authority::new(&scene, "ca.pem").sign(&scene, HERE, 2099);
    let server = serve(&scene);
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(0);
    look(&scene, &server, &[]).ends_with(3).says(&["not known here", "xdfs trust pin", server.host_key()]);
    let url = format!("xdfs://{}/files/f", server.address());
    let mut command = scene.command_as("another", ["cp", "-q", url.as_str(), "copy"]);
    command.env("XDFS_CA", "ca.pem");
    xdfs_test_cli::Running::start(command).wait().ends_with(0);
    assert_eq!(scene.read("copy"), b"content");
    scene.run_as("stranger", ["trust", "list"]).ends_with(0);
}

#[test]
fn a_certificate_that_is_not_good_is_refused_with_the_reason_and_the_remedy() {
    let scene = Scene::new();
    let authority = Authority::new(&scene, "ca.pem");
    Authority::new(&scene, "others.pem");
    for (names, year, ca, why) in [
        (&["host.example"][..], 2099, "ca.pem", "it is for another name"),
        (HERE, 2021, "ca.pem", "it has run out"),
        (HERE, 2099, "others.pem", "signed by nobody whom the roots vouch for"),
    ] {
        authority.sign(&scene, names, year);
        let server = serve(&scene);
        look(&scene, &server, &["--ca", ca]).ends_with(3).says(&[why, "nothing was sent", "--ca"]);
        // Who knows the key needs nobody's word for it.
        let url = format!("xdfs://{}/files/f#{}", server.address(), server.host_key());
        scene.run_as("stranger", ["stat", "--ca", ca, &url]).ends_with(0);
    }
}

#[test]
fn a_renewed_certificate_is_shown_from_the_reload_on() {
    let scene = Scene::new();
    Authority::new(&scene, "ca.pem").sign(&scene, HERE, 2099);
    let renewed = Authority::new(&scene, "new.pem");
    let server = serve(&scene);
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(0);
    renewed.sign(&scene, HERE, 2099);
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(0);
    server.signal(Signal::HUP);
    let until = Instant::now() + PATIENCE;
    while look(&scene, &server, &["--ca", "new.pem"]).code != Some(0) {
        assert!(Instant::now() < until, "the certificate stays the old one");
    }
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(3);
    // A mistake changes nothing.
    scene.write("site.crt", b"nothing");
    server.signal(Signal::HUP);
    look(&scene, &server, &["--ca", "new.pem"]).ends_with(0);
}

#[test]
fn a_server_names_the_file_and_what_to_do_about_it() {
    let scene = Scene::new();
    let authority = Authority::new(&scene, "ca.pem");
    authority.sign(&scene, HERE, 2099);
    let (chain, key) = (scene.read("site.crt"), scene.read("site.key"));
    authority.sign(&scene, HERE, 2099);
    let other = scene.read("site.key");
    scene.directory("files");
    let start = || {
        let words = ["serve", "--listen", "127.0.0.1:0", "--export", "files=files"];
        scene.run([&words[..], &["--certificate", "site.crt", "--certificate-key", "site.key"]].concat())
    };
    let cases: [(&[u8], &[u8], &[&str]); 4] = [
        (&chain, &other, &["--certificate-key site.key", "not the key of the certificate"]),
        (b"nothing", &key, &["--certificate site.crt", "no certificate in PEM"]),
        (&chain, &chain, &["--certificate-key site.key", "no private key in PEM"]),
        (&key, &key, &["--certificate site.crt", "no certificate in PEM"]),
    ];
    for (chain, key, parts) in cases {
        scene.write("site.crt", chain);
        secret(&scene, "site.key", key);
        start().ends_with(5).says(parts);
    }
    scene.write("site.crt", &chain);
    secret(&scene, "site.key", &key);
    std::fs::set_permissions(scene.path("site.key"), PermissionsExt::from_mode(0o644)).expect("it is ours");
    start().ends_with(5).says(&["site.key", "chmod"]);
    std::fs::remove_file(scene.path("site.key")).expect("it is there");
    start().ends_with(5).says(&["--certificate-key site.key", "no such file"]);
    scene
        .run(["serve", "--export", "files=files", "--certificate", "site.crt"])
        .ends_with(2)
        .says(&["--certificate-key"]);
    scene.run(["stat", "--ca", "absent", "xdfs://localhost:1/a/b"]).ends_with(5).says(&["--ca absent", "no such file"]);
    scene.run(["stat", "--ca", "site.crt/", "xdfs://localhost:1/a/b"]).ends_with(5).says(&["site.crt"]);
}
