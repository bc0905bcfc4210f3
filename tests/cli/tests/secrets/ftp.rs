//! Passwords of FTP servers: whichever way they come, and whatever becomes of the copy, they go to the server alone.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use xdfs_test_cli::{Running, Scene, pattern};

use super::scripted::{Say, Scripted};
use super::search::Search;
use super::{talkative, write_secret};

const PASSWORD: &str = "canary-4f7d-word-of-ftp";
const WRONG_PASSWORD: &str = "canary-93ab-guess-at-ftp";

/// Everything here happens sooner, unless it never does.
const PATIENCE: Duration = Duration::from_secs(40);

/// The length of what is sent, of which a part is there when the upload is killed.
const LENGTH: usize = 4 << 20;

/// Uploads so far.
static STORED: AtomicUsize = AtomicUsize::new(0);

/// A server of one file, `/f`, where the first upload does not end and the second goes on behind the first mebibyte.
fn answer(line: &str) -> Option<Say> {
    if let Some(password) = line.strip_prefix("PASS ") {
        return Some(Say::Reply(if password == PASSWORD { "230 in" } else { "530 no" }));
    }
    match line {
        "MLST /f" => Some(Say::Reply("250-x\r\n type=file;size=7;modify=20260102030405; /f\r\n250 end")),
        "MLST /" | "MLST /d" => Some(Say::Reply("250-x\r\n type=dir; /\r\n250 end")),
        "MLSD /" | "MLSD /d" => Some(Say::Send(b"type=file;size=7;modify=20260102030405; f\r\n".to_vec())),
        "MLST /d/f" => Some(Say::Reply("250-x\r\n type=file;size=7;modify=20260102030405; /d/f\r\n250 end")),
        "RETR /f" | "RETR /d/f" => Some(Say::Send(b"content".to_vec())),
        _ if line.starts_with("MLST ") => Some(Say::Reply("550 no")),
        _ if line.starts_with("SIZE /.xdfs-") => Some(Say::Reply(match STORED.load(Ordering::Acquire) {
            0 => "550 no",
            1 => "213 1048576",
            _ => "213 4194304",
        })),
        _ if line.starts_with("STOR ") => Some(match STORED.fetch_add(1, Ordering::AcqRel) {
            0 => Say::Half(Vec::new()),
            _ => Say::Take,
        }),
        _ => None,
    }
}

#[test]
fn b25_no_password_of_an_ftp_server_is_said_logged_or_left_behind() {
    let (scene, server) = (Scene::new(), Scripted::start(answer));
    scene.write("large", &pattern(LENGTH, 5));
    write_secret(&scene, "secret-password", PASSWORD.as_bytes());
    write_secret(&scene, "secret-wrong", WRONG_PASSWORD.as_bytes());
    let netrc = |password: &str| format!("machine 127.0.0.1 login anna password {password}\n").into_bytes();
    write_secret(&scene, "home-netrc/.netrc", &netrc(PASSWORD));
    write_secret(&scene, "home-wrong/.netrc", &netrc(WRONG_PASSWORD));
    let mut search = Search::default();
    [PASSWORD, WRONG_PASSWORD].iter().for_each(|text| search.canary(text));

    let url = |login: &str, path: &str| format!("ftp://{login}127.0.0.1:{}/{path}", server.port);
    let start = |person: &str, words: &[&str]| {
        let mut command = scene.command_as(person, words);
        talkative(&scene, &mut command);
        command.stdin(Stdio::null());
        Running::start(command)
    };
    let by_url = (format!("anna:{PASSWORD}@"), format!("anna:{WRONG_PASSWORD}@"));
    let (right_file, wrong_file) = (["--password-file", "secret-password"], ["--password-file", "secret-wrong"]);
    for (person, login, more, is_good) in [
        ("url", by_url.0.as_str(), &[][..], true),
        ("url", &by_url.1, &[], false),
        ("file", "anna@", &right_file, true),
        ("file", "anna@", &wrong_file, false),
        ("netrc", "", &[], true),
        ("netrc", "anna@", &[], true),
        ("wrong", "anna@", &[], false),
    ] {
        for words in [
            &["cp", "-v", "--json", &url(login, "/f"), "got"][..],
            &["cp", "-v", &url(login, "/f"), "got"],
            &["sync", "-v", &url(login, "/d"), "tree"],
            &["ls", "--json", &url(login, "/d")],
            &["stat", &url(login, "/f")],
            &["sum", &url(login, "/f")],
        ] {
            let words = [&words[..1], more, &words[1..]].concat();
            let running = start(person, &words);
            // Whoever writes a password into a command line shows it.
            if person != "url" {
                search.keep_processes(running.process());
            }
            let outcome = running.wait();
            assert_eq!(outcome.code == Some(0), is_good, "{words:?}: {}", outcome.messages);
            search.keep(&format!("{person}: {}", words[0]), &outcome);
        }
    }
    an_upload_is_killed_and_goes_on((&scene, &server), &start, &url(&by_url.0, "/up"), &mut search);
    assert!(server.heard("PASS").iter().any(|line| line.ends_with(PASSWORD)));
    search.keep_files(&scene.path(""), |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("secret-") || name == ".netrc"
    });
    search.look();
}

/// What the first command leaves in its state folder is searched, too, and so is what the second says of it.
fn an_upload_is_killed_and_goes_on(
    (scene, server): (&Scene, &Scripted),
    start: &dyn Fn(&str, &[&str]) -> Running,
    url: &str,
    search: &mut Search,
) {
    let words = ["cp", "-v", "--json", "large", url];
    let killed = start("killed", &words);
    let until = Instant::now() + PATIENCE;
    while server.heard("STOR ").is_empty() {
        assert!(Instant::now() < until, "nothing is sent");
        std::thread::yield_now();
    }
    search.keep("an upload that was killed", &killed.kill());
    let records = scene.path("home-killed/state/xdfs/ftp-uploads");
    assert!(records.read_dir().expect("a directory").count() > 0, "it is recorded");
    search.keep_files(&records, |_| false);
    let done = start("killed", &words).wait();
    done.ends_with(0).says(&["resumes at 25 %"]);
    search.keep("an upload that goes on", &done);
}
