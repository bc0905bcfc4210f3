//! Certificates of a site: a client that believes an authority needs no pin, and nothing else is believed for it.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::Signal;
use xdfs_test_cli::{Outcome, Scene, Server, exit};

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

    /// Puts a certificate for `names` into the scene, good for long, and its private key.
    fn sign(&self, scene: &Scene, names: &[&str]) {
        self.sign_for(scene, names, [-1000, 1000]);
    }

    /// The same, good from one day until another, counted from now.
    fn sign_for(&self, scene: &Scene, names: &[&str], days: [i64; 2]) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).expect("names");
        let [from, until] = days.map(day);
        (parameters.not_before, parameters.not_after) = (from.into(), until.into());
        let signed = parameters.signed_by(&key, &self.0).expect("a certificate");
        scene.write("site.crt", signed.pem().as_bytes());
        secret(scene, "site.key", key.serialize_pem().as_bytes());
    }
}

/// So many days from now.
fn day(number: i64) -> SystemTime {
    let away = Duration::from_secs(number.unsigned_abs() * 86_400);
    let now = SystemTime::now();
    if number < 0 { now - away } else { now + away }
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
    Authority::new(&scene, "ca.pem").sign(&scene, HERE);
    let server = serve(&scene);
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(0);
    look(&scene, &server, &[]).ends_with(exit::NOT_TRUSTED).says(&[
        "not known here",
        "xdfs trust pin",
        server.host_key(),
    ]);
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
    for (names, ca, why) in [
        (&["host.example"][..], "ca.pem", "it is for another name"),
        (HERE, "others.pem", "signed by nobody whom the roots vouch for"),
    ] {
        authority.sign(&scene, names);
        let server = serve(&scene);
        look(&scene, &server, &["--ca", ca]).ends_with(exit::NOT_TRUSTED).says(&[why, "nothing was sent", "--ca"]);
        // Who knows the key needs nobody's word for it.
        let url = format!("xdfs://{}/files/f#{}", server.address(), server.host_key());
        scene.run_as("stranger", ["stat", "--ca", ca, &url]).ends_with(0);
    }
}

#[test]
fn a_renewed_certificate_is_shown_from_the_reload_on() {
    let scene = Scene::new();
    Authority::new(&scene, "ca.pem").sign(&scene, HERE);
    let renewed = Authority::new(&scene, "new.pem");
    let server = serve(&scene);
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(0);
    renewed.sign(&scene, HERE);
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(0);
    server.signal(Signal::HUP);
    let until = Instant::now() + PATIENCE;
    while look(&scene, &server, &["--ca", "new.pem"]).code != Some(0) {
        assert!(Instant::now() < until, "the certificate stays the old one");
    }
    look(&scene, &server, &["--ca", "ca.pem"]).ends_with(exit::NOT_TRUSTED);
    // A mistake changes nothing; a certificate that has run out is one.
    scene.write("site.crt", b"nothing");
    server.signal(Signal::HUP);
    look(&scene, &server, &["--ca", "new.pem"]).ends_with(0);
    renewed.sign_for(&scene, HERE, [-9, -1]);
    server.signal(Signal::HUP);
    look(&scene, &server, &["--ca", "new.pem"]).ends_with(0);
}

#[test]
fn a_certificate_that_is_not_good_now_keeps_a_server_from_starting_and_one_that_runs_out_soon_is_told() {
    let scene = Scene::new();
    let authority = Authority::new(&scene, "ca.pem");
    scene.directory("files");
    let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--export", "files=files", "--allow-anonymous", "ro"];
    let start =
        || scene.command([&words[..], &["--certificate", "site.crt", "--certificate-key", "site.key"]].concat());
    let refused = || xdfs_test_cli::Running::start(start()).wait();
    authority.sign_for(&scene, HERE, [-100, -1]);
    refused().ends_with(exit::LOCAL).says(&["--certificate site.crt", "ran out at", "renew it"]);
    authority.sign_for(&scene, HERE, [1, 100]);
    refused().ends_with(exit::LOCAL).says(&["--certificate site.crt", "is good from", "clock"]);
    for (last, told) in [(13, true), (15, false)] {
        authority.sign_for(&scene, HERE, [-100, last]);
        let mut command = start();
        command.stderr(std::fs::File::create(scene.path("messages")).expect("a file for the messages"));
        let server = Server::start(command, &[]);
        let messages = String::from_utf8(scene.read("messages")).expect("messages are text");
        assert_eq!(messages.contains("--certificate site.crt: it runs out at"), told, "{last} days: {messages}");
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn a_server_names_the_file_and_what_to_do_about_it() {
    let scene = Scene::new();
    let authority = Authority::new(&scene, "ca.pem");
    authority.sign(&scene, HERE);
    let (chain, key) = (scene.read("site.crt"), scene.read("site.key"));
    authority.sign(&scene, HERE);
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
        start().ends_with(exit::LOCAL).says(parts);
    }
    scene.write("site.crt", &chain);
    secret(&scene, "site.key", &key);
    std::fs::set_permissions(scene.path("site.key"), PermissionsExt::from_mode(0o644)).expect("it is ours");
    start().ends_with(exit::PERMISSION_DENIED).says(&["site.key", "chmod"]);
    std::fs::remove_file(scene.path("site.key")).expect("it is there");
    start().ends_with(exit::NOT_FOUND).says(&["--certificate-key site.key", "no such file"]);
    scene
        .run(["serve", "--export", "files=files", "--certificate", "site.crt"])
        .ends_with(exit::USAGE)
        .says(&["--certificate-key"]);
    scene
        .run(["stat", "--ca", "absent", "xdfs://localhost:1/a/b"])
        .ends_with(exit::NOT_FOUND)
        .says(&["--ca absent", "no such file"]);
    scene.run(["stat", "--ca", "site.crt/", "xdfs://localhost:1/a/b"]).ends_with(exit::USAGE).says(&["site.crt"]);
}
