//! What every server must do: many names, IPv6, and going on after a lost connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use xdfs_test_cli::{Running, Scene, pattern};

use super::scripted::{Say, Scripted};
use super::servers::FtpServer;
use super::{PATIENCE, run};

/// Every server, as it comes, but that pure-ftpd lists more than its 10,000 names.
pub fn all() -> [FtpServer; 4] {
    [FtpServer::vsftpd(""), FtpServer::globus(), FtpServer::proftpd(""), FtpServer::pure_ftpd(&["-L", "20000:5"])]
}

#[test]
fn every_server_is_reached_over_ipv6() {
    let (scene, content) = (Scene::new(), pattern(2_000_001, 8));
    scene.write("f", &content);
    for server in all() {
        let url = server.over_ipv6();
        run(&scene, &["cp", "-P", "2", "f", &format!("{url}/f")]).ends_with(0);
        assert!(server.read("f") == content, "{url}");
        run(&scene, &["cp", "-P", "2", &format!("{url}/f"), "back"]).ends_with(0);
        assert!(scene.read("back") == content, "{url}");
        assert_eq!(run(&scene, &["ls", &url]).ends_with(0).text(), "f\n", "{url}");
    }
}

#[test]
fn a_directory_of_10_000_names_is_listed_whole() {
    let scene = Scene::new();
    let names: Vec<String> = (0..10_000).map(|number| format!("name-{number:05}")).collect();
    // vsftpd says names alone, and each is asked for: minutes for nothing that the others do not show.
    for server in all().into_iter().skip(1) {
        server.put("d/name-00000", b"");
        for name in &names {
            std::fs::write(server.here.join("d").join(name), b"").expect("a file");
        }
        let listed = run(&scene, &["ls", &server.url("d")]).ends_with(0).text().to_owned();
        let listed: Vec<&str> = listed.lines().collect();
        assert!(listed == names, "{}: {} names", server.url, listed.len());
    }
}

#[test]
fn a_download_goes_on_after_its_server_was_killed() {
    let (scene, slow, content) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=3000000\n"), pattern(12 << 20, 9));
    slow.put("f", &content);
    let copy = scene.start(["cp", "--json", &slow.url("f"), "f"]);
    let until = Instant::now() + PATIENCE;
    let written = || {
        let counts = std::fs::read_to_string(format!("/proc/{}/io", copy.process().as_raw_nonzero())).ok()?;
        counts.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok())
    };
    while written().is_none_or(|bytes| bytes < 3 << 20) {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::yield_now();
    }
    slow.kill_sessions();
    let done = copy.wait();
    done.ends_with(0).says(&["trying again", "resumes at"]);
    assert!(scene.read("f") == content);
}

/// Downloads and uploads a file, and kills the server's processes when some of it has moved. The server is not so fast that
/// all of it has, or the file is long.
#[track_caller]
pub fn survives_a_kill(scene: &Scene, server: &FtpServer, length: usize, start: &dyn Fn(&[&str]) -> Running) {
    const SOME: u64 = 4 << 20;
    let content = pattern(length, 9);
    server.put("down", &content);
    scene.write("up", &content);
    for words in [[&server.url("down"), "down"], ["up", &server.url("up")]] {
        let copy = start(&[&["cp", "--json", "-P", "1"], &words[..]].concat());
        let written = || match words[0] {
            "up" => {
                let files = std::fs::read_dir(&server.here).ok()?.flatten();
                let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with(".xdfs-"));
                parts.filter_map(|file| Some(file.metadata().ok()?.len())).max()
            }
            _ => {
                let counts = std::fs::read_to_string(format!("/proc/{}/io", copy.process().as_raw_nonzero())).ok()?;
                counts.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok())
            }
        };
        let until = Instant::now() + PATIENCE;
        while written().is_none_or(|bytes| bytes < SOME) {
            assert!(Instant::now() < until, "{}: nothing arrives", words[1]);
            std::thread::yield_now();
        }
        server.kill_sessions();
        let done = copy.wait();
        done.ends_with(0).says(&["trying again", "resumes at"]);
        let told = done.objects().remove(0);
        assert!(told["resumed_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{told}");
        assert_eq!(told["protection"], "private", "{told}");
    }
    assert!(scene.read("down") == content && server.read("up") == content);
    assert_eq!(server.names(), ["down", "up"], "no temporary name is left");
}

#[test]
fn a_copy_goes_on_after_its_data_connection_was_cut() {
    // The first transfer of each direction ends in the middle, the second begins where it ended.
    static CUTS: AtomicUsize = AtomicUsize::new(0);
    const LENGTH: usize = 3_000_000;
    let server = Scripted::start(|line| {
        let whole = vec![7; LENGTH];
        match line {
            "MLST /f" => Some(Say::Reply("250-x\r\n type=file;size=3000000;modify=20200102030405; /f\r\n250 end")),
            "RETR /f" if CUTS.fetch_add(1, Ordering::Relaxed) == 0 => Some(Say::Cut(whole[..2_000_000].to_vec())),
            "RETR /f" => Some(Say::Send(whole[2_000_000..].to_vec())),
            _ => None,
        }
    });
    let scene = Scene::new();
    let done = run(&scene, &["cp", "--json", &server.url("//f"), "f"]);
    done.ends_with(0).says(&["trying again", "resumes at 66 %"]);
    assert_eq!(server.heard("REST"), ["REST 2000000"]);
    assert!(scene.read("f") == vec![7; LENGTH]);
}
