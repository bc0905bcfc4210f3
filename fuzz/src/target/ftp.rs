//! FTP and GridFTP: what a server sends on the control channel, in a listing, and on the data channels of Mode E.

use std::net::{IpAddr, Ipv4Addr};

use xdfs_gridftp::address::{of_epsv, of_pasv};
use xdfs_gridftp::command::{Command, Login};
use xdfs_gridftp::control::{Control, Event, Protection};
use xdfs_gridftp::listing::{Lines, ListingError, of_mlsd, of_mlst};
use xdfs_gridftp::markers::{Marker, RANGES_MAX};
use xdfs_gridftp::mode_e::{Assembly, Piece};
use xdfs_gridftp::ranges::{Range, Ranges};
use xdfs_gridftp::reply::Reply;

/// Where the control channel is said to lead.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A session that downloads whenever it may. The first byte says in which pieces the rest arrives.
pub(super) fn control(input: &[u8]) {
    let Some((&cut, text)) = input.split_first() else { return };
    let new = || Control::new(Login::anonymous(), Protection::None);
    let (mut whole, mut pieces) = (new(), new());
    let of_whole = whole.receive(text);
    let of_pieces = text.chunks(usize::from(cut) + 1).try_for_each(|piece| pieces.receive(piece));
    assert_eq!((&of_whole, &whole), (&of_pieces, &pieces), "the pieces in which replies arrive do not matter");
    if let Err(error) = of_whole {
        assert!(!error.to_string().contains(char::is_control));
        assert!(whole.begin(&Command::Feat).is_err());
        return;
    }
    while let Some(event) = whole.poll() {
        let (Event::Answered(reply) | Event::Marker(reply) | Event::Refused(reply)) = event else { continue };
        assert!(!reply.shown().contains(char::is_control));
    }
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let reply = Reply { code: 227, lines };
    for address in [of_pasv(&reply, SERVER), of_epsv(&reply, SERVER)] {
        match address {
            Ok(address) => assert!(address.ip() == SERVER && address.port() >= 1024),
            Err(error) => assert!(!error.to_string().contains(char::is_control)),
        }
    }
    if let Err(error) = of_mlst(&reply) {
        assert!(!error.to_string().contains(char::is_control));
    }
}

/// A session that sends commands ahead: the first byte says how many and of which kinds. Each has one outcome at most, in
/// its turn.
pub(super) fn ahead(input: &[u8]) {
    let Some((&kinds, text)) = input.split_first() else { return };
    let mut control = Control::new(Login::anonymous(), Protection::None);
    let login = control.receive(b"220 hello\r\n331 password\r\n230 in\r\n");
    assert!(login.is_ok() && std::iter::from_fn(|| control.poll()).count() == 3);
    let name = || b"/f".to_vec();
    let commands: Vec<Command> = (0..8)
        .filter(|bit| kinds >> bit & 1 == 1)
        .map(|bit| match bit % 4 {
            0 => Command::Size(name()),
            1 => Command::Retr(name()),
            2 => Command::Rnfr(name()),
            _ => Command::Cksm("SHA256", name()),
        })
        .collect();
    assert!(commands.iter().all(|command| control.begin_ahead(command).is_ok()));
    let received = control.receive(text);
    let (mut outcomes, mut is_open) = (0, false);
    while let Some(event) = control.poll() {
        match event {
            Event::Opened => {
                assert!(!is_open && matches!(commands[outcomes], Command::Retr(_)));
                is_open = true;
            }
            Event::Marker(_) => assert!(is_open || matches!(commands[outcomes], Command::Cksm(..))),
            Event::Answered(_) => {
                assert!(is_open == matches!(commands[outcomes], Command::Retr(_)));
                (outcomes, is_open) = (outcomes + 1, false);
            }
            Event::Refused(_) => (outcomes, is_open) = (outcomes + 1, false),
            Event::LoggedIn | Event::Send(_) | Event::Secure | Event::Token(_) => panic!("the login is over"),
        }
    }
    assert!(outcomes <= commands.len());
    if received.is_ok() {
        assert_eq!(control.is_ready(), outcomes == commands.len());
    }
}

/// A session whose login is by certificate, line by line. Tokens are answered whatever they are, and consent is believed.
pub(super) fn tokens(input: &[u8]) {
    let mut control = Control::new(Login::mapped(), Protection::AuthGssapi);
    for line in input.split_inclusive(|&byte| byte == b'\n') {
        if let Err(error) = control.receive(line) {
            return assert!(!error.to_string().contains(char::is_control));
        }
        while let Some(event) = control.poll() {
            let sent = match event {
                Event::Token(_) => control.token(b"token".to_vec()),
                Event::Secure => control.secured(),
                _ => continue,
            };
            assert!(sent.is_ok_and(|line| line.ends_with(b"\r\n") && !line[..line.len() - 2].contains(&b'\n')));
        }
    }
}

/// What a marker says is within its bounds. The first byte chooses its kind.
pub(super) fn markers(input: &[u8]) {
    let Some((&kind, text)) = input.split_first() else { return };
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let code = 111 + u16::from(kind % 3);
    match Marker::of(&Reply { code, lines }) {
        Some(Marker::Stored(ranges)) => {
            assert!(code == 111 && ranges.len() <= RANGES_MAX);
            assert!(ranges.iter().all(|range| range.start <= range.end));
        }
        Some(Marker::Moved { .. }) => assert_eq!(code, 112),
        Some(Marker::Alive) => assert_ne!(code, 111),
        None => assert_ne!(code, 113),
    }
}

/// No name of a listing leads out of its directory.
pub(super) fn listing(input: &[u8]) {
    let listed = Lines::default().take(input, |line| {
        let entry = of_mlsd(line)?;
        let is_itself = entry.kind == xdfs_gridftp::listing::Kind::Itself;
        assert!(is_itself || !entry.name.contains(&b'/') && entry.name != b".." && entry.name != b".");
        assert!(!entry.name.is_empty() && !entry.name.contains(&0));
        Ok::<(), ListingError>(())
    });
    if let Err(error) = listed {
        assert!(!error.to_string().contains(char::is_control));
    }
}

/// A part of a file on up to three connections. Each record of the input is a connection, a length and as many bytes.
/// No byte is taken twice or outside of the part, and what is complete has every byte.
pub(super) fn mode_e(input: &[u8]) {
    let wanted = Range { start: 10, end: 70 };
    let mut assembly = Assembly::new(wanted, 3);
    let mut taken = Ranges::default();
    for _ in 0..3 {
        assembly.open().expect("three connections are allowed");
    }
    let mut rest = input;
    while let [connection, length, tail @ ..] = rest {
        let (piece, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        rest = tail;
        let mut piece = piece;
        while !piece.is_empty() {
            match assembly.take(usize::from(connection % 3), piece) {
                Ok(Piece::Control { length }) => piece = &piece[length..],
                Ok(Piece::Data { offset, length }) => {
                    let end = offset + length as u64;
                    assert!(offset >= wanted.start && end <= wanted.end);
                    taken.add(Range { start: offset, end }).expect("each byte comes once");
                    piece = &piece[length..];
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return;
                }
            }
        }
        if assembly.is_complete() == Ok(true) {
            assert!(taken.holds(wanted));
        }
    }
}
