//! A server that lies about who it is, or in the handshake of GSI and behind it: each lie is refused in its own words,
//! and nothing of the login is sent to who is not the server.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of certificates")]

#[path = "../../xio/tests/support/grid.rs"]
mod grid;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use grid::{FULL, Grid, INDEPENDENT, LIMITED};
use xdfs_gridftp::client::{Client, DataProtection, Error, GsiPeer, Security, Settings};
use xdfs_gridftp::command::Login;
use xdfs_gridftp::credentials::Places;
use xdfs_secure::handshake::tls::byte_stream::{Taken, Tls};
use xdfs_secure::handshake::tls::gsi::{Credential, Expected, Extent, Gsi, Handshake, TrustStore};

/// How long a client waits. None of the lies is silence.
const WAIT: Duration = Duration::from_secs(30);
/// A second at which what was valid in the 1990s was.
const THEN: u64 = 850_000_000;
/// One at which what will be valid in the 2050s is.
const LATER: u64 = 2_600_000_000;
const NOW: u64 = 1_800_000_000;

/// What the server does otherwise than an honest one.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Honest,
    /// This answer to a command before the login.
    Answer(&'static str, &'static str),
    /// This answer to the token of that number.
    Token(usize, &'static str),
    /// These bytes within TLS, each in a token of its own, instead of the flag that asks for delegation and what follows.
    Inside(&'static [&'static [u8]]),
    /// This line instead of the wrapped answer to the user's name.
    Bare(&'static str),
    /// This text in the wrapped answer to a command, of which that is the beginning.
    Wrapped(&'static str, &'static str),
    /// The same, after these bytes within TLS.
    Behind(&'static [&'static [u8]], &'static str, &'static str),
}

/// Serves one client. Returns the verbs that it heard, those within TLS too.
fn serve(listener: &TcpListener, gsi: &Gsi, lie: Lie) -> Vec<String> {
    let mut heard = Vec::new();
    let (control, _) = listener.accept().unwrap();
    // A client that has found the lie is gone.
    let _ = talk(control, gsi, lie, &mut heard);
    heard
}

fn talk(mut control: TcpStream, gsi: &Gsi, lie: Lie, heard: &mut Vec<String>) -> Option<()> {
    let mut lines = BufReader::new(control.try_clone().ok()?);
    let mut say =
        |text: &str| control.write_all(format!("{text}\r\n").replace("{long}", &"A".repeat(200_000)).as_bytes());
    say("220 hello").ok()?;
    let inside: &[&[u8]] = if let Lie::Inside(inside) | Lie::Behind(inside, ..) = lie { inside } else { &[] };
    let extent = if inside.is_empty() { Extent::Flagged } else { Extent::Whole };
    let mut handshake: Option<Handshake> = Some(gsi.accept(&Expected::Anyone, extent).ok()?);
    let (mut tls, mut tokens, mut told): (Option<Tls>, usize, usize) = (None, 0, 0);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (verb, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        heard.push(verb.to_owned());
        match (verb, lie) {
            (verb, Lie::Answer(to, text)) if verb == to => say(text).ok()?,
            ("AUTH", _) => say("334 go on").ok()?,
            ("ADAT", Lie::Token(number, text)) if tokens == number => say(text).ok()?,
            ("ADAT", _) => {
                let token = Base64::decode_vec(rest).ok()?;
                let mut output = Vec::new();
                if let Some(mut shaking) = handshake.take() {
                    output = shaking.step(&token).unwrap_or_else(|(_, last)| last);
                    match shaking.is_done() {
                        true => tls = Some(shaking.into_tls()),
                        false => handshake = Some(shaking),
                    }
                } else {
                    // What the client answers to the flag.
                    unwrapped(tls.as_mut()?, &token)?;
                }
                if let (Some(tls), Some(bytes)) = (&mut tls, inside.get(told)) {
                    told += 1;
                    tls.put(bytes).ok()?;
                    tls.output(&mut output);
                }
                match output.is_empty() {
                    true => say("235 in").ok()?,
                    false => say(&format!("335 ADAT={}", Base64::encode_string(&output))).ok()?,
                }
            }
            _ => {
                let tls = tls.as_mut()?;
                let command = unwrapped(tls, &Base64::decode_vec(rest).ok()?)?;
                let verb = command.get(..4).unwrap_or_default().to_owned();
                let text = match (verb.as_str(), lie) {
                    (_, Lie::Wrapped(to, text) | Lie::Behind(_, to, text)) if command.starts_with(to) => text,
                    ("USER", Lie::Bare(line)) => {
                        say(line).ok()?;
                        continue;
                    }
                    ("USER", _) => "331 password",
                    ("PASS", _) => "230 in",
                    _ => "200 ok",
                };
                heard.push(verb);
                let mut token = Vec::new();
                tls.put(format!("{text}\r\n").as_bytes()).ok()?;
                tls.output(&mut token);
                say(&format!("633 {}", Base64::encode_string(&token))).ok()?;
            }
        }
        tokens += usize::from(verb == "ADAT");
    }
}

fn unwrapped(tls: &mut Tls, mut token: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    while !token.is_empty() {
        tls.feed(&mut token).ok()?;
        let mut piece = [0; 1024];
        while let Taken::Bytes(count @ 1..) = tls.take(&mut piece).ok()? {
            text.extend_from_slice(&piece[..count]);
        }
    }
    // What a client answers to a request for a proxy is no text.
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// A credential of the grid as it was or will be at `now`, so that a server shows what it should not.
fn shown(grid: &Grid, name: &str, now: u64) -> Gsi {
    let bytes = std::fs::read(grid.path(name)).unwrap();
    let read = |file: &str| std::fs::read(grid.path(&format!("authorities/01234567.{file}"))).unwrap();
    let mut trust = TrustStore::default();
    trust.add(&read("0"), Some(String::from_utf8(read("signing_policy")).unwrap()), &[]).unwrap();
    Gsi::of_server(Credential::from_pem(&bytes, &bytes).unwrap(), trust, now).unwrap()
}

/// A client with a credential of the grid, and what it came to; and what the server heard.
fn outcome(
    grid: &Grid,
    authorities: &str,
    data: DataProtection,
    server: &Gsi,
    lie: Lie,
) -> (Result<(), Error>, Vec<String>) {
    let file = PathBuf::from(grid.path("proxy"));
    let authorities = grid.path(authorities).into();
    let gsi = Places { chain: file.clone(), key: file, authorities, is_named: true }.load().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, server, lie));
        let peer = GsiPeer { gsi, expected: Expected::Host("localhost".to_owned()), data };
        let settings = Settings { waiting: WAIT.into(), security: Security::Gsi(peer) };
        let told = Client::connect(address, Login::mapped(), settings).map(Client::quit);
        (told, serving.join().unwrap())
    })
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_left_before_the_login() {
    let grid = Grid::of_process();
    let here: &[&str] = &["localhost"];
    let host = grid.signed("Host", here);
    grid.write("past", &grid.signed_for("Host", here, (1990, 2001)));
    grid.write("future", &grid.signed_for("Host", here, (2050, 2060)));
    grid.write("past-proxy", &grid.proxy(&host, FULL, 2001));
    grid.write("limited-host", &grid.proxy(&host, LIMITED, 4000));
    grid.write("independent-host", &grid.proxy(&host, INDEPENDENT, 4000));
    grid.write("elsewhere", &grid.signed("Host", &["elsewhere"]));
    grid.write("revoked-host", &grid.revoked("Host", here, "revoked"));
    let other = Grid::new();
    for (what, authorities, server, words) in [
        ("past", "authorities", shown(grid, "past", THEN), "'/O=Grid/OU=Host' has expired: it was valid until 2001"),
        ("future", "authorities", shown(grid, "future", LATER), "'/O=Grid/OU=Host' is not valid before 2050"),
        ("past-proxy", "authorities", shown(grid, "past-proxy", THEN), "'/O=Grid/OU=Host/CN=1' has expired"),
        ("limited", "authorities", shown(grid, "limited-host", NOW), "the server shows a limited proxy"),
        ("independent", "authorities", shown(grid, "independent-host", NOW), "it does not stand for who signed it"),
        ("host", "authorities", shown(grid, "elsewhere", NOW), "is for '/O=Grid/OU=Host' and not for the host"),
        ("user", "authorities", shown(grid, "proxy", NOW), "is for '/O=Grid/OU=Anna' and not for the host"),
        ("revoked", "revoked", shown(grid, "revoked-host", NOW), "'/O=Grid/OU=Host' was revoked by its authority"),
        ("stranger", "authorities", shown(&other, "host", NOW), "it was not signed by '/O=Grid/OU=CA'"),
    ] {
        let (told, heard) = outcome(grid, authorities, DataProtection::Private, &server, Lie::Honest);
        let told = told.unwrap_err().to_string();
        assert!(told.contains(words), "{what}: {told}");
        assert!(!told.contains(char::is_control) && !told.contains("PRIVATE KEY"), "{what}: {told}");
        // The second is what tells it why.
        assert_eq!(heard, ["AUTH", "ADAT", "ADAT"], "{what}");
    }
}

#[test]
fn lies_in_the_handshake_and_behind_it_are_refused_in_words() {
    use DataProtection::{None as Bare, Private};
    use Lie::{Answer, Inside, Token, Wrapped};
    let grid = Grid::of_process();
    let host = shown(grid, "host", NOW);
    let table: &[(DataProtection, Lie, &str)] = &[
        (Private, Answer("AUTH", "500 what"), "the server offers no GSI: 500 what"),
        (Private, Answer("AUTH", "234 in already"), "out of turn: 234"),
        (Private, Answer("AUTH", "334 go on\r\n335 ADAT="), "out of turn"),
        (Private, Answer("AUTH", "150 opening"), "out of turn"),
        (Private, Answer("AUTH", "421 busy"), "ended the session: 421 busy"),
        (Private, Answer("AUTH", ""), "no FTP reply"),
        (Private, Token(0, "335 ADAT=!!!"), "out of turn"),
        (Private, Token(0, "335 no token"), "out of turn"),
        (Private, Token(0, "335 ADAT="), "a token that cannot be answered"),
        (Private, Token(0, "335 ADAT=R0VUIC8gSFRUUC8xLjE="), "TLS failed"),
        (Private, Token(0, "335 ADAT={long}"), "line of the server's reply is longer"),
        (Private, Token(0, "235 in"), "its consent too early"),
        (Private, Token(1, "235 in"), "its consent too early"),
        (Private, Token(2, "235 in"), "its consent too early"),
        (Private, Token(0, "535 \x1b[0mno"), "refused the certificate: 535 \\x1b[0mno"),
        (Private, Token(1, "335 ADAT=FwMDAAEA"), "TLS failed"),
        (Private, Token(1, ""), "no FTP reply"),
        (Bare, Inside(&[b"\x01"]), "an unknown flag"),
        (Bare, Inside(&[b"D"]), "an unknown flag"),
        (Bare, Inside(&[b"\0", b"more"]), "a token that cannot be answered"),
        (Bare, Inside(&[b"\0 more"]), "no FTP reply"),
        (Private, Inside(&[b"\0", b"hello"]), "the request for a proxy is none"),
        (Private, Inside(&[b"\0", &[0x30, 0x84, 1, 0, 0, 0]]), "the request for a proxy is none"),
        (Private, Inside(&[b"\0", &[0x30, 0x82, 0x7f, 0xff]]), "the request for a proxy is none"),
        (Private, Inside(&[b"\0", &[0x30, 0x02, 0x05, 0x00]]), "delegation: it cannot be read"),
        (Private, Inside(&[b"\0", &[0x30, 0x82]]), "a token that cannot be answered"),
        (Bare, Token(2, "235 in\r\n230 you are in"), "more than its reply before TLS began"),
        (Bare, Lie::Bare("230 in"), "answered without protection: 230 in"),
        (Bare, Lie::Bare("633 !!!"), "a wrapped reply cannot be read"),
        (Bare, Lie::Bare("633 AAAA"), "TLS failed"),
        (Bare, Lie::Bare("633 {long}"), "line of the server's reply is longer"),
        (Bare, Wrapped("USER", "no reply"), "no FTP reply"),
        (Bare, Wrapped("USER", "150 opening"), "out of turn"),
        (Bare, Wrapped("USER", "530 no account"), "refused the login: 530 no account"),
        (Bare, Wrapped("USER", "421 gone"), "ended the session: 421 gone"),
        (Bare, Wrapped("USER", "331 one\r\n331 two"), "out of turn"),
    ];
    let failures: Vec<String> = std::thread::scope(|scope| {
        let host = &host;
        let told: Vec<_> = table
            .iter()
            .map(|(data, lie, words)| (lie, words, scope.spawn(|| outcome(grid, "authorities", *data, host, *lie).0)))
            .collect();
        let wrong = |(lie, words, told): (&Lie, &&str, std::thread::ScopedJoinHandle<'_, Result<(), Error>>)| {
            let told = told.join().unwrap().unwrap_err().to_string();
            let is_right = told.contains(*words) && !told.contains(char::is_control);
            (!is_right).then(|| format!("{lie:?}: '{told}' instead of '{words}'"))
        };
        told.into_iter().filter_map(wrong).collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

/// What protects the data is asked for behind the login. A server that refuses it is not asked for anything else.
#[test]
fn a_server_that_refuses_to_protect_the_data_is_left_before_a_name_is_sent() {
    let grid = Grid::of_process();
    let host = shown(grid, "host", NOW);
    // It is given a proxy first, for which it has a key.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap().der().to_vec();
    let inside: &'static [&'static [u8]] = Box::leak(Box::new([&b"\0"[..], request.leak()]));
    for (data, refused) in [
        (DataProtection::Private, "PROT P"),
        (DataProtection::Safe, "PROT S"),
        (DataProtection::Authenticated, "PROT C"),
        (DataProtection::Private, "DCAU A"),
        (DataProtection::None, "DCAU N"),
    ] {
        let lie = match data {
            DataProtection::None => Lie::Wrapped(refused, "534 no"),
            _ => Lie::Behind(inside, refused, "534 no"),
        };
        let (told, heard) = outcome(grid, "authorities", data, &host, lie);
        let words = format!("the server refused {refused}: 534 no");
        let told = told.unwrap_err().to_string();
        assert!(told.contains(&words), "{refused}: {told}");
        let heard: Vec<_> = heard.iter().filter(|verb| !matches!(verb.as_str(), "ENC" | "ADAT")).collect();
        let before: &[&str] = if refused.starts_with("PROT") { &["DCAU", "PROT"] } else { &["DCAU"] };
        assert_eq!(heard, [&["AUTH", "USER", "PASS"], before].concat(), "{refused}");
    }
}

#[test]
fn an_honest_server_is_believed() {
    let grid = Grid::of_process();
    let host = shown(grid, "host", NOW);
    let (told, heard) = outcome(grid, "authorities", DataProtection::None, &host, Lie::Honest);
    told.unwrap();
    let heard: Vec<_> = heard.iter().filter(|verb| *verb != "ENC").map(String::as_str).collect();
    assert_eq!(heard[..6], ["AUTH", "ADAT", "ADAT", "ADAT", "USER", "PASS"]);
}
