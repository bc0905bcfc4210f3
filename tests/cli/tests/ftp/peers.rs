//! What every server must do: many names, IPv6, and going on after a lost connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use xdfs_test_cli::{Scene, pattern};

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
    let (scene, slow, content) = (Scene::new(), FtpServer::vsftpd("anon_max_rate=6000000\n"), pattern(12 << 20, 9));
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
