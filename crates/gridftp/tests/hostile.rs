//! A server that lies: each lie ends the call with an error of its own words, and none with success,
//! a panic or a wait without end.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use xdfs_gridftp::client::{Client, Error};
use xdfs_gridftp::command::{Command, Login};
use xdfs_gridftp::mode_e::Head;
use xdfs_gridftp::ranges::Range;

/// How long the client waits for what comes; so much is never reached, however busy the machine.
const WAIT: Duration = Duration::from_secs(30);

/// How long it waits where the server says nothing that it could go on with.
const SILENCE: Duration = Duration::from_millis(700);

/// The same where a server can make it wait again and again.
const SHORT_WAIT: Duration = Duration::from_millis(30);

/// What honest servers say to the commands before a transfer.
const HONEST: &[(&str, &str)] = &[
    ("", "220 hello\r\n"),
    ("USER", "331 password\r\n"),
    ("PASS", "230 in\r\n"),
    ("TYPE", "200 ok\r\n"),
    ("MODE", "200 ok\r\n"),
    ("OPTS", "200 ok\r\n"),
    ("PORT", "200 ok\r\n"),
    ("EPSV", "229 (|||{port}|)\r\n"),
    ("PASV", "227 (127,0,0,1,{high},{low})\r\n"),
    ("REST", "350 ok\r\n"),
    ("RETR", "150 opening\r\n{data}226 done\r\n"),
    ("MLSD", "150 opening\r\n{data}226 done\r\n"),
    ("STOR", "150 opening\r\n{take}226 done\r\n"),
    ("SIZE", "213 10\r\n"),
    ("MLST", "250-x\r\n Type=file;Size=10; /f\r\n250 end\r\n"),
    ("CKSM", "213 abcdef\r\n"),
    ("RNFR", "350 ok\r\n"),
    ("RNTO", "250 ok\r\n"),
];

/// What the client is asked to do meanwhile.
#[derive(Clone, Copy, Debug)]
enum Call {
    Login,
    Size,
    Facts,
    Checksum,
    List,
    Rename,
    Down,
    DownFrom5,
    DownFrom20,
    Parallel,
    ParallelFrom20,
    /// With little patience: what is told may take many waits.
    DownAtOnce,
    ParallelAtOnce,
    Up,
    /// Two files of ten bytes over one data channel.
    ManyDown,
    ManyUp,
    ManyAsked,
}

/// One lie: what is answered to a command instead, and what the data channels carry.
struct Lie {
    call: Call,
    to: &'static str,
    answer: &'static str,
    data: Vec<Vec<u8>>,
    /// A part of the error's text.
    words: &'static str,
}

fn says(call: Call, to: &'static str, answer: &'static str, words: &'static str) -> Lie {
    Lie { call, to, answer, data: vec![b"0123456789".to_vec()], words }
}

fn carries(call: Call, data: &[&[u8]], words: &'static str) -> Lie {
    Lie { call, to: "none", answer: "", data: data.iter().map(|bytes| bytes.to_vec()).collect(), words }
}

/// Serves one client as the lie says.
fn serve(listener: TcpListener, to: &'static str, answer: &'static str, data: Vec<Vec<u8>>) {
    let (mut control, _) = listener.accept().unwrap();
    let passive = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut active = None;
    let mut lines = BufReader::new(control.try_clone().unwrap());
    let mut line = String::new();
    loop {
        let verb = line.get(..4).unwrap_or_default().to_owned();
        if verb == "PORT" {
            let numbers: Vec<u16> = line[5..].trim().split(',').map(|number| number.parse().unwrap()).collect();
            active = Some(SocketAddr::from(([127, 0, 0, 1], numbers[4] << 8 | numbers[5])));
        }
        let honest = HONEST.iter().find(|(of, _)| *of == verb).map_or("500 what\r\n", |(_, text)| text);
        // A server that is asked for PASV does not know EPSV.
        let honest = if to == "PASV" && verb == "EPSV" { "500 what\r\n" } else { honest };
        let text = if to.split(' ').any(|of| of == verb) { answer } else { honest };
        let port = passive.local_addr().unwrap().port();
        let text = text.replace("{long}", &"x".repeat(9000)).replace("{lines}", &" x\r\n".repeat(20_000));
        let text = text.replace("{port}", &port.to_string());
        let text = text.replace("{high}", &(port >> 8).to_string()).replace("{low}", &(port & 255).to_string());
        let mut rest = text.as_str();
        while let Some(at) = rest.find('{') {
            // A client that has found the lie is gone.
            let _ = control.write_all(&rest.as_bytes()[..at]);
            let close = rest.find('}').unwrap();
            if &rest[at..=close] == "{markers}" {
                while control.write_all(b"112 still working\r\n").is_ok() {}
                return;
            }
            act(&rest[at + 1..close], &passive, active, &data);
            rest = &rest[close + 1..];
        }
        if control.write_all(rest.as_bytes()).is_err() || text.is_empty() {
            return;
        }
        line.clear();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Moves data, or floods.
fn act(what: &str, passive: &TcpListener, active: Option<SocketAddr>, data: &[Vec<u8>]) {
    let mut connections: Vec<TcpStream> = match active {
        Some(address) => data.iter().filter_map(|_| TcpStream::connect(address).ok()).collect(),
        None => vec![passive.accept().unwrap().0],
    };
    if what == "take" {
        connections[0].read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    for (connection, bytes) in connections.iter_mut().zip(data) {
        let _ = connection.write_all(bytes);
    }
}

/// What the client made of it.
fn outcome(call: Call, address: SocketAddr, wait: Duration) -> Result<(), Error> {
    let mut client = Client::connect(address, Login::anonymous(), wait)?;
    if matches!(call, Call::DownAtOnce | Call::ParallelAtOnce) {
        client.wait_at_most(SHORT_WAIT);
    }
    let whole = Range { start: 0, end: 10 };
    let mut sink = |_: u64, _: &[u8]| Ok(());
    match call {
        Call::Login => Ok(()),
        Call::Size => client.size(b"/f").map(drop),
        Call::Facts => client.facts(b"/f").map(drop),
        Call::Checksum => client.checksum("MD5", b"/f").map(drop),
        Call::List => client.list(b"/d", &mut |_| ()),
        Call::Rename => client.rename(b"/f", b"/g"),
        Call::Down | Call::DownAtOnce => client.download(b"/f", whole, &mut sink),
        Call::DownFrom20 => client.download(b"/f", Range { start: 20, end: 10 }, &mut sink),
        Call::ParallelFrom20 => client.download_parallel(b"/f", Range { start: 20, end: 10 }, 2, &mut sink),
        Call::DownFrom5 => client.download(b"/f", Range { start: 5, end: 10 }, &mut sink),
        Call::Parallel | Call::ParallelAtOnce => client.download_parallel(b"/f", whole, 2, &mut sink),
        Call::Up => {
            let mut fill = |at: u64, into: &mut [u8]| {
                let length = if at == 0 { 10 } else { 0 };
                into[..length].fill(b'x');
                Ok(length)
            };
            client.upload(b"/f", 0, &mut fill).map(drop)
        }
        Call::ManyDown => {
            let mut refused = None;
            client.download_many(&[(b"/f", 10), (b"/g", 10)], &mut |one| refused = refused.take().or(one.err()))?;
            refused.map_or(Ok(()), Err)
        }
        Call::ManyUp => client.upload_many(&[(b"/f", b"0123456789"), (b"/g", b"x")])?.into_iter().collect(),
        Call::ManyAsked => {
            let commands = [b"/f", b"/g"].map(|name| Command::Size(name.to_vec()));
            client.ask_many(&commands)?.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
        }
    }
}

fn told(lie: &Lie) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (to, answer, data) = (lie.to, lie.answer, lie.data.clone());
    let server: JoinHandle<()> = std::thread::spawn(move || serve(listener, to, answer, data));
    let is_silence = lie.words.contains("nothing for");
    let outcome = outcome(lie.call, address, if is_silence { SILENCE } else { WAIT });
    server.join().unwrap();
    outcome
}

fn block(offset: u64, bytes: &[u8], last: bool) -> Vec<u8> {
    [&Head::Data { count: bytes.len() as u64, offset, last }.encode(), bytes].concat()
}

/// The end of a file with bytes behind it.
fn marked_with_bytes() -> Vec<u8> {
    let mut bytes = block(0, b"0123456789", true);
    bytes[0] |= 0x40;
    bytes
}

fn eof(ends: u64) -> Vec<u8> {
    Head::File { ends, last: true }.encode().to_vec()
}

fn lies_of_replies() -> Vec<Lie> {
    use Call::{Checksum, Down, DownAtOnce, DownFrom5, DownFrom20, Facts, List, Login, Rename, Size, Up};
    use Call::{Parallel, ParallelAtOnce, ParallelFrom20};
    vec![
        says(Login, "", "", "lost"),
        says(Login, "", "SSH-2.0-OpenSSH_9.2\r\n", "no FTP reply"),
        says(Login, "", "220-endless", "nothing for"),
        says(Login, "", "530 go away\r\n", "refused the login: 530 go away"),
        says(Login, "USER", "150 opening\r\n", "out of turn"),
        says(Login, "USER", "332 account\r\n331 password\r\n", "out of turn"),
        says(Login, "PASS", "530 \x1b]0;x\x07no\r\n", "\\x1b]0;x\\x07no"),
        says(Login, "PASS", "421 busy\r\n", "ended the session: 421 busy"),
        says(Login, "TYPE", "200 ok\r\n200 ok\r\n", "out of turn"),
        says(Size, "SIZE", "213 -5\r\n", "cannot be used: 213 -5"),
        says(Size, "SIZE", "213 99999999999999999999\r\n", "cannot be used"),
        says(Size, "SIZE", "213 \r\n", "cannot be used"),
        says(Size, "SIZE", "631 wrapped\r\n", "out of turn"),
        says(Facts, "MLST", "250 none\r\n", "without facts"),
        says(Facts, "MLST", "250-x\r\n Size=x; /f\r\n250 end\r\n", "cannot be: 'Size=x'"),
        says(Checksum, "CKSM", "213 not hex\r\n", "cannot be used"),
        says(Rename, "RNFR", "250 done already\r\n", "out of turn"),
        says(Rename, "RNTO", "350 more\r\n", "out of turn"),
        says(Down, "EPSV", "229 (|1|10.1.2.3|4000|)\r\n", "no third host"),
        says(Down, "EPSV", "229 (|||22|)\r\n", "below 1024"),
        says(Down, "PASV", "227 (10,1,2,3,200,10)\r\n", "no third host"),
        says(Down, "PASV", "227 (127,0,0,1,0,22)\r\n", "below 1024"),
        says(Down, "EPSV", "229 here\r\n", "no address"),
        says(Down, "RETR", "226 done\r\n", "out of turn"),
        says(Down, "RETR", "550 no\r\n", "refused RETR: 550 no"),
        says(Down, "RETR", "150 opening\r\n{data}426 cut\r\n", "refused RETR: 426 cut"),
        says(Down, "RETR", "150 opening\r\n{data}331 password\r\n", "out of turn"),
        says(Down, "RETR", "150 opening\r\n{data}", "nothing for"),
        says(DownFrom5, "REST", "200 from the beginning\r\n", "out of turn"),
        says(DownFrom5, "REST", "502 no\r\n", "refused REST"),
        says(List, "MLSD", "500 what\r\n", "refused MLSD"),
        says(Parallel, "PORT", "500 no\r\n", "refused PORT"),
        says(Parallel, "RETR", "150 opening\r\n226 done\r\n", "nothing for"),
        says(Parallel, "RETR", "150 opening\r\n451 no\r\n", "refused RETR: 451 no"),
        says(DownAtOnce, "RETR", "150 opening\r\n{data}{markers}", "nothing for"),
        says(ParallelAtOnce, "RETR", "150 opening\r\n{markers}", "nothing for"),
        says(DownFrom20, "SIZE", "213 10\r\n", "has 10 bytes and 20 are here"),
        says(ParallelFrom20, "SIZE", "213 10\r\n", "has 10 bytes and 20 are here"),
        says(Up, "STOR", "553 no\r\n", "refused STOR: 553 no"),
        says(Up, "STOR", "150 opening\r\n{take}452 full\r\n", "refused STOR: 452 full"),
        says(Up, "STOR", "150 opening\r\n{take}", "nothing for"),
        says(Login, "", "099 below\r\n", "no FTP reply"),
        says(Login, "", "700 above\r\n", "no FTP reply"),
        says(Login, "", "120 later\r\n", "nothing for"),
        says(Login, "USER", "331 one\r\n331 two\r\n", "out of turn: 331 two"),
        says(Login, "PASS", "230-many\r\n {long}\r\n230 in\r\n", "line of the server's reply is longer"),
        says(Login, "PASS", "230-many\r\n{lines}230 in\r\n", "reply is longer"),
        says(Size, "SIZE", "226 done\r\n", "cannot be used"),
        says(Size, "SIZE", "", "lost"),
        says(Checksum, "CKSM", "213 \r\n", "cannot be used"),
        says(Down, "EPSV", "229 (|||99999|)\r\n", "no address"),
        says(Down, "EPSV", "500 no\r\n500 no\r\n", "out of turn"),
        says(DownFrom5, "RETR", "150 opening\r\n{data}226 done\r\n", "sent 15 bytes of a file that should have 10"),
        says(List, "MLSD", "150 opening\r\n{data}550 no\r\n", "refused MLSD: 550 no"),
        says(Up, "STOR", "226 have it already\r\n", "out of turn"),
        says(Up, "STOR", "350 more\r\n", "out of turn"),
    ]
}

fn lies_about_many_files() -> Vec<Lie> {
    use Call::{ManyAsked, ManyDown, ManyUp};
    vec![
        says(ManyAsked, "SIZE", "213 10\r\n213 10\r\n213 10\r\n", "out of turn"),
        says(ManyAsked, "SIZE", "550 no\r\n", "refused SIZE: 550 no"),
        says(ManyAsked, "SIZE", "150 opening\r\n", "out of turn"),
        says(ManyAsked, "SIZE", "", "lost"),
        says(ManyDown, "RETR", "150 opening\r\n226 done\r\n", "nothing for"),
        says(ManyDown, "RETR", "226 done\r\n", "out of turn"),
        says(ManyDown, "RETR", "150 opening\r\n451 no\r\n", "refused RETR: 451 no"),
        says(ManyDown, "PORT", "500 no\r\n", "refused PORT"),
        says(ManyUp, "STOR", "553 no\r\n", "refused STOR: 553 no"),
        says(ManyUp, "STOR", "226 have it already\r\n", "out of turn"),
        says(ManyUp, "EPSV PASV", "425 no ports\r\n", "refused PASV: 425 no ports"),
        says(ManyUp, "STOR", "150 opening\r\n452 full\r\n", "refused STOR: 452 full"),
        says(ManyUp, "EPSV", "229 (|1|10.1.2.3|4000|)\r\n", "no third host"),
    ]
}

fn lies_of_data() -> Vec<Lie> {
    use Call::{Down, List, ManyDown, Parallel};
    let ten = b"0123456789".as_slice();
    let end = Head::End.encode();
    vec![
        carries(Down, &[b"012345678"], "sent 9 bytes of a file that should have 10"),
        carries(Down, &[b"0123456789x"], "sent 11 bytes of a file that should have 10"),
        carries(List, &[b"Type=file; ../x\r\n"], "leads out of its directory"),
        carries(List, &[b"Type=file; /etc/passwd\r\n"], "leads out of its directory"),
        carries(List, &[b"total 5\r\n"], "cannot be used|without facts"),
        carries(List, &[b"Type=file; cut"], "middle of a line"),
        carries(List, &[&[b'x'; 9000]], "longer than"),
        carries(List, &[&b"Type=file; x\r\n".repeat(1_000_001)], "more than 1000000 lines"),
        carries(Parallel, &[&block(0, b"0123456789x", true)], "outside the file"),
        carries(Parallel, &[&[block(0, ten, false), block(3, b"x", true)].concat()], "overlaps"),
        carries(Parallel, &[&[block(0, ten, false), eof(2)].concat(), &block(0, b"x", true)], "overlaps"),
        carries(Parallel, &[&[block(0, b"01234", false), eof(1)].concat()], "5 bytes are missing"),
        carries(Parallel, &[&[block(0, ten, false), eof(9)].concat()], "9 data connections end"),
        carries(Parallel, &[&[block(0, ten, false), eof(0)].concat()], "0 data connections end"),
        carries(Parallel, &[&block(0, ten, false)], "closed before its end"),
        carries(Parallel, &[&block(0, ten, true)[..20]], "closed before its end"),
        carries(Parallel, &[&block(0, ten, true)], "nothing for"),
        carries(Parallel, &[&[block(0, ten, true), b"more".to_vec()].concat()], "whose end it had marked"),
        carries(Parallel, &[&end, &end, &end], "more than 2 data connections|nothing for"),
        carries(Parallel, &[&[0x21; 40]], "descriptor is 0x21"),
        carries(Parallel, &[&[block(0, ten, false), eof(1), eof(1)].concat()], "whose end it had marked"),
        carries(Parallel, &[&marked_with_bytes()], "end of the file in a block with 10 bytes"),
        carries(Parallel, &[&block(u64::MAX - 3, ten, true)], "outside the file"),
        carries(Parallel, &[&Head::Data { count: u64::MAX, offset: 1, last: true }.encode()], "outside the file"),
        carries(Parallel, &[b""], "closed before its end"),
        carries(Parallel, &[&[block(0, ten, true), eof(1)].concat()], "whose end it had marked"),
        carries(
            ManyDown,
            &[&[block(0, ten, false), eof(1), block(0, b"0123456789x", true)].concat()],
            "outside the file",
        ),
        carries(ManyDown, &[&block(0, b"0123456789x", true)], "outside the file"),
        carries(ManyDown, &[&[block(0, b"01234", false), eof(1)].concat()], "5 bytes are missing"),
        carries(ManyDown, &[&[block(0, ten, false), eof(2)].concat()], "2 data connections end"),
        carries(ManyDown, &[&block(0, ten, false)], "closed before its end"),
        carries(ManyDown, &[&[block(0, ten, true), b"more".to_vec()].concat()], "whose end it had marked"),
        carries(ManyDown, &[&[block(0, ten, false), block(3, b"x", true)].concat()], "overlaps"),
        carries(ManyDown, &[&[0x21; 40]], "descriptor is 0x21"),
        carries(ManyDown, &[b""], "nothing for"),
        carries(List, &[b"Type=file;Size=99999999999999999999; x\r\n"], "cannot be"),
        carries(List, &[b"Type=file; a\0b\r\n"], "leads out of its directory"),
        carries(List, &[b"Type=file; \r\n"], "without facts"),
        carries(List, &[b"Type=dir; ..\r\n"], "leads out of its directory"),
    ]
}

#[test]
fn every_lie_of_a_server_is_refused_in_words() {
    let lies: Vec<Lie> = [lies_of_replies(), lies_about_many_files(), lies_of_data()].into_iter().flatten().collect();
    assert!(lies.len() >= 80, "{}", lies.len());
    // Together: some are silence.
    let failures: Vec<String> = std::thread::scope(|scope| {
        let told: Vec<_> = lies.iter().map(|lie| (lie, scope.spawn(|| told(lie)))).collect();
        told.into_iter().filter_map(|(lie, told)| judge(lie, &told.join().unwrap())).collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

/// What is wrong with the client's answer to a lie.
fn judge(lie: &Lie, outcome: &Result<(), Error>) -> Option<String> {
    let text = match outcome {
        Ok(()) => "success".to_owned(),
        Err(error) => error.to_string(),
    };
    let is_refused = lie.words.split('|').any(|words| text.contains(words));
    let is_printable = !text.chars().any(char::is_control);
    let wrong = !is_refused || !is_printable;
    wrong.then(|| format!("{:?} {} {:?}: '{text}' instead of '{}'", lie.call, lie.to, lie.answer, lie.words))
}

#[test]
fn an_honest_server_is_believed() {
    let last = [block(5, b"56789", false), eof(2)].concat();
    let honest = [
        carries(Call::Login, &[], ""),
        carries(Call::Size, &[], ""),
        carries(Call::Facts, &[], ""),
        carries(Call::Checksum, &[], ""),
        carries(Call::Rename, &[], ""),
        carries(Call::List, &[b"Type=cdir; .\r\nType=file;Size=5; a b\r\n"], ""),
        carries(Call::Down, &[b"0123456789"], ""),
        carries(Call::DownFrom5, &[b"56789"], ""),
        carries(Call::Parallel, &[&block(0, b"01234", true), &last], ""),
        carries(Call::Up, &[b""], ""),
        // It closes the connection behind each file, and opens another.
        carries(Call::ManyDown, &[&[block(0, b"0123456789", false), eof(1)].concat()], ""),
        says(Call::Down, "EPSV", "500 what\r\n", ""),
    ];
    for case in &honest {
        told(case).unwrap_or_else(|error| panic!("{:?}: {error}", case.call));
    }
}

#[test]
fn replies_to_a_transfer_that_was_broken_off_answer_no_later_command() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Both replies at once, and the bytes behind them.
    let server = std::thread::spawn(|| {
        serve(listener, "RETR", "150 opening\r\n226 done\r\n{data}", vec![b"0123456789".to_vec()]);
    });
    let mut client = Client::connect(address, Login::anonymous(), WAIT).unwrap();
    let mut sink = |_: u64, _: &[u8]| Err(std::io::Error::other("enough"));
    let broken = client.download(b"/f", Range { start: 0, end: 10 }, &mut sink).unwrap_err();
    assert!(matches!(broken, Error::Local(_)), "{broken}");
    client.settle(WAIT).unwrap();
    assert_eq!(client.size(b"/f").unwrap(), 10);
    client.quit();
    server.join().unwrap();
}
