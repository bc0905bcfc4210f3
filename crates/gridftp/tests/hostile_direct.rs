//! Two servers that are to move a file between them, one of which lies: the other is sent nowhere but to the data port
//! of the target's own machine, and every lie ends with an error of its own words.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xdfs_gridftp::client::Client;
use xdfs_gridftp::client::direct::{Direct, DirectError, copy};
use xdfs_gridftp::command::Login;
use xdfs_gridftp::ranges::{Range, Ranges};

/// How long the client waits for what comes; so much is never reached, however busy the machine.
const WAIT: Duration = Duration::from_secs(30);

/// How long it waits for a server that says nothing, and for one that talks and does nothing, which takes many times so.
const SILENCE: Duration = Duration::from_millis(300);
const SHORT_WAIT: Duration = Duration::from_millis(20);

const LENGTH: u64 = 1000;

/// What honest servers say; they move nothing, since nobody here would see it.
const HONEST: &[(&str, &str)] = &[
    ("", "220 hello\r\n"),
    ("USER", "331 password\r\n"),
    ("PASS", "230 in\r\n"),
    ("TYPE", "200 ok\r\n"),
    ("MODE", "200 ok\r\n"),
    ("OPTS", "200 ok\r\n"),
    ("PASV", "227 (127,0,0,1,156,64)\r\n"),
    ("PORT", "200 ok\r\n"),
    ("REST", "350 ok\r\n"),
    ("RETR", "150 opening\r\n226 done\r\n"),
    (
        "STOR",
        "150 opening\r\n111 Range Marker 0-500\r\n112-Perf Marker\r\n Stripe Bytes Transferred: 500\r\n112 End\r\n226 done\r\n",
    ),
];

/// Which of the two lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Liar {
    Source,
    Target,
}

/// Serves one client; returns the commands.
fn serve(to: &'static str, answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    std::thread::spawn(move || {
        let mut control = listener.accept().unwrap().0;
        let mut lines = BufReader::new(control.try_clone().unwrap());
        let mut line = String::new();
        loop {
            let verb = line.get(..4).unwrap_or_default();
            let honest = HONEST.iter().find(|(of, _)| *of == verb).map_or("500 what\r\n", |(_, text)| text);
            let text = if verb == to { answer } else { honest };
            if let Some(endless) = text.strip_suffix("{again}") {
                while control.write_all(endless.as_bytes()).is_ok() {}
                return;
            }
            if text == "{close}" || control.write_all(text.as_bytes()).is_err() {
                return;
            }
            line.clear();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            log.lock().unwrap().push(line.trim_end().to_owned());
        }
    });
    (address, heard)
}

/// What comes of a lie, and what the source was told.
fn told(
    liar: Liar,
    to: &'static str,
    answer: &'static str,
    stored: &mut Ranges,
) -> (Result<(), DirectError>, Vec<String>) {
    let of = |side| if side == liar { (to, answer) } else { ("none", "") };
    let ((source, heard), (target, _)) =
        (serve(of(Liar::Source).0, of(Liar::Source).1), serve(of(Liar::Target).0, of(Liar::Target).1));
    let mut source = Client::connect(source, Login::anonymous(), WAIT).unwrap();
    let mut target = Client::connect(target, Login::anonymous(), WAIT).unwrap();
    if answer.ends_with("{again}") {
        source.wait_at_most(SHORT_WAIT);
        target.wait_at_most(SHORT_WAIT);
    } else if to != "none" && answer.is_empty() {
        source.wait_at_most(SILENCE);
        target.wait_at_most(SILENCE);
    }
    let what = Direct { from: b"/f", to: b"/g", length: LENGTH, streams: 2 };
    let outcome = copy(&mut source, &mut target, &what, stored, &mut |reached| {
        assert!(reached <= LENGTH);
        Ok(())
    });
    let heard = heard.lock().unwrap().clone();
    (outcome, heard)
}

/// Liar, the command that is answered so, and a part of the error's text.
type Lie = (Liar, &'static str, &'static str, &'static str);

fn lies() -> Vec<Lie> {
    use Liar::{Source, Target};
    vec![
        (Target, "MODE", "500 no\r\n", "the target: the server refused MODE E"),
        (Source, "MODE", "504 no\r\n", "the source: the server refused MODE E"),
        (Source, "OPTS", "500 no\r\n", "the source: the server refused OPTS RETR"),
        (Target, "PASV", "227 (10,1,2,3,156,64)\r\n", "no third host"),
        (Target, "PASV", "227 (127,0,0,2,156,64)\r\n", "no third host"),
        (Target, "PASV", "227 (169,254,169,254,0,80)\r\n", "no third host"),
        (Target, "PASV", "227 (127,0,0,1,0,22)\r\n", "below 1024"),
        (Target, "PASV", "227 (127,0,0,1,0,0)\r\n", "below 1024"),
        (Target, "PASV", "227 (127,0,0,1,999,64)\r\n", "no address"),
        (Target, "PASV", "227 here\r\n", "no address"),
        (Target, "PASV", "227 (127,0,0,1,156,64)\r\nDELE /x\r\n", "no FTP reply|out of turn"),
        (Target, "PASV", "421 busy\r\n", "ended the session: 421 busy"),
        (Target, "PASV", "150 soon\r\n", "out of turn"),
        (Target, "PASV", "502 no\r\n", "the target: the server refused PASV"),
        (Source, "PORT", "500 foreign address\r\n", "the source: the server refused PORT: 500 foreign address"),
        (Source, "PORT", "200 ok\r\n226 done\r\n", "out of turn"),
        (Source, "PORT", "{close}", "lost"),
        (Source, "RETR", "550 no such file\r\n", "refused RETR: 550 no such file"),
        (Source, "RETR", "425 cannot connect\r\n", "refused RETR: 425"),
        (Source, "RETR", "150 opening\r\n426 cut\r\n", "refused RETR: 426 cut"),
        (Source, "RETR", "226 have it\r\n", "out of turn"),
        (Source, "RETR", "150 opening\r\n226 done\r\n226 done\r\n", "out of turn"),
        (Source, "RETR", "150 \x1b]0;x\x07\r\n551 \x1b]0;x\x07\r\n", "551 \\x1b]0;x\\x07"),
        (Source, "RETR", "{close}", "lost"),
        (Source, "RETR", "", "nothing for"),
        (Source, "RETR", "150 opening\r\n112 at work\r\n{again}", "nothing for"),
        (Target, "STOR", "553 no\r\n", "refused STOR: 553 no"),
        (Target, "STOR", "226 have it\r\n", "out of turn"),
        (Target, "STOR", "350 more\r\n", "out of turn"),
        (Target, "STOR", "150 opening\r\n452 full\r\n", "refused STOR: 452 full"),
        (
            Target,
            "STOR",
            "150 opening\r\n111 Range Marker 0-1001\r\n226 done\r\n",
            "cannot be used: 111 Range Marker 0-1001",
        ),
        (Target, "STOR", "150 opening\r\n111 Range Marker 9-5\r\n226 done\r\n", "cannot be used"),
        (Target, "STOR", "150 opening\r\n111 Range Marker 0-x\r\n226 done\r\n", "cannot be used"),
        (
            Target,
            "STOR",
            "150 opening\r\n112-P\r\n Stripe Bytes Transferred: -1\r\n112 End\r\n226 done\r\n",
            "cannot be used",
        ),
        (Target, "STOR", "150 opening\r\n111 Range Marker 0-5\r\n{again}", "nothing for"),
        (Target, "STOR", "{close}", "lost"),
        (Target, "STOR", "", "nothing for"),
    ]
}

#[test]
fn no_lie_of_one_server_reaches_another_and_each_is_refused_in_words() {
    let lies = lies();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let told: Vec<_> =
            lies.iter().map(|lie| (lie, scope.spawn(|| told(lie.0, lie.1, lie.2, &mut Ranges::default())))).collect();
        told.into_iter()
            .filter_map(|((liar, to, answer, words), told)| {
                let (outcome, heard) = told.join().unwrap();
                let text = outcome.map_or_else(|error| error.to_string(), |()| "success".to_owned());
                let is_said = words.split('|').any(|words| text.contains(words)) && !text.chars().any(char::is_control);
                let ports: Vec<_> = heard.iter().filter(|line| line.starts_with("PORT")).collect();
                let is_safe = ports.iter().all(|line| *line == "PORT 127,0,0,1,156,64");
                (!is_said || !is_safe).then(|| format!("{liar:?} {to} {answer:?}: '{text}' {ports:?}"))
            })
            .collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn two_honest_servers_are_believed_and_what_is_stored_is_remembered() {
    let mut stored = Ranges::default();
    let (outcome, heard) = told(Liar::Source, "none", "", &mut stored);
    outcome.unwrap();
    assert_eq!(stored.list(), [Range { start: 0, end: 500 }]);
    assert_eq!(heard[3..], ["MODE E", "OPTS RETR Parallelism=2,2,2;", "PORT 127,0,0,1,156,64", "RETR /f"]);
    // The next attempt leaves it out; a server that cannot do so begins again.
    let (outcome, heard) = told(Liar::Source, "none", "", &mut stored);
    outcome.unwrap();
    assert!(heard.contains(&"REST 0-500".to_owned()), "{heard:?}");
    let (outcome, _) = told(Liar::Target, "REST", "502 no\r\n", &mut stored);
    assert!(outcome.unwrap_err().to_string().contains("no restart: 502 no"));
    assert!(stored.list().is_empty());
}

#[test]
fn what_a_failed_transfer_has_stored_is_kept_for_the_next() {
    let mut stored = Ranges::default();
    let cut = "150 opening\r\n111 Range Marker 0-500\r\n111 Range Marker 700-900\r\n426 cut\r\n";
    let (outcome, _) = told(Liar::Target, "STOR", cut, &mut stored);
    assert!(matches!(outcome, Err(DirectError::Target(_))), "{outcome:?}");
    assert_eq!(stored.list(), [Range { start: 0, end: 500 }, Range { start: 700, end: 900 }]);
}
