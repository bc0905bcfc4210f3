//! Channels whose bytes pass through drivers: `--stack` at the client, `?stack=` at the server.

#[path = "../../../crates/xio/tests/support/grid.rs"]
mod grid;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use grid::Grid;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use xdfs_test_cli::{Relay, Running, Scene, Server, exit, pattern};

/// Larger than what sockets and drivers keep.
const SIZE: usize = 12_000_000;

/// Both stacks of a kind: the server's, and the client's.
fn stacks(scene: &Scene, kind: &str) -> (String, String) {
    if kind.contains("gsi") {
        let gsi = |credential: &str| Grid::of_process().gsi(&format!("credential=@{credential}"));
        return (kind.replace("gsi", &gsi("host")), kind.replace("gsi", &gsi("proxy")));
    }
    if !kind.contains("tls") {
        return (kind.to_owned(), kind.to_owned());
    }
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a key");
    let certificate = scene.write("stack.crt", cert.pem().as_bytes()).display().to_string();
    let key = scene.write("stack.key", signing_key.serialize_pem().as_bytes()).display().to_string();
    let server = kind.replace("tls", &format!("tls:certificate={certificate};key={key}"));
    (server, kind.replace("tls", &format!("tls:trust={certificate}")))
}

fn serve(scene: &Scene, stack: &str) -> Server {
    scene.serve_with(&["--listen", &format!("127.0.0.1:0?stack={stack}")])
}

/// What compresses, and what does not.
fn content(seed: u64) -> Vec<u8> {
    let mut content = pattern(SIZE, seed);
    content[..SIZE / 2].fill(7);
    content
}

/// A file and a tree, there and back.
fn moves(kind: &str, options: &[&str]) {
    let scene = Scene::new();
    let (there, here) = stacks(&scene, kind);
    let server = serve(&scene, &there);
    let run = |words: &[&str]| {
        let words = [&["--stack", &here], options, &words[1..]].concat();
        scene.run([&["cp"], &words[..]].concat()).ends_with(exit::DONE);
    };
    let content = content(1);
    scene.write("source", &content);
    run(&["cp", "-P4", "source", &server.url("up")]);
    assert!(scene.read("server/up") == content, "{kind}: up");
    run(&["cp", "-P4", &server.url("up"), "down"]);
    assert!(scene.read("down") == content, "{kind}: down");
    for place in 0..40 {
        scene.write(format!("tree/{}/{place}", place % 4), &pattern(place * 700, place as u64));
    }
    run(&["cp", "-r", "tree", &server.url("tree")]);
    run(&["cp", "-r", &server.url("tree"), "back"]);
    assert_eq!(scene.names("back"), scene.names("tree"), "{kind}");
    assert_eq!(scene.read("back/3/39"), scene.read("tree/3/39"), "{kind}");
    let listed = scene.run(["ls", "--stack", &here, &server.url("tree")]);
    assert_eq!(listed.ends_with(exit::DONE).text(), "0\n1\n2\n3\n", "{kind}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn files_and_trees_move_over_tls() {
    moves("tcp,tls", &[]);
    moves("tcp,tls", &["--protection", "clear"]);
}

#[test]
fn files_and_trees_move_over_gsi() {
    moves("tcp,gsi", &[]);
}

#[test]
fn files_and_trees_move_compressed() {
    moves("tcp,zstd=1", &["--protection", "integrity"]);
    moves("tcp,tls,zstd=1", &["--protection", "clear"]);
}

#[test]
fn files_and_trees_move_over_drivers_that_change_nothing() {
    moves("tcp,noop", &["--protection", "clear"]);
    moves("tcp,fault:seed=3,telnet,fault:seed=4", &[]);
}

#[test]
fn a_rate_of_one_end_holds() {
    let scene = Scene::new();
    // Nothing on the wire shows it, so the other end need not know.
    let server = scene.serve();
    let content = pattern(3_000_000, 5);
    scene.write("source", &content);
    for (from, to) in [("source".to_owned(), server.url("up")), (server.url("up"), "down".to_owned())] {
        let began = Instant::now();
        scene.run(["cp", "-P1", "--stack", "tcp,rate=2MB/s", &from, &to]).ends_with(exit::DONE);
        // The first tenth of a second's worth goes at once.
        assert!(began.elapsed() > Duration::from_millis(1300), "{from}: {:?}", began.elapsed());
    }
    assert!(scene.read("down") == content);
}

#[test]
fn what_compresses_takes_less_of_the_wire() {
    let scene = Scene::new();
    let server = serve(&scene, "tcp,zstd");
    scene.write("source", &vec![7; 20_000_000]);
    let relay = Relay::paced(&server, 1 << 40);
    let words = ["cp", "-P1", "--stack", "tcp,zstd", "--protection", "integrity", "source", &relay.url("up")];
    scene.run(words).ends_with(exit::DONE);
    assert!(relay.passed() < 5_000_000, "{} bytes passed of 20,000,000", relay.passed());
    assert_eq!(scene.read("server/up").len(), 20_000_000);
}

#[test]
fn a_transfer_outlives_lost_channels_and_goes_on_after_a_lost_session() {
    let scene = Scene::new();
    let (there, here) = stacks(&scene, "tcp,tls");
    let server = serve(&scene, &there);
    let content = pattern(64_000_000, 6);
    scene.write("source", &content);
    let relay = Relay::holding(&server, 4, 16_000_000);
    let client = scene.start(["cp", "-P4", "--stack", &here, "source", &relay.url("up")]);
    relay.wait_until_held();
    [0, 1, 3].iter().for_each(|&index| relay.cut(index));
    relay.release();
    client.wait().ends_with(exit::DONE);
    assert!(scene.read("server/up") == content, "over the last channel");
    let relay = Relay::holding(&server, 4, 32_000_000);
    let client = scene.start(["cp", "-P4", "--retry", "0", "--stack", &here, "source", &relay.url("again")]);
    relay.wait_until_held();
    drop(relay);
    client.wait().ends_with(exit::CONNECTION_LOST);
    let again = scene.run(["cp", "--json", "-P4", "--stack", &here, "source", &server.url("again")]);
    let again = again.ends_with(exit::DONE).objects();
    assert!(again[0]["resumed_bytes"].as_u64() > Some(0), "{:?}", again[0]);
    assert!(scene.read("server/again") == content, "resumed");
}

#[test]
fn the_configuration_files_of_both_ends_name_the_stack() {
    let scene = Scene::new();
    let (there, here) = stacks(&scene, "tcp,tls");
    scene.directory("server");
    let text = |stack: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nstack = \"{stack}\"\n[exports.data]\ndirectory = \"server\"\nanonymous = \"rw\"\n"
        )
    };
    scene.write("server.toml", text(&there).as_bytes());
    let server = Server::start(scene.command(["serve", "--json"]), &["--config", "server.toml"]);
    let entry = format!(
        "[hosts.lab]\naddress = \"{}\"\nhost-key = \"{}\"\nexport = \"data\"\n",
        server.address(),
        server.host_key()
    );
    let configure = |stack: &str| {
        scene.write("home-somebody/.config/xdfs/config", format!("{entry}stack = \"{stack}\"\n").as_bytes());
    };
    configure(&here);
    scene.write("source", b"content");
    scene.run(["cp", "source", "lab:x"]).ends_with(exit::DONE);
    assert_eq!(scene.run(["cat", "lab:x"]).ends_with(exit::DONE).output, b"content");
    configure("tcp,udp");
    scene.run(["cat", "lab:x"]).ends_with(exit::USAGE).says(&[".config/xdfs/config:5: stack", "udp", "help:"]);
    scene.write("server.toml", text("tcp,nothing").as_bytes());
    let check = scene.run(["serve", "--check", "--config", "server.toml"]);
    check.ends_with(exit::USAGE).says(&["stack tcp,nothing", "there is no driver 'nothing'"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy_before_anything_moves() {
    let scene = Scene::new();
    scene.write("source", b"content");
    let url = "xdfs://127.0.0.1:1/data/x";
    for (words, parts) in [
        (&["--stack", "tcp,zstd", "source", url][..], &["'private'", "does not compress", "help:", "--protection"][..]),
        (&["--stack", "popen:allow=/bin/cat", "source", url], &["popen", "help: write 'tcp'"]),
        (&["--stack", "udp", "source", url], &["udp", "datagrams"]),
        (&["--stack", "tls", "source", url], &["begins with 'tcp'", "tcp,tls"]),
        (&["--stack", "tcp,tls", "source", "ssh://127.0.0.1/home/x"], &["--stack", "ssh://", "help:"]),
        (&["--stack", "tcp,tls", "source", "ftp://127.0.0.1:1/x"], &["--stack", "ftp://", "help:"]),
    ] {
        scene.run([&["cp"], words].concat()).ends_with(exit::USAGE).says(parts);
    }
    let (there, _) = stacks(&scene, "tcp,tls");
    scene.directory("server");
    let serve = |stack: &str, options: &[&str]| {
        let listen = format!("127.0.0.1:0?stack={stack}");
        scene.run([&["serve", "--export", "data=server", "--listen", &listen], options].concat())
    };
    serve("tcp,zstd", &["--min-protection", "private"]).ends_with(exit::USAGE).says(&["zstd", "help:"]);
    serve("tcp,tls", &[]).ends_with(exit::USAGE).says(&["'certificate'", "help:"]);
    serve(&there.replace(".crt", ".none"), &[]).ends_with(exit::USAGE).says(&["stack.none", "help:"]);
    serve("popen", &[]).ends_with(exit::USAGE).says(&["start programs"]);
    scene
        .run(["serve", "--export", "data=server", "--listen", "127.0.0.1:0?x"])
        .ends_with(exit::USAGE)
        .says(&["?stack="]);
}

#[test]
fn a_url_which_may_come_from_others_names_no_driver() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", b"content");
    for name in ["x?stack=tcp,noop", "x?stack=popen:allow=cat"] {
        scene.run(["cp", "source", &server.url(name)]).ends_with(exit::USAGE).says(&["no queries"]);
    }
    let escaped = server.url("x%3Fstack=tcp,noop");
    scene.run(["cp", "source", &escaped]).ends_with(exit::DONE);
    assert_eq!(scene.read("server/x?stack=tcp,noop"), b"content", "a part of the name and nothing else");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn ends_that_differ_say_so_at_once() {
    let scene = Scene::new();
    let (there, here) = stacks(&scene, "tcp,tls");
    scene.write("source", b"content");
    let plain = scene.serve();
    let layered = serve(&scene, &there);
    let began = Instant::now();
    let differs = |url: &str, options: &[&str], parts: &[&str]| {
        let outcome = scene.run([&["cp"], options, &["source", url]].concat());
        assert!(outcome.code != Some(0));
        outcome.says(parts);
    };
    let quick = ["--retry", "0"];
    let compressing = serve(&scene, "tcp,zstd");
    differs(&compressing.url("x"), &quick, &["closed the connection", "?stack=", "--stack"]);
    let plain_zstd = ["--stack", "tcp,zstd", "--protection", "clear"];
    differs(&plain.url("x"), &["--stack", &here], &["tls", "over the same drivers", "?stack="]);
    differs(&plain.url("x"), &plain_zstd, &["zstd", "over the same drivers"]);
    differs(&layered.url("x"), &quick, &["--stack"]);
    // Nobody vouches for this certificate here.
    differs(&layered.url("x"), &["--stack", "tcp,tls:name=other.example,noop"], &["tls"]);
    assert!(began.elapsed() < Duration::from_secs(40), "no end waited for the other");
    for server in [plain, layered, compressing] {
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn a_silent_connection_to_a_server_with_a_stack_takes_no_turn_from_others() {
    let scene = Scene::new();
    let (there, here) = stacks(&scene, "tcp,tls");
    let server = serve(&scene, &there);
    let silent: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(server.address()).expect("a server")).collect();
    scene.write("source", b"content");
    Running::start(scene.command(["cp", "--stack", &here, "source", &server.url("x")])).wait().ends_with(exit::DONE);
    drop(silent);
    assert_eq!(server.stop(), Some(0));
}

/// `drivers/skeleton`, compiled into a folder of the scene.
fn skeleton(scene: &Scene) -> String {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = scene.directory("drivers");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC"]).arg(format!("-I{}", tree.join("crates/xio/include").display()));
    compiler.arg("-o").arg(folder.join("libxdfs_xio_skeleton.so")).arg(tree.join("drivers/skeleton/skeleton.c"));
    assert!(compiler.status().expect("a C compiler").success(), "{compiler:?}");
    folder.display().to_string()
}

#[test]
fn files_move_over_a_driver_that_is_loaded_also_of_a_confined_server() {
    let scene = Scene::new();
    let drivers = skeleton(&scene);
    let with_drivers = |words: &[&str]| {
        let mut command = scene.command(words.iter().copied());
        command.env("XDFS_DRIVER_PATH", &drivers);
        command
    };
    scene.directory("server");
    let listen = "127.0.0.1:0?stack=tcp,skeleton:key=7";
    let options = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw", "--listen", listen];
    let words = [&options[..], &["--confinement", "required"]].concat();
    if xdfs_test_cli::released().is_some() {
        // The static program says where one is that loads drivers.
        let refused = Running::start(with_drivers(&[&["serve"], &words[..]].concat())).wait();
        refused.ends_with(exit::USAGE).says(&["this program is static and loads no drivers", "make build"]);
        return;
    }
    let server = Server::start(with_drivers(&["serve", "--json"]), &words);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process().as_raw_nonzero()));
    assert!(status.expect("it runs").lines().any(|line| line == "Seccomp:\t2"), "it is confined");
    scene.trust(server.address(), &server);
    let contents = [content(8), content(9)];
    let cp = |key: &str, words: &[&str]| {
        let stack = format!("tcp,skeleton:key={key}");
        Running::start(with_drivers(&[&["cp", "--retry", "0", "--stack", &stack], words].concat()))
    };
    // Two clients at a time, up and down.
    for (number, content) in contents.iter().enumerate() {
        scene.write(format!("source{number}"), content);
    }
    let places = [0, 1].map(|number| (format!("source{number}"), server.url(&format!("up{number}"))));
    let up = places.each_ref().map(|(source, url)| cp("7", &["-P4", source, url]));
    for client in up {
        client.wait().ends_with(exit::DONE);
    }
    let down = [0, 1].map(|number| cp("7", &["-P4", &places[number].1, &format!("down{number}")]));
    for client in down {
        client.wait().ends_with(exit::DONE);
    }
    for (number, content) in contents.iter().enumerate() {
        assert!(scene.read(format!("server/up{number}")) == *content, "up {number}");
        assert!(scene.read(format!("down{number}")) == *content, "down {number}");
    }
    // What the other end cannot read is no session, and it is told what to look at.
    let other_key = cp("8", &["source0", &server.url("other")]).wait();
    assert!(other_key.code != Some(0));
    other_key.says(&["over the same drivers", "?stack="]);
    assert!(!scene.path("server/other").exists(), "nothing has come of it");
    // Who has no folder of drivers has no such driver, whatever the environment of others is.
    let nowhere = scene.run(["cp", "--stack", "tcp,skeleton:key=7", "source0", &server.url("nowhere")]);
    nowhere.ends_with(exit::USAGE).says(&["there is no driver 'skeleton'"]);
    let refused = scene.run([&["serve"], &options[..]].concat());
    refused.ends_with(exit::USAGE).says(&["there is no driver 'skeleton'"]);
    assert_eq!(server.stop(), Some(0));
}
