//! Limits of bandwidth in the configuration of a server.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Scene, Server, exit, pattern};

/// Two exports with this rate each.
fn config(rate: &str) -> String {
    let export =
        |name| format!("[exports.{name}]\ndirectory = \"{name}\"\nanonymous = \"rw\"\nbandwidth = \"{rate}\"\n");
    ["one", "two"].map(export).concat()
}

fn serve(scene: &Scene, config: &str) -> Server {
    for name in ["one", "two"] {
        scene.directory(name);
    }
    scene.write("server.toml", config.as_bytes());
    Server::start(scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]), &["--config", "server.toml"])
}

#[test]
fn an_export_keeps_to_its_rate_for_trees_in_both_directions_and_others_have_their_own() {
    let scene = Scene::new();
    let server = serve(&scene, &config("1M"));
    for number in 0..48 {
        scene.write(format!("tree/{number}"), &pattern(64 << 10, number));
    }
    let took = |words: [[String; 2]; 2]| {
        let began = Instant::now();
        let copies = words.map(|words| scene.start(["cp".to_owned(), "-r".to_owned()].into_iter().chain(words)));
        for copy in copies {
            copy.wait().ends_with(0);
        }
        began.elapsed().as_secs_f64()
    };
    let up = took(["one", "two"].map(|export| ["tree".to_owned(), server.url_in(export, "")]));
    // The first batches of small files say where they go when they have arrived.
    assert!((2.5..5.5).contains(&up), "{up} s of 3 s");
    let down = took(["one", "two"].map(|export| [server.url_in(export, "tree"), format!("back-{export}")]));
    assert!((2.8..5.5).contains(&down), "{down} s of 3 s");
    assert_eq!((scene.names("two/tree").len(), scene.names("back-one").len()), (48, 48));
}

#[test]
fn another_rate_holds_from_the_reload_on_for_what_runs() {
    let scene = Scene::new();
    let server = serve(&scene, &config("32K"));
    scene.write("source", &pattern(1 << 20, 1));
    let began = Instant::now();
    let copy = scene.start(["cp", "source", &server.url_in("one", "copy")]);
    scene.write("server.toml", config("2M").as_bytes());
    server.signal(Signal::HUP);
    copy.wait().ends_with(0);
    assert!(began.elapsed() < Duration::from_secs(16), "{:?} of 32 s", began.elapsed());
    assert_eq!(scene.read("one/copy"), pattern(1 << 20, 1));
}

#[test]
fn what_is_no_rate_is_refused_with_its_line() {
    let scene = Scene::new();
    for (config, words) in [
        (
            "[limits]\nbandwidth-per-user = \"fast\"\n",
            "server.toml:2: bandwidth-per-user: 'fast' is no rate\nhelp: write",
        ),
        ("[exports.a]\ndirectory = \"a\"\nbandwidth = \"1b\"\n", "server.toml:3: bandwidth: '1b' is out of bounds"),
    ] {
        scene.write("server.toml", config.as_bytes());
        scene.run(["serve", "--config", "server.toml"]).ends_with(exit::USAGE).says(&[words]);
    }
}
