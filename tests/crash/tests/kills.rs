//! One `xdfs cp` that is started again after every exit, while client and server are killed in turn and the number of channels
//! changes: what was moved is not moved again, and the file is the file.

use rustix::process::Signal;
use std::time::{Duration, Instant};
use xdfs_test_cli::{Relay, Scene, Server, pattern};

/// Bytes of the file, and kills, where nobody asks for others: `XDFS_KILLS_BYTES`, `XDFS_KILLS`.
const BYTES: u64 = 200 << 20;
const KILLS: u64 = 4;
/// Longest wait for a marker, which takes five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn serve(scene: &Scene, address: &str) -> Server {
    let words = ["--quiet", "--export", "data=server", "--allow-anonymous", "rw"];
    Server::start(scene.command(["serve", "--json", "--listen", address]), &words)
}

/// Size and time of the journal in the export, which change with each marker.
fn journal(scene: &Scene) -> Option<(u64, std::time::SystemTime)> {
    let name = scene.names("server").into_iter().find(|name| name.ends_with(".journal"))?;
    let metadata = std::fs::metadata(scene.path("server").join(name)).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

#[test]
fn a_copy_that_is_started_again_after_every_kill_moves_each_byte_about_once() {
    let (size, kills) = (number("XDFS_KILLS_BYTES", BYTES), number("XDFS_KILLS", KILLS));
    let scene = Scene::new();
    let content = pattern(usize::try_from(size).expect("it fits"), 41);
    scene.write("source", &content);
    scene.write("server/file", b"old");
    let mut server = serve(&scene, "127.0.0.1:0");
    let address = server.address().to_owned();
    // The last stretch is that of the attempt which nobody kills.
    let stretch = size / (kills + 1);
    let mut sent = 0;
    for kill in 0..kills {
        let before = journal(&scene);
        let relay = Relay::holding(&server, 1, stretch);
        let channels = ["1", "3", "2", "4"][kill as usize % 4];
        let running = scene.start(["cp", "-q", "-P", channels, "--retry", "0", "source", &relay.url("file")]);
        relay.wait_until_held();
        // From the first marker on an attempt gains something whatever is killed.
        let since = Instant::now();
        while journal(&scene) == before {
            assert!(since.elapsed() < PATIENCE, "no marker came: {:?}", scene.names("server"));
            std::thread::yield_now();
        }
        if kill % 2 == 0 {
            running.signal(Signal::KILL);
            running.wait();
        } else {
            server.kill();
            assert_ne!(running.wait().code, Some(0), "the server was killed under it");
            server = serve(&scene, &address);
            let found = server.next_line();
            assert_eq!((found["event"].as_str(), found["parts"].as_u64()), (Some("recovered"), Some(1)), "{found}");
        }
        sent += relay.passed();
        assert_eq!(scene.read("server/file"), b"old", "the old file stays until the new one is whole");
    }
    let relay = Relay::holding(&server, 1, u64::MAX);
    relay.release();
    let last = scene.run(["cp", "--json", "-P", "2", "source", &relay.url("file")]);
    last.ends_with(0).says(&["resumes at", " %"]);
    sent += relay.passed();
    println!("{kills} kills: {sent} bytes passed for a file of {size}; {}", last.objects()[0]["resumed_bytes"]);
    assert!(scene.read("server/file") == content);
    assert_eq!(scene.names("server"), ["file"], "nothing is left of the attempts");
    // An attempt is cut off with the buffers of every connection full, and a server's end costs what came since its last marker.
    // At least a quarter of each is kept; where nothing is kept, every one goes again whole, and this is red.
    let bound = size + kills * (stretch / 4 * 3) + size / 100;
    assert!(sent <= bound, "{sent} bytes passed, {bound} are allowed");
}
