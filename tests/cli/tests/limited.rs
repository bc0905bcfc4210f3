//! Limits of bandwidth in the configuration of a server.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use xdfs_test_cli::{Scene, Server, exit, least, pattern, timed};

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
    // With one rate for both it would be twice the three seconds, each time.
    let most = Duration::from_millis(5500);
    let took = |at_least: f64, words: &dyn Fn(&str, usize) -> [String; 2]| {
        let took = least(most, |number| {
            let took = timed(|| {
                let copies = ["one", "two"].map(|export| {
                    let words = words(export, number);
                    scene.start(["cp".to_owned(), "-r".to_owned()].into_iter().chain(words))
                });
                for copy in copies {
                    copy.wait().ends_with(0);
                }
            });
            assert!(took.as_secs_f64() >= at_least, "{took:?} of 3 s");
            took
        });
        assert!(took < most, "{took:?} of 3 s");
    };
    // The first batches of small files say where they go when they have arrived.
    took(2.5, &|export, number| ["tree".to_owned(), server.url_in(export, &format!("tree-{number}"))]);
    took(2.8, &|export, number| [server.url_in(export, "tree-0"), format!("back-{export}-{number}")]);
    assert_eq!((scene.names("two/tree-0").len(), scene.names("back-one-0").len()), (48, 48));
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
